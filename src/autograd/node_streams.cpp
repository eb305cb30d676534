#include "autograd/node_streams.h"

#include <algorithm>
#include <unordered_map>

#include "core/fork_mutex.h"

namespace rl {
namespace {

ForkMutex mutex(ForkRank::Observers);
std::unordered_map<const Node*, void*>& streams() {
  static auto* table = new std::unordered_map<const Node*, void*>();  // nodes may outlive statics
  return *table;
}

bool has_streams(Device device) { return device.type == DeviceType::CUDA; }

}  // namespace

void remember_stream(const Node& node, Device device) {
  const DeviceStreams* table = device_streams.load(std::memory_order_acquire);
  if (!table || !has_streams(device)) return;
  void* stream = table->current(device);
  ForkLock lock(mutex);
  streams()[&node] = stream;
}
void forget_stream(const Node& node) {
  ForkLock lock(mutex);
  streams().erase(&node);
}

BackwardStreams::Scope::Scope(BackwardStreams& streams, const Node& node) {
  if (!streams.used() || node.outputs.empty() || !has_streams(node.outputs[0].device)) return;
  device_ = node.outputs[0].device;
  void* wanted = streams.stream_of(node, device_);
  before_ = streams.table_->current(device_);
  if (before_ == wanted) return;
  table_ = streams.table_;
  table_->set_current(device_, wanted);
}
BackwardStreams::Scope::~Scope() {
  if (table_) table_->set_current(device_, before_);
}

// Asked first where no scope has changed the current stream of the device.
void* BackwardStreams::caller(Device device) {
  for (const Use& use : callers_)
    if (is_same_device(use.device, device)) return use.stream;
  callers_.push_back({device, table_->current(device)});
  return callers_.back().stream;
}

void* BackwardStreams::stream_of(const Node& node, Device device) {
  void* stream = caller(device);
  {
    ForkLock lock(mutex);
    auto found = streams().find(&node);
    if (found != streams().end()) stream = found->second;
  }
  if (stream == caller(device)) return stream;
  bool known = std::any_of(others_.begin(), others_.end(), [&](const Use& use) {
    return use.stream == stream && is_same_device(use.device, device);
  });
  if (!known) others_.push_back({device, stream});
  return stream;
}

void BackwardStreams::hand_over(const Tensor& grad, void* wanted) {
  void* now = table_->current(grad.device());
  if (now == wanted) return;
  table_->wait(grad.device(), wanted, now);
  const Storage* storage = grad.impl()->storage.get();
  while (storage->alias_of) storage = storage->alias_of.get();
  if (storage->data && storage->owned) table_->keep(grad.device(), storage->data, wanted);
}
void BackwardStreams::hand_over(const Tensor& grad, const Node& to) {
  if (!grad.defined() || grad.is_sparse() || !has_streams(grad.device())) return;
  hand_over(grad, stream_of(to, grad.device()));
}
void BackwardStreams::hand_to_caller(const Tensor& grad) {
  if (!grad.defined() || grad.is_sparse() || !has_streams(grad.device())) return;
  hand_over(grad, caller(grad.device()));
}

void BackwardStreams::finish() {
  for (const Use& use : others_) table_->wait(use.device, caller(use.device), use.stream);
}

}  // namespace rl
