#include "tensor/tensor.h"

#include <new>

#include "core/device_memory.h"
#include "core/device_placement.h"
#include "tensor/lazy_view.h"
#include "tensor/output_layout.h"
#include "tensor/physical_layout.h"
#include "tensor/sparse.h"

namespace rl {

void (*release_python)(TensorImpl* impl) = nullptr;

// Here alone are tensors made and destroyed, and what SparseData is known.
inline TensorImpl::TensorImpl() = default;
inline TensorImpl::~TensorImpl() = default;

namespace {

Ref<TensorImpl> fresh() {
  auto* impl = new (pool_allocate(thread_state().tensors, sizeof(TensorImpl))) TensorImpl;
  count(CountedTensors, 1);
  impl->level = thread_state().levels.counted();
  return Ref<TensorImpl>::adopt(impl);
}

void check_dims(IntSpan sizes) {
  check(sizes.size() <= max_dims, "a tensor has at most ", max_dims, " dims, but ", sizes.size(),
        " sizes were given");
}

// Bytes for a contiguous tensor; RuntimeError if the count overflows.
int64_t contiguous_bytes(IntSpan sizes, DType dtype) {
  int64_t n = itemsize(dtype);
  bool empty = false, overflow = false;
  check_dims(sizes);
  for (int64_t d : sizes) {
    check(d >= 0, "Trying to create tensor with negative dimension ", d, ": ", sizes);
    empty = empty || d == 0;
    if (d) overflow = overflow || __builtin_mul_overflow(n, d, &n);
  }
  if (empty) return 0;
  check(!overflow, "Storage size calculation overflowed with sizes=", sizes);
  return n;
}

int64_t strided_bytes(IntSpan sizes, IntSpan strides, DType dtype) {
  int64_t last = 0;
  bool overflow = false;
  check_dims(sizes);
  for (int64_t i = 0; i < sizes.size(); ++i) {
    check(sizes[i] >= 0, "Trying to create tensor with negative dimension ", sizes[i], ": ", sizes);
    if (sizes[i] == 0) return 0;
    int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
  }
  int64_t bytes = 0;
  overflow = overflow || __builtin_add_overflow(last, 1, &last) ||
             __builtin_mul_overflow(last, itemsize(dtype), &bytes);
  check(!overflow, "Storage size calculation overflowed with sizes=", sizes,
        " and strides=", strides);
  return bytes;
}

}  // namespace

int64_t live_tensors() { return count_alive(CountedTensors); }

void* Tensor::find_data(bool needed) const {
  if (is_sparse())
    fail(ErrorKind::NotImplemented, "this operation has no rule for tensors in layout ",
         name(layout()), ": it reads elements where a sparse tensor of shape ", sizes(),
         " has none; to_dense() gives an ordinary tensor");
  if (impl_->storage && !is_meta()) {
    if (impl_->lazy) return read_lazy(impl_.get());
    impl_->storage->materialize();
    char* bytes = static_cast<char*>(impl_->storage->data);
    // Threads that read one tensor may all be here, with the same address.
    if (bytes) {
      void* first = bytes + impl_->offset * itemsize(dtype());
      __atomic_store_n(&impl_->data, first, __ATOMIC_RELAXED);
      return first;
    }
  }
  if (!needed && is_meta()) return nullptr;
  fail(ErrorKind::NotImplemented, "this operation reads elements, which a tensor of shape ",
       sizes(), " on device ", device(), " does not have");
}

void TensorImpl::refresh() {
  numel = product(sizes);
  standard_strides = has_standard_strides(sizes, strides);
  contiguous = standard_strides || rl::is_contiguous(sizes, strides);
  data = nullptr;
  if (sparse) contiguous = false;  // nobody walks over its elements
  else if (storage && storage->data && !lazy)
    data = static_cast<char*>(storage->data) + (numel ? offset * itemsize(dtype) : 0);
}

// In one step, because the impl may be gone as soon as this thread has no count of it.
void drop_slowly(TensorImpl* impl) {
  int32_t refs = impl->refs.load(std::memory_order_relaxed), left;
  do left = refs == holds_python + 2 ? 1 : refs - 1;
  while (!impl->refs.compare_exchange_weak(refs, left, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
  if (refs == holds_python + 2) release_python(impl);
  else if (left == 0) impl->destroy();
}

void TensorImpl::destroy() {
  this->~TensorImpl();
  count(CountedTensors, -1);
  pool_free(thread_state().tensors, this);
}

Tensor empty(IntSpan sizes, TensorOptions options) {
  options.device = placed(options.device);
  int64_t bytes = contiguous_bytes(sizes, options.dtype);
  Ref<Storage> storage = Storage::create(bytes, options.device);
  Ref<TensorImpl> impl = fresh();
  impl->dtype = options.dtype;
  impl->device = options.device;
  impl->sizes.assign(sizes.data(), sizes.size());
  impl->strides.resize(sizes.size());
  int64_t step = 1;
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    impl->strides[i] = step;
    __builtin_mul_overflow(step, sizes[i] > 1 ? sizes[i] : 1,
                           &step);  // may wrap beside a size of 0
  }
  impl->data = storage->data;
  impl->numel = bytes / itemsize(options.dtype);
  impl->storage = std::move(storage);
  impl->inference = mode() & Inference;
  return Tensor(std::move(impl));
}

Tensor empty_channels_last(IntSpan sizes, TensorOptions options) {
  int64_t bytes = contiguous_bytes(sizes, options.dtype);
  bool matters =
      sizes.size() >= 3 && sizes[1] > 1 && sizes[0] * sizes[1] * itemsize(options.dtype) < bytes;
  if (!matters || options.device.type != DeviceType::CPU) return empty(sizes, options);
  return with_contents(options.dtype,
                       make_ref<ChannelsLastContents>(sizes, bytes, BufferOwner::allocate(bytes)));
}

Tensor with_contents(DType dtype, Ref<ChannelsLastContents> contents) {
  Ref<TensorImpl> impl = fresh();
  impl->dtype = dtype;
  impl->sizes = contents->sizes;
  impl->strides = contiguous_strides(contents->sizes);
  impl->numel = contents->nbytes / itemsize(dtype);
  impl->inference = mode() & Inference;
  impl->storage = Storage::create_with_contents(std::move(contents));
  return Tensor(std::move(impl));
}

Tensor empty_beside(const TensorImpl& like, DType dtype) {
  Ref<Storage> storage = Storage::create(like.numel * itemsize(dtype), like.device);
  Ref<TensorImpl> impl = fresh();
  impl->dtype = dtype;
  impl->device = like.device;
  impl->sizes = like.sizes;
  impl->strides = like.strides;
  impl->data = storage->data;
  impl->numel = like.numel;
  impl->storage = std::move(storage);
  impl->inference = mode() & Inference;
  return Tensor(std::move(impl));
}

Tensor empty_strided(IntSpan sizes, IntSpan strides, TensorOptions options) {
  options.device = placed(options.device);
  check(sizes.size() == strides.size(), "empty_strided: sizes ", sizes, " and strides ", strides,
        " differ in length");
  for (int64_t s : strides)
    check(s >= 0, "empty_strided: negative strides are not supported: ", strides);
  Ref<Storage> storage =
      Storage::create(strided_bytes(sizes, strides, options.dtype), options.device);
  Ref<TensorImpl> impl = fresh();
  impl->dtype = options.dtype;
  impl->device = options.device;
  impl->sizes = Dims(sizes);
  impl->strides = Dims(strides);
  impl->storage = std::move(storage);
  impl->inference = mode() & Inference;
  impl->refresh();
  return Tensor(std::move(impl));
}

Tensor empty_like(const Tensor& t, DType dtype) {
  if (t.impl()->standard_strides) return empty(t.sizes(), options(t, dtype));
  return empty_strided(t.sizes(), dense_strides_like(t.sizes(), t.strides()), options(t, dtype));
}
Tensor empty_like(const Tensor& t) { return empty_like(t, t.dtype()); }

Scalar item(const Tensor& t) {
  check(t.numel() == 1, "a Tensor with ", t.numel(), " elements cannot be converted to Scalar");
  check(!t.is_meta(), "Tensor.item() cannot be called on meta tensors");
  alignas(16) char element[16];
  copy_bytes(element, Device(), t.data<void>(), t.device(),
             static_cast<size_t>(itemsize(t.dtype())));
  return load_scalar(element, t.dtype());
}

Tensor wrap_number(const Scalar& value) {
  Tensor t = empty({nullptr, 0}, {value.kind(), {}});
  switch (value.kind()) {
    case DType::Bool: *t.data<Bool>() = value.to<bool>(); break;
    case DType::Int64: *t.data<int64_t>() = value.to<int64_t>(); break;
    case DType::Float64: *t.data<double>() = value.to<double>(); break;
    default: *t.data<complex128>() = value.to<complex128>();
  }
  t.impl()->wrapped_number = true;
  return t;
}

Tensor alias(const Tensor& t, IntSpan sizes, IntSpan strides, int64_t offset) {
  check_dims(sizes);
  Ref<TensorImpl> impl = fresh();
  const TensorImpl* from = t.impl();
  if (__builtin_expect(from->sparse != nullptr, 0)) {
    bool whole = from->sizes == Dims(sizes) && from->strides == Dims(strides) && offset == 0;
    check_implemented(whole, "views of a tensor in layout ", name(t.layout()),
                      " cannot be taken; to_dense() gives an ordinary tensor");
    impl->sparse = std::make_unique<SparseData>(*from->sparse);
  }
  impl->dtype = from->dtype;
  impl->device = from->device;
  impl->lazy = from->lazy;
  impl->level = from->level;
  impl->storage = from->storage;
  impl->offset = offset;
  impl->inference = from->inference;
  impl->sizes = Dims(sizes);
  impl->strides = Dims(strides);
  if (__builtin_expect(from->lazy && from->data, 0)) {  // an op that changes it looks elsewhere
    impl->lazy = 0;
    impl->storage = from->resolved;
    impl->offset = offset - from->offset;
  }
  impl->refresh();
  return Tensor(std::move(impl));
}
Tensor alias(const Tensor& t) { return alias(t, t.sizes(), t.strides(), t.offset()); }

Tensor data_alias(const Tensor& t) {
  t.storage()->materialize();
  Tensor out = alias(t);
  out.impl()->storage = Storage::alias(t.storage());
  return out;
}

bool has_internal_overlap(IntSpan sizes, IntSpan strides) {
  for (int64_t size : sizes)
    if (size == 0) return false;
  for (int64_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && strides[i] == 0) return true;
  return false;
}

Overlap memory_overlap(const Tensor& a, const Tensor& b) {
  const TensorImpl *x = a.impl(), *y = b.impl();
  if (x->storage == y->storage && !(x->data && y->data) && x->numel && y->numel && !a.is_meta()) {
    if (has_physical_layout(a) && has_physical_layout(b)) return Overlap::Same;
    a.view();  // plain order, and both addresses, so that they can be compared
    b.view();
  }
  if (!x->data || !y->data || x->numel == 0 || y->numel == 0) return Overlap::None;
  if (x->data == y->data && x->dtype == y->dtype && x->sizes == y->sizes &&
      x->strides == y->strides)
    return Overlap::Same;
  auto range = [](const TensorImpl* t) {
    auto low = reinterpret_cast<intptr_t>(t->data), high = low;
    for (int64_t i = 0; i < t->sizes.size(); ++i)
      high += (t->sizes[i] - 1) * t->strides[i] * itemsize(t->dtype);
    return std::pair<intptr_t, intptr_t>(low, high + itemsize(t->dtype));
  };
  auto [x0, x1] = range(x);
  auto [y0, y1] = range(y);
  return x0 < y1 && y0 < x1 ? Overlap::Partial : Overlap::None;
}

bool view_strides(const Tensor& t, IntSpan sizes, Dims& out) {
  const Dims &old_sizes = t.sizes(), &old_strides = t.strides();
  out.resize(sizes.size());
  if (t.is_contiguous() && t.numel() > 0) {
    int64_t step = 1;
    for (int64_t d = sizes.size() - 1; d >= 0; --d) {
      out[d] = step;
      step *= sizes[d];
    }
    return true;
  }
  if (t.numel() == 0) {
    if (old_sizes == Dims(sizes)) out = old_strides;
    else out = contiguous_strides(sizes);
    return true;
  }
  // Walks both shapes from the back; a run of old dims that is one block in memory may be cut anew.
  int64_t next = sizes.size() - 1, block = 1, taken = 1;
  int64_t block_stride = old_sizes.empty() ? 1 : old_strides.back();
  for (int64_t d = old_sizes.size() - 1; d >= 0; --d) {
    block *= old_sizes[d];
    bool ends = d == 0 || (old_sizes[d - 1] != 1 && old_strides[d - 1] != block * block_stride);
    if (!ends) continue;
    while (next >= 0 && (taken < block || sizes[next] == 1)) {
      out[next] = taken * block_stride;
      taken *= sizes[next--];
    }
    if (taken != block) return false;
    if (d > 0) {
      block = taken = 1;
      block_stride = old_strides[d - 1];
    }
  }
  for (; next >= 0; --next) out[next] = taken * block_stride;
  return true;
}

Dims infer_size(IntSpan requested, int64_t numel, const char* op) {
  Dims sizes(requested);
  int64_t known = 1, unknown = -1;
  for (int64_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      check(unknown < 0, op, ": only one dimension can be inferred, got shape ", requested);
      unknown = i;
    } else {
      check(sizes[i] >= 0, op, ": invalid shape dimension ", sizes[i], " in ", requested);
      bool overflow = __builtin_mul_overflow(known, sizes[i], &known);
      check(!overflow, op, ": shape ", requested, " is invalid for input of size ", numel);
    }
  }
  if (unknown >= 0) {
    check(known != 0, op, ": cannot reshape tensor of ", numel, " elements into shape ", requested,
          " because the unspecified dimension size -1 can be any value and is ambiguous");
    check(numel % known == 0, op, ": shape '", requested, "' is invalid for input of size ", numel);
    sizes[unknown] = numel / known;
  } else {
    check(known == numel, op, ": shape '", requested, "' is invalid for input of size ", numel);
  }
  return sizes;
}

namespace {
int category(DType t) { return t == DType::Bool ? 0 : is_integral(t) ? 1 : is_floating(t) ? 2 : 3; }
}  // namespace

void Promotion::add(const Tensor& t) {
  DType dtype = t.dtype();
  int rank = 2;
  if (t.dim() == 0) {
    rank = 1;
    if (t.impl()->wrapped_number) {
      rank = 0;
      if (is_complex(dtype)) dtype = to_complex(default_dtype());
      else if (is_floating(dtype)) dtype = default_dtype();
    }
  }
  int& slot = ranks_[rank];
  slot = slot < 0 ? static_cast<int>(dtype)
                  : static_cast<int>(promote(static_cast<DType>(slot), dtype));
}

void Promotion::add(const Scalar& s) {
  DType dtype = tensor_dtype(s);
  int& slot = ranks_[0];
  slot = slot < 0 ? static_cast<int>(dtype)
                  : static_cast<int>(promote(static_cast<DType>(slot), dtype));
}

DType Promotion::result() const {
  // A lower rank only counts where its category is higher, and makes floats complex at their own
  // precision.
  int current = -1;
  for (int rank = 2; rank >= 0; --rank) {
    if (ranks_[rank] < 0) continue;
    DType t = static_cast<DType>(ranks_[rank]);
    if (current < 0) current = ranks_[rank];
    else if (is_floating(static_cast<DType>(current)) && is_complex(t))
      current = static_cast<int>(to_complex(static_cast<DType>(current)));
    else if (category(t) > category(static_cast<DType>(current)))
      current = static_cast<int>(promote(static_cast<DType>(current), t));
  }
  return current < 0 ? default_dtype() : static_cast<DType>(current);
}

DType result_type(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && !a.impl()->wrapped_number && !b.impl()->wrapped_number)
    return a.dtype();
  Promotion p;
  p.add(a);
  p.add(b);
  return p.result();
}

}  // namespace rl
