// On which stream each node of the graph ran its forward, beside the nodes, as few have one; and
// what a backward pass does with that.
#pragma once
#include <vector>

#include "autograd/node.h"
#include "core/device_streams.h"

namespace rl {

// To be called where device_streams is not null.
void remember_stream(const Node& node, Device device);
void forget_stream(const Node& node);

// The streams of one backward pass. A node without one of its own, such as an accumulator, runs on
// the stream that is current where the pass was started.
class BackwardStreams {
 public:
  bool used() const { return __builtin_expect(table_ != nullptr, 0); }

  // Makes a node's stream the current one for a scope.
  class Scope {
   public:
    Scope(BackwardStreams& streams, const Node& node);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const DeviceStreams* table_ = nullptr;
    Device device_;
    void* before_ = nullptr;
  };

  // What the current stream computed is going to be used by a node, or by who started the pass.
  void hand_over(const Tensor& grad, const Node& to);
  void hand_to_caller(const Tensor& grad);
  // Lets the streams that were current when the pass was started wait for all others.
  void finish();

 private:
  struct Use {
    Device device;
    void* stream;
  };
  void* caller(Device device);
  void* stream_of(const Node& node, Device device);
  void hand_over(const Tensor& grad, void* wanted);

  const DeviceStreams* table_ = device_streams.load(std::memory_order_acquire);
  std::vector<Use> callers_, others_;
};

}  // namespace rl
