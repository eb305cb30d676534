// Warnings to the user. bind/ installs what shows them as Python's are.
#pragma once

namespace rl {

inline void (*warning_handler)(const char* text) = nullptr;

inline void warn(const char* text) {
  if (warning_handler) warning_handler(text);
}

}  // namespace rl
