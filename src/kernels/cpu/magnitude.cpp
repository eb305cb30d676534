#include "kernels/magnitude.h"

#include <algorithm>
#include <atomic>

#include "core/parallel.h"
#include "core/scalar.h"
#include "core/small_vector.h"
#include "kernels/cpu/magnitude_bits.h"

namespace rl::kernels {
namespace {

void largest_of(const uint16_t* x, int64_t n, uint16_t* found) { largest_bits_of_16(x, n, found); }
void largest_of(const uint32_t* x, int64_t n, uint32_t* found) { largest_bits_of_32(x, n, found); }
void largest_of(const uint64_t* x, int64_t n, uint64_t* found) { largest_bits_of_64(x, n, found); }

// Do the elements fill one piece of memory, in whatever order?
bool is_dense(const View& v) {
  struct Dim {
    int64_t size, stride;
  };
  SmallVector<Dim, 5> dims;
  for (int64_t d = 0; d < v.ndim; ++d)
    if (v.sizes[d] != 1) dims.push_back({v.sizes[d], v.strides[d]});
  std::sort(dims.begin(), dims.end(),
            [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  int64_t expected = 1;
  for (const Dim& d : dims) {
    if (d.stride != expected) return false;
    expected *= d.size;
  }
  return true;
}

template <class U> U largest_dense(const U* x, int64_t n) {
  std::atomic<U> all{0};
  parallel_for(0, n, int64_t(1) << 18, [&](int64_t begin, int64_t end) {
    U part = 0;
    largest_of(x + begin, end - begin, &part);
    U before = all.load(std::memory_order_relaxed);
    while (part > before && !all.compare_exchange_weak(before, part, std::memory_order_relaxed)) {}
  });
  return all.load();
}

// `parts`: how many of U an element is.
template <class U> U largest_strided(const View& v, const U* x, int64_t parts, int64_t dim) {
  U found = 0;
  if (dim == v.ndim) {
    largest_of(x, parts, &found);
    return found;
  }
  if (dim == v.ndim - 1 && v.strides[dim] == 1) {
    largest_of(x, v.sizes[dim] * parts, &found);
    return found;
  }
  int64_t n = v.strides[dim] ? v.sizes[dim] : 1;  // repeated elements are looked at once
  for (int64_t i = 0; i < n; ++i)
    found = std::max(found, largest_strided(v, x + i * v.strides[dim] * parts, parts, dim + 1));
  return found;
}

template <class U> U largest(const View& v, int64_t parts) {
  const U* x = v.ptr<U>();
  return is_dense(v) ? largest_dense(x, v.numel * parts) : largest_strided(v, x, parts, 0);
}

}  // namespace

double largest_magnitude(const View& input) {
  if (input.numel == 0) return 0;
  DType part = to_real(input.dtype);
  int64_t parts = is_complex(input.dtype) ? 2 : 1;
  switch (itemsize(part)) {
    case 2: {
      uint16_t bits = largest<uint16_t>(input, parts);
      return load_scalar(&bits, part).real();
    }
    case 4: {
      uint32_t bits = largest<uint32_t>(input, parts);
      return load_scalar(&bits, part).real();
    }
    default: {
      uint64_t bits = largest<uint64_t>(input, parts);
      return load_scalar(&bits, part).real();
    }
  }
}

}  // namespace rl::kernels
