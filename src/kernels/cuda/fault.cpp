#include "kernels/cuda/fault.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>

#include "kernels/cuda/device/fault.h"
#include "kernels/cuda/runtime.h"

namespace rl::cuda {

// The last calls that may find something, and those of graphs. What an older one finds is told
// without a line. What a lock covers is released behind it, as that may run the interpreter.
class FaultCalls {
 public:
  uint64_t add(SourceLocation where) {
    FaultCall call{0, std::make_shared<const CallSite>(where)};
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t number = call.number = next_++;
    std::swap(last_[number % last_.size()], call);
    return number;
  }

  std::string line(uint64_t number) {
    std::shared_ptr<const CallSite> site;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      site = find(number);
    }
    return site ? describe(site->where) : std::string();
  }

  uint64_t next() {
    std::lock_guard<std::mutex> lock(mutex_);
    return next_;
  }

  void keep(CapturedCalls& captured) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const FaultCall& call : last_)
      if (call.site && call.number >= captured.first_) captured.calls_.push_back(call);
    captured_.push_back(&captured);
  }
  void release(CapturedCalls& captured) {
    std::vector<FaultCall> calls;
    std::lock_guard<std::mutex> lock(mutex_);
    captured_.erase(std::remove(captured_.begin(), captured_.end(), &captured), captured_.end());
    calls.swap(captured.calls_);
  }

 private:
  std::shared_ptr<const CallSite> find(uint64_t number) const {
    const FaultCall& last = last_[number % last_.size()];
    if (last.number == number) return last.site;
    for (const CapturedCalls* captured : captured_)
      for (const FaultCall& call : captured->calls_)
        if (call.number == number) return call.site;
    return nullptr;
  }

  std::mutex mutex_;
  uint64_t next_ = 1;
  std::array<FaultCall, 4096> last_;
  std::vector<const CapturedCalls*> captured_;
};

namespace {

FaultCalls& calls() {
  static auto* instance = new FaultCalls;  // graphs may outlive static objects
  return *instance;
}

void tell(std::ostream& text, const Fault& f) {
  switch (f.kind) {
    case IndexOutOfRange:
    case IndexOutOfBounds:
      text << "index " << f.value << " is out of bounds for dimension " << f.dim << " with size "
           << f.size;
      break;
    case TargetOutOfRange:
      text << "Target " << f.value << " is out of bounds for " << f.size << " classes";
      break;
    case EmbeddingOutOfRange:
      text << "index out of range in self: " << f.value << " for a table of " << f.size << " rows";
      break;
    case TooFewElements:
      text << "number of elements of source (" << f.size << ") < number of ones in mask ("
           << f.value << ")";
      break;
    case InvalidProbability:
      text << "probability tensor contains either `inf`, `nan` or element < 0, or its sum is 0";
      break;
    case InvalidRate: text << "rates must not be negative"; break;
    case NegativeCount:
      text << "1-d non-negative integral inputs are needed, not " << f.value;
      break;
    case InvalidOffset:
      text << "offsets begin with 0, do not fall and are at most " << f.size
           << ", the number of indices, but bag " << f.dim << " begins at " << f.value;
      break;
    default: text << "a kernel reported fault " << f.kind;
  }
}

bool is_index_error(int kind) {
  return kind == IndexOutOfRange || kind == TargetOutOfRange || kind == EmbeddingOutOfRange;
}

}  // namespace

void CapturedCalls::begin() { first_ = calls().next(); }
void CapturedCalls::end() { calls().keep(*this); }
void CapturedCalls::clear() { calls().release(*this); }

FaultPlace faults(int device, const char* op) {
  return {reinterpret_cast<void*>(fault_address(device)), reinterpret_cast<uint64_t>(op),
          calls().add(source_of_work())};
}

void raise_fault(int device) {
  Fault* shared = fault_of(device);
  if (__builtin_expect(!__atomic_load_n(&shared->claimed, __ATOMIC_ACQUIRE), 1)) return;
  // The fields are complete once the device is idle.
  RL_CUDA(cuCtxSynchronize);
  Fault f = *shared;
  std::memset(shared, 0, sizeof *shared);
  std::ostringstream text;
  text << reinterpret_cast<const char*>(f.op) << ": ";
  tell(text, f);
  std::string line = calls().line(f.call);
  if (!line.empty()) text << ". It belongs to the call on " << line;
  fail(is_index_error(f.kind) ? ErrorKind::Index : ErrorKind::Runtime, text.str());
}

}  // namespace rl::cuda
