#include "kernels/embedding.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/offsets.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/reduce.h"

namespace rl::kernels {
namespace {

void check_table(const char* name, const View& weight) {
  check(weight.ndim == 2, name, ": 'weight' must be 2-D, got sizes ", weight.shape());
}

// The indices in row-major order, each in [0, rows).
Offsets rows_of(const char* name, const View& index, int64_t rows) {
  int64_t one = 1;
  // as if into single bytes, so that offsets are row numbers
  View table{nullptr, &rows, &one, 1, rows, DType::UInt8};
  return offsets_of(name, table, &index, Dims{0}, false);
}

// Those of bags, whose errors are RuntimeErrors.
Offsets bag_rows_of(const char* name, const View& index, int64_t rows) {
  try {
    return rows_of(name, index, rows);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Index) throw;
    fail(ErrorKind::Runtime, error.what(), ": Expected idx >= 0 && idx < num_embeddings");
  }
}

Offsets frequencies(const Offsets& rows, int64_t count) {
  Offsets found(static_cast<size_t>(count), 0);
  for (int64_t r : rows) ++found[static_cast<size_t>(r)];
  return found;
}

// Where bag b begins and ends among the indices.
class Bags {
 public:
  Bags(const char* name, const View& offsets, int64_t indices)
      : starts_(static_cast<size_t>(offsets.numel)) {
    int64_t one = 1;
    copy(offsets, {starts_.data(), offsets.sizes, &one, offsets.ndim, offsets.numel, DType::Int64});
    check(starts_.empty() || starts_[0] == 0, name,
          ": offsets[0] has to be 0, where the first bag begins, got ",
          starts_.empty() ? 0 : starts_[0]);
    check(starts_.empty() || starts_.back() <= indices, name, ": the last offset ",
          starts_.empty() ? 0 : starts_.back(), " is beyond the ", indices, " indices");
    starts_.push_back(indices);
    for (size_t b = 1; b < starts_.size(); ++b)
      check(starts_[b - 1] <= starts_[b], name, ": offsets must not fall, got ", starts_[b - 1],
            " before ", starts_[b]);
  }
  int64_t count() const { return static_cast<int64_t>(starts_.size()) - 1; }
  const int64_t* starts() const { return starts_.data(); }
  int64_t begin(int64_t bag) const { return starts_[static_cast<size_t>(bag)]; }
  int64_t end(int64_t bag) const { return starts_[static_cast<size_t>(bag) + 1]; }

 private:
  Offsets starts_;
};

// Rows of a 2-D view, as contiguous floats or doubles.
template <class T>
void load_row(const View& v, int64_t row, T* to) {
  int64_t size = itemsize(v.dtype);
  load_strip(v.dtype, v.ptr<char>() + row * v.strides[0] * size, v.strides[1] * size, dtype_of<T>,
             to, v.sizes[1]);
}
template <class T>
void store_row(const View& v, int64_t row, const T* from) {
  int64_t size = itemsize(v.dtype);
  store_strip(dtype_of<T>, from, v.dtype, v.ptr<char>() + row * v.strides[0] * size,
              v.strides[1] * size, v.sizes[1]);
}
// A 1-D view, or one as long made of ones.
template <class T>
std::vector<T> load_vector_or_ones(const View* v, size_t n) {
  std::vector<T> values(n, T(1));
  if (v)
    load_strip(v->dtype, v->ptr<char>(), v->strides[0] * itemsize(v->dtype), dtype_of<T>,
               values.data(), v->numel);
  return values;
}

template <class F>
void visit_computing(const char* name, DType t, F&& f) {
  check_implemented(is_floating(t), name, ": not implemented for dtype ", t);
  if (t == DType::Float64) f(TypeTag<double>());
  else f(TypeTag<float>());
}

// Complex tables too.
template <class F>
void visit_differentiable(const char* name, DType t, F&& f) {
  if (is_complex(t)) f(TypeTag<complex128>());
  else visit_computing(name, t, f);
}

// to[row[i]] += factor[i] * from[source[i]], for many i.
template <class T> struct Terms {
  Offsets source, row;
  std::vector<real_t<T>> factor;
  size_t count() const { return row.size(); }
  void add(int64_t from, int64_t to, real_t<T> by) {
    source.push_back(from);
    row.push_back(to);
    factor.push_back(by);
  }
};

// A complex row is one of twice as many reals.
template <class T>
void add_row_sum(const T* table, int64_t row_step, const int64_t* rows, const real_t<T>* factors,
                 size_t count, T* sum, int64_t width) {
  using R = real_t<T>;
  constexpr int64_t parts = sizeof(T) / sizeof(R);
  RowSum<R> job{reinterpret_cast<const R*>(table), row_step * parts,          rows,         factors,
                static_cast<int64_t>(count),       reinterpret_cast<R*>(sum), width * parts};
  if constexpr (std::is_same_v<R, float>) add_rows_of_floats(job);
  else add_rows_of_doubles(job);
}

// sum += factor[i] * from[source[i]] for i < count in order.
template <class T>
void add_run(const View& from, const int64_t* source, const real_t<T>* factor, size_t count, T* sum,
             int64_t width) {
  if (from.dtype == dtype_of<T> && (from.strides[1] == 1 || width == 1))
    return add_row_sum(from.ptr<T>(), from.strides[0], source, factor, count, sum, width);
  std::vector<T> x(static_cast<size_t>(width));
  const int64_t only = 0, size = itemsize(from.dtype);
  for (size_t i = 0; i < count; ++i) {
    load_strip(from.dtype, from.ptr<char>() + source[i] * from.strides[0] * size,
               from.strides[1] * size, dtype_of<T>, x.data(), width);
    add_row_sum(x.data(), 0, &only, factor + i, 1, sum, width);
  }
}

float dot_row(const float* a, const float* b, int64_t n) {
  float sum;
  dot_of_floats(a, b, n, &sum);
  return sum;
}
double dot_row(const double* a, const double* b, int64_t n) {
  double sum;
  dot_of_doubles(a, b, n, &sum);
  return sum;
}

// The places of terms, those of a row one after the other.
Offsets places_by_row(const Offsets& rows, int64_t count) {
  Offsets next = frequencies(rows, count), places(rows.size());
  int64_t begin = 0;
  for (int64_t& n : next) begin += std::exchange(n, begin);
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t& place = next[static_cast<size_t>(rows[i])];
    places[static_cast<size_t>(place++)] = static_cast<int64_t>(i);
  }
  return places;
}

template <class T> Terms<T> by_row(const Terms<T>& terms, int64_t count) {
  Terms<T> sorted = terms;
  size_t to = 0;
  for (int64_t place : places_by_row(terms.row, count)) {
    auto from = static_cast<size_t>(place);
    sorted.source[to] = terms.source[from];
    sorted.row[to] = terms.row[from];
    sorted.factor[to++] = terms.factor[from];
  }
  return sorted;
}

// All terms, whose rows repeat in any order: threads share out the rows that are written to, and
// each passes all terms. A row of a narrower dtype is rounded once, after its last term.
template <class T> void add_terms(const View& from, const Terms<T>& given, const View& to) {
  if (given.count() == 0) return;
  const bool exact = to.dtype == dtype_of<T>;
  Terms<T> sorted = exact ? Terms<T>() : by_row(given, to.sizes[0]);
  const Terms<T>& terms = exact ? given : sorted;
  constexpr int64_t most_parts = 16;
  const size_t last_term = terms.count() - 1;
  int64_t width = to.sizes[1], work = static_cast<int64_t>(terms.count()) * width;
  int64_t parts = std::clamp<int64_t>(work / default_grain, 1, width < 64 ? 1 : most_parts);
  int64_t size = itemsize(to.dtype), step = to.strides[1] * size, row_step = to.strides[0] * size;
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    int64_t begin = to.sizes[0] * first / parts, end = to.sizes[0] * last / parts;
    bool direct = exact && (to.strides[1] == 1 || width == 1);
    std::vector<T> loaded(direct ? 0 : static_cast<size_t>(width));
    auto ours = [&](int64_t row) { return row >= begin && row < end; };
    for (size_t i = 0, next; i < terms.count(); i = next) {
      for (next = i + 1; next < terms.count() && terms.row[next] == terms.row[i];) ++next;
      int64_t row = terms.row[i], later = terms.row[std::min(i + prefetched_rows, last_term)];
      if (ours(later)) prefetch_row(to.ptr<char>() + later * row_step, width * step);
      if (!ours(row)) continue;
      char* y = to.ptr<char>() + row * row_step;
      T* sum = direct ? reinterpret_cast<T*>(y) : loaded.data();
      if (!direct) load_strip(to.dtype, y, step, dtype_of<T>, sum, width);
      add_run(from, &terms.source[i], &terms.factor[i], next - i, sum, width);
      if (!direct) store_strip(dtype_of<T>, sum, to.dtype, y, step, width);
    }
  });
}

}  // namespace

void embedding(const View& weight, const View& index, const View& out) {
  check_table("embedding", weight);
  gather_at(offsets_of("embedding", weight, &index, Dims{0}, false), weight, Dims{1}, out,
            index.ndim);
}

void embedding_backward(const View& grad, const View& index, int64_t padding_idx,
                        bool scale_by_frequency, const View& grad_weight) {
  check_table("embedding_backward", grad_weight);
  int64_t rows = grad_weight.sizes[0], width = grad_weight.sizes[1];
  Offsets all = rows_of("embedding_backward", index, rows);
  Offsets counts = scale_by_frequency ? frequencies(all, rows) : Offsets();
  visit_differentiable("embedding_backward", grad_weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // the gradient as a matrix, one row per index
    std::vector<T> gathered;
    int64_t sizes[2] = {index.numel, width}, strides[2] = {width, 1};
    View matrix{grad.data, sizes, strides, 2, grad.numel, grad.dtype};
    if (!grad.contiguous()) {
      gathered.resize(static_cast<size_t>(grad.numel));
      Dims packed = contiguous_strides(grad.shape());
      matrix.data = gathered.data();
      matrix.dtype = dtype_of<T>;
      copy(grad, {gathered.data(), grad.sizes, packed.data(), grad.ndim, grad.numel, matrix.dtype});
    }
    Terms<T> terms;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == padding_idx) continue;
      int64_t count = scale_by_frequency ? counts[static_cast<size_t>(all[i])] : 1;
      terms.add(static_cast<int64_t>(i), all[i],
                static_cast<real_t<T>>(1.0 / static_cast<double>(count)));
    }
    add_terms(matrix, terms, grad_weight);
  });
}

void embedding_renorm(const View& weight, const View& index, double max_norm, double p) {
  check_table("embedding_renorm", weight);
  Offsets rows = rows_of("embedding_renorm", index, weight.sizes[0]);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  int64_t sizes[2] = {1, weight.sizes[1]}, one[2] = {1, 1};
  for (int64_t r : rows) {
    View row = weight;
    row.data = weight.ptr<char>() + r * weight.strides[0] * itemsize(weight.dtype);
    row.sizes = sizes;
    row.numel = weight.sizes[1];
    double size = 0;
    norm(row, p, {&size, one, one, 2, 1, DType::Float64});
    if (size <= max_norm) continue;
    visit_differentiable("embedding_renorm", weight.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::vector<T> values(static_cast<size_t>(weight.sizes[1]));
      load_row(weight, r, values.data());
      for (T& v : values) v *= T(max_norm / (size + 1e-7));
      store_row(weight, r, values.data());
    });
  }
}

namespace {

template <class T>
void largest_of_bags(const View& weight, const Offsets& rows, const Bags& bags, int64_t padding_idx,
                     const View& out, const View& max_indices) {
  size_t width = static_cast<size_t>(weight.sizes[1]);
  int64_t work = static_cast<int64_t>(rows.size() * width) + 1;
  int64_t grain = std::max<int64_t>(1, bags.count() * default_grain / work);
  parallel_for(0, bags.count(), grain, [&](int64_t first, int64_t last) {
    std::vector<T> largest(width), x(width);
    Offsets origin(width);
    for (int64_t b = first; b < last; ++b) {
      std::fill(largest.begin(), largest.end(), T(0));
      std::fill(origin.begin(), origin.end(), -1);
      bool used = false;
      for (int64_t i = bags.begin(b); i < bags.end(b); ++i) {
        int64_t r = rows[static_cast<size_t>(i)];
        if (r == padding_idx) continue;
        load_row(weight, r, x.data());
        for (size_t j = 0; j < width; ++j)
          if (!used || x[j] > largest[j]) {
            largest[j] = x[j];
            origin[j] = r;
          }
        used = true;
      }
      store_row(out, b, largest.data());
      store_row(max_indices, b, origin.data());
    }
  });
}

// Rows of one number, whose sums are rather numbers than rows.
template <class T>
void sum_bags_of_numbers(const View& weight, const Offsets& rows, const Bags& bags,
                         const std::vector<T>& scale, const View& out, int64_t first,
                         int64_t last) {
  const T* table = weight.ptr<T>();
  for (int64_t b = first; b < last; ++b) {
    T sum(0);
    for (int64_t i = bags.begin(b); i < bags.end(b); ++i)
      sum += scale[size_t(i)] * table[rows[size_t(i)] * weight.strides[0]];
    out.ptr<T>()[b * out.strides[0]] = sum;
  }
}

template <class T>
void sum_bags(const View& weight, const Offsets& rows, const Bags& bags, bool mean,
              const std::vector<T>& scale, int64_t padding_idx, const View& out) {
  int64_t width = weight.sizes[1], work = static_cast<int64_t>(rows.size()) * width + 1;
  int64_t grain = std::max<int64_t>(1, bags.count() * default_grain / work);
  const bool same = weight.dtype == dtype_of<T> && out.dtype == dtype_of<T>;
  const bool in_place = same && out.strides[1] == 1, all = padding_idx < 0;
  const bool direct = all && in_place && (weight.strides[1] == 1 || width == 1);
  constexpr int64_t second_level = 256 << 10;
  const bool far = weight.sizes[0] * width * itemsize(weight.dtype) > second_level;
  parallel_for(0, bags.count(), grain, [&](int64_t first, int64_t last) {
    if (width == 1 && same && !mean && all)
      return sum_bags_of_numbers(weight, rows, bags, scale, out, first, last);
    if constexpr (std::is_same_v<T, float>)
      if (direct)
        return sum_bags_of_floats({weight.ptr<float>(), weight.strides[0], rows.data(),
                                   scale.data(), bags.starts(), first, last, mean, far,
                                   out.ptr<float>(), out.strides[0], width});
    std::vector<T> own(static_cast<size_t>(width));
    for (int64_t b = first; b < last; ++b) {
      T* sum = in_place ? out.ptr<T>() + b * out.strides[0] : own.data();
      std::fill_n(sum, width, T(0));
      auto end = rows.begin() + bags.end(b);
      int64_t used = 0;
      for (auto r = rows.begin() + bags.begin(b), next = r; r < end; r = next + 1) {
        next = padding_idx < 0 ? end : std::find(r, end, padding_idx);
        used += next - r;
        if (r != next)
          add_run(weight, &*r, &scale[static_cast<size_t>(r - rows.begin())],
                  static_cast<size_t>(next - r), sum, width);
      }
      for (int64_t j = 0; mean && used && j < width; ++j) sum[j] /= static_cast<T>(used);
      if (!in_place) store_row(out, b, sum);
    }
  });
}

}  // namespace

void embedding_bag(const View& weight, const View& index, const View& offsets, Bag mode,
                   const View* sample_weights, int64_t padding_idx, const View& out,
                   const View* max_indices) {
  check_table("embedding_bag", weight);
  Offsets rows = bag_rows_of("embedding_bag", index, weight.sizes[0]);
  Bags bags("embedding_bag", offsets, index.numel);
  visit_computing("embedding_bag", weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (mode == Bag::Max)
      return largest_of_bags<T>(weight, rows, bags, padding_idx, out, *max_indices);
    std::vector<T> scale = load_vector_or_ones<T>(sample_weights, rows.size());
    sum_bags(weight, rows, bags, mode == Bag::Mean, scale, padding_idx, out);
  });
}

namespace {

// Each column of a bag's gradient goes to the row its maximum came from; sums of a narrower dtype
// are rounded at the end.
template <class T>
void add_maxima(const View& grad, const View& max_indices, const View& grad_weight) {
  const int64_t rows = grad_weight.sizes[0], width = grad.sizes[1];
  const bool exact = grad_weight.dtype == dtype_of<T>;
  std::vector<T> g(static_cast<size_t>(width)), own(exact ? 0 : size_t(rows * width));
  T* sums = exact ? grad_weight.ptr<T>() : own.data();
  const int64_t row_step = exact ? grad_weight.strides[0] : width;
  const int64_t step = exact ? grad_weight.strides[1] : 1;
  Offsets origin(g.size());
  for (int64_t b = 0; b < grad.sizes[0]; ++b) {
    load_row(grad, b, g.data());
    load_row(max_indices, b, origin.data());
    for (size_t j = 0; j < g.size(); ++j) {
      if (origin[j] < 0) continue;
      check_index(origin[j] < rows, "embedding_bag_backward: index ", origin[j],
                  " is out of bounds for ", rows, " rows");
      sums[origin[j] * row_step + static_cast<int64_t>(j) * step] += g[j];
    }
  }
  for (int64_t r = 0; !exact && r < rows; ++r) store_row(grad_weight, r, sums + r * width);
}

}  // namespace

void embedding_bag_backward(const View& grad, const View& index, const View& offsets, Bag mode,
                            const View* sample_weights, int64_t padding_idx,
                            bool scale_by_frequency, const View* max_indices,
                            const View& grad_weight) {
  check_table("embedding_bag_backward", grad_weight);
  fill(grad_weight, 0);
  int64_t count = grad_weight.sizes[0];
  Offsets rows = bag_rows_of("embedding_bag_backward", index, count);
  Bags bags("embedding_bag_backward", offsets, index.numel);
  visit_computing("embedding_bag_backward", grad_weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (mode == Bag::Max) return add_maxima<T>(grad, *max_indices, grad_weight);
    std::vector<T> scale = load_vector_or_ones<T>(sample_weights, rows.size());
    Offsets counts = frequencies(rows, count);
    Terms<T> terms;
    for (int64_t b = 0; b < bags.count(); ++b) {
      auto begin = rows.begin() + bags.begin(b), end = rows.begin() + bags.end(b);
      int64_t used = end - begin - std::count(begin, end, padding_idx);
      for (auto r = begin; r != end; ++r) {
        if (*r == padding_idx) continue;
        T f = scale[static_cast<size_t>(r - rows.begin())];
        if (mode == Bag::Mean) f /= static_cast<T>(used);
        if (scale_by_frequency) f /= static_cast<T>(counts[static_cast<size_t>(*r)]);
        terms.add(b, *r, f);
      }
    }
    add_terms(grad, terms, grad_weight);
  });
}

void embedding_bag_sample_weights_backward(const View& grad, const View& weight, const View& index,
                                           const View& offsets, int64_t padding_idx,
                                           const View& out) {
  const char* name = "embedding_bag_sample_weights_backward";
  check_table(name, weight);
  Offsets rows = bag_rows_of(name, index, weight.sizes[0]);
  Bags bags(name, offsets, index.numel);
  visit_computing(name, weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const size_t width = static_cast<size_t>(weight.sizes[1]);
    const bool direct = weight.dtype == dtype_of<T> && (weight.strides[1] == 1 || width == 1);
    std::vector<T> result(rows.size(), T(0));
    const int64_t work = static_cast<int64_t>(rows.size() * width) + 1;
    const int64_t grain = std::max<int64_t>(1, bags.count() * default_grain / work);
    parallel_for(0, bags.count(), grain, [&](int64_t first, int64_t last) {
      std::vector<T> g(width), x(direct ? 0 : width);
      for (int64_t b = first; b < last; ++b) {
        load_row(grad, b, g.data());
        for (int64_t i = bags.begin(b); i < bags.end(b); ++i) {
          const size_t at = static_cast<size_t>(i);
          if (!direct) load_row(weight, rows[at], x.data());
          const T* row = direct ? weight.ptr<T>() + rows[at] * weight.strides[0] : x.data();
          if (rows[at] != padding_idx) result[at] = dot_row(g.data(), row, weight.sizes[1]);
        }
      }
    });
    store_strip(dtype_of<T>, result.data(), out.dtype, out.ptr<char>(),
                out.strides[0] * itemsize(out.dtype), out.numel);
  });
}

}  // namespace rl::kernels
