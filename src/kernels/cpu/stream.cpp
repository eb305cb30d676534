#include "kernels/cpu/stream.h"

#include <algorithm>

#include "core/parallel.h"
#include "core/system.h"
#include "kernels/copy_to_change.h"
#include "kernels/cpu/units.h"

namespace rl::kernels {
namespace {

thread_local int copies_to_change = 0;

int64_t second_level() {
  static const int64_t bytes = std::max<int64_t>(level2_cache_bytes(), 1 << 20);
  return bytes;
}

}  // namespace

CopyToChange::CopyToChange() { ++copies_to_change; }
CopyToChange::~CopyToChange() { --copies_to_change; }
bool CopyToChange::lives() { return copies_to_change > 0; }

bool worth_streaming(int64_t bytes, Pass pass) {
  static const int64_t kept_copy = second_level() * (third_cache_follows() ? 8 : 1);
  bool read_next = pass == Pass::Copy && CopyToChange::lives();
  int64_t kept = pass == Pass::Copy && !read_next ? kept_copy : 8 * second_level();
  return bytes > kept * num_threads();
}

}  // namespace rl::kernels
