// What each thread carries: the mode word and small caches, behind one initial-exec TLS pointer
// (more static TLS than that fails to load next to other large libraries).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rl {

// Bits of the mode word. Zero is the common case: every rare path costs that one test.
enum ModeBit : uint32_t {
  NoGrad = 1,              // recording is off
  Inference = 2,           // inference_mode: no recording and no version counters
  SavedHooks = 4,          // pack hooks for saved tensors are installed
  Anomaly = 8,             // detect_anomaly
  FunctionMode = 16,       // a __torch_function__ mode is active
  InBackward = 128,        // this thread runs a backward pass
  NoTorchFunction = 256,   // the subclass protocol is switched off
  KeepsInterpreter = 512,  // ScopedGilRelease does not leave the interpreter (core/kernel_lock.h)
  VolatileExists = 1024,   // a volatile tensor has been made: calls from Python look for one
  VolatileCall = 2048,     // an op with a volatile input runs: not recorded
  Profiled = 4096,         // a profile is under way (core/observer.h)
  ProfiledMemory = 8192,   // which notes each storage too
  Trapped = 16384,         // the NaN trap looks at results (dispatch/trap.h)
  Pushing = 32768,         // no_grad() hides what is recorded instead (DerivativeLevels)
  Batched = 65536,         // gradients stand for many (dispatch/batched.h)
  BatchedOnce = 131072,    // and how they are computed is not recorded
  Transformed = 262144,    // a function runs in a transform of func (check_not_captured)
  Observed = Profiled | Trapped | Batched,
};
// Set in every thread at once, and cleared so.
inline constexpr uint32_t modes_of_all = VolatileExists | Profiled | ProfiledMemory | Trapped;

struct FreeList {
  void* head = nullptr;
  uint32_t count = 0;
};

inline constexpr int small_class_count = 32;  // of 64 to 2048 bytes, in steps of 64
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool pooled =
    false;  // each block by itself: the sanitizer sees its ends and its use after free
#else
inline constexpr bool pooled = true;
#endif

// Objects made minus objects destroyed by one thread, so that counting costs no locked instruction
// (six of them are 35 ns of the 290 that a small op takes forward and backward).
enum Counted { CountedTensors, CountedStorages, CountedNodes, counted_kinds };

// Transforms of rushlight.func run functions inside of each other: the level of a run is how many
// there are, itself and those around it. What is recorded in no_grad() of level n is not seen by
// backward passes of levels up to n. Derivatives in forward direction, which no_grad() does not
// concern, are made of such passes too, which see all of it.
struct DerivativeLevels {
  uint32_t current = 0;        // the level of the innermost run; that of the program is 0
  uint32_t least = 0;          // the least level of a pass that sees what is recorded now
  uint32_t least_outside = 0;  // and where no no_grad() of this level is around
  uint32_t seeing = 0;         // the level of a pass that begins now

  // As tensors count levels (TensorImpl::level).
  uint8_t counted() const { return static_cast<uint8_t>(current < 255 ? current : 255); }
};

struct ThreadState {
  uint32_t mode = 0;
  DerivativeLevels levels;
  uint32_t inplace_policy = 0;
  FreeList small[small_class_count];
  FreeList tensors;
  FreeList storages;
  uint64_t next_sequence = 0;      // of graph nodes
  void* deletion_queue = nullptr;  // graph nodes to delete once the current one is gone
  bool deleting_node = false;
  void* dying_storages = nullptr;  // of foreign memory, likewise
  bool releasing_storage = false;
  void* dying_objects = nullptr;        // of Python's tensors, likewise (bind/tensor_type.cpp)
  uint32_t release_depth = 0;           // of these, those that are inside of each other
  bool in_parallel = false;             // runs a part of a parallel_for
  uint32_t backward_depth = 0;          // backward passes that this thread is inside of
  void* backward_task = nullptr;        // the innermost of them
  const void* result_memory = nullptr;  // a tensor (dispatch/result_memory.h)
  std::atomic<int64_t> alive[counted_kinds] = {};  // written by this thread alone
  const void* runs_for = this;   // the thread that waits for this one's nested backward, or itself
  int64_t storage_bytes = 0;     // of storages that this thread made, less those that it freed
  void* events = nullptr;        // its buffer of a profile
  const char* kernel = nullptr;  // that runs, while Profiled
  const char* module = nullptr;  // whose forward runs: its path, while Observed
  uint32_t op_depth = 0;         // ops inside of each other, while Observed
};

// __thread, not thread_local: that would test for an initialiser on every access.
extern __thread ThreadState* thread_state_pointer __attribute__((tls_model("initial-exec")));
ThreadState& make_thread_state();

inline ThreadState& thread_state() {
  ThreadState* p = thread_state_pointer;
  return __builtin_expect(p != nullptr, 1) ? *p : make_thread_state();
}
inline void count(Counted kind, int64_t difference) {
  std::atomic<int64_t>& n = thread_state().alive[kind];
  n.store(n.load(std::memory_order_relaxed) + difference, std::memory_order_relaxed);
}
int64_t count_alive(Counted kind);  // over all threads

inline uint32_t& mode() { return thread_state().mode; }
// From now on these bits of `modes_of_all` are set in every thread, those still to come included.
// In a thread that changes its mode at this moment they may be lost: whoever comes back to the
// interpreter calls `renew_mode`.
void set_mode_of_all(uint32_t bits);
void clear_mode_of_all(uint32_t bits);
inline void announce_volatile() { set_mode_of_all(VolatileExists); }
extern std::atomic<uint32_t> mode_of_all;  // bits that are set in every thread
inline void renew_mode() { mode() |= mode_of_all.load(std::memory_order_relaxed); }
// Are ops recorded? In inference mode not even inside enable_grad(). Of a function whose
// derivatives are taken in forward direction, ops inside of no_grad() are recorded, and hidden.
inline bool grad_enabled() { return !(mode() & (NoGrad | Inference | VolatileCall)); }

// Sets or clears bits of the mode word for a scope.
class ModeGuard {
 public:
  ModeGuard(uint32_t set, uint32_t clear) : saved_(mode()) { mode() = (saved_ | set) & ~clear; }
  // Bits of all threads may have come or gone meanwhile.
  ~ModeGuard() { mode() = (saved_ & ~modes_of_all) | (mode() & modes_of_all); }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;

 private:
  uint32_t saved_;
};
struct NoGradGuard : ModeGuard {
  NoGradGuard() : ModeGuard(NoGrad, Pushing) {}
};
struct GradModeGuard : ModeGuard {
  explicit GradModeGuard(bool enabled) : ModeGuard(NoGrad * !enabled, enabled ? NoGrad : Pushing) {}
};

// Hides what is recorded in a scope from passes of lower levels.
class LeastLevel {
 public:
  explicit LeastLevel(uint32_t level) : levels_(thread_state().levels), saved_(levels_) {
    levels_.least = levels_.least_outside = level;
  }
  ~LeastLevel() { levels_ = saved_; }
  LeastLevel(const LeastLevel&) = delete;
  LeastLevel& operator=(const LeastLevel&) = delete;

 private:
  DerivativeLevels& levels_;
  DerivativeLevels saved_;
};

// Fixed-size blocks from a per-thread free list; any thread may free them.
void* pool_allocate_slow(size_t bytes);
inline void* pool_allocate(FreeList& list, size_t bytes) {
  void* p = list.head;
  if (__builtin_expect(p != nullptr, 1)) {
    list.head = *static_cast<void**>(p);
    --list.count;
    return p;
  }
  return pool_allocate_slow(bytes);
}
void pool_free_slow(FreeList& list, void* p);
inline void pool_free(FreeList& list, void* p) {
  if (__builtin_expect(!pooled || list.count >= 256, 0)) return pool_free_slow(list, p);
  *static_cast<void**>(p) = list.head;
  list.head = p;
  ++list.count;
}

}  // namespace rl
