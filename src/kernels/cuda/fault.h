// What kernels find wrong while they run: written down on the device, raised by the next
// synchronisation with the op, the values and the line of the program that made the call.
#pragma once
#include <memory>
#include <vector>

#include "core/trace.h"
#include "kernels/cuda/device/parameters.h"

namespace rl::cuda {

// For the arguments of a kernel. Notes the user's line: that of the forward op in backward.
FaultPlace faults(int device, const char* op);

// Raises the fault that kernels of the device have found, if there is one, and forgets it.
void raise_fault(int device);

struct CallSite {
  explicit CallSite(SourceLocation found) : where(found) {}
  ~CallSite() { forget(where); }
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;
  SourceLocation where;
};

// A call that may find something, and its line.
struct FaultCall {
  uint64_t number = 0;
  std::shared_ptr<const CallSite> site;
};

// The calls that a graph captures: their lines are known as long as it may be replayed.
class CapturedCalls {
 public:
  CapturedCalls() = default;
  ~CapturedCalls() { clear(); }
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;
  void begin();
  void end();
  void clear();

 private:
  friend class FaultCalls;
  uint64_t first_ = 0;
  std::vector<FaultCall> calls_;
};

}  // namespace rl::cuda
