#include "emulator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

extern "C" void emulator_switch(void** save, void* load);
asm(R"(
.text
.globl emulator_switch
.type emulator_switch,@function
emulator_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
.size emulator_switch,.-emulator_switch
)");

namespace emulator {

thread_local Block* current_block = nullptr;

namespace {
struct Warp {
  std::vector<Meeting> meetings;
};
// A block with what its scheduler keeps.
struct RunningBlock : Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<void*> free_stacks;
  void* scheduler_stack = nullptr;
  unsigned at_barrier = 0, alive = 0, barrier_kind = 0, barrier_value = 0;
  std::vector<unsigned char> dynamic_bytes;
  void (*kernel)(void**) = nullptr;
  void** arguments = nullptr;
  uint64_t random = 0, seed = 0;
  std::string error;
};
RunningBlock* running() { return static_cast<RunningBlock*>(current_block); }

constexpr size_t stack_bytes = 128 << 10;

unsigned random_below(RunningBlock* b, unsigned n) {
  b->random = b->random * 6364136223846793005ull + 1442695040888963407ull;
  return static_cast<unsigned>((b->random >> 33) % n);
}

// The lane that a warp's turn `i` starts: from the last for odd seeds.
unsigned turn(const RunningBlock* b, unsigned i) { return b->seed & 1 ? 31 - i : i; }

// The next thread of the warp that was not started, or null.
Thread* unstarted(RunningBlock* b, unsigned warp) {
  for (unsigned i = 0; i < 32; ++i) {
    unsigned id = warp * 32 + turn(b, i);
    if (id < b->threads.size() && b->threads[id].state == State::NotStarted) return &b->threads[id];
  }
  return nullptr;
}

// What a fibre runs: one thread of a warp after another for as long as none of them yields.
void enter() {
  RunningBlock* b = running();
  unsigned warp = b->current->warp;
  Thread* self = b->current;
  while (self) {
    self->state = State::Ready;
    b->current = self;
    try {
      b->kernel(b->arguments);
    } catch (const std::exception& e) {
      if (b->error.empty()) b->error = e.what();
    }
    self = b->current;
    self->state = State::Done;
    --b->alive;
    // A thread that had yielded leaves the rest to the scheduler.
    self = b->error.empty() ? unstarted(b, warp) : nullptr;
  }
  yield();
  std::abort();
}

void* new_stack(RunningBlock* b) {
  if (b->free_stacks.empty()) {
    constexpr size_t count = 64;
    char* base = static_cast<char*>(mmap(nullptr, count * stack_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base == MAP_FAILED) throw std::runtime_error("emulator: no memory for stacks");
    for (size_t i = 0; i < count; ++i) b->free_stacks.push_back(base + i * stack_bytes);
  }
  void* stack = b->free_stacks.back();
  b->free_stacks.pop_back();
  return stack;
}

void start(RunningBlock* b, Thread& t, std::vector<void*>& used) {
  char* stack = static_cast<char*>(new_stack(b));
  used.push_back(stack);
  void** top = reinterpret_cast<void**>(stack + stack_bytes - 64);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  b->current = &t;
  emulator_switch(&b->scheduler_stack, top);
}

// Runs a warp's threads, once each or until none can go on.
bool run_warp(RunningBlock* b, unsigned warp, std::vector<void*>& used) {
  bool ran = false, more = true;
  while (more && b->error.empty()) {
    more = false;
    for (unsigned i = 0; i < 32 && b->error.empty(); ++i) {
      unsigned id = warp * 32 + turn(b, i);
      if (id >= b->threads.size()) continue;
      Thread& t = b->threads[id];
      if (t.state == State::NotStarted) {
        start(b, t, used);
        ran = true;
      } else if (t.state == State::Ready) {
        b->current = &t;
        emulator_switch(&b->scheduler_stack, t.stack_pointer);
        ran = true;
      }
    }
    if (b->seed == 0) break;
    for (unsigned i = 0; i < 32 && warp * 32 + i < b->threads.size(); ++i)
      more |= b->threads[warp * 32 + i].state == State::Ready;
  }
  return ran;
}

void run_block(RunningBlock* b) {
  unsigned count = static_cast<unsigned>(b->threads.size());
  unsigned warps = (count + 31) / 32;
  std::vector<void*> used;
  std::vector<unsigned> order(warps);
  for (unsigned i = 0; i < warps; ++i) order[i] = b->seed == 1 ? warps - 1 - i : i;
  while (b->alive && b->error.empty()) {
    bool ran = false;
    if (b->seed > 1)
      for (unsigned i = warps - 1; i > 0; --i) std::swap(order[i], order[random_below(b, i + 1)]);
    for (unsigned w : order) ran |= run_warp(b, w, used);
    if (!b->error.empty()) break;
    if (b->alive && b->at_barrier == b->alive) {
      if (b->alive != count) b->error = "a barrier after some threads of the block had returned";
      b->at_barrier = 0;
      b->barrier_result = static_cast<int>(b->barrier_value);
      for (Thread& t : b->threads)
        if (t.state == State::AtBarrier) t.state = State::Ready;
      ran = true;
    }
    if (!ran && b->alive)
      b->error = "deadlock: " + std::to_string(b->at_barrier) + " of " + std::to_string(b->alive) +
                 " threads wait at __syncthreads, the others in their warps";
  }
  for (void* stack : used) b->free_stacks.push_back(stack);
  if (!b->error.empty()) throw std::runtime_error(b->error);
}
}  // namespace

void fail(const char* message) { throw std::runtime_error(message); }

void yield() {
  RunningBlock* b = running();
  emulator_switch(&b->current->stack_pointer, b->scheduler_stack);
}

void barrier(unsigned kind, unsigned value) {
  RunningBlock* b = running();
  if (b->at_barrier == 0) {
    b->barrier_kind = kind;
    b->barrier_value = kind == 1;
  }
  if (b->barrier_kind != kind) fail("threads of a block wait at barriers of different kinds");
  if (kind == 1) b->barrier_value &= value != 0;
  else if (kind == 2) b->barrier_value |= value != 0;
  else if (kind == 3) b->barrier_value += value != 0;
  ++b->at_barrier;
  b->current->state = State::AtBarrier;
  yield();
}

Meeting& meet(unsigned mask, const void* value, size_t size) {
  RunningBlock* b = running();
  Thread* self = b->current;
  Warp& warp = b->warps[self->warp];
  if (!(mask >> self->lane & 1)) fail("a lane is not in its own mask");
  Meeting* found = nullptr;
  for (Meeting& m : warp.meetings) {
    if (m.mask == mask) found = &m;
    else if (m.arrived && (m.mask & mask)) fail("lanes of one warp meet with different masks");
  }
  if (!found) {
    warp.meetings.reserve(32);  // references stay valid
    if (warp.meetings.size() == 32) fail("more than 32 masks in one warp");
    found = &warp.meetings.emplace_back();
    found->mask = mask;
  }
  self->generation = found->generation;
  std::memcpy(found->value[found->generation & 1][self->lane], value, size);
  found->arrived |= 1u << self->lane;
  self->state = State::AtWarp;
  if (found->arrived == mask) {
    found->arrived = 0;
    ++found->generation;
    for (unsigned l = 0; l < 32; ++l)
      if (mask >> l & 1) b->threads[self->warp * 32 + l].state = State::Ready;
  }
  yield();  // the last one too, so that the schedule interleaves
  return *found;
}

void run_grid(void (*kernel)(void**), void** arguments, Extent grid, Extent block, size_t shared,
              uint64_t seed) {
  static thread_local RunningBlock* own = nullptr;
  if (!own) own = new RunningBlock;
  Block* outer = current_block;
  RunningBlock* b = own;
  current_block = own;
  unsigned count = block.x * block.y * block.z;
  b->threads.resize(count);
  b->grid = grid;
  b->block = block;
  b->kernel = kernel;
  b->arguments = arguments;
  b->seed = seed;
  b->random = seed * 2654435761u + 1;
  b->error.clear();
  b->dynamic_bytes.resize(shared + 128);
  b->dynamic_shared = reinterpret_cast<unsigned char*>(
      (reinterpret_cast<uintptr_t>(b->dynamic_bytes.data()) + 63) & ~uintptr_t(63));
  uint64_t total = uint64_t(grid.x) * grid.y * grid.z;
  for (uint64_t k = 0; k < total; ++k) {
    uint64_t id = seed & 1 ? total - 1 - k : k;
    b->index = {static_cast<unsigned>(id % grid.x), static_cast<unsigned>(id / grid.x % grid.y),
                static_cast<unsigned>(id / grid.x / grid.y)};
    std::memset(b->dynamic_shared, 0xff, shared);  // NaNs: nobody wrote there
    b->warps.assign((count + 31) / 32, Warp{});
    b->at_barrier = 0;
    b->alive = count;
    for (unsigned i = 0; i < count; ++i) {
      Thread& t = b->threads[i];
      t = Thread{};
      t.index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
      t.lane = i & 31;
      t.warp = i >> 5;
    }
    run_block(b);
  }
  current_block = outer;
}

}  // namespace emulator
