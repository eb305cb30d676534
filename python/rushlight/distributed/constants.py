"""How long collectives wait by default."""

from __future__ import annotations

import datetime

from rushlight.distributed._process_group import default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_nccl_timeout: datetime.timedelta = datetime.timedelta(minutes=10)
