#include "kernels/cpu/strip.h"

#include <cstdlib>
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class T, int64_t step>
void copy_stepping(const char* from, char* to, int64_t n) {
  if constexpr (step == 0) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    int64_t i = 0;
    if constexpr (std::is_integral_v<T>) {  // gcc makes no vectors of pairs of bytes
      constexpr int64_t lanes = vector_bytes / sizeof(T);
      vec<T> values = value - vec<T>{};
      for (; i + lanes <= n; i += lanes) std::memcpy(to + i * sizeof(T), &values, vector_bytes);
    }
    for (; i < n; ++i) std::memcpy(to + i * sizeof(T), &value, sizeof(T));
    return;
  }
  RL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * sizeof(T), from + i * step * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

// The steps for which gcc has shuffles are written out: broadcast, flipped, every second element,
// and one channel of pictures.
template <class T>
void copy_elements(const char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t n) {
  constexpr int64_t size = sizeof(T);
  if (to_stride == size) {
    switch (from_stride) {
      case 0: return copy_stepping<T, 0>(from, to, n);
      case -size: return copy_stepping<T, -1>(from, to, n);
      case 2 * size: return copy_stepping<T, 2>(from, to, n);
      case 3 * size: return copy_stepping<T, 3>(from, to, n);
      case 4 * size: return copy_stepping<T, 4>(from, to, n);
    }
  }
  if (from_stride == 0) {  // read once: for the compiler each store may change it
    T value;
    std::memcpy(&value, from, sizeof(T));
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, &value, size);
    return;
  }
  // Four are read before the first is written: a load waits for a store whose address has the same
  // 12 lower bits, which doubled the time of bytes.
  int64_t i = 0;
  for (; i + 4 <= n; i += 4, from += 4 * from_stride, to += 4 * to_stride) {
    T four[4];
    for (int64_t k = 0; k < 4; ++k) std::memcpy(&four[k], from + k * from_stride, size);
    for (int64_t k = 0; k < 4; ++k) std::memcpy(to + k * to_stride, &four[k], size);
  }
  for (; i < n; ++i, from += from_stride, to += to_stride) std::memcpy(to, from, size);
}

// Where row i begins.
struct EvenRows {
  const char* from;
  int64_t stride;
  const char* operator()(int64_t i) const { return from + i * stride; }
};
struct RowsAt {
  const char* from;
  const int64_t* offsets;
  const char* operator()(int64_t i) const { return from + offsets[i]; }
};

// Rows are copied `width` bytes at a time, at most their length; the last move may overlap another.
template <int width, int last = width, class Rows>
void copy_rows_by(int64_t bytes, Rows rows, char* to, int64_t to_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += to_stride) {
    const char* from = rows(i);
    for (int64_t j = 0; j + width < bytes; j += width) std::memcpy(to + j, from + j, width);
    std::memcpy(to + bytes - last, from + bytes - last, last);
  }
}
template <class Rows>
void copy_rows_from(Rows rows, int64_t bytes, char* to, int64_t to_stride, int64_t count) {
  if (bytes < 2) return copy_rows_by<1>(bytes, rows, to, to_stride, count);
  if (bytes < 4) return copy_rows_by<2>(bytes, rows, to, to_stride, count);
  if (bytes < 8) return copy_rows_by<4>(bytes, rows, to, to_stride, count);
  if (bytes < 16) return copy_rows_by<8>(bytes, rows, to, to_stride, count);
  if (bytes < 32) return copy_rows_by<16>(bytes, rows, to, to_stride, count);
  if (bytes < 64) return copy_rows_by<32>(bytes, rows, to, to_stride, count);
  if ((bytes - 1) % 64 < 8) return copy_rows_by<64, 8>(bytes, rows, to, to_stride, count);
  copy_rows_by<64>(bytes, rows, to, to_stride, count);
}

template <class T, int... lane>
vec<T, sizeof...(lane) * sizeof(T)> reversed(vec<T, sizeof...(lane) * sizeof(T)> v,
                                             std::integer_sequence<int, lane...>) {
  return shuffle<(static_cast<int>(sizeof...(lane)) - 1 - lane)...>(v, v);
}

// As copy_rows_by, of rows whose elements lie from last to first before `from`.
template <class T, int width>
void reverse_rows_by(int64_t columns, const char* from, int64_t from_stride, char* to,
                     int64_t to_stride, int64_t count) {
  constexpr int64_t size = sizeof(T), lanes = width / size;
  from -= (lanes - 1) * size;
  for (int64_t i = 0; i < count; ++i, from += from_stride, to += to_stride) {
    auto move = [&](int64_t j) {
      vec<T, width> v;
      std::memcpy(&v, from - j * size, width);
      v = reversed<T>(v, std::make_integer_sequence<int, static_cast<int>(lanes)>());
      std::memcpy(to + j * size, &v, width);
    };
    for (int64_t j = 0; j + lanes < columns; j += lanes) move(j);
    move(columns - lanes);
  }
}
template <class T>
void reverse_rows(int64_t columns, const char* from, int64_t from_stride, char* to,
                  int64_t to_stride, int64_t count) {
  const int64_t bytes = columns * static_cast<int64_t>(sizeof(T));
  auto by = [&](auto width) {
    reverse_rows_by<T, width>(columns, from, from_stride, to, to_stride, count);
  };
  if constexpr (vector_bytes >= 64)
    if (bytes >= 64) return by(std::integral_constant<int, 64>());
  if constexpr (vector_bytes >= 32)
    if (bytes >= 32) return by(std::integral_constant<int, 32>());
  if (sizeof(T) == 8 || bytes >= 16) return by(std::integral_constant<int, 16>());
  by(std::integral_constant<int, 8>());
}

// Row after row where these are dense and not short, else along the longer side: fewer calls, in
// strips of rows that stay in the first-level cache.
void copy_lines(int64_t size, const char* from, int64_t from_row, int64_t from_column, char* to,
                int64_t to_row, int64_t to_column, int64_t rows, int64_t columns) {
  const bool dense = std::abs(from_column) < std::abs(from_row) && to_column < to_row;
  if (rows < columns || (dense && columns >= 16)) {
    std::swap(rows, columns);
    std::swap(from_row, from_column);
    std::swap(to_row, to_column);
  }
  constexpr int64_t strip = 512;
  for (int64_t r = 0; r < rows; r += strip)
    for (int64_t c = 0; c < columns; ++c)
      copy_strided(size, from + r * from_row + c * from_column, from_row,
                   to + r * to_row + c * to_column, to_row, rows - r < strip ? rows - r : strip);
}

// As memcpy. glibc before 2.39 leaves more than 2 KB to `rep movsb` on Zen 3 and 4, which copies 3
// GB/s, not 27, to addresses less than 64 bytes further in their page than where it reads.
void copy_run(const char* from, char* to, int64_t bytes) {
  constexpr int64_t least = 2048, most = 1 << 20, together = 4;
  if (bytes < least || bytes > most) return void(std::memcpy(to, from, static_cast<size_t>(bytes)));
  using V = vec<uint64_t>;
  auto move = [&](int64_t at) { std::memcpy(to + at, from + at, vector_bytes); };
  move(0);
  int64_t i = vector_bytes - (reinterpret_cast<intptr_t>(to) & (vector_bytes - 1));
  for (; i + together * vector_bytes <= bytes; i += together * vector_bytes) {
    V vectors[together];
#pragma GCC unroll 4
    for (int64_t k = 0; k < together; ++k)
      std::memcpy(&vectors[k], from + i + k * vector_bytes, vector_bytes);
#pragma GCC unroll 4
    for (int64_t k = 0; k < together; ++k)
      std::memcpy(to + i + k * vector_bytes, &vectors[k], vector_bytes);
  }
  for (; i + vector_bytes <= bytes; i += vector_bytes) move(i);
  move(bytes - vector_bytes);
}

// Each store writes a whole vector; the next element overwrites what was too much.
template <class T>
void repeat(const char* from, int64_t from_stride, char* to, int64_t times, int64_t count) {
  constexpr int64_t lanes = vector_bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i, from += from_stride, to += times * sizeof(T)) {
    T element, all[lanes];
    std::memcpy(&element, from, sizeof element);
    for (T& lane : all) lane = element;
    for (int64_t j = 0; j < times; j += lanes) std::memcpy(to + j * sizeof(T), all, sizeof all);
  }
}

}  // namespace

void copy_rows(int64_t bytes, const char* from, int64_t from_stride, char* to, int64_t to_stride,
               int64_t count) {
  if (from_stride == bytes && to_stride == bytes) {
    copy_run(from, to, bytes * count);
    return;
  }
  if (bytes <= 64 && (bytes & (bytes - 1)) == 0)
    return copy_strided(bytes, from, from_stride, to, to_stride, count);
  if (bytes > 512) {  // worth a call, which aligns its stores
    for (int64_t i = 0; i < count; ++i) copy_run(from + i * from_stride, to + i * to_stride, bytes);
    return;
  }
  copy_rows_from(EvenRows{from, from_stride}, bytes, to, to_stride, count);
}

void gather_rows(int64_t bytes, const char* from, const int64_t* offsets, char* to,
                 int64_t to_stride, int64_t count) {
  copy_rows_from(RowsAt{from, offsets}, bytes, to, to_stride, count);
}

void copy_panel(int64_t size, const char* from, int64_t from_row, int64_t from_column, char* to,
                int64_t to_row, int64_t to_column, int64_t rows, int64_t columns) {
  if (from_column == size && to_column == size)
    return copy_rows(columns * size, from, from_row, to, to_row, rows);
  if (from_column == -size && to_column == size && columns * size >= 8) switch (size) {
      case 1: return reverse_rows<uint8_t>(columns, from, from_row, to, to_row, rows);
      case 2: return reverse_rows<uint16_t>(columns, from, from_row, to, to_row, rows);
      case 4: return reverse_rows<uint32_t>(columns, from, from_row, to, to_row, rows);
      case 8:
        if (columns > 1) return reverse_rows<uint64_t>(columns, from, from_row, to, to_row, rows);
    }
  constexpr int64_t square = 16;
  if (size <= 8 && rows >= square && columns >= square) {
    if (from_column == size && to_row == size)
      return transpose(size, from, from_row, size, to, to_column, size, rows, columns, false);
    if (from_row == size && to_column == size)
      return transpose(size, from, from_column, size, to, to_row, size, columns, rows, false);
  }
  copy_lines(size, from, from_row, from_column, to, to_row, to_column, rows, columns);
}

void repeat_elements(int64_t size, const char* from, int64_t from_stride, char* to, int64_t times,
                     int64_t count) {
  switch (size) {
    case 1: return repeat<uint8_t>(from, from_stride, to, times, count);
    case 2: return repeat<uint16_t>(from, from_stride, to, times, count);
    case 4: return repeat<uint32_t>(from, from_stride, to, times, count);
    case 8: return repeat<uint64_t>(from, from_stride, to, times, count);
    default: return repeat<vec<uint64_t, 16>>(from, from_stride, to, times, count);
  }
}

void copy_strided(int64_t size, const char* from, int64_t from_stride, char* to, int64_t to_stride,
                  int64_t n) {
  if (n == 0) return;  // the pointers may then be null
  if (from_stride == size && to_stride == size) {
    copy_run(from, to, n * size);
    return;
  }
  switch (size) {
    case 1: return copy_elements<uint8_t>(from, from_stride, to, to_stride, n);
    case 2: return copy_elements<uint16_t>(from, from_stride, to, to_stride, n);
    case 4: return copy_elements<uint32_t>(from, from_stride, to, to_stride, n);
    case 8: return copy_elements<uint64_t>(from, from_stride, to, to_stride, n);
    case 16: return copy_elements<vec<uint64_t, 16>>(from, from_stride, to, to_stride, n);
    case 32: return copy_elements<vec<uint64_t, 32>>(from, from_stride, to, to_stride, n);
    default: return copy_elements<vec<uint64_t, 64>>(from, from_stride, to, to_stride, n);
  }
}

void copy_streaming(const char* from, char* to, int64_t bytes) {
  int64_t head = -reinterpret_cast<intptr_t>(to) & (vector_bytes - 1);
  if (head > bytes) head = bytes;
  std::memcpy(to, from, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + vector_bytes <= bytes; i += vector_bytes) {
    vec<uint64_t> v;
    std::memcpy(&v, from + i, sizeof v);
    stream(to + i, v);
  }
  std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

}  // namespace rl::kernels::RL_ISA
