#include <algorithm>
#include <cstdlib>

#include "core/interpreter.h"
#include "kernels/copy.h"
#include "kernels/cpu/arg_tiles.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"
#include "kernels/reduce.h"

namespace rl::kernels {
namespace {

constexpr int64_t tile_elements = 4096;
constexpr int64_t max_width = 256;
constexpr int64_t short_row = 32;  // rows up to here are folded as columns: 4x faster where of 3

// Like the reducer of reduce.cpp, but the reduced dims are walked in row-major order, which
// indices count in, and no tree is needed: the result is exact in any order of joining.
class ArgReducer {
 public:
  ArgReducer(bool largest, const View& input, const View* values, const View& indices)
      : largest_(largest),
        input_(input),
        values_(values),
        indices_(indices),
        element_(is_integral_or_bool(input.dtype) ? DType::Int64 : compute_dtype(input.dtype)) {
    kept_.base[0] = input.ptr<char>();
    kept_.base[1] = indices.ptr<char>();
    if (values) kept_.base[2] = values->ptr<char>();
    int64_t size = itemsize(input.dtype);
    for (int64_t d = input.ndim - 1; d >= 0; --d) {
      int64_t step = input.strides[d] * size;
      if (indices.sizes[d] == 1) reduced_.add(input.sizes[d], {step});
      else
        kept_.add(input.sizes[d], {step, indices.strides[d] * itemsize(indices.dtype),
                                   values ? values->strides[d] * itemsize(values->dtype) : 0});
    }
    kept_.finish(true);
    reduced_.finish(false);
    if (reduced_.numel <= short_row) kept_.lengthen_runs(8);
    int64_t inner = std::abs(kept_.strides[0][0]);
    columns_ = kept_.sizes[0] >= 4 && inner != 0 && inner < std::abs(reduced_.strides[0][0]);
    columns_ |= kept_.sizes[0] >= 32 && reduced_.numel <= short_row;
    int64_t side_by_side = columns_ ? max_width : tile_elements / reduced_.numel;
    width_ = std::min(kept_.sizes[0], std::clamp<int64_t>(side_by_side, 1, max_width));
    direct_ = element_ == input.dtype &&
              (columns_ ? kept_.strides[0][0] : reduced_.strides[0][0]) == size;
  }

  // Whether the order of indices is not that of the memory, but across it: a transposition, and
  // then places that lie side by side, take half the time.
  bool reads_across() const { return reduced_.transposed_dim(0) != 0; }

  void run() {
    int64_t blocks = (kept_.sizes[0] + width_ - 1) / width_, outer = kept_.numel / kept_.sizes[0];
    int64_t grain = std::max<int64_t>(1, default_grain / (reduced_.numel * width_));
    parallel_for(0, outer * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) {
        int64_t column = u % blocks * width_, first = u / blocks * kept_.sizes[0] + column;
        kept_.range(first, first + std::min(width_, kept_.sizes[0] - column), kept_.base,
                    [&](char* const* p, int64_t width) { reduce(p, width); });
      }
    });
  }

 private:
  void reduce(char* const* p, int64_t width) {
    alignas(64) double best[max_width];  // of the element type, which has at most 8 bytes
    int64_t places[max_width];
    std::fill_n(places, width, -1);
    int64_t together = columns_ ? width : 1, rows = tile_elements / together;
    Interruption interruption;
    for (int64_t j = 0; j < width; j += together)
      for (int64_t i = 0; i < reduced_.numel; i += rows) {
        if (i > 0) interruption.poll();
        fold_tile(p[0] + j * kept_.strides[0][0], together, i, std::min(rows, reduced_.numel - i),
                  reinterpret_cast<char*>(best) + j * itemsize(element_), places + j);
      }
    store_strip(DType::Int64, places, indices_.dtype, p[1], kept_.strides[1][0], width);
    if (values_) store_strip(element_, best, values_->dtype, p[2], kept_.strides[2][0], width);
  }

  void fold_tile(char* in, int64_t width, int64_t begin, int64_t n, void* best, int64_t* places) {
    int64_t down = reduced_.strides[0][0], across = kept_.strides[0][0], size = itemsize(element_);
    bool one_run = begin % reduced_.sizes[0] + n <= reduced_.sizes[0];
    alignas(64) double packed[tile_elements];
    char* to = reinterpret_cast<char*>(packed);
    reduced_.range(begin, begin + n, &in, [&](char* const* p, int64_t m) {
      if (direct_ && one_run)
        return arg_tile(largest_, element_, p[0], n, down / size, width, begin, best, places);
      if (columns_) load_panel(input_.dtype, p[0], down, across, element_, to, m, width);
      else load_strip(input_.dtype, p[0], down, element_, to, m);
      to += m * width * size;
    });
    if (!(direct_ && one_run))
      arg_tile(largest_, element_, packed, n, width, width, begin, best, places);
  }

  bool largest_;
  const View& input_;
  const View* values_;
  const View& indices_;
  DType element_;
  StridedIterator<3> kept_;  // input, indices, values
  StridedIterator<1> reduced_;
  bool columns_, direct_;
  int64_t width_;
};

void arg_reduce(const char* name, bool largest, const View& input, const View* values,
                const View& indices) {
  check_implemented(!is_complex(input.dtype), name, ": not implemented for dtype ", input.dtype);
  check(input.ndim == indices.ndim, name, ": sizes ", input.shape(), " and ", indices.shape(),
        " do not match");
  for (int64_t d = 0; d < input.ndim; ++d)
    check(indices.sizes[d] == 1 || indices.sizes[d] == input.sizes[d], name, ": sizes ",
          input.shape(), " do not reduce to ", indices.shape());
  if (indices.numel == 0) return;
  check(input.numel > 0, name, ": the reduced dims of an input of sizes ", input.shape(),
        " hold no element");
  if (indices.numel == input.numel) {  // single elements
    fill(indices, 0);
    if (values) copy(input, *values);
    return;
  }
  ArgReducer reducer(largest, input, values, indices);
  if (!reducer.reads_across()) return reducer.run();
  const RowMajor turned = RowMajor::copy_of(input, input.dtype);
  const View in_order = turned.view();  // which the reducer refers to
  ArgReducer(largest, in_order, values, indices).run();
}

}  // namespace

void max_with_index(const View& input, const View* values, const View& indices) {
  arg_reduce("max", true, input, values, indices);
}
void min_with_index(const View& input, const View* values, const View& indices) {
  arg_reduce("min", false, input, values, indices);
}

}  // namespace rl::kernels
