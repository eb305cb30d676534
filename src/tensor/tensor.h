// Tensor: a counted handle on a TensorImpl (shape, dtype, a window on a Storage, autograd links).
#pragma once
#include <memory>

#include "core/scalar.h"
#include "core/storage.h"
#include "core/view.h"

namespace rl {

class Tensor;

// The part of a graph node that a tensor needs to know; autograd/node.h has the rest.
struct NodeBase {
  std::atomic<int32_t> refs{1};
  virtual void destroy() = 0;

 protected:
  virtual ~NodeBase() = default;
};

// Rarely present autograd state (gradient, hooks, accumulator); autograd/meta.h defines it.
struct MetaBase {
  virtual ~MetaBase() = default;
};

// How a tensor's elements are kept. All but Strided keep those alone that are not zero, with their
// indices: see sparse.h.
enum class Layout : uint8_t { Strided, SparseCoo, SparseCsr, SparseCsc, SparseBsr, SparseBsc };
struct SparseData;

// How a view was made from its base, where sizes, strides and offset alone do not tell (another
// dtype).
struct ViewRule {
  std::atomic<int32_t> refs{1};
  virtual Tensor replay(const Tensor& base) const = 0;
  void destroy() { delete this; }

 protected:
  virtual ~ViewRule() = default;
};

// Whether an in-place op on a view can be recorded.
enum class ViewOrigin : uint8_t { Recorded, NoGradMode, InferenceMode, CustomFunction };

struct TensorImpl;
inline void drop_count(TensorImpl* impl);

struct TensorImpl {
  // Negative, by `holds_python`, while the impl holds a count of its Python object, which holds one
  // of the impl. When that one alone is left, the object's is given up.
  std::atomic<int32_t> refs{1};
  DType dtype = DType::Float32;
  Device device;
  bool requires_grad = false;   // asked for by the user; a non-leaf has grad_fn instead
  bool wrapped_number = false;  // made of a Python number: yields in type promotion
  bool inference = false;
  ViewOrigin view_origin = ViewOrigin::Recorded;
  bool retains_grad = false;
  // Both follow from sizes and strides: refresh() keeps them right. Standard strides are those that
  // empty() gives; a contiguous tensor may have others in dims of size 1, or beside a size of 0.
  bool contiguous = true;
  bool standard_strides = true;
  bool repeats = false;      // a gradient that may be shown as one number seen many times
  bool is_volatile = false;  // 2017's flag: what is computed from it is volatile and not recorded
  uint8_t lazy = 0;          // a view that reads what elements are not: lazy_view.h
  uint8_t level = 0;         // of the run that its memory is from (DerivativeLevels), up to 255
  bool in_own_history = false;  // perhaps: the graph had counts of it when it was changed in place
  uint32_t output_nr = 0;       // which output of grad_fn this is
  uint32_t view_version = 0;    // storage version at which grad_fn of a view was last right
  void* data = nullptr;
  int64_t numel = 1;
  int64_t offset = 0;  // in elements
  Ref<Storage> storage;
  Ref<NodeBase> grad_fn;
  Ref<TensorImpl> base;  // of a differentiable view
  Ref<ViewRule> view_rule;
  std::unique_ptr<MetaBase> meta;
  std::unique_ptr<SparseData> sparse;  // the elements of a sparse tensor, which has no data
  Ref<Storage> resolved;               // of a lazy view: its elements as it reads them
  std::atomic<void*> python{nullptr};  // the Python object, belongs to bind/
  Dims sizes;
  Dims strides;

  TensorImpl();
  ~TensorImpl();
  void destroy();
  void refresh();  // recomputes data, numel and contiguous after a change of storage or shape
};

inline constexpr int32_t holds_python = INT32_MIN;
void drop_slowly(TensorImpl* impl);
inline void drop_count(TensorImpl* impl) {
  int32_t refs = impl->refs.load(std::memory_order_relaxed);
  if (threads_share || __builtin_expect(refs < 0, 0)) return drop_slowly(impl);
  impl->refs.store(refs - 1, std::memory_order_relaxed);
  if (refs == 1) impl->destroy();
}

// Gives up the count that the impl held of its Python object. Installed by bind/.
extern void (*release_python)(TensorImpl* impl);
int64_t live_tensors();

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  explicit operator bool() const { return defined(); }
  TensorImpl* impl() const { return impl_.get(); }
  const Ref<TensorImpl>& ref() const { return impl_; }
  Ref<TensorImpl>& ref() { return impl_; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->device; }
  bool is_meta() const { return impl_->device.is_meta(); }
  int64_t dim() const { return impl_->sizes.size(); }
  int64_t numel() const { return impl_->numel; }
  const Dims& sizes() const { return impl_->sizes; }
  const Dims& strides() const { return impl_->strides; }
  int64_t size(int64_t d) const { return impl_->sizes[existing_dim(d, dim(), "size")]; }
  int64_t stride(int64_t d) const { return impl_->strides[existing_dim(d, dim(), "stride")]; }
  int64_t offset() const { return impl_->offset; }
  const Ref<Storage>& storage() const { return impl_->storage; }
  // Elements: an error where a tensor has none (meta). impl()->data itself may be null before: see
  // physical_layout.h.
  template <class T> T* data() const {
    static_assert(!std::is_same_v<std::remove_cv_t<T>, bool>, "elements of dtype bool are Bool");
    return static_cast<T*>(address(true));
  }
  bool is_contiguous() const { return impl_->contiguous; }
  bool is_sparse() const { return static_cast<bool>(impl_->sparse); }  // in any sparse layout
  Layout layout() const;
  bool is_complex() const { return rl::is_complex(dtype()); }
  bool is_floating() const { return rl::is_floating(dtype()); }

  // True too of a view whose base has come to require a gradient.
  bool requires_grad() const {
    const TensorImpl* base = impl_->base.get();
    return impl_->requires_grad || impl_->grad_fn ||
           (base && (base->requires_grad || base->grad_fn) && is_differentiable(dtype()));
  }
  bool is_leaf() const { return !impl_->grad_fn; }
  // True too of a view whose base has become so.
  bool is_volatile() const {
    return impl_->is_volatile || (impl_->base && impl_->base->is_volatile);
  }
  bool is_view() const { return static_cast<bool>(impl_->base); }
  uint32_t version() const { return impl_->storage->version.load(std::memory_order_relaxed); }

  // What kernels see: null in place of the elements that a tensor on meta does not have.
  View view() const {
    return {address(false), impl_->sizes.data(), impl_->strides.data(), dim(),
            impl_->numel,   impl_->dtype,        impl_->device};
  }

 private:
  void* address(bool needed) const {
    bool hidden = !impl_->data && (impl_->numel || impl_->sparse);
    return __builtin_expect(hidden, 0) ? find_data(needed) : impl_->data;
  }
  // Has the storage materialize its bytes, or reads a lazy view; where there are none, null, or an
  // error if they are needed.
  void* find_data(bool needed) const;
  Ref<TensorImpl> impl_;
};

using TensorList = std::vector<Tensor>;
using OptionalTensor = Tensor;  // undefined stands for None

struct TensorOptions {
  DType dtype = DType::Float32;
  Device device;
};
inline TensorOptions options(const Tensor& t) { return {t.dtype(), t.device()}; }
inline TensorOptions options(const Tensor& t, DType dtype) { return {dtype, t.device()}; }

// Uninitialised, contiguous (or with the given strides).
Tensor empty(IntSpan sizes, TensorOptions options);
Tensor empty_strided(IntSpan sizes, IntSpan strides, TensorOptions options);
// In the shape of a tensor with standard strides: the quick way to a result.
Tensor empty_beside(const TensorImpl& standard, DType dtype);
// The same sizes, and dense strides in the same order (torch.preserve_format): output_layout.h.
Tensor empty_like(const Tensor& t);
Tensor empty_like(const Tensor& t, DType dtype);
// A 0-d tensor of a Python number that yields in type promotion.
Tensor wrap_number(const Scalar& value);
// The only element: how the host reads one, wherever the tensor lives.
Scalar item(const Tensor& t);
template <class T> T item(const Tensor& t) { return item(t).to<T>(); }
// The same where there is one: on meta, what is to be assumed.
template <class T> T item_or(const Tensor& t, T assumed) {
  return t.is_meta() ? assumed : item<T>(t);
}

// Another window on the same storage: no autograd history, no base. A sparse tensor has no other
// window than the one that shows all of it.
Tensor alias(const Tensor& t, IntSpan sizes, IntSpan strides, int64_t offset);
Tensor alias(const Tensor& t);
// The same bytes with a version counter of its own (`.data`).
Tensor data_alias(const Tensor& t);
bool has_internal_overlap(IntSpan sizes, IntSpan strides);  // a size > 1 with stride 0
enum class Overlap { None, Same, Partial };
Overlap memory_overlap(const Tensor& a, const Tensor& b);  // Same: element for element

// Strides of `t` as a view of shape `sizes`; false if it must be copied.
bool view_strides(const Tensor& t, IntSpan sizes, Dims& strides);
// Resolves one -1 in a requested shape.
Dims infer_size(IntSpan requested, int64_t numel, const char* op);

// torch's type promotion over tensors, 0-d tensors and wrapped numbers.
class Promotion {
 public:
  void add(const Tensor& t);
  void add(const Scalar& s);
  DType result() const;

 private:
  int ranks_[3] = {-1, -1, -1};  // wrapped numbers, 0-d tensors, tensors with dims
};
DType result_type(const Tensor& a, const Tensor& b);

}  // namespace rl
