#include "tensor/sparse.h"

namespace rl {

const char* name(Layout layout) {
  static const char* const names[] = {"strided",    "sparse_coo", "sparse_csr",
                                      "sparse_csc", "sparse_bsr", "sparse_bsc"};
  return names[static_cast<int>(layout)];
}

Layout Tensor::layout() const {
  return impl_->sparse ? impl_->sparse->pattern.layout : Layout::Strided;
}

Tensor make_sparse(SparsePattern pattern, Tensor values) {
  const Dims& sizes = pattern.sizes;
  check(sizes.size() <= max_dims, "a tensor has at most ", max_dims, " dims, but ", sizes.size(),
        " sizes were given");
  int64_t count = 1;
  bool overflow = false;
  for (int64_t d : sizes) overflow = overflow || __builtin_mul_overflow(count, d, &count);
  check(!overflow, "a sparse tensor of sizes ", sizes, " has more places than can be counted");
  Tensor t = empty(Dims{0}, options(values));
  TensorImpl* impl = t.impl();
  impl->sizes = pattern.sizes;
  impl->strides = contiguous_strides(pattern.sizes);
  impl->sparse = std::make_unique<SparseData>(SparseData{std::move(pattern), std::move(values)});
  impl->refresh();
  return t;
}

const SparseData& sparse_data(const Tensor& t) {
  check(t.is_sparse(), "expected a sparse tensor but got one in layout ", name(t.layout()));
  return *t.impl()->sparse;
}

void replace_sparse(const Tensor& t, const Tensor& from) {
  TensorImpl* impl = t.impl();
  *impl->sparse = sparse_data(from);
  impl->sizes = from.sizes();
  impl->strides = from.strides();
  impl->refresh();
}

}  // namespace rl
