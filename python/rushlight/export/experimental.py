"""What torch tries out in its export; nothing of it is here."""

__all__: list[str] = []
