// Offsets: where advanced indexing reads or writes, as byte offsets into the indexed view.
#pragma once
#include "kernels/cpu/isa.h"
#include "kernels/cpu/scratch.h"
#include "kernels/index.h"

namespace rl::kernels {

using Offsets = Scratch<int64_t>;

RL_ISA_KERNEL(check_inside, (const int64_t* indices, int64_t n, int64_t size, bool negative_indices,
                             bool* inside))
// The same of indices that somebody may change meanwhile: `to` gets what was checked. Not negative.
RL_ISA_KERNEL(copy_inside,
              (const int64_t* indices, int64_t n, int64_t size, int64_t* to, bool* inside))
// at[i] = at[i] * unit + first[i]
RL_ISA_KERNEL(count_from, (const int64_t* first, int64_t unit, int64_t* at, int64_t n))
// Whether n indices are all below `size`, and at least 0, or -size if negative ones are allowed.
inline bool all_inside(const int64_t* indices, int64_t n, int64_t size, bool negative_indices) {
  bool inside;
  check_inside(indices, n, size, negative_indices, &inside);
  return inside;
}

// n indices of any integer dtype, `step` bytes apart, copied to `to`; whether these are all inside.
bool load_indices(DType dtype, const char* from, int64_t step, int64_t n, int64_t size,
                  int64_t* to);

// One offset per element of the (broadcast) indices, in row-major order; indices[k] goes along
// dims[k] of `indexed`. IndexError names `op`, the index, its dim and the size; negative indices
// count from the end if allowed.
Offsets offsets_of(const char* op, const View& indexed, const View* indices, IntSpan dims,
                   bool negative_indices);

// Each offset has a slice, the dims `rest` of the indexed view. The first index_dims dims of the
// other view go with the offsets, its dim index_dims + i with dim rest[i].
void gather_at(const Offsets& offsets, const View& input, IntSpan rest, const View& out,
               int64_t index_dims);
// In the offsets' order: sums and the last of several writes are the same for any number of
// threads.
void scatter_at(const char* op_name, const Offsets& offsets, const View& self, IntSpan rest,
                const View& src, int64_t index_dims, Combine op);

// gather, under the name of another operation, and with its error of an index out of range.
void gather_elements(const char* name, ErrorKind outside, const View& input, int64_t dim,
                     const View& index, const View& out);
// index_select under the name of another operation.
void select_slices(const char* op_name, const View& input, int64_t dim, const View& index,
                   const View& out);

// A view of at least one dim: a 0-d one becomes 1-D of size 1.
View at_least_1d(View v);

}  // namespace rl::kernels
