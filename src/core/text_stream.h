// TextStream: a text that is written piece by piece. Unlike std::ostringstream by itself, which
// ends early where there is no memory for more, it throws then.
#pragma once
#include <sstream>

namespace rl {

struct TextStream : std::ostringstream {
  TextStream() { exceptions(std::ios::badbit); }
};

}  // namespace rl
