#include "kernels/norm.h"

#include <algorithm>
#include <memory>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/norm_tiles.h"
#include "kernels/cpu/strip.h"
#include "kernels/reduce.h"

namespace rl::kernels {
namespace {

constexpr int64_t max_chunks = 16;  // partial sums of the parameter gradients
constexpr int64_t elements_at_once = 1024;

// What a layer, RMS or group norm is made of: `rows` rows, of which every `cycle` follow one
// another through the channels (1 for layer norm, the groups for group norm).
struct Norm {
  const char* name;
  DType element;
  int64_t rows, parts, n, cycle;
  bool centred, converts;
  int64_t length() const { return parts * n; }
  int64_t channels() const { return parts * cycle; }
  // That have the same channels; of such as are converted, as few as stay in the first-level cache.
  int64_t rows_at_once() const {
    if (cycle != 1) return 1;
    return converts ? std::max<int64_t>(1, elements_at_once / length()) : rows;
  }
  // Of row r's first channel, in bytes among values per channel.
  int64_t channel_offset(int64_t r) const { return r % cycle * parts * itemsize(element); }
};

// Access to rows in the compute dtype: where they lie, or to a copy of those that are asked for.
class Rows {
 public:
  Rows(const View& v, const Norm& norm) : view_(v), norm_(norm), direct_(v.dtype == norm.element) {}
  std::unique_ptr<char[]> scratch() const {
    int64_t bytes = norm_.rows_at_once() * norm_.length() * itemsize(norm_.element);
    return std::unique_ptr<char[]>(direct_ ? nullptr : new char[static_cast<size_t>(bytes)]);
  }
  char* at(int64_t row) const {
    return view_.ptr<char>() + row * norm_.length() * itemsize(view_.dtype);
  }
  const char* load(int64_t row, int64_t count, char* scratch) const {
    if (direct_) return at(row);
    convert_contiguous(view_.dtype, norm_.element, at(row), scratch, count * norm_.length());
    return scratch;
  }
  char* begin_store(int64_t row, char* scratch) const { return direct_ ? at(row) : scratch; }
  void end_store(int64_t row, int64_t count, const char* scratch) const {
    if (direct_) return;
    convert_contiguous(norm_.element, view_.dtype, scratch, at(row), count * norm_.length());
  }

 private:
  const View& view_;
  const Norm& norm_;
  bool direct_;
};

// A parameter in the compute dtype; `missing` throughout where there is none.
class Parameter {
 public:
  Parameter(const Norm& norm, const View* v, double missing) {
    check(!v || v->numel == norm.channels(), norm.name, ": expected a parameter of ",
          norm.channels(), " elements, got sizes ", v ? v->shape() : IntSpan());
    if (v && v->dtype == norm.element) {
      data_ = v->ptr<char>();
      return;
    }
    int64_t channels = norm.channels(), one = 1;
    converted_.reset(new char[static_cast<size_t>(channels * itemsize(norm.element))]);
    data_ = converted_.get();
    if (v) convert_contiguous(v->dtype, norm.element, v->data, data_, channels);
    else fill({data_, &channels, &one, 1, channels, norm.element}, Scalar(missing));
  }
  const char* data() const { return data_; }

 private:
  char* data_;
  std::unique_ptr<char[]> converted_;
};

// f(r, rows) for the rows from begin to end, rows.count of them from r on.
template <class F>
void for_rows(const Norm& norm, int64_t begin, int64_t end, const Parameter& weight,
              const Parameter& bias, F&& f) {
  for (int64_t r = begin, count; r < end; r += count) {
    count = std::min(norm.rows_at_once(), end - r);
    int64_t offset = norm.channel_offset(r);
    f(r, NormRows{norm.centred, norm.element, count, norm.parts, norm.n, weight.data() + offset,
                  bias.data() + offset});
  }
}

// The address of row r's statistic.
char* of_row(const Norm& norm, const View* statistics, int64_t r) {
  return statistics ? statistics->ptr<char>() + r * itemsize(norm.element) : nullptr;
}

void forward(const Norm& norm, const View& input, const View* weight, const View* bias, double eps,
             const View& out, const View* mean, const View& rstd) {
  if (input.numel == 0) return;
  Parameter w(norm, weight, 1), b(norm, bias, 0);
  Rows in(input, norm), result(out, norm);
  int64_t grain = std::max<int64_t>(1, default_grain / 4 / norm.length());
  parallel_for(0, norm.rows, grain, [&](int64_t begin, int64_t end) {
    auto in_scratch = in.scratch(), out_scratch = result.scratch();
    for_rows(norm, begin, end, w, b, [&](int64_t r, const NormRows& rows) {
      norm_forward(rows, in.load(r, rows.count, in_scratch.get()), eps,
                   result.begin_store(r, out_scratch.get()), of_row(norm, mean, r),
                   of_row(norm, &rstd, r));
      result.end_store(r, rows.count, out_scratch.get());
    });
  });
}

// Rows are shared out in chunks whose number depends on the sizes alone; each chunk has its own
// sums for the parameter gradients.
class Backward {
 public:
  Backward(const Norm& norm, const View& grad, const View& input, const View* mean,
           const View& rstd, const View* weight, const View* grad_input)
      : norm_(norm),
        w_(norm, weight, 1),
        mean_(mean),
        rstd_(rstd),
        grad_input_(grad_input),
        g_(grad, norm),
        x_(input, norm),
        gx_(grad_input ? *grad_input : input, norm) {
    int64_t least = std::max<int64_t>(norm.cycle, 32768 / norm.length());
    int64_t per_chunk = std::max(least, (norm.rows + max_chunks - 1) / max_chunks);
    rows_per_chunk_ = (per_chunk + norm.cycle - 1) / norm.cycle * norm.cycle;
    chunks_ = (norm.rows + rows_per_chunk_ - 1) / rows_per_chunk_;
  }

  void run(const View* grad_weight, const View* grad_bias) {
    int64_t bytes = chunks_ * norm_.channels() * itemsize(norm_.element);
    std::unique_ptr<char[]> weights(new char[static_cast<size_t>(bytes)]());
    std::unique_ptr<char[]> biases(new char[static_cast<size_t>(bytes)]());
    parallel_for(0, chunks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) run_chunk(c, weights.get(), biases.get());
    });
    if (grad_weight) add_chunks(weights.get(), *grad_weight);
    if (grad_bias) add_chunks(biases.get(), *grad_bias);
  }

 private:
  void run_chunk(int64_t chunk, char* weights, char* biases) {
    auto g_scratch = g_.scratch(), x_scratch = x_.scratch(), gx_scratch = gx_.scratch();
    int64_t sums = chunk * norm_.channels() * itemsize(norm_.element);
    int64_t begin = chunk * rows_per_chunk_, end = std::min(norm_.rows, begin + rows_per_chunk_);
    for_rows(norm_, begin, end, w_, w_, [&](int64_t r, const NormRows& rows) {
      int64_t offset = sums + norm_.channel_offset(r);
      const char* g = g_.load(r, rows.count, g_scratch.get());
      norm_gradient(rows, g, x_.load(r, rows.count, x_scratch.get()), of_row(norm_, mean_, r),
                    of_row(norm_, &rstd_, r),
                    grad_input_ ? gx_.begin_store(r, gx_scratch.get()) : nullptr, weights + offset,
                    biases + offset);
      if (grad_input_) gx_.end_store(r, rows.count, gx_scratch.get());
    });
  }

  void add_chunks(char* partial, const View& out) {
    int64_t channels = norm_.channels(), sizes[2] = {chunks_, channels}, strides[2] = {channels, 1};
    int64_t out_sizes[2] = {1, channels};
    sum({partial, sizes, strides, 2, chunks_ * channels, norm_.element},
        {out.data, out_sizes, strides, 2, channels, out.dtype});
  }

  const Norm& norm_;
  Parameter w_;
  const View* mean_;
  const View& rstd_;
  const View* grad_input_;
  Rows g_, x_, gx_;
  int64_t rows_per_chunk_, chunks_;
};

void backward(const Norm& norm, const View& grad, const View& input, const View* mean,
              const View& rstd, const View* weight, const View* grad_input, const View* grad_weight,
              const View* grad_bias) {
  if (input.numel == 0) {
    if (grad_weight) fill(*grad_weight, 0);
    if (grad_bias) fill(*grad_bias, 0);
    return;
  }
  Backward(norm, grad, input, mean, rstd, weight, grad_input).run(grad_weight, grad_bias);
}

Norm row_norm(const char* name, const View& input, const View& rstd, bool centred) {
  check_implemented(is_floating(input.dtype), name, ": not implemented for dtype ", input.dtype);
  DType element = compute_dtype(input.dtype);
  check(rstd.dtype == element, name, ": statistics must have dtype ", element, ", got ",
        rstd.dtype);
  int64_t rows = rstd.numel, length = rows ? input.numel / rows : 0;
  check(rows * length == input.numel, name, ": ", rows, " rows do not divide an input of sizes ",
        input.shape());
  return {name, element, rows, length, 1, 1, centred, element != input.dtype};
}

Norm grouped_norm(const char* name, const View& input, const View& rstd) {
  Norm norm = row_norm(name, input, rstd, true);
  check(
      input.ndim >= 2 && rstd.ndim == 2 && rstd.sizes[1] > 0 && input.sizes[1] % rstd.sizes[1] == 0,
      name,
      ": Expected number of channels in input to be divisible by num_groups, but got input of "
      "shape ",
      input.shape(), " and statistics of shape ", rstd.shape());
  norm.cycle = rstd.sizes[1];
  norm.parts = input.sizes[1] / norm.cycle;
  norm.n = input.numel ? input.numel / (norm.rows * norm.parts) : 0;
  return norm;
}

}  // namespace

void layer_norm(const View& input, const View* weight, const View* bias, double eps,
                const View& out, const View& mean, const View& rstd) {
  forward(row_norm("layer_norm", input, rstd, true), input, weight, bias, eps, out, &mean, rstd);
}
void layer_norm_backward(const View& grad, const View& input, const View& mean, const View& rstd,
                         const View* weight, const View* grad_input, const View* grad_weight,
                         const View* grad_bias) {
  backward(row_norm("layer_norm_backward", input, rstd, true), grad, input, &mean, rstd, weight,
           grad_input, grad_weight, grad_bias);
}

void rms_norm(const View& input, const View* weight, double eps, const View& out,
              const View& rstd) {
  forward(row_norm("rms_norm", input, rstd, false), input, weight, nullptr, eps, out, nullptr,
          rstd);
}
void rms_norm_backward(const View& grad, const View& input, const View& rstd, const View* weight,
                       const View* grad_input, const View* grad_weight) {
  backward(row_norm("rms_norm_backward", input, rstd, false), grad, input, nullptr, rstd, weight,
           grad_input, grad_weight, nullptr);
}

void group_norm(const View& input, const View* weight, const View* bias, double eps,
                const View& out, const View& mean, const View& rstd) {
  forward(grouped_norm("group_norm", input, rstd), input, weight, bias, eps, out, &mean, rstd);
}
void group_norm_backward(const View& grad, const View& input, const View& mean, const View& rstd,
                         const View* weight, const View* grad_input, const View* grad_weight,
                         const View* grad_bias) {
  backward(grouped_norm("group_norm_backward", input, rstd), grad, input, &mean, rstd, weight,
           grad_input, grad_weight, grad_bias);
}

}  // namespace rl::kernels
