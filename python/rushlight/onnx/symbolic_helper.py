"""Descriptions of operations for ONNX, which libraries make when they are imported: not used."""


def parse_args(*descriptors):
    """Marks the kinds of a description's arguments."""
    return lambda function: function


__all__ = ["parse_args"]
