// Sorting and searching.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/cuda/lines.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/radix.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/sort.h"

namespace rl::cuda {

RL_CUDA_KERNEL(amin);
RL_CUDA_KERNEL(amax);
RL_CUDA_KERNEL(random_natural);

namespace {

constexpr const char* header = "kernels/cuda/device/order.cuh";
constexpr int64_t most_in_block = 1024;  // pairs that one block sorts in shared memory

KernelTemplate loads(header), in_blocks(header), stores(header), medians(header), modes(header),
    bin_counts(header), searches(header), value_counts(header);

uint64_t of(DType t) { return static_cast<uint64_t>(t); }

// Rows of `length` elements in scratch memory.
Strided rows_in_scratch(const Scratch& memory, int64_t rows, int64_t length, DType dtype) {
  Strided v{};
  v.data = memory.get();
  v.numel = v.sizes[0] = rows;
  v.ndim = 1;
  v.dtype = static_cast<int>(dtype);
  v.strides[0] = length;
  return v;
}
LineTarget target(const View* v, int64_t dim, const char* op) {
  int64_t unused;
  LineTarget to{};
  if (v) to.lines = lines_of(*v, dim, unused, to.step, op);
  return to;
}

// All lines along a dim, sorted, in scratch memory; where `take` is given, no more than so many
// first elements of each.
class SortedLines {
 public:
  SortedLines(const Context& context, const char* op, const View& input, int64_t dim,
              bool descending, int64_t take = -1)
      : device_(context.device.index), op_(op), dtype_(input.dtype), descending_(descending) {
    use(device_);
    int64_t step;
    Strided lines = lines_of(input, dim, count_, step, op);
    rows_ = lines.numel;
    if (!rows_ || !count_ || !take) return;
    LongLines given{device_, op_, dtype_, lines, count_, step, descending};
    if (count_ <= most_in_block) sort_short(lines, step);
    else if (take > 0 && take <= count_ / 4) sort_selected(context, given, take);
    else radix_.emplace(context, given);
  }

  // The `take` pairs from `first` on.
  void store(const View* values, const View& indices, int64_t dim, int64_t first, int64_t take) {
    if (!rows_ || !take) return;
    LineTarget v = target(values, dim, op_), i = target(&indices, dim, op_);
    if (radix_) {
      const int64_t* through = places_ ? places_->get<int64_t>() : nullptr;
      return radix_->store(first, take, through, v, i);
    }
    void *keys = keys_->get(), *places = places_->get();
    CUfunction f =
        stores.get(of(dtype_), device_, op_, [&] { return instance("store_pairs", dtype_); });
    launch_elements(f, device_, op_, rows_ * take, keys, places, padded_, first, take, v.lines,
                    v.step, i.lines, i.step);
  }
  void store_medians(const View& values, const View& indices, int64_t dim, bool ignore_nan) {
    if (!rows_ || !count_) return;
    int64_t unused, step;
    Strided i = lines_of(indices, dim, unused, step, op_),
            v = lines_of(values, dim, unused, step, op_);
    void *keys = keys_->get(), *places = places_->get();
    CUfunction f =
        medians.get(of(dtype_), device_, op_, [&] { return instance("store_medians", dtype_); });
    launch_elements(f, device_, op_, rows_, keys, places, count_, padded_,
                    static_cast<int>(ignore_nan), v, i);
  }
  void store_modes(const View& values, const View& indices, int64_t dim) {
    if (!rows_ || !count_) return;
    if (radix_) unpack();
    int64_t unused, step;
    Strided i = lines_of(indices, dim, unused, step, op_),
            v = lines_of(values, dim, unused, step, op_);
    void *keys = keys_->get(), *places = places_->get();
    CUfunction f =
        modes.get(of(dtype_), device_, op_, [&] { return instance("store_modes", dtype_); });
    launch_elements(f, device_, op_, rows_, keys, places, count_, padded_, v, i);
  }
  int64_t count() const { return count_; }

 private:
  // Pairs of lines of `length`, rounded up to a power of two if `padded`.
  void allocate(int64_t length, bool padded) {
    padded_ = padded ? 1 : length;
    while (padded_ < length) padded_ *= 2;
    keys_.emplace(static_cast<size_t>(rows_ * padded_ * itemsize(dtype_)), device_);
    places_.emplace(static_cast<size_t>(rows_ * padded_ * 8), device_);
  }
  LineTarget keys_target() { return {rows_in_scratch(*keys_, rows_, padded_, dtype_), 1}; }
  LineTarget places_target() {
    return {rows_in_scratch(*places_, rows_, padded_, DType::Int64), 1};
  }
  void sort_short(const Strided& lines, int64_t step) {
    allocate(count_, true);
    CUfunction f =
        loads.get(of(dtype_), device_, op_, [&] { return instance("load_pairs", dtype_); });
    launch_elements(f, device_, op_, rows_ * padded_, lines, count_, step, padded_, keys_->get(),
                    places_->get());
    sort_in_blocks();
  }
  void sort_in_blocks() {
    CUfunction f = in_blocks.get(of(dtype_), device_, op_, [&] {
      return instance("sort_lines", dtype_, static_cast<int>(most_in_block));
    });
    unsigned threads = static_cast<unsigned>(std::clamp<int64_t>(padded_, 32, block_threads));
    launch_kernel(f, device_, op_, blocks_of_rows(rows_), Grid{threads}, 0, keys_->get(),
                  places_->get(), rows_, padded_, static_cast<int>(descending_));
  }
  void sort_selected(const Context& context, const LongLines& given, int64_t take) {
    bool in_block = take <= most_in_block;
    allocate(take, in_block);
    RadixSelect(context, given, SelectRank, take - 1, {take, padded_, 0, in_block})
        .store(keys_target(), places_target());
    if (in_block) return sort_in_blocks();
    radix_.emplace(context,
                   LongLines{device_, op_, dtype_, keys_target().lines, take, 1, descending_});
  }
  void unpack() {
    allocate(count_, false);
    radix_->store(0, count_, nullptr, keys_target(), places_target());
  }

  int device_;
  const char* op_;
  DType dtype_;
  bool descending_;
  int64_t count_ = 0, rows_ = 0, padded_ = 1;
  std::optional<Scratch> keys_, places_;
  std::optional<RadixSort> radix_;
};

// One element of each long line: that of a rank, or the median.
void select(const Context& context, const char* op, const View& input, int64_t dim, SelectKind kind,
            int64_t rank, const View& values, const View& indices) {
  use(context.device.index);
  if (!indices.numel) return;
  LongLines given{context.device.index, op, input.dtype, {}, 0, 0, false};
  given.lines = lines_of(input, dim, given.count, given.step, op);
  RadixSelect(context, given, kind, rank, {1, 0, 1, 0})
      .store(target(&values, dim, op), target(&indices, dim, op));
}
int64_t length_of(const View& v, int64_t dim) { return v.ndim ? v.sizes[dim] : 1; }

}  // namespace

void sort(const Context& c, const View& input, int64_t dim, bool descending, const View* values,
          const View& indices) {
  SortedLines lines(c, "sort", input, dim, descending);
  lines.store(values, indices, dim, 0, lines.count());
}
void topk(const Context& c, const View& input, int64_t dim, int64_t k, bool largest,
          const View& values, const View& indices) {
  int64_t size = length_of(input, dim);
  check(k >= 0 && k <= size, "topk: selected index k out of range, got k=", k,
        " for a dimension of size ", size);
  SortedLines(c, "topk", input, dim, largest, k).store(&values, indices, dim, 0, k);
}
void kthvalue(const Context& c, const View& input, int64_t dim, int64_t k, const View& values,
              const View& indices) {
  int64_t size = length_of(input, dim);
  check(k >= 1 && k <= size, "kthvalue: selected number k out of range for dimension ", dim,
        ", got k=", k, " for size ", size);
  if (size > most_in_block)
    return select(c, "kthvalue", input, dim, SelectRank, k - 1, values, indices);
  SortedLines(c, "kthvalue", input, dim, false).store(&values, indices, dim, k - 1, 1);
}
void median(const Context& c, const View& input, int64_t dim, bool ignore_nan, const View& values,
            const View& indices) {
  if (length_of(input, dim) > most_in_block)
    return select(c, "median", input, dim, ignore_nan ? SelectMedianOfNumbers : SelectMedian, 0,
                  values, indices);
  SortedLines(c, "median", input, dim, false).store_medians(values, indices, dim, ignore_nan);
}

void mode(const Context& c, const View& input, int64_t dim, const View& values,
          const View& indices) {
  check_index(length_of(input, dim) > 0 || !indices.numel, "mode: Expected reduction dim ", dim,
              " to have non-zero size.");
  SortedLines(c, "mode", input, dim, false).store_modes(values, indices, dim);
}

void searchsorted(const Context& context, const View& sorted, const View& values, bool right,
                  const View* sorter, const View& out) {
  int device = context.device.index;
  use(device);
  if (!values.numel) return;
  int64_t length = sorted.sizes[sorted.ndim - 1], rows = length ? sorted.numel / length : 1;
  int64_t each = values.ndim ? values.sizes[values.ndim - 1] : 1;
  void* order = sorter ? sorter->data : nullptr;
  CUfunction f = searches.get(of(sorted.dtype), device, "searchsorted",
                              [&] { return instance("search_sorted", sorted.dtype); });
  launch_elements(f, device, "searchsorted", values.numel, sorted.data, length, rows, order,
                  values.data, each, values.numel, static_cast<int>(right), out.data,
                  static_cast<int>(out.dtype));
}

int64_t bincount_size(const Context& context, const View& input) {
  check(input.ndim == 1 && is_integral(input.dtype),
        "bincount only supports 1-d non-negative integral inputs.");
  if (!input.numel) return 0;
  ScratchView extremes(Dims{1}, DType::Int64, context.device.index);
  amin(context, input, extremes);
  int64_t least = read_back<int64_t>(context, extremes.view().data);
  check(least >= 0, "bincount only supports 1-d non-negative integral inputs.");
  amax(context, input, extremes);
  return read_back<int64_t>(context, extremes.view().data) + 1;
}
void bincount(const Context& context, const View& input, const View* weights, const View& out) {
  int device = context.device.index;
  use(device);
  fill(context, out, Scalar(0));
  if (!input.numel) return;
  CUfunction f = value_counts.get(of(input.dtype) * dtype_count + of(out.dtype), device, "bincount",
                                  [&] { return instance("count_values", input.dtype, out.dtype); });
  launch_elements(f, device, "bincount", input.numel, strided_as_is(input, "bincount"),
                  weights ? strided_as_is(*weights, "bincount") : Strided{}, out.data, out.numel,
                  faults(device, "bincount"));
}

namespace {
// The least and the greatest element.
std::pair<double, double> range_of(const Context& context, const View& input) {
  ScratchView extreme(Dims(input.ndim, 1), input.dtype, context.device.index);
  ScratchView wide(Dims{1}, DType::Float64, context.device.index);
  auto read = [&](auto reduction) {
    reduction(context, input, extreme);
    View one = extreme.view(), to = wide.view();
    one.ndim = to.ndim = 0;
    copy(context, one, to);
    return read_back<double>(context, to.data);
  };
  double low = read(amin);
  return {low, read(amax)};
}
}  // namespace

void histc(const Context& context, const View& input, double low, double high, const View& out) {
  int device = context.device.index;
  use(device);
  check_implemented(is_floating(input.dtype), "histc: not implemented for dtype ", input.dtype);
  check(out.numel > 0, "histc: bins must be > 0, but got ", out.numel);
  if (low == high && input.numel > 0) std::tie(low, high) = range_of(context, input);
  check(std::isfinite(low) && std::isfinite(high), "histc: range of [", low, ", ", high,
        "] is not finite");
  if (low == high) {
    low -= 1;
    high += 1;
  }
  check(low < high, "histc: max must be larger than min, got [", low, ", ", high, "]");
  ScratchView counts(Dims{out.numel}, DType::Int64, device);
  set_zero(context, counts.view().data, static_cast<size_t>(out.numel) * 8);
  if (input.numel) {
    bool wide = input.dtype == DType::Float64;
    CUfunction f = bin_counts.get(of(input.dtype), device, "histc", [&] {
      return instance("count_bins", input.dtype, wide ? DType::Float64 : DType::Float32);
    });
    Strided x = strided_as_is(input, "histc");
    if (wide)
      launch_elements(f, device, "histc", input.numel, x, counts.view().data, out.numel, low, high);
    else
      launch_elements(f, device, "histc", input.numel, x, counts.view().data, out.numel,
                      static_cast<float>(low), static_cast<float>(high));
  }
  copy(context, counts, out);
}

// The order in which random numbers sort.
void randperm(const Context& context, const View& out, Generator& generator) {
  if (!out.numel) return;
  ScratchView keys(Dims{out.numel}, DType::Int64, context.device.index);
  random_natural(context, keys, generator);
  ScratchView order(Dims{out.numel}, DType::Int64, context.device.index);
  sort(context, keys, 0, false, nullptr, order);
  copy(context, order, out);
}

}  // namespace rl::cuda
