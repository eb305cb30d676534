#include "kernels/cpu/transpose.h"

#include "kernels/cpu/transpose_square.h"

namespace rl::kernels::RL_ISA {
namespace {

// One piece of the arguments of transpose().
template <class T> struct Piece {
  static constexpr int64_t size = sizeof(T), n = square_side<T>;
  const char* from;
  int64_t from_row, from_column;
  char* to;
  int64_t to_row, to_column;

  void loop_fallback(int64_t first_row, int64_t rows, int64_t first_column, int64_t columns) const {
    for (int64_t c = first_column; c < columns; ++c)
      for (int64_t r = first_row; r < rows; ++r)
        std::memcpy(to + c * to_row + r * to_column, from + r * from_row + c * from_column, size);
  }
  template <bool streamed> void squares(int64_t rows, int64_t columns) const {
    int64_t whole_rows = rows - rows % n, whole_columns = columns - columns % n;
    for (int64_t c = 0; c < whole_columns; c += n)
      for (int64_t r = 0; r < whole_rows; r += n)
        transpose_square<T, streamed>(from + r * from_row + c * size, from_row,
                                      to + c * to_row + r * size, to_row);
    loop_fallback(0, whole_rows, whole_columns, columns);
    loop_fallback(whole_rows, rows, 0, columns);
  }
  void run(int64_t rows, int64_t columns, bool streamed) {
    if constexpr (size <= 8) {
      if (from_column == -size) {  // from the last column to the first
        from += (columns - 1) * from_column;
        from_column = size;
        to += (columns - 1) * to_row;
        to_row = -to_row;
      }
      if (from_column == size && to_column == size) {
        // Halves of cache lines would go to memory one by one.
        bool aligned = size >= 4 && (reinterpret_cast<intptr_t>(to) | to_row) % (n * size) == 0;
        return streamed && aligned ? squares<true>(rows, columns) : squares<false>(rows, columns);
      }
    }
    loop_fallback(0, rows, 0, columns);
  }
};

}  // namespace

void transpose(int64_t size, const char* from, int64_t from_row, int64_t from_column, char* to,
               int64_t to_row, int64_t to_column, int64_t rows, int64_t columns, bool streamed) {
  auto run = [&](auto element) {
    Piece<decltype(element)> piece{from, from_row, from_column, to, to_row, to_column};
    piece.run(rows, columns, streamed);
  };
  switch (size) {
    case 1: return run(uint8_t());
    case 2: return run(uint16_t());
    case 4: return run(uint32_t());
    case 8: return run(uint64_t());
    case 16: return run(vec<uint64_t, 16>());
    case 32: return run(vec<uint64_t, 32>());
    default: return run(vec<uint64_t, 64>());
  }
}

}  // namespace rl::kernels::RL_ISA
