// What launches hand to kernels by value, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

constexpr int max_view_dims = 25, max_loop_dims = 12;

// Dtypes, in the order of DType.
enum Element : int {
  ElementBool,
  ElementUInt8,
  ElementInt8,
  ElementInt16,
  ElementInt32,
  ElementInt64,
  ElementFloat16,
  ElementBFloat16,
  ElementFloat32,
  ElementFloat64,
  ElementComplex64,
  ElementComplex128
};

// A tensor: what View is to kernels of the host. dtype counts as DType does.
struct Strided {
  void* data;
  int64_t numel;
  int ndim, dtype;
  int64_t sizes[max_view_dims], strides[max_view_dims];
};

// N operands that are walked over together, the first of which is the result.
template <int N> struct StridedOperands {
  int64_t numel;
  int ndim, narrow;  // narrow: the number of elements fits into 32 bits
  int64_t sizes[max_loop_dims];
  int64_t strides[N][max_loop_dims];
  void* data[N];
  int dtypes[N];
};

// The same in rows of the last dim. An operand steps through a row, repeats one element of it, or
// is a number of the host's, an element of the compute type.
enum RowStep : int { StepRow, StepRepeat, StepNumber };
template <int N> struct RowOperands : StridedOperands<N> {
  int steps[N];
  alignas(16) unsigned char numbers[N][16];
};

// The numbers that a formula reads, as elements of its compute type.
struct Numbers {
  alignas(16) unsigned char bytes[8][16];
};

// Where kernels report what they find wrong, and as which call; see device/fault.h.
struct FaultPlace {
  void* at;
  uint64_t op, call;
};

struct Window {
  int dims;
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  int64_t in[3], out[3];
};

// A matrix product in a batch: out = alpha * a b + beta * added.
struct Product {
  void *a, *b, *out, *added;
  int64_t rows, columns, depth;
  int64_t a_batch, a_row, a_column, b_batch, b_row, b_column;
  int64_t out_batch, out_row, out_column, added_batch, added_row, added_column;
  alignas(16) unsigned char alpha[16], beta[16];
  int has_added;
};

// Where random numbers begin. Of a captured graph: the seed, and what is added to the offset, stand
// in memory, where each replay writes them.
struct PhiloxSeed {
  uint64_t seed, offset;
  const uint64_t* replayed;  // null outside of graphs
};

}  // namespace rl::cuda
