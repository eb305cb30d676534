#include "kernels/cpu/strip.h"

#include <algorithm>

namespace rl::kernels {
namespace {

constexpr int64_t piece = 1024;
constexpr int64_t widest = 16;  // bytes of a complex128

// The dtype to pass through on the way, or `to` where one step suffices.
DType stepping_stone(DType from, DType to) {
  const bool narrow = is_integral(to) && itemsize(to) <= 4 && to != DType::Bool;
  if (from == DType::BFloat16 && narrow) return to;
  if (is_reduced(from) && to != DType::Float32) return DType::Float32;
  if (is_complex(from) && !is_complex(to) && to != DType::Bool && to != to_real(from))
    return to_real(from);
  if (is_complex(to) && !is_complex(from) && from != to_real(to)) return to_real(to);
  if (is_reduced(to) && from != DType::Float32) return DType::Float32;
  return to;
}

}  // namespace

void convert_contiguous(DType from, DType to, const void* in, void* out, int64_t n) {
  if (from == to && to != DType::Bool) {
    int64_t size = itemsize(to);
    return copy_strided(size, static_cast<const char*>(in), size, static_cast<char*>(out), size, n);
  }
  DType stone = stepping_stone(from, to);
  if (stone == to) return convert_direct(from, to, in, out, n);
  alignas(64) char between[piece * widest];
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = std::min(piece, n - i);
    convert_contiguous(from, stone, static_cast<const char*>(in) + i * itemsize(from), between, m);
    convert_contiguous(stone, to, between, static_cast<char*>(out) + i * itemsize(to), m);
  }
}

void load_strip(DType from, const char* in, int64_t stride, DType to, void* strip, int64_t n) {
  int64_t size = itemsize(from);
  if (from == to && to != DType::Bool)
    return copy_strided(size, in, stride, static_cast<char*>(strip), size, n);
  if (stride == size) return convert_contiguous(from, to, in, strip, n);
  alignas(64) char gathered[piece * widest];
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = std::min(piece, n - i);
    copy_strided(size, in + i * stride, stride, gathered, size, m);
    convert_contiguous(from, to, gathered, static_cast<char*>(strip) + i * itemsize(to), m);
  }
}

void store_strip(DType from, const void* strip, DType to, char* out, int64_t stride, int64_t n) {
  int64_t size = itemsize(to);
  if (from == to) return copy_strided(size, static_cast<const char*>(strip), size, out, stride, n);
  if (stride == size) return convert_contiguous(from, to, strip, out, n);
  alignas(64) char converted[piece * widest];
  for (int64_t i = 0; i < n; i += piece) {
    int64_t m = std::min(piece, n - i);
    convert_contiguous(from, to, static_cast<const char*>(strip) + i * itemsize(from), converted,
                       m);
    copy_strided(size, converted, size, out + i * stride, stride, m);
  }
}

void load_panel(DType from, const char* in, int64_t row, int64_t column, DType to, void* packed,
                int64_t rows, int64_t columns) {
  int64_t size = itemsize(from), to_row = columns * itemsize(to);
  char* out = static_cast<char*>(packed);
  if (column == size && row == columns * size)
    return convert_contiguous(from, to, in, out, rows * columns);
  if (from == to && to != DType::Bool)
    return copy_panel(size, in, row, column, out, columns * size, size, rows, columns);
  if (columns > piece / 2) {
    for (int64_t r = 0; r < rows; ++r)
      load_strip(from, in + r * row, column, to, out + r * to_row, columns);
    return;
  }
  alignas(64) char gathered[piece * widest];
  for (int64_t r = 0, n = piece * widest / (columns * size); r < rows; r += n) {
    n = std::min(n, rows - r);
    copy_panel(size, in + r * row, row, column, gathered, columns * size, size, n, columns);
    convert_contiguous(from, to, gathered, out + r * to_row, n * columns);
  }
}

void store_panel(DType from, const void* packed, DType to, char* out, int64_t row, int64_t column,
                 int64_t rows, int64_t columns) {
  int64_t size = itemsize(to), from_row = columns * itemsize(from);
  const char* in = static_cast<const char*>(packed);
  if (column == size && row == columns * size)
    return convert_contiguous(from, to, in, out, rows * columns);
  if (from == to)
    return copy_panel(size, in, columns * size, size, out, row, column, rows, columns);
  if (columns > piece / 2) {
    for (int64_t r = 0; r < rows; ++r)
      store_strip(from, in + r * from_row, to, out + r * row, column, columns);
    return;
  }
  alignas(64) char converted[piece * widest];
  for (int64_t r = 0, n = piece * widest / (columns * size); r < rows; r += n) {
    n = std::min(n, rows - r);
    convert_contiguous(from, to, in + r * from_row, converted, n * columns);
    copy_panel(size, converted, columns * size, size, out + r * row, row, column, n, columns);
  }
}

}  // namespace rl::kernels
