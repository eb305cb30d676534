"""A part of a reader of NCCL's records, which is refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = "no records of collectives are written; a failure names the ranks and the line"
_NAMES = (
    "add_stack_id_in_entries", "align_trace_from_beginning", "check_current_entry_match",
    "check_no_missing_dump_files", "check_size_alltoall", "check_version", "error_analysis",
    "find_coalesced_group", "find_coalesced_group_with_non_p2p", "format_frame", "format_frames",
    "get_version_detail", "just_print_entries", "match_coalesced_groups",
    "match_coalesced_groups_with_non_p2p", "match_one_event",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = list(_NAMES)
