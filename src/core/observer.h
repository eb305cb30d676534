// The recorder of profiles: what ran when, on which thread, for which line of the program.
//
// Ops, kernels and nodes of the graph ask the mode word whether a profile is under way, which is
// all that they do without one. With one each thread writes events into a buffer of its own; nobody
// makes a Python object before the profile ends.
#pragma once
#include <functional>
#include <string>

#include "core/shape.h"
#include "core/thread_state.h"
#include "core/trace.h"

namespace rl {

enum class EventKind : uint8_t {
  Op,          // of the table, in forward or backward
  Kernel,      // launched by an op
  Visit,       // of a node by the engine
  Apply,       // of a node
  Part,        // of a loop that a thread of the pool helps with
  Function,    // forward of a custom Function
  Module,      // forward of a module, by its path
  Span,        // what Python marks: record_function, a step of an optimizer
  Backward,    // a backward pass
  Allocation,  // an instant: bytes that a storage got, or gave back
  External,    // on another device or stream, told by whoever knows
  Call         // of a function by Python: its code, or the name of one in C
};

struct Event {
  uint64_t start = 0, end = 0;      // ticks; no end while it is under way
  const char* name = nullptr;       // lives as long as the process
  SourceLocation where;             // owned
  int64_t sequence = -1;            // of the node that an op records, or that runs
  int64_t memory = 0;               // bytes of storages: made less freed by this thread
  int64_t bytes = 0;                // that a kernel reads and writes; of an allocation: its address
  const int64_t* given = nullptr;   // arguments, as `Details` writes them
  const int64_t* result = nullptr;  // and results
  const int64_t* stack = nullptr;   // the user's line and those that called it, owned
  uint32_t depth = 0;               // of ops
  EventKind kind = EventKind::Op;
  bool in_backward = false;
  int32_t device = -1, stream = -1;  // of an external one
};

namespace observer {

struct Options {
  bool memory = false;  // note each storage
  bool shapes = false;  // of arguments and results
  bool stacks = false;  // lines that called the user's line
  bool modules = false;
};
const Options& options();  // of the profile under way

bool start(const Options& options);  // false if one is under way
// Ends the profile and shows its events thread by thread, each thread's in the order of their
// starts: times in nanoseconds of CLOCK_REALTIME, `thread` as the system numbers it. The visitor
// takes over `where` and the code objects of `stack`.
struct Visitor {
  virtual ~Visitor() = default;
  virtual void thread(int64_t id) = 0;
  virtual void event(Event& event) = 0;
};
void stop(Visitor& visitor);
bool is_recording();

// Null where no profile is under way any more.
Event* begin(EventKind kind, const char* name);
void end(Event* event);
void allocation(const void* address, int64_t bytes);  // negative: given back
void leave(void* events);                             // a thread ends
const char* intern(const std::string& name);          // kept for good

// The same of an event that may be left without an end: it then ends with the profile, and must not
// be ended afterwards.
Event* begin_open(EventKind kind, const char* name);
void end_open(Event* event);

// Spans that Python begins and ends, perhaps on another thread: 0 where nothing is recorded.
int64_t begin_span(EventKind kind, const char* name);
void end_span(int64_t span);
// What has happened elsewhere, in nanoseconds of CLOCK_REALTIME.
void external(const char* name, int64_t start, int64_t end, int32_t device, int32_t stream);
int64_t now();

// Words that describe arguments: a tag, then what it says.
struct Details {
  enum Tag : int64_t {
    End,
    None,
    Tensor,    // dtype, ndim, sizes, strides
    Tensors,   // count, then so many
    Integer,   // value
    Real,      // bits of the value
    Flag,      // 0 or 1
    Integers,  // count, values
    Stack      // count, then code and instruction of each
  };
};
int64_t* reserve(size_t words);  // in this thread's buffer; a later call ends what this one may use
void keep(size_t words);         // so many of those reserved

// An event as long as it lives, if a profile is under way.
class Scope {
 public:
  Scope(EventKind kind, const char* name)
      : event_(__builtin_expect(mode() & Profiled, 0) ? begin(kind, name) : nullptr) {}
  ~Scope() {
    if (__builtin_expect(event_ != nullptr, 0)) end(event_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  Event* event() const { return event_; }

 private:
  Event* event_;
};

}  // namespace observer
}  // namespace rl
