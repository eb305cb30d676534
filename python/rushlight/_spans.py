"""Parts of a program that a profile shows: for the library's own code, which begins and ends them.

`active()` costs 30 ns and is False without a profile; what it guards costs nothing then.
"""

from rushlight import _C

active = _C._profiler_active
begin = _C._span_begin  # name -> a number that stands for the span, 0 without a profile
end = _C._span_end
trapping = _C._trap_active
check_values = _C._trap_check  # (what, tensor): raises if the tensor holds NaN
