// Where in the user's program an op was called. bind/ installs the function that knows.
#pragma once
#include <cstdint>
#include <string>

namespace rl {

// A code object and an instruction in it, resolved to a line only when an error asks.
struct SourceLocation {
  void* code = nullptr;
  int32_t instruction = 0;
  const char* module = nullptr;  // the path of the module whose forward ran, where that is known
};

struct SourceTracer {
  SourceLocation (*here)() = nullptr;                 // the current line, or an empty location
  std::string (*describe)(SourceLocation) = nullptr;  // 'line 12 of train.py, in step'
  void (*forget)(SourceLocation) = nullptr;           // releases what `here` retained
  // The user's line and those that called it, at most so many; returns how many.
  int (*stack)(SourceLocation* found, int most) = nullptr;
  // The line that this thread works for: in backward that of the forward op.
  SourceLocation (*work)() = nullptr;
};
extern SourceTracer source_tracer;

inline SourceLocation source_here() {
  return source_tracer.here ? source_tracer.here() : SourceLocation{};
}
inline SourceLocation source_of_work() {
  return source_tracer.work ? source_tracer.work() : SourceLocation{};
}
inline std::string describe(SourceLocation where) {
  return where.code && source_tracer.describe ? source_tracer.describe(where) : std::string();
}
inline void forget(SourceLocation& where) {
  if (where.code) source_tracer.forget(where);
  where.code = nullptr;
}

// Which op changed bytes in place, and where.
struct ChangeNote {
  const char* op;
  SourceLocation where;
  ~ChangeNote() { forget(where); }
};

}  // namespace rl
