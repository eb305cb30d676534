#include "core/shared_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace rl {

namespace {

// A mapping and, if it is kept, the descriptor of its file.
struct SharedBlock {
  void* data = MAP_FAILED;
  size_t bytes = 0;
  int descriptor = -1;
  Ref<Storage> before;  // memory that somebody outside had been shown before it was moved here

  SharedBlock() = default;
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  ~SharedBlock() {
    if (data != MAP_FAILED) munmap(data, bytes);
    if (descriptor >= 0) close(descriptor);
  }
};

void release_shared(void* context) { delete static_cast<SharedBlock*>(context); }

[[noreturn]] void fail_shared(const char* what, int64_t nbytes) {
  int reason = errno;
  const char* advice = "";
  if (reason == EMFILE || reason == ENFILE)
    advice = ": each shared storage takes a file descriptor; `ulimit -n` raises their number";
  fail(reason == ENOMEM ? ErrorKind::OutOfMemory : ErrorKind::Runtime, "shared memory: cannot ",
       what, " ", nbytes, " bytes (", std::strerror(reason), ")", advice);
}

// An empty file cannot be mapped: no bytes are held as one.
size_t held(int64_t nbytes) { return nbytes > 0 ? static_cast<size_t>(nbytes) : 1; }

void map(SharedBlock& block, int64_t nbytes) {
  block.bytes = held(nbytes);
  // Populated at once, for that is a third cheaper than page by page as they are met.
  block.data = mmap(nullptr, block.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    block.descriptor, 0);
  if (block.data == MAP_FAILED) fail_shared("map", nbytes);
}

std::unique_ptr<SharedBlock> new_block(int64_t nbytes) {
  auto block = std::make_unique<SharedBlock>();
  block->descriptor = memfd_create("rushlight", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (block->descriptor < 0) fail_shared("create a file for", nbytes);
  if (ftruncate(block->descriptor, static_cast<off_t>(held(nbytes))) < 0)
    fail_shared("reserve", nbytes);
  // Of a file that shrinks, what others have mapped would be gone, and they would crash.
  if (fcntl(block->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
    fail_shared("seal", nbytes);
  map(*block, nbytes);
  return block;
}

std::atomic<uint64_t> forks{0};

struct Lease {
  Ref<Storage> storage;
  unsigned char* flag;
  uint64_t forks_before;
};

void release_lease(void* context) {
  std::unique_ptr<Lease> lease(static_cast<Lease*>(context));
  if (lease->forks_before == forks.load()) __atomic_store_n(lease->flag, 0, __ATOMIC_RELEASE);
}

const Storage& root_of(const Storage& s) { return s.alias_of ? *s.alias_of : s; }

}  // namespace

Ref<Storage> create_shared(int64_t nbytes) {
  std::unique_ptr<SharedBlock> block = new_block(nbytes);
  void* data = block->data;
  return Storage::borrow(data, nbytes, release_shared, block.release());
}

Ref<Storage> map_shared(int descriptor, int64_t nbytes, bool keep) {
  auto block = std::make_unique<SharedBlock>();
  block->descriptor = descriptor;
  struct stat file;
  if (fstat(descriptor, &file) < 0) fail_shared("inspect", nbytes);
  check(nbytes >= 0 && file.st_size >= static_cast<off_t>(held(nbytes)),
        "shared memory: the file has ", int64_t(file.st_size), " bytes, not ", nbytes);
  int seals = fcntl(descriptor, F_GET_SEALS);
  check(seals >= 0 && seals & F_SEAL_SHRINK,
        "shared memory: the file could shrink while it is mapped");
  map(*block, nbytes);
  if (!keep) {
    close(block->descriptor);
    block->descriptor = -1;
  }
  void* data = block->data;
  return Storage::borrow(data, nbytes, release_shared, block.release());
}

Ref<Storage> lease_shared(const Ref<Storage>& storage, int64_t nbytes, int64_t flag) {
  static const int counting = pthread_atfork([] { ++forks; }, nullptr, nullptr);
  check(counting == 0, "shared memory: forks cannot be followed");
  check(storage->release == release_shared && flag > 0 && nbytes >= 0 &&
            nbytes <= storage->nbytes - flag,
        "shared memory: a lease of ", nbytes, " bytes does not fit into ", storage->nbytes);
  auto* byte = static_cast<unsigned char*>(storage->data) + storage->nbytes - flag;
  auto* lease = new Lease{storage, byte, forks.load()};
  __atomic_store_n(byte, 1, __ATOMIC_RELEASE);
  return Storage::borrow(storage->data, nbytes, release_lease, lease);
}

bool is_shared(const Storage& storage) {
  auto release = root_of(storage).release;
  return release == release_shared || release == release_lease;
}

int shared_descriptor(const Storage& storage) {
  const Storage& root = root_of(storage);
  return root.release == release_shared ? static_cast<SharedBlock*>(root.context)->descriptor : -1;
}

void move_to_shared(Storage& storage, bool in_use) {
  const int64_t bytes = storage.capacity();  // of all that its tensors can reach
  std::unique_ptr<SharedBlock> block = new_block(bytes);
  if (bytes) std::memcpy(block->data, storage.data, static_cast<size_t>(bytes));
  if (storage.owned && storage.resizable && !in_use) {
    deallocate(storage.data, static_cast<size_t>(bytes));
  } else {  // arrays and buffers may point there
    Ref<Storage> before = Storage::borrow(storage.data, bytes, nullptr, nullptr);
    before->owned = storage.owned;
    before->release = storage.release;
    before->context = storage.context;
    block->before = std::move(before);
  }
  storage.owned = storage.resizable = storage.read_only = false;
  storage.data = block->data;
  storage.release = release_shared;
  storage.context = block.release();
}

}  // namespace rl
