#include "kernels/cpu/stream.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/system.h"
#include "kernels/copy_hints.h"
#include "kernels/cpu/units.h"

namespace rl::kernels {
namespace {

thread_local int copies_to_change = 0;
thread_local int64_t whole_result = 0;

int64_t second_level() {
  static const int64_t bytes = std::max<int64_t>(level2_cache_bytes(), 1 << 20);
  return bytes;
}

}  // namespace

CopyToChange::CopyToChange() { ++copies_to_change; }
CopyToChange::~CopyToChange() { --copies_to_change; }
bool CopyToChange::lives() { return copies_to_change > 0; }

CopyInParts::CopyInParts(int64_t bytes) : before_(whole_result) { whole_result = bytes; }
CopyInParts::~CopyInParts() { whole_result = before_; }
int64_t CopyInParts::whole() { return whole_result; }

bool worth_streaming(int64_t bytes, Pass pass) {
  static const int64_t kept_copy = second_level() * (third_cache_follows() ? 8 : 1);
  if (pass == Pass::Copy) bytes = std::max(bytes, CopyInParts::whole());
  bool read_next = pass == Pass::Copy && CopyToChange::lives();
  int64_t kept = pass == Pass::Copy && !read_next ? kept_copy : 8 * second_level();
  return bytes > kept * num_threads();
}

}  // namespace rl::kernels
