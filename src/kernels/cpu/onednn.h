// oneDNN primitives, kept ready for use: a plan is a primitive with its memory objects and the
// reorders between the caller's layouts and its own. Making one takes 0.2 to 9 ms, running it 1 us.
#pragma once
#include <oneapi/dnnl/dnnl.h>

#include <list>
#include <memory>
#include <unordered_map>

#include "core/fork_mutex.h"
#include "core/view.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

dnnl_engine_t onednn_engine();
ForkMutex& plan_making();  // held while oneDNN makes primitives

// Owners of oneDNN's handles.
struct DnnlDelete {
  void operator()(dnnl_memory_desc_t p) const { dnnl_memory_desc_destroy(p); }
  void operator()(dnnl_primitive_desc_t p) const { dnnl_primitive_desc_destroy(p); }
  void operator()(dnnl_primitive_t p) const { dnnl_primitive_destroy(p); }
  void operator()(dnnl_memory_t p) const { dnnl_memory_destroy(p); }
  void operator()(dnnl_primitive_attr_t p) const { dnnl_primitive_attr_destroy(p); }
};
template <class Handle> using Dnnl = std::unique_ptr<std::remove_pointer_t<Handle>, DnnlDelete>;
using DnnlDesc = Dnnl<dnnl_memory_desc_t>;
using DnnlPrimitiveDesc = Dnnl<dnnl_primitive_desc_t>;

DnnlDesc dnnl_desc(IntSpan sizes, IntSpan strides, DType dtype = DType::Float32);
// In a layout for the primitive to choose.
DnnlDesc dnnl_desc_any(IntSpan sizes, DType dtype = DType::Float32);
const_dnnl_primitive_attr_t dnnl_user_scratchpad();

// One argument of a primitive: what the caller has, and what the primitive wants.
class Port {
 public:
  enum Direction { In, Out };
  Port() = default;
  // `wanted` may be null: an absent argument.
  Port(DnnlDesc given, const_dnnl_memory_desc_t wanted, Direction direction);

  bool direct() const { return !reorder_; }
  int64_t bytes() const { return bytes_; }  // of the primitive's side
  dnnl_memory_t memory() const { return own_.get(); }
  void attach(void* primitive_side) { dnnl_memory_set_data_handle(own_.get(), primitive_side); }
  // Moves the data between the sides, in the direction of the port.
  void transfer(void* given_side, void* primitive_side);

 private:
  Dnnl<dnnl_memory_t> given_, own_;
  Dnnl<dnnl_primitive_t> reorder_;
  int64_t bytes_ = 0;
  Direction direction_ = In;
};

class Primitive {
 public:
  Primitive() = default;
  explicit Primitive(const DnnlPrimitiveDesc& desc);
  void run(const dnnl_exec_arg_t* args, int count);

 private:
  Dnnl<dnnl_primitive_t> primitive_;
  Dnnl<dnnl_memory_t> scratchpad_;
  int64_t scratchpad_bytes_ = 0;
};

// The md of `desc` for query `what`, e.g. dnnl_query_src_md.
inline const_dnnl_memory_desc_t queried(const DnnlPrimitiveDesc& desc, dnnl_query_t what,
                                        int index = 0) {
  return dnnl_primitive_desc_query_md(desc.get(), what, index);
}

// Idle plans by key, the least recently used dropped beyond `capacity`. A plan is taken out while
// it runs, so two threads with the same key never share one: the second makes its own.
template <class Key, class Plan> class PlanCache {
 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  // A plan in use; back in the cache at the end of the scope.
  class Lease {
   public:
    Lease(PlanCache& cache, const Key& key, std::unique_ptr<Plan> plan)
        : cache_(cache), key_(key), plan_(std::move(plan)) {}
    Lease(Lease&&) = default;
    ~Lease() {
      if (plan_) cache_.give(key_, std::move(plan_));
    }
    Plan* operator->() const { return plan_.get(); }
    Plan& operator*() const { return *plan_; }

   private:
    PlanCache& cache_;
    Key key_;
    std::unique_ptr<Plan> plan_;
  };

  template <class Make> Lease take(const Key& key, Make&& make) {
    {
      ForkLock lock(mutex_);
      auto found = index_.find(key);
      if (found != index_.end()) {
        std::unique_ptr<Plan> plan = std::move(found->second->second);
        order_.erase(found->second);
        index_.erase(found);
        return {*this, key, std::move(plan)};
      }
    }
    ForkLock making(plan_making());  // oneDNN has locks of its own
    return {*this, key, make()};
  }

 private:
  using Entry = std::pair<Key, std::unique_ptr<Plan>>;

  void give(const Key& key, std::unique_ptr<Plan> plan) {
    std::unique_ptr<Plan> dropped;
    ForkLock lock(mutex_);
    order_.emplace_front(key, std::move(plan));
    index_.emplace(key, order_.begin());
    if (order_.size() <= capacity_) return;
    auto last = std::prev(order_.end());
    auto range = index_.equal_range(last->first);
    for (auto i = range.first; i != range.second; ++i)
      if (i->second == last) {
        index_.erase(i);
        break;
      }
    dropped = std::move(last->second);
    order_.pop_back();
  }

  struct Hash {
    size_t operator()(const Key& key) const { return key.hash(); }
  };
  ForkMutex mutex_{ForkRank::Plans};
  size_t capacity_;
  std::list<Entry> order_;
  std::unordered_multimap<Key, typename std::list<Entry>::iterator, Hash> index_;
};

}  // namespace rl::kernels
