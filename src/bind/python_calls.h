// Calls of functions by Python as events of a profile.
#pragma once

namespace rl::bind {

// From now on, on every thread that Python runs on now; the frames that are under way on this one
// begin here. False where another profiler of Python's watches this thread already: it goes on.
bool watch_calls();
void leave_calls();  // before the profile ends

}  // namespace rl::bind
