// In place of shared_memory.cpp on systems where processes share no memory.
#include "core/shared_memory.h"

namespace rl {
namespace {

[[noreturn]] void fail_shared() {
  fail(ErrorKind::Runtime, "shared memory: this system has none that processes could share");
}

}  // namespace

Ref<Storage> create_shared(int64_t) { fail_shared(); }
Ref<Storage> map_shared(int, int64_t, bool) { fail_shared(); }
Ref<Storage> lease_shared(const Ref<Storage>&, int64_t, int64_t) { fail_shared(); }
bool is_shared(const Storage&) { return false; }
int shared_descriptor(const Storage&) { return -1; }
void move_to_shared(Storage&, bool) { fail_shared(); }

}  // namespace rl
