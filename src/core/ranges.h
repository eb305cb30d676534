// Ranges of another tool, such as NVTX's, in place of the events of a profile.
#pragma once
namespace rl::observer {

struct Ranges {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
};
bool start_ranges(const Ranges& ranges);  // false while a profile or other ranges are under way
void stop_ranges();

}  // namespace rl::observer
