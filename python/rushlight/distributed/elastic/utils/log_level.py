"""From which level on loggers of elastic runs tell."""


def get_log_level() -> str:
    """The level where LOGLEVEL says none."""
    return "WARNING"


__all__ = ["get_log_level"]
