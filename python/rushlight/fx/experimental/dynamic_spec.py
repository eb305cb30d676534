"""Descriptions of sizes that may change, which `torch.export.Dim` gives here."""

from rushlight import _absent

_REASON = (
    "sizes that may change are told to torch.export.export by dynamic_shapes, with "
    "torch.export.Dim; torch.compile asks for none"
)
_NAMES = (
    "DictSpec",
    "IntVar",
    "IntermediateSpec",
    "LeafIntSpec",
    "LeafSpec",
    "ObjectSpec",
    "ParamsSpec",
    "SeqSpec",
    "ShapeVar",
    "ShapesSpec",
    "TensorSpec",
)
_ABSENT = _absent.refused(dict.fromkeys(_NAMES, _REASON))
globals().update(_ABSENT)

__all__ = [
    "STATIC",
    *_ABSENT,
]

# A size that does not change.
STATIC = None
