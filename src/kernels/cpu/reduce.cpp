#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/reduce_tiles.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"

namespace rl::kernels {
namespace {

constexpr int64_t tile_elements = 4096;
constexpr int64_t tile_width = 256;        // columns that such a tile has at most
constexpr int64_t max_width = 1024;        // columns folded side by side in tiles as high
constexpr int64_t short_row = 8;           // rows up to here are folded as columns
constexpr int64_t least_reduced_row = 32;  // of 16-bit floats, to be widened as they are folded
constexpr int64_t tiles_per_chunk = 16;    // a chunk is what one thread does at a time
constexpr int64_t widest = 16;             // bytes of the largest element or accumulator

struct Reduction {
  const char* name;
  Fold fold;
  DType load;     // elements become this dtype,
  DType element;  // and this one after the preparation
  DType result;   // dtype of a finished value
  Prepare prepare = Prepare::None;
  double parameter = 0;
  // Turns accumulators of n elements each into results, and second results where there are any.
  // Null if an accumulator is the result.
  void (*finish)(const Reduction& op, const void* accumulators, int64_t width, int64_t n,
                 void* results, void* second) = nullptr;
};

// Joins equal numbers of pushed results two by two, like the carries of a binary counter.
class Tree {
 public:
  Tree(const Tiles& tiles, int64_t width, int64_t pushes)
      : tiles_(tiles), width_(width), bytes_(width * tiles.accumulator_size) {
    int64_t levels = 1;
    while ((int64_t(1) << levels) <= pushes) ++levels;
    slots_.reset(new char[static_cast<size_t>(levels * bytes_)]);
  }

  void push(char* accumulators, int64_t n) {
    int level = 0;
    for (; pushes_ >> level & 1; ++level) {
      tiles_.join(slot(level), accumulators, width_, n_[level], n);
      accumulators = slot(level);
      n += n_[level];
    }
    std::memcpy(slot(level), accumulators, static_cast<size_t>(bytes_));
    n_[level] = n;
    ++pushes_;
  }

  void result(void* accumulators) {
    char* late = nullptr;
    int64_t n = 0;
    for (int level = 0; pushes_ >> level; ++level) {
      if (!(pushes_ >> level & 1)) continue;
      if (late) tiles_.join(slot(level), late, width_, n_[level], n);
      late = slot(level);
      n += n_[level];
    }
    std::memcpy(accumulators, late, static_cast<size_t>(bytes_));
  }

 private:
  char* slot(int level) { return slots_.get() + level * bytes_; }

  const Tiles& tiles_;
  int64_t width_, bytes_, pushes_ = 0;
  int64_t n_[48];
  std::unique_ptr<char[]> slots_;
};

class Reducer {
 public:
  Reducer(const Reduction& op, const View& input, const View& out, const View* second)
      : op_(op), input_(input), out_(out), second_(second), size_(itemsize(input.dtype)) {
    kept_.base[0] = input.ptr<char>();
    kept_.base[1] = out.ptr<char>();
    if (second) kept_.base[2] = second->ptr<char>();
    for (int64_t d = input.ndim - 1; d >= 0; --d) {
      int64_t step = input.strides[d] * size_;
      if (out.sizes[d] == 1) reduced_.add(input.sizes[d], {step});
      else
        kept_.add(input.sizes[d], {step, out.strides[d] * itemsize(out.dtype),
                                   second ? second->strides[d] * itemsize(second->dtype) : 0});
    }
    kept_.finish(true);
    reduced_.finish(true);
    fused_ = is_fused(op.prepare, op.load);
    reduce_tiles(op.fold, fused_ ? op.prepare : Prepare::None, op.element, &tiles_);
    check_implemented(tiles_.accumulator_size != 0, op.name, ": not implemented for dtype ",
                      input.dtype);
    int64_t inner = std::abs(kept_.strides[0][0]);
    columns_ = kept_.sizes[0] >= 4 && inner != 0 && inner < std::abs(reduced_.strides[0][0]);
    columns_ |= kept_.sizes[0] >= 32 && reduced_.numel <= short_row;
    columns_ |=
        kept_.sizes[0] > 1 && inner == size_ && inner * kept_.sizes[0] == reduced_.strides[0][0];
    direct_ = fused_ && input.dtype == op.load &&
              (columns_ ? kept_.strides[0][0] : reduced_.strides[0][0]) == size_;
    if (reduced_.numel == 1) direct_ = fused_ && input.dtype == op.load && !columns_;
    in_place_ = tiles_;
    if (fused_ && is_reduced(input.dtype) && op.element == DType::Float32 &&
        (columns_ ? kept_.strides[0][0] == size_ && kept_.sizes[0] >= tile_width / 4
                  : reduced_.strides[0][0] == size_ && reduced_.sizes[0] >= least_reduced_row)) {
      reduced_tiles(op.fold, op.prepare, input.dtype, &in_place_);
      direct_ |= columns_ ? in_place_.columns != tiles_.columns : in_place_.rows != tiles_.rows;
    }
  }

  void run() {
    n_ = reduced_.numel;
    int64_t side_by_side =
        columns_ ? tile_width
                 : std::clamp<int64_t>(tile_elements / reduced_.sizes[0], 1, max_width);
    width_ = std::min(kept_.sizes[0], side_by_side);
    tile_rows_ = std::max<int64_t>(1, tile_elements / width_);
    int64_t chunk_rows = tile_rows_ * tiles_per_chunk;
    if (columns_ && reduced_.ndim == 1 && kept_.ndim > 1 &&
        n_ * kept_.sizes[0] <= tile_elements / 4)
      return run_panels();
    // Memory streams best in long runs; the width decides on no order of additions.
    // Packed tiles stay in L1.
    int64_t widest_tile = direct_ ? max_width : tile_width;
    if (columns_ && (n_ > chunk_rows || n_ <= short_row))
      width_ = std::min(kept_.sizes[0], widest_tile);
    if (n_ > chunk_rows) return run_in_chunks(chunk_rows);
    int64_t grain = std::max<int64_t>(1, default_grain / (n_ * width_));
    parallel_for(0, units(), grain, [&](int64_t begin, int64_t end) {
      alignas(64) char accumulators[max_width * widest];
      for (int64_t u = begin; u < end; ++u)
        at_unit(u, [&](char* const* p, int64_t width) {
          reduce_chunk(p[0], width, 0, n_, accumulators);
          store(p, width, accumulators);
        });
    });
  }

 private:
  // Long reductions: chunks in parallel, then a tree over each unit's chunks.
  void run_in_chunks(int64_t chunk_rows) {
    int64_t chunks = (n_ + chunk_rows - 1) / chunk_rows, bytes = width_ * tiles_.accumulator_size;
    Scratch<char> partial(static_cast<size_t>(units() * chunks * bytes));
    parallel_for(0, units() * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        at_unit(i / chunks, [&](char* const* p, int64_t width) {
          int64_t first = i % chunks * chunk_rows, last = std::min(n_, first + chunk_rows);
          reduce_chunk(p[0], width, first, last, partial.data() + i * bytes);
        });
    });
    alignas(64) char accumulators[max_width * widest];
    for (int64_t u = 0; u < units(); ++u)
      at_unit(u, [&](char* const* p, int64_t width) {
        Tree tree(tiles_, width, chunks);
        for (int64_t c = 0; c < chunks; ++c)
          tree.push(partial.data() + (u * chunks + c) * bytes,
                    std::min(chunk_rows, n_ - c * chunk_rows));
        tree.result(accumulators);
        store(p, width, accumulators);
      });
  }

  // Units of few elements, a panel of them at a time: what surrounds a tile would take longer than
  // its fold.
  void run_panels() {
    const int d = kept_.dim_of_rows();
    const int64_t inner = kept_.sizes[0], elements = n_ * inner, across = kept_.strides[0][0];
    const int64_t down = reduced_.strides[0][0], next = kept_.strides[0][d];
    const bool packed_so = across == size_ && down == inner * size_ && next == elements * size_;
    const int64_t height = std::min(tile_elements / elements, max_width / inner);
    const int64_t row = inner * itemsize(op_.load), bytes = inner * tiles_.accumulator_size;
    kept_.parallel_panels(d, height, default_grain / n_, [&](char* const* p, int64_t units) {
      alignas(64) char accumulators[max_width * widest], packed[tile_elements * widest];
      const char* x = p[0];
      int64_t row_stride = down / size_, unit_bytes = next;
      if (!direct_) {
        if (packed_so) load_strip(input_.dtype, x, size_, op_.load, packed, units * elements);
        for (int64_t u = 0; u < units && !packed_so; ++u)
          load_panel(input_.dtype, p[0] + u * next, down, across, op_.load, packed + u * n_ * row,
                     n_, inner);
        if (!fused_) reduce_prepare(op_.prepare, op_.load, packed, units * elements, op_.parameter);
        x = packed;
        row_stride = inner;
        unit_bytes = n_ * inner * itemsize(op_.element);
      }
      auto fold = direct_ ? in_place_.columns : tiles_.columns;
      for (int64_t u = 0; u < units; ++u)
        fold(x + u * unit_bytes, n_, row_stride, inner, accumulators + u * bytes);
      store(p, inner, accumulators, d, units);
    });
  }

  int64_t blocks() const { return (kept_.sizes[0] + width_ - 1) / width_; }
  int64_t units() const { return kept_.numel / kept_.sizes[0] * blocks(); }

  // A unit is up to width_ neighbouring outputs.
  template <class F>
  void at_unit(int64_t unit, F&& f) {
    int64_t begin = unit / blocks() * kept_.sizes[0] + unit % blocks() * width_;
    int64_t left = kept_.sizes[0] - unit % blocks() * width_;
    kept_.range(begin, begin + std::min(width_, left), kept_.base, f);
  }

  void reduce_chunk(char* in, int64_t width, int64_t begin, int64_t end, char* accumulators) {
    if (end - begin <= tile_rows_) return fold_tile(in, width, begin, end, accumulators);
    // Long runs that lie as the loops want them end tiles, so that none need be packed.
    int64_t run = reduced_.sizes[0];
    bool whole_runs = direct_ && run * width >= tile_elements / 16;
    Tree tree(tiles_, width, tiles_per_chunk + (whole_runs ? (end - begin) / run + 1 : 0));
    alignas(64) char tile[max_width * widest];
    for (int64_t i = begin, stop; i < end; i = stop) {
      stop = std::min(end, i + tile_rows_);
      if (whole_runs) stop = std::min(stop, i - i % run + run);
      fold_tile(in, width, i, stop, tile);
      tree.push(tile, stop - i);
    }
    tree.result(accumulators);
  }

  // Elements [begin, end) of the reduced dims, in place where they lie as the typed loops want
  // them.
  void fold_tile(char* in, int64_t width, int64_t begin, int64_t end, char* accumulators) {
    int64_t n = end - begin, first = begin % reduced_.sizes[0];
    if (direct_ && first + n <= reduced_.sizes[0]) {
      reduced_.range(begin, end, &in, [&](char* const* p, int64_t) {
        if (!columns_) in_place_.rows(p[0], n, kept_.strides[0][0] / size_, width, accumulators);
        else
          fold_columns(in_place_.columns, p[0], n, reduced_.strides[0][0] / size_, width,
                       accumulators);
      });
      return;
    }
    alignas(64) char packed[tile_elements * widest];
    if (columns_) pack_columns(in, width, begin, end, packed);
    else pack_rows(in, width, begin, end, packed);
    if (!fused_) reduce_prepare(op_.prepare, op_.load, packed, n * width, op_.parameter);
    if (!columns_) tiles_.rows(packed, n, n, width, accumulators);
    else fold_columns(tiles_.columns, packed, n, width, width, accumulators);
  }

  void pack_rows(char* in, int64_t width, int64_t begin, int64_t end, char* packed) {
    int64_t across = kept_.strides[0][0], size = itemsize(op_.load);
    int64_t down = reduced_.strides[0][0], row = reduced_.ndim > 1 ? reduced_.strides[0][1] : 0;
    if (reduced_.ndim == 1)
      return load_panel(input_.dtype, in + begin * down, across, down, op_.load, packed, width,
                        end - begin);
    for (int64_t j = 0; j < width; ++j, in += across)
      reduced_.pieces(begin, end, &in, [&](char* const* p, int64_t rows, int64_t columns) {
        load_panel(input_.dtype, p[0], row, down, op_.load, packed, rows, columns);
        packed += rows * columns * size;
      });
  }
  void pack_columns(char* in, int64_t width, int64_t begin, int64_t end, char* packed) {
    int64_t across = kept_.strides[0][0], down = reduced_.strides[0][0];
    int64_t row = width * itemsize(op_.load);
    reduced_.range(begin, end, &in, [&](char* const* p, int64_t n) {
      load_panel(input_.dtype, p[0], down, across, op_.load, packed, n, width);
      packed += n * row;
    });
  }

  // A narrow dense matrix is folded as a wider one with fewer rows, then across its groups.
  void fold_columns(decltype(Tiles::columns) fold, const char* x, int64_t n, int64_t row_stride,
                    int64_t width, char* accumulators) {
    int64_t groups = std::min(tile_width / width, n / 4);
    if (width >= 32 || row_stride != width || groups < 2 || fold != tiles_.columns)
      return fold(x, n, row_stride, width, accumulators);
    int64_t bytes = width * tiles_.accumulator_size, rows = n / groups, rest = n % groups;
    alignas(64) char wide[tile_width * widest];
    fold(x, rows, width * groups, width * groups, wide);
    for (int64_t g = 1; g < groups; ++g) tiles_.join(wide, wide + g * bytes, width, g * rows, rows);
    std::memcpy(accumulators, wide, static_cast<size_t>(bytes));
    if (!rest) return;
    fold(x + rows * groups * width * itemsize(op_.element), rest, width, width, wide);
    tiles_.join(accumulators, wide, width, rows * groups, rest);
  }

  // Finishes a row of accumulators, or as many rows as lie along dim d of what is kept.
  void store(char* const* p, int64_t width, const void* accumulators, int d = 0, int64_t rows = 1) {
    alignas(64) char results[max_width * widest], second[max_width * widest];
    if (op_.finish) {
      op_.finish(op_, accumulators, rows * width, n_, results, second);
      accumulators = results;
    }
    auto put = [&](int k, DType dtype, const void* values) {
      const int64_t *steps = kept_.strides[k], row = rows > 1 ? steps[d] : width * steps[0];
      store_panel(op_.result, values, dtype, p[k], row, steps[0], rows, width);
    };
    put(1, out_.dtype, accumulators);
    if (second_) put(2, second_->dtype, second);
  }

  const Reduction& op_;
  const View &input_, &out_;
  const View* second_;
  int64_t size_, n_ = 0, width_ = 1, tile_rows_ = 1;
  StridedIterator<3> kept_;  // input, out, second
  StridedIterator<1> reduced_;
  Tiles tiles_;
  Tiles in_place_;  // of what need not be packed
  bool columns_, direct_, fused_;
};

// The number of elements behind each output.
int64_t reduced_size(const char* name, const View& input, const View& out) {
  check(input.ndim == out.ndim, name, ": sizes ", input.shape(), " and ", out.shape(),
        " do not match");
  int64_t n = 1;
  for (int64_t d = 0; d < input.ndim; ++d) {
    check(out.sizes[d] == 1 || out.sizes[d] == input.sizes[d], name, ": sizes ", input.shape(),
          " do not reduce to ", out.shape());
    if (out.sizes[d] == 1) n *= input.sizes[d];
  }
  return n;
}

void reduce(const Reduction& op, const View& input, const View& out, const Scalar* identity,
            const View* second = nullptr) {
  int64_t n = reduced_size(op.name, input, out);
  if (out.numel == 0) return;
  if (n == 0) {
    check(identity != nullptr, op.name, ": the reduced dims of an input of sizes ", input.shape(),
          " hold no element");
    fill(out, *identity);
    if (second) fill(*second, *identity);
    return;
  }
  Reducer(op, input, out, second).run();
}

DType accumulation_dtype(DType t) {
  return is_integral_or_bool(t) ? DType::Int64 : compute_dtype(t);
}
// An extreme is one of the elements: none is made eight times as wide.
DType extreme_dtype(DType t) {
  if (t == DType::Int8) return DType::Int16;
  bool has_loops = t == DType::UInt8 || t == DType::Int16 || t == DType::Int32;
  return has_loops ? t : accumulation_dtype(t);
}

void fold(const char* name, Fold kind, DType t, const View& input, const View& out,
          const Scalar* identity, Prepare prepare = Prepare::None) {
  Reduction op{name, kind, t, t, t, prepare};
  reduce(op, input, out, identity);
}

template <class T>
void take_root(const Reduction& op, const void* accumulators, int64_t width, void* results) {
  const T* acc = static_cast<const T*>(accumulators);
  T* y = static_cast<T*>(results);
  T power = static_cast<T>(1 / op.parameter);
  for (int64_t j = 0; j < width; ++j)
    y[j] = op.parameter == 2 ? std::sqrt(acc[j]) : std::pow(acc[j], power);
}
void finish_norm(const Reduction& op, const void* accumulators, int64_t width, int64_t,
                 void* results, void*) {
  if (op.element == DType::Float64) take_root<double>(op, accumulators, width, results);
  else take_root<float>(op, accumulators, width, results);
}

template <class T, class Number>
void divide(const void* accumulators, int64_t width, int64_t n, void* results) {
  for (int64_t j = 0; j < width; ++j)
    static_cast<T*>(results)[j] = static_cast<const T*>(accumulators)[j] / static_cast<Number>(n);
}
void finish_mean(const Reduction& op, const void* accumulators, int64_t width, int64_t n,
                 void* results, void*) {
  switch (op.result) {
    case DType::Float32: return divide<float, float>(accumulators, width, n, results);
    case DType::Float64: return divide<double, double>(accumulators, width, n, results);
    case DType::Complex64:
      return divide<std::complex<float>, float>(accumulators, width, n, results);
    default: return divide<std::complex<double>, double>(accumulators, width, n, results);
  }
}

void finish_variance(const Reduction& op, const void* accumulators, int64_t width, int64_t n,
                     void* results, void* second) {
  const Moments* acc = static_cast<const Moments*>(accumulators);
  double divisor = std::max(0.0, static_cast<double>(n) - op.parameter);
  for (int64_t j = 0; j < width; ++j) {
    double squares = acc[j].squares < 0 ? 0 : acc[j].squares;  // less than 0 by rounding alone
    static_cast<double*>(results)[j] = squares / divisor;
    static_cast<double*>(second)[j] = acc[j].mean;
  }
}
void finish_deviation(const Reduction& op, const void* accumulators, int64_t width, int64_t n,
                      void* results, void* second) {
  finish_variance(op, accumulators, width, n, results, second);
  double* y = static_cast<double*>(results);
  for (int64_t j = 0; j < width; ++j) y[j] = std::sqrt(y[j]);
}

template <class T>
void take_log(const void* accumulators, int64_t width, void* results) {
  const T* acc = static_cast<const T*>(accumulators);  // {maximum, sum} each
  for (int64_t j = 0; j < width; ++j) {
    T high = std::isinf(acc[2 * j]) ? T(0) : acc[2 * j];
    static_cast<T*>(results)[j] = high + std::log(acc[2 * j + 1]);
  }
}
void finish_logsumexp(const Reduction& op, const void* accumulators, int64_t width, int64_t,
                      void* results, void*) {
  if (op.element == DType::Float64) take_log<double>(accumulators, width, results);
  else take_log<float>(accumulators, width, results);
}

// A complex view as a real one with a last dim of size 2, or a real view with one of size 1.
struct RealPairs {
  View view;
  Dims sizes, strides;
  explicit RealPairs(const View& z) : view(z), sizes(z.shape()), strides(z.stride()) {
    int64_t parts = is_complex(z.dtype) ? 2 : 1;
    for (int64_t& s : strides) s *= parts;
    sizes.push_back(parts);
    strides.push_back(1);
    view.dtype = to_real(z.dtype);
    view.sizes = sizes.data();
    view.strides = strides.data();
    view.ndim = z.ndim + 1;
    view.numel = z.numel * parts;
  }
};

// The variance of a complex variable is that of its real part plus that of its imaginary part.
void complex_variance(const View& input, double correction, bool root, const View& out,
                      const View* mean) {
  std::vector<double> parts(static_cast<size_t>(2 * out.numel)),
      total(static_cast<size_t>(out.numel));
  Dims total_strides = contiguous_strides(out.shape());
  View total_view{total.data(), out.sizes, total_strides.data(),
                  out.ndim,     out.numel, DType::Float64};
  RealPairs pairs(input), total_pairs(total_view);
  Dims part_sizes(total_pairs.sizes);
  part_sizes.back() = 2;
  Dims part_strides = contiguous_strides(part_sizes);
  View part_view{parts.data(), part_sizes.data(), part_strides.data(),
                 out.ndim + 1, 2 * out.numel,     DType::Float64};
  if (mean) {
    RealPairs mean_pairs(*mean);
    var(pairs.view, correction, false, part_view, &mean_pairs.view);
  } else {
    var(pairs.view, correction, false, part_view, nullptr);
  }
  sum(part_view, total_pairs.view);
  if (root)
    for (double& v : total) v = std::sqrt(v);
  copy(total_view, out);
}

const Scalar zero(0), one(1), no(false), yes(true);
const Scalar minus_infinity(-std::numeric_limits<double>::infinity());
const Scalar not_a_number(std::numeric_limits<double>::quiet_NaN());

}  // namespace

void sum(const View& input, const View& out) {
  if (input.dtype == DType::Bool) return count_nonzero(input, out);
  fold("sum", Fold::Sum, accumulation_dtype(input.dtype), input, out, &zero);
}
void nansum(const View& input, const View& out) {
  Prepare prepare = is_floating(input.dtype) ? Prepare::NanToZero : Prepare::None;
  fold("nansum", Fold::Sum, accumulation_dtype(input.dtype), input, out, &zero, prepare);
}
void mean(const View& input, const View& out) {
  static const Scalar of_nothing(std::complex<double>(NAN, NAN));
  DType t = accumulation_dtype(input.dtype);
  Reduction op{"mean", Fold::Sum, t, t, t};
  op.finish = finish_mean;
  reduce(op, input, out, is_complex(t) ? &of_nothing : &not_a_number);
}
void prod(const View& input, const View& out) {
  fold("prod", Fold::Prod, accumulation_dtype(input.dtype), input, out, &one);
}
void amax(const View& input, const View& out) {
  fold("amax", Fold::Max, extreme_dtype(input.dtype), input, out, nullptr);
}
void amin(const View& input, const View& out) {
  fold("amin", Fold::Min, extreme_dtype(input.dtype), input, out, nullptr);
}
void all(const View& input, const View& out) {
  fold("all", Fold::Min, DType::Bool, input, out, &yes);
}
void any(const View& input, const View& out) {
  fold("any", Fold::Max, DType::Bool, input, out, &no);
}
void count_nonzero(const View& input, const View& out) {
  Reduction op{"count_nonzero", Fold::Count, DType::Bool, DType::Bool, DType::Int64};
  reduce(op, input, out, &zero);
}

void norm(const View& input, double p, const View& out) {
  check_implemented(is_differentiable(input.dtype), "norm: not implemented for dtype ",
                    input.dtype);
  if (p == 0) return count_nonzero(input, out);
  if (input.numel == out.numel) p = 1;  // of single elements, their magnitudes
  DType load = compute_dtype(input.dtype), real = to_real(load);
  bool extreme = std::isinf(p);
  Reduction op{"norm", extreme ? p > 0 ? Fold::Max : Fold::Min : Fold::Sum, load, real, real};
  op.prepare = extreme || p == 1 ? Prepare::Absolute : p == 2 ? Prepare::Square : Prepare::Power;
  op.parameter = p;
  op.finish = extreme || p == 1 ? nullptr : finish_norm;
  reduce(op, input, out, extreme || p < 0 ? nullptr : &zero);
}

void var(const View& input, double correction, bool root, const View& out, const View* mean) {
  check_implemented(is_differentiable(input.dtype), "var: not implemented for dtype ", input.dtype);
  if (is_complex(input.dtype)) return complex_variance(input, correction, root, out, mean);
  DType element = compute_dtype(input.dtype);
  Reduction op{"var", Fold::Moments, element, element, DType::Float64};
  op.parameter = correction;
  op.finish = root ? finish_deviation : finish_variance;
  reduce(op, input, out, &not_a_number, mean);
}

void logsumexp(const View& input, const View& out) {
  check_implemented(is_floating(input.dtype), "logsumexp: not implemented for dtype ", input.dtype);
  DType element = compute_dtype(input.dtype);
  Reduction op{"logsumexp", Fold::LogSumExp, element, element, element};
  op.finish = finish_logsumexp;
  reduce(op, input, out, &minus_infinity);
}

}  // namespace rl::kernels
