// Memory that processes share: an anonymous file, mapped. No name of it exists anywhere, and the
// system frees it with the last process that maps it or holds its descriptor, however that ended.
#pragma once
#include "core/storage.h"

namespace rl {

// A new storage in shared memory; the bytes are zero.
Ref<Storage> create_shared(int64_t nbytes);

// A storage on the bytes behind a descriptor, which comes from shared_descriptor() of some process
// and is taken over. `keep` leaves it open, so that the storage can be sent on; without, sending it
// on copies it, and the process has a descriptor more to spare.
Ref<Storage> map_shared(int descriptor, int64_t nbytes, bool keep);

// A storage on the first bytes of shared one, of which it sets a byte near the end (`flag` counts
// back from there) and clears it when it dies: so the process that has the bytes too learns that
// they are free. Not after a fork, for the child may look at them as long as it lives.
Ref<Storage> lease_shared(const Ref<Storage>& storage, int64_t nbytes, int64_t flag);

bool is_shared(const Storage& storage);
int shared_descriptor(const Storage& storage);  // belongs to the storage; -1 if it has none

// Moves the bytes to shared memory. Whoever keeps their address has to ask for it again. `in_use`
// keeps the old memory as long as the storage lives, for another thread may just be reading it.
void move_to_shared(Storage& storage, bool in_use);

}  // namespace rl
