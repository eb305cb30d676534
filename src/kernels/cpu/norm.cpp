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

// Row-wise access in the compute dtype: the row itself, or a copy of it.
class Rows {
 public:
  Rows(const View& v, DType element, int64_t n)
      : view_(v), element_(element), n_(n), direct_(v.dtype == element) {}
  std::unique_ptr<char[]> scratch() const {
    return std::unique_ptr<char[]>(
        direct_ ? nullptr : new char[static_cast<size_t>(n_ * itemsize(element_))]);
  }
  char* at(int64_t row) const { return view_.ptr<char>() + row * n_ * itemsize(view_.dtype); }
  const char* load(int64_t row, char* scratch) const {
    if (direct_) return at(row);
    convert_contiguous(view_.dtype, element_, at(row), scratch, n_);
    return scratch;
  }
  char* begin_store(int64_t row, char* scratch) const { return direct_ ? at(row) : scratch; }
  void end_store(int64_t row, const char* scratch) const {
    if (!direct_) convert_contiguous(element_, view_.dtype, scratch, at(row), n_);
  }

 private:
  const View& view_;
  DType element_;
  int64_t n_;
  bool direct_;
};

// What a layer, RMS or group norm is made of: `rows` rows, of which every `cycle` follow one
// another through the channels (1 for layer norm, the groups for group norm).
struct Norm {
  const char* name;
  DType element;
  int64_t rows, parts, n, cycle;
  bool centred;
  int64_t length() const { return parts * n; }
  int64_t channels() const { return parts * cycle; }
};

// A parameter in the compute dtype, or nothing.
class Parameter {
 public:
  Parameter(const Norm& norm, const View* v) {
    if (!v) return;
    check(v->numel == norm.channels(), norm.name, ": expected a parameter of ", norm.channels(),
          " elements, got sizes ", v->shape());
    data_ = v->ptr<char>();
    if (v->dtype == norm.element) return;
    converted_.reset(new char[static_cast<size_t>(v->numel * itemsize(norm.element))]);
    convert_contiguous(v->dtype, norm.element, v->data, converted_.get(), v->numel);
    data_ = converted_.get();
  }
  const char* data() const { return data_; }

 private:
  const char* data_ = nullptr;
  std::unique_ptr<char[]> converted_;
};

// The address of row r's first channel among values per channel.
template <class P>
P channels_of(const Norm& norm, P values, int64_t row) {
  return values ? values + row % norm.cycle * norm.parts * itemsize(norm.element) : nullptr;
}

int64_t rows_per_thread(const Norm& norm) {
  return std::max<int64_t>(1, default_grain / 4 / norm.length());
}

void forward(const Norm& norm, const View& input, const View* weight, const View* bias, double eps,
             const View& out, const View* mean, const View& rstd) {
  if (input.numel == 0) return;
  Parameter w(norm, weight), b(norm, bias);
  Rows in(input, norm.element, norm.length()), result(out, norm.element, norm.length());
  int64_t size = itemsize(norm.element);
  parallel_for(0, norm.rows, rows_per_thread(norm), [&](int64_t begin, int64_t end) {
    auto in_scratch = in.scratch(), out_scratch = result.scratch();
    for (int64_t r = begin; r < end; ++r) {
      double unused;
      void* m = mean ? mean->ptr<char>() + r * size : reinterpret_cast<char*>(&unused);
      void* s = rstd.ptr<char>() + r * size;
      NormRow row{norm.centred,
                  norm.element,
                  norm.parts,
                  norm.n,
                  channels_of(norm, w.data(), r),
                  channels_of(norm, b.data(), r)};
      const char* x = in.load(r, in_scratch.get());
      norm_statistics(row, x, eps, m, s);
      norm_forward(row, x, m, s, result.begin_store(r, out_scratch.get()));
      result.end_store(r, out_scratch.get());
    }
  });
}

// Rows are shared out in chunks whose number depends on the sizes alone; each chunk has its own
// sums for the parameter gradients.
class Backward {
 public:
  Backward(const Norm& norm, const View& grad, const View& input, const View* mean,
           const View& rstd, const View* weight, const View* grad_input)
      : norm_(norm),
        w_(norm, weight),
        mean_(mean),
        rstd_(rstd),
        grad_input_(grad_input),
        g_(grad, norm.element, norm.length()),
        x_(input, norm.element, norm.length()),
        gx_(grad_input ? *grad_input : input, norm.element, norm.length()) {
    int64_t least = std::max<int64_t>(norm.cycle, 32768 / norm.length());
    int64_t per_chunk = std::max(least, (norm.rows + max_chunks - 1) / max_chunks);
    rows_per_chunk_ = (per_chunk + norm.cycle - 1) / norm.cycle * norm.cycle;
    chunks_ = (norm.rows + rows_per_chunk_ - 1) / rows_per_chunk_;
  }

  void run(const View* grad_weight, const View* grad_bias) {
    int64_t bytes = chunks_ * norm_.channels() * itemsize(norm_.element);
    std::unique_ptr<char[]> weights(grad_weight ? new char[static_cast<size_t>(bytes)]() : nullptr);
    std::unique_ptr<char[]> biases(grad_bias ? new char[static_cast<size_t>(bytes)]() : nullptr);
    parallel_for(0, chunks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) run_chunk(c, weights.get(), biases.get());
    });
    if (grad_weight) add_chunks(weights.get(), *grad_weight);
    if (grad_bias) add_chunks(biases.get(), *grad_bias);
  }

 private:
  void run_chunk(int64_t chunk, char* weights, char* biases) {
    auto g_scratch = g_.scratch(), x_scratch = x_.scratch(), gx_scratch = gx_.scratch();
    int64_t size = itemsize(norm_.element), offset = chunk * norm_.channels() * size;
    int64_t begin = chunk * rows_per_chunk_, end = std::min(norm_.rows, begin + rows_per_chunk_);
    const double zero = 0;
    for (int64_t r = begin; r < end; ++r) {
      NormRow row{
          norm_.centred, norm_.element, norm_.parts, norm_.n, channels_of(norm_, w_.data(), r),
          nullptr};
      const void* mean =
          mean_ ? mean_->ptr<char>() + r * size : reinterpret_cast<const char*>(&zero);
      norm_gradient(row, g_.load(r, g_scratch.get()), x_.load(r, x_scratch.get()), mean,
                    rstd_.ptr<char>() + r * size,
                    grad_input_ ? gx_.begin_store(r, gx_scratch.get()) : nullptr,
                    channels_of(norm_, weights ? weights + offset : nullptr, r),
                    channels_of(norm_, biases ? biases + offset : nullptr, r));
      if (grad_input_) gx_.end_store(r, gx_scratch.get());
    }
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
  return {name, element, rows, length, 1, 1, centred};
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
