// Strips: short contiguous pieces, the form in which typed loops see data of any stride and dtype.
// Loops are then written for a few compute types, not for every dtype, stride and pair of them.
#pragma once
#include "core/view.h"
#include "kernels/cpu/isa.h"

namespace rl::kernels {

// The conversions that have a loop of their own; convert_contiguous has the rest.
RL_ISA_KERNEL(convert_direct, (DType from, DType to, const void* in, void* out, int64_t n))

// Bools come out as 0 or 1, from bool too.
void convert_contiguous(DType from, DType to, const void* in, void* out, int64_t n);

// n elements of `size` bytes (a power of two up to 64), stepping by byte strides.
RL_ISA_KERNEL(copy_strided, (int64_t size, const char* from, int64_t from_stride, char* to,
                             int64_t to_stride, int64_t n))
// Rows of so many bytes, each in one piece.
RL_ISA_KERNEL(copy_rows, (int64_t bytes, const char* from, int64_t from_stride, char* to,
                          int64_t to_stride, int64_t count))
// The same of rows at offsets from `from`.
RL_ISA_KERNEL(gather_rows, (int64_t bytes, const char* from, const int64_t* offsets, char* to,
                            int64_t to_stride, int64_t count))
// Element (r, c) of `to` from (r, c) of `from`, for rows that are not worth a call each: r < rows,
// c < columns, and all steps in bytes. Fast where rows of `to` are dense and those of `from` dense
// or reversed, and where rows or columns are few.
RL_ISA_KERNEL(copy_panel,
              (int64_t size, const char* from, int64_t from_row, int64_t from_column, char* to,
               int64_t to_row, int64_t to_column, int64_t rows, int64_t columns))
// Each of `count` elements `times` times; may write up to 64 bytes beyond the last.
RL_ISA_KERNEL(repeat_elements, (int64_t size, const char* from, int64_t from_stride, char* to,
                                int64_t times, int64_t count))
// Past the caches; end_streaming() of kernels/cpu/stream.h follows the last.
RL_ISA_KERNEL(copy_streaming, (const char* from, char* to, int64_t bytes))

// Element i of `strip`, contiguous and of dtype `to`, from in + i * stride.
void load_strip(DType from, const char* in, int64_t stride, DType to, void* strip, int64_t n);
// Out + i * stride, of dtype `to`, from element i of the strip.
void store_strip(DType from, const void* strip, DType to, char* out, int64_t stride, int64_t n);
// The same of panels, whose rows lie one behind the other in `packed`; see copy_panel.
void load_panel(DType from, const char* in, int64_t row, int64_t column, DType to, void* packed,
                int64_t rows, int64_t columns);
void store_panel(DType from, const void* packed, DType to, char* out, int64_t row, int64_t column,
                 int64_t rows, int64_t columns);

}  // namespace rl::kernels
