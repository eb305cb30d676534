// Short lines are transformed by mixed radices, one line in each lane of vectors. Of a longer line
// of n = rows * columns points the columns are such lines, and then the rows (Gentleman and Sande,
// "Fast Fourier transforms: for fun and profit", 1966). Lengths with a large prime factor go
// through a convolution (Bluestein, "A linear filtering approach to the computation of the discrete
// Fourier transform", 1970), and real lines through complex ones of half their length.
#include "kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <memory>
#include <vector>

#include "core/fork_mutex.h"
#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/fft_lines.h"
#include "kernels/cpu/interruptible.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

constexpr int64_t split_from = 128;          // points of a line: below, lines share vectors
constexpr int64_t most_block_points = 4096;  // of a line among others: 1 MB of scratch

void transform(const FftLines<float>& job) { fft_lines_of_floats(job); }
void transform(const FftLines<double>& job) { fft_lines_of_doubles(job); }
void mix_pairs(const FftPairs<float>& job) { fft_pairs_of_floats(job); }
void mix_pairs(const FftPairs<double>& job) { fft_pairs_of_doubles(job); }
void multiply(const float* x, const float* y, float* to, int64_t n) {
  multiply_float_pairs(x, y, to, n);
}
void multiply(const double* x, const double* y, double* to, int64_t n) {
  multiply_double_pairs(x, y, to, n);
}

// exp(-2 pi i t / n) for many t: products of two out of 2 sqrt(n), as sines cost more than that.
class Roots {
 public:
  explicit Roots(int64_t n) : side_(1) {
    while (side_ * side_ < n) ++side_;
    for (int64_t t = 0; t < side_; ++t) {
      fine_.push_back(root(t, n));
      coarse_.push_back(root(t * side_, n));
    }
  }
  // Its parts are multiplied one by one: std::complex would look for infinities each time.
  template <class R> void append(int64_t t, std::vector<R>& to) const {
    const Root &a = coarse_[static_cast<size_t>(t / side_)],
               &b = fine_[static_cast<size_t>(t % side_)];
    to.push_back(static_cast<R>(a.real() * b.real() - a.imag() * b.imag()));
    to.push_back(static_cast<R>(a.real() * b.imag() + a.imag() * b.real()));
  }

 private:
  using Root = std::complex<long double>;
  static Root root(int64_t t, int64_t n) {
    long double angle = -2 * 3.14159265358979323846264338327950288L * static_cast<long double>(t) /
                        static_cast<long double>(n);
    return {std::cos(angle), std::sin(angle)};
  }
  int64_t side_;
  std::vector<Root> fine_, coarse_;
};

// Rows of complex numbers, `in_line` and `out_line` numbers R apart.
template <class R>
FftLines<R> rows_of(const R* in, int64_t in_line, R* out, int64_t out_line, int64_t lines,
                    bool inverse, R scale) {
  return {in, in_line, 2, 1, out, out_line, 2, 1, lines, inverse, inverse, scale};
}

template <class R> class Plan;
template <class R> std::shared_ptr<const Plan<R>> plan_for(int64_t n);

template <class R> class Plan {
 public:
  explicit Plan(int64_t n) : n_(n) {
    find_half_turns();
    if (!find_radices()) {
      prepare_convolution();
      return;
    }
    Roots roots(n);
    int64_t rows = n < split_from ? 1 : middle_divisor();
    if (rows > 1) {
      columns_ = plan_for<R>(rows);
      rows_ = plan_for<R>(n / rows);
      turns_.reserve(2 * n);
      Interruption interruption;  // these are most of the time of a long line
      for (int64_t k = 0; k < rows; ++k) {
        interruption.poll();
        for (int64_t j = 0; j < n / rows; ++j) roots.append(j * k, turns_);
      }
    }
    if (rows == 1 || n <= most_block_points)
      for (int64_t t = 0; t < n; ++t) roots.append(t, roots_);
  }

  int64_t size() const { return n_; }
  size_t bytes() const {
    return (roots_.size() + turns_.size() + half_turns_.size() + chirp_.size() + filter_.size()) *
           sizeof(R);
  }

  // What is asked for, but for what the plan knows.
  void run(FftLines<R> job) const {
    job.points = n_;
    if (convolution_) return convolve(job);
    if (takes_rows(job)) return by_columns_and_rows(job);
    if (roots_.empty()) return through_rows(job);
    job.radices = radices_.data();
    job.radix_count = static_cast<int64_t>(radices_.size());
    job.roots = roots_.data();
    if (job.scratch) return transform(job);
    each_chunk(job, most_fft_lanes, [&](FftLines<R> chunk) {
      Buffer<R> scratch(scratch_of(n_));
      chunk.scratch = scratch.data();
      transform(chunk);
    });
  }

  // Does a line of such a job share vectors with others?
  bool shares_lanes(const FftLines<R>& job) const {
    return !convolution_ && !takes_rows(job) && !roots_.empty();
  }

  // exp(-2 pi i k / (2 n)) times -i, for k <= n / 2.
  const R* half_turns() const { return half_turns_.data(); }

 private:
  static constexpr int64_t lanes = most_fft_lanes * sizeof(float) / sizeof(R);
  static int64_t scratch_of(int64_t points) { return 4 * (points + 1) * most_fft_lanes; }
  static bool is_row(int64_t step, int64_t imag) { return step == 2 && imag == 1; }
  bool takes_rows(const FftLines<R>& job) const {
    bool as_rows = is_row(job.in_step, job.in_imag) && is_row(job.out_step, job.out_imag);
    return rows_ && as_rows && (columns_->n_ >= lanes || job.lines < lanes);
  }

  // Does the length have no larger prime factors?
  bool find_radices() {
    int64_t rest = n_, twos = 0;
    for (; rest % 2 == 0; rest /= 2) ++twos;
    for (; twos % 3 == 1 && twos > 1; twos -= 2) radices_.push_back(4);
    if (twos % 3) radices_.push_back(1 << twos % 3);
    for (; twos >= 3; twos -= 3) radices_.push_back(8);
    for (int64_t radix = 3; radix <= largest_fft_radix; radix += 2)
      for (; rest % radix == 0; rest /= radix) radices_.push_back(radix);
    return rest == 1;
  }
  void find_half_turns() {
    Roots roots(2 * n_);
    half_turns_.reserve(2 * (n_ / 2 + 1));
    interruptible_for(n_ / 2 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        roots.append(k, half_turns_);
        R* turn = half_turns_.data() + 2 * k;
        std::swap(turn[0], turn[1]);
        turn[1] = -turn[1];
      }
    });
  }
  int64_t middle_divisor() const {
    int64_t d = static_cast<int64_t>(std::sqrt(static_cast<double>(n_)));
    while (n_ % d) --d;
    return d;
  }

  // f on chunks of the lines, of whole numbers of `unit` lines.
  template <class F> void each_chunk(const FftLines<R>& job, int64_t unit, F&& f) const {
    int64_t grain = default_grain / (4 * n_ * unit) * unit;
    grain = std::max(grain, unit);
    parallel_for(0, job.lines, grain, [&](int64_t begin, int64_t end) {
      FftLines<R> chunk = job;
      chunk.in += begin * job.in_line;
      chunk.out += begin * job.out_line;
      if (job.factors) chunk.factors += begin * job.out_line;
      chunk.lines = end - begin;
      f(chunk);
    });
  }

  // The line as a matrix of columns_->n_ rows and rows_->n_ columns: point j of column c is j
  // rows_->n_ + c. Its result k + columns_->n_ * p is result p of row k of the columns' results.
  void by_columns_and_rows(const FftLines<R>& job) const {
    int64_t height = columns_->n_, width = rows_->n_;
    bool small = n_ < split_from * split_from / 2;  // then its parts are short and share no threads
    each_chunk(job, 1, [&](FftLines<R> chunk) {
      Buffer<R> between(2 * n_), scratch(small ? scratch_of(width) : 0);
      chunk.scratch = small ? scratch.data() : nullptr;
      for (int64_t line = 0; line < chunk.lines; ++line) {
        FftLines<R> part = chunk;
        part.in = chunk.in + line * chunk.in_line;
        part.in_line = 2;
        part.in_step = 2 * width;
        part.out = between.data();
        part.out_line = 2;
        part.out_step = 2 * width;
        part.factors = turns_.data();
        part.lines = width;
        part.turned_out = false;
        part.scale = 1;
        columns_->run(part);
        part.in = between.data();
        part.in_line = 2 * width;
        part.in_step = 2;
        part.out = chunk.out + line * chunk.out_line;
        part.out_step = 2 * height;
        part.factors = chunk.factors ? chunk.factors + line * chunk.out_line : nullptr;
        part.lines = height;
        part.turned_in = false;
        part.turned_out = chunk.turned_out;
        part.scale = chunk.scale;
        rows_->run(part);
      }
    });
  }

  // Long lines beside one another, and results wherever they belong.
  void through_rows(const FftLines<R>& job) const {
    each_chunk(job, 1, [&](FftLines<R> chunk) {
      Buffer<R> row(2 * n_);
      for (int64_t line = 0; line < chunk.lines; ++line) {
        fetch(chunk, line, row.data());
        FftLines<R> part = chunk;
        part.in = part.out = row.data();
        part.in_step = part.out_step = 2;
        part.in_imag = part.out_imag = 1;
        part.lines = 1;
        part.factors = nullptr;
        by_columns_and_rows(part);
        put_back(chunk, line, row.data());
      }
    });
  }
  void fetch(const FftLines<R>& job, int64_t line, R* row) const {
    const R* in = job.in + line * job.in_line;
    if (is_row(job.in_step, job.in_imag)) return void(std::copy_n(in, 2 * n_, row));
    for (int64_t p = 0; p < n_; ++p) {
      row[2 * p] = in[p * job.in_step];
      row[2 * p + 1] = in[p * job.in_step + job.in_imag];
    }
  }
  void exchange_parts(R* row) const {
    for (int64_t p = 0; p < n_; ++p) std::swap(row[2 * p], row[2 * p + 1]);
  }
  void put_back(const FftLines<R>& job, int64_t line, const R* row) const {
    R* out = job.out + line * job.out_line;
    const R* factors = job.factors ? job.factors + line * job.out_line : nullptr;
    if (is_row(job.out_step, job.out_imag) && !factors) return void(std::copy_n(row, 2 * n_, out));
    for (int64_t p = 0; p < n_; ++p) {
      std::complex<R> value(row[2 * p], row[2 * p + 1]);
      int64_t at = p * job.out_step;
      if (factors) value *= std::complex<R>(factors[at], factors[at + job.out_imag]);
      out[at] = value.real();
      out[at + job.out_imag] = value.imag();
    }
  }

  // j k = (j^2 + k^2 - (k - j)^2) / 2 turns the sum into a convolution with a chirp.
  void prepare_convolution() {
    int64_t m = 1;
    while (m < 2 * n_ - 1) m *= 2;
    convolution_ = plan_for<R>(m);
    Roots roots(2 * n_);
    interruptible_for(n_, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) roots.append(square_modulo(j), chirp_);
    });
    chirp_.resize(static_cast<size_t>(2 * m));
    filter_.assign(static_cast<size_t>(2 * m), R(0));
    for (int64_t j = 0; j < n_; ++j)
      for (int64_t at : {j, (m - j) % m}) {
        filter_[2 * at] = chirp_[2 * j];
        filter_[2 * at + 1] = -chirp_[2 * j + 1];
      }
    convolution_->run(row_job(filter_.data(), false, 1, nullptr));
  }
  int64_t square_modulo(int64_t j) const {
    return static_cast<int64_t>(static_cast<unsigned __int128>(j) * static_cast<uint64_t>(j) %
                                static_cast<uint64_t>(2 * n_));
  }
  FftLines<R> row_job(R* row, bool inverse, R scale, const R* factors) const {
    FftLines<R> job = rows_of<R>(row, 0, row, 0, 1, inverse, scale);
    job.factors = factors;
    return job;
  }
  void convolve(const FftLines<R>& job) const {
    int64_t m = convolution_->n_;
    R scale = job.scale / static_cast<R>(m);
    each_chunk(job, 1, [&](const FftLines<R>& chunk) {
      Buffer<R> row(2 * m);
      for (int64_t line = 0; line < chunk.lines; ++line) {
        fetch(chunk, line, row.data());
        if (chunk.turned_in) exchange_parts(row.data());
        std::fill(row.data() + 2 * n_, row.data() + 2 * m, R(0));
        multiply(row.data(), chirp_.data(), row.data(), n_);
        convolution_->run(row_job(row.data(), false, 1, filter_.data()));
        convolution_->run(row_job(row.data(), true, scale, chirp_.data()));
        if (chunk.turned_out) exchange_parts(row.data());
        put_back(chunk, line, row.data());
      }
    });
  }

  int64_t n_;
  std::vector<int64_t> radices_;
  std::vector<R> roots_, turns_, half_turns_, chirp_, filter_;
  std::shared_ptr<const Plan> columns_, rows_, convolution_;
};

// The plans used last; sines and cosines cost more than a transform.
template <class R> std::shared_ptr<const Plan<R>> plan_for(int64_t n) {
  using Plans = std::list<std::shared_ptr<const Plan<R>>>;
  constexpr size_t most_bytes = 16 << 20;
  static auto& mutex = *new ForkMutex(ForkRank::Plans);
  static auto& plans = *new Plans;
  auto find = [n]() -> std::shared_ptr<const Plan<R>> {
    for (auto at = plans.begin(); at != plans.end(); ++at)
      if ((*at)->size() == n) {
        plans.splice(plans.begin(), plans, at);
        return plans.front();
      }
    return nullptr;
  };
  {
    ForkLock lock(mutex);
    if (auto found = find()) return found;
  }
  auto made = std::make_shared<const Plan<R>>(n);  // which asks for plans itself
  ForkLock lock(mutex);
  if (auto found = find()) return found;
  plans.push_front(made);
  size_t bytes = 0, count = 0;
  for (auto at = plans.begin(); at != plans.end();) {
    bytes += (*at)->bytes();
    at = ++count > 1 && (bytes > most_bytes || count > 64) ? plans.erase(at) : std::next(at);
  }
  return made;
}

// A contiguous view as lines along a dim: `inner` of them side by side, `outer` times.
struct Layout {
  int64_t outer = 1, points, inner = 1;
  Layout(const View& v, int64_t dim) : points(v.sizes[dim]) {
    for (int64_t d = 0; d < dim; ++d) outer *= v.sizes[d];
    for (int64_t d = dim + 1; d < v.ndim; ++d) inner *= v.sizes[d];
  }
};

// f(in, out) on copies of views, of which `dim` is the last.
template <class F> void on_rows(const View& in, const View& out, int64_t dim, F&& f) {
  auto turned = [dim](const View& v, int64_t* sizes, int64_t* strides) {
    Layout layout(v, dim);
    int64_t all[3] = {layout.outer, layout.inner, layout.points};
    int64_t steps[3] = {layout.points * layout.inner, 1, layout.inner};
    std::copy_n(all, 3, sizes);
    std::copy_n(steps, 3, strides);
    return View{v.data, sizes, strides, 3, v.numel, v.dtype};
  };
  int64_t in_sizes[3], in_strides[3], out_sizes[3], out_strides[3];
  View from = turned(in, in_sizes, in_strides), to = turned(out, out_sizes, out_strides);
  RowMajor rows = RowMajor::copy_of(from, in.dtype), results(to.shape(), out.dtype);
  f(rows.view(), results.view());
  copy(results.view(), to);
}

// Calls f with a number of the dtype's real type.
template <class F> void visit_real(DType complex, F&& f) {
  visit<complex64, complex128>("fft", complex,
                               [&](auto tag) { f(real_t<typename decltype(tag)::type>()); });
}

template <class F> void each_row(int64_t rows, int64_t points, F&& f) {
  parallel_for(0, rows, std::max<int64_t>(default_grain / (4 * points), 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) f(row);
               });
}

}  // namespace

void fft(const View& in, const View& out, int64_t dim, bool inverse, double scale) {
  Layout lines(in, dim);
  if (in.numel == 0) return;
  if (lines.inner > 1 && lines.inner < most_fft_lanes)
    return on_rows(in, out, dim,
                   [&](const View& from, const View& to) { fft(from, to, 2, inverse, scale); });
  visit_real(in.dtype, [&](auto zero) {
    using R = decltype(zero);
    auto plan = plan_for<R>(lines.points);
    bool rows = lines.inner == 1;
    int64_t line = rows ? 2 * lines.points : 2;
    FftLines<R> job = rows_of(in.ptr<R>(), line, out.ptr<R>(), line,
                              rows ? lines.outer : lines.inner, inverse, static_cast<R>(scale));
    if (!rows) job.in_step = job.out_step = 2 * lines.inner;
    if (rows) return plan->run(job);
    int64_t block = 2 * lines.points * lines.inner;
    each_row(lines.outer, block, [&](int64_t o) {
      FftLines<R> part = job;
      part.in += o * block;
      part.out += o * block;
      plan->run(part);
    });
  });
}

void fft_from_real(const View& in, const View& out, int64_t dim, bool inverse, double scale,
                   bool twice) {
  Layout lines(in, dim);
  if (in.numel == 0) return;
  if (lines.inner > 1)
    return on_rows(in, out, dim, [&](const View& from, const View& to) {
      fft_from_real(from, to, 2, inverse, scale, twice);
    });
  int64_t n = lines.points, m = n / 2, half = m + 1;
  visit_real(out.dtype, [&](auto zero) {
    using R = decltype(zero);
    const R* from = in.ptr<R>();
    R *to = out.ptr<R>(), ends = static_cast<R>(scale), middle = ends * (twice ? 2 : 1);
    if (n % 2) {
      int64_t sizes[2] = {lines.outer, n}, strides[2] = {n, 1};
      Buffer<R> full(2 * in.numel);
      View all{full.data(), sizes, strides, 2, in.numel, out.dtype};
      for (int64_t i = 0; i < in.numel; ++i) {
        full[2 * i] = from[i];
        full[2 * i + 1] = 0;
      }
      fft(all, all, 1, inverse, 1);
      each_row(lines.outer, n, [&](int64_t row) {
        for (int64_t i = 0; i < 2 * half; ++i)
          to[2 * row * half + i] = full[2 * row * n + i] * (i < 2 ? ends : middle);
      });
      return;
    }
    auto plan = plan_for<R>(m);
    const R* turns = plan->half_turns();
    FftPairs<R> pairs{m, turns, inverse ? R(-1) : R(1), R(1), middle / 2, nullptr, nullptr};
    FftLines<R> job = rows_of(from, n, to, 2 * half, lines.outer, inverse, R(1));
    if (plan->shares_lanes(job)) {
      job.pairs = &pairs;
      job.ends = ends;
      return plan->run(job);
    }
    plan->run(job);
    each_row(lines.outer, n, [&](int64_t row) {
      R* z = to + 2 * row * half;
      R re = z[0], im = z[1];
      FftPairs<R> part = pairs;
      part.from = part.to = z;
      mix_pairs(part);
      z[0] = (re + im) * ends;
      z[2 * m] = (re - im) * ends;
      z[1] = z[2 * m + 1] = 0;
    });
  });
}

void fft_to_real(const View& in, const View& out, int64_t dim, bool inverse, double scale,
                 bool twice) {
  Layout lines(out, dim);
  if (out.numel == 0) return;
  if (lines.inner > 1)
    return on_rows(in, out, dim, [&](const View& from, const View& to) {
      fft_to_real(from, to, 2, inverse, scale, twice);
    });
  int64_t n = lines.points, m = n / 2, half = m + 1;
  visit_real(in.dtype, [&](auto zero) {
    using R = decltype(zero);
    const R* from = in.ptr<R>();
    R *to = out.ptr<R>(), ends = static_cast<R>(scale), middle = twice ? ends : ends / 2;
    if (n % 2) {
      int64_t sizes[2] = {lines.outer, n}, strides[2] = {n, 1};
      Buffer<R> full(2 * out.numel);
      View all{full.data(), sizes, strides, 2, out.numel, in.dtype};
      each_row(lines.outer, n, [&](int64_t row) {
        const R* x = from + 2 * row * half;
        R* z = full.data() + 2 * row * n;
        z[0] = x[0] * ends;
        z[1] = 0;
        for (int64_t k = 1; k < half; ++k) {
          z[2 * k] = z[2 * (n - k)] = x[2 * k] * middle;
          z[2 * k + 1] = x[2 * k + 1] * middle;
          z[2 * (n - k) + 1] = -z[2 * k + 1];
        }
      });
      fft(all, all, 1, inverse, 1);
      for (int64_t i = 0; i < out.numel; ++i) to[i] = full[2 * i];
      return;
    }
    auto plan = plan_for<R>(m);
    const R* turns = plan->half_turns();
    FftPairs<R> pairs{m, turns, inverse ? R(1) : R(-1), R(-1), middle, nullptr, nullptr};
    FftLines<R> job = rows_of(from, 2 * half, to, n, lines.outer, inverse, R(1));
    if (plan->shares_lanes(job)) {
      job.pairs = &pairs;
      job.mixes_first = true;
      job.ends = ends;
      return plan->run(job);
    }
    Buffer<R> points(2 * half * lines.outer);
    each_row(lines.outer, n, [&](int64_t row) {
      const R* x = from + 2 * row * half;
      R* z = points.data() + 2 * row * half;
      FftPairs<R> part = pairs;
      part.from = x;
      part.to = z;
      mix_pairs(part);
      z[0] = (x[0] + x[2 * m]) * ends;
      z[1] = (x[0] - x[2 * m]) * ends;
    });
    job.in = points.data();
    plan->run(job);
  });
}

}  // namespace rl::kernels
