#include "kernels/embedding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/copy.h"
#include "kernels/cpu/combine.h"
#include "kernels/cpu/places.h"
#include "kernels/cpu/strip.h"
#include "kernels/reduce.h"
#include "kernels/walk.h"

namespace rl::kernels {
namespace {

void check_table(const char* name, const View& weight) {
  check(weight.ndim == 2, name, ": 'weight' must be 2-D, got sizes ", weight.shape());
}

// The indices in row-major order, each in [0, rows).
Places rows_of(const char* name, const View& index, int64_t rows) {
  int64_t one = 1;
  // as if into single bytes, so that offsets are row numbers
  View table{nullptr, &rows, &one, 1, rows, DType::UInt8};
  return places(name, table, &index, Dims{0}, false);
}

Places frequencies(const Places& rows, int64_t count) {
  Places found(static_cast<size_t>(count), 0);
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
  int64_t begin(int64_t bag) const { return starts_[static_cast<size_t>(bag)]; }
  int64_t end(int64_t bag) const { return starts_[static_cast<size_t>(bag) + 1]; }

 private:
  Places starts_;
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

// grad_weight[row[i]] += factor[i] * grad[source[i]] for each i in order; threads share out
// columns.
template <class T>
void add_rows(const View& grad, const Places& source, const Places& row,
              const std::vector<T>& factor, const View& grad_weight) {
  int64_t width = grad_weight.sizes[1], n = static_cast<int64_t>(row.size());
  int64_t grain = std::max<int64_t>(1, default_grain / (n + 1));
  DType from_type = grad.dtype, to_type = grad_weight.dtype;
  int64_t from_row = grad.strides[0] * itemsize(from_type);
  int64_t from_step = grad.strides[1] * itemsize(from_type);
  int64_t to_row = grad_weight.strides[0] * itemsize(to_type);
  int64_t to_step = grad_weight.strides[1] * itemsize(to_type);
  parallel_for(0, width, grain, [&](int64_t begin, int64_t end) {
    int64_t m = end - begin;
    bool direct = from_type == dtype_of<T> && to_type == dtype_of<T> && from_step == sizeof(T) &&
                  to_step == sizeof(T);
    std::vector<T> sum(static_cast<size_t>(m)), g(static_cast<size_t>(m));
    for (size_t i = 0; i < row.size(); ++i) {
      char* to = grad_weight.ptr<char>() + row[i] * to_row + begin * to_step;
      const char* from = grad.ptr<char>() + source[i] * from_row + begin * from_step;
      if (direct) {
        T* y = reinterpret_cast<T*>(to);
        const T* x = reinterpret_cast<const T*>(from);
        for (int64_t j = 0; j < m; ++j) y[j] += factor[i] * x[j];
        continue;
      }
      load_strip(to_type, to, to_step, dtype_of<T>, sum.data(), m);
      load_strip(from_type, from, from_step, dtype_of<T>, g.data(), m);
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += factor[i] * g[j];
      store_strip(dtype_of<T>, sum.data(), to_type, to, to_step, m);
    }
  });
}

}  // namespace

void embedding(const View& weight, const View& index, const View& out) {
  check_table("embedding", weight);
  read_places(places("embedding", weight, &index, Dims{0}, false), weight, Dims{1}, out,
              index.ndim);
}

void embedding_backward(const View& grad, const View& index, int64_t padding_idx,
                        bool scale_by_frequency, const View& grad_weight) {
  check_table("embedding_backward", grad_weight);
  int64_t rows = grad_weight.sizes[0], width = grad_weight.sizes[1];
  Places all = rows_of("embedding_backward", index, rows), source, row;
  Places counts = scale_by_frequency ? frequencies(all, rows) : Places();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == padding_idx) continue;
    source.push_back(static_cast<int64_t>(i));
    row.push_back(all[i]);
  }
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
    std::vector<T> factor(row.size(), T(1));
    for (size_t i = 0; scale_by_frequency && i < row.size(); ++i)
      factor[i] = T(1.0 / static_cast<double>(counts[static_cast<size_t>(row[i])]));
    add_rows<T>(matrix, source, row, factor, grad_weight);
  });
}

void embedding_renorm(const View& weight, const View& index, double max_norm, double p) {
  check_table("embedding_renorm", weight);
  Places rows = rows_of("embedding_renorm", index, weight.sizes[0]);
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

void embedding_bag(const View& weight, const View& index, const View& offsets, Bag mode,
                   const View* sample_weights, int64_t padding_idx, const View& out,
                   const View* max_indices) {
  check_table("embedding_bag", weight);
  Places rows = rows_of("embedding_bag", index, weight.sizes[0]);
  Bags bags("embedding_bag", offsets, index.numel);
  visit_computing("embedding_bag", weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    size_t width = static_cast<size_t>(weight.sizes[1]);
    std::vector<T> scale = load_vector_or_ones<T>(sample_weights, rows.size());
    int64_t work = index.numel * weight.sizes[1] + 1;
    int64_t grain = std::max<int64_t>(1, bags.count() * default_grain / work);
    parallel_for(0, bags.count(), grain, [&](int64_t first, int64_t last) {
      std::vector<T> result(width), x(width);
      Places origin(width);
      for (int64_t b = first; b < last; ++b) {
        std::fill(result.begin(), result.end(), T(0));
        std::fill(origin.begin(), origin.end(), -1);
        int64_t used = 0;
        for (int64_t i = bags.begin(b); i < bags.end(b); ++i) {
          int64_t r = rows[static_cast<size_t>(i)];
          if (r == padding_idx) continue;
          load_row(weight, r, x.data());
          T s = scale[static_cast<size_t>(i)];
          if (mode != Bag::Max)
            for (size_t j = 0; j < width; ++j) result[j] += s * x[j];
          else
            for (size_t j = 0; j < width; ++j)
              if (used == 0 || x[j] > result[j]) {
                result[j] = x[j];
                origin[j] = r;
              }
          ++used;
        }
        if (mode == Bag::Mean && used > 0)
          for (T& v : result) v /= static_cast<T>(used);
        store_row(out, b, result.data());
        if (max_indices) store_row(*max_indices, b, origin.data());
      }
    });
  });
}

namespace {

// Each column of a bag's gradient goes to the row its maximum came from.
template <class T>
void add_maxima(const View& grad, const View& max_indices, const View& grad_weight) {
  int64_t size = itemsize(grad_weight.dtype);
  std::vector<T> g(static_cast<size_t>(grad.sizes[1]));
  Places origin(g.size());
  for (int64_t b = 0; b < grad.sizes[0]; ++b) {
    load_row(grad, b, g.data());
    load_row(max_indices, b, origin.data());
    for (size_t j = 0; j < g.size(); ++j) {
      if (origin[j] < 0) continue;
      check_index(origin[j] < grad_weight.sizes[0], "embedding_bag_backward: index ", origin[j],
                  " is out of bounds for ", grad_weight.sizes[0], " rows");
      char* to = grad_weight.ptr<char>() + (origin[j] * grad_weight.strides[0] +
                                            static_cast<int64_t>(j) * grad_weight.strides[1]) *
                                               size;
      T sum;
      load_strip(grad_weight.dtype, to, size, dtype_of<T>, &sum, 1);
      sum += g[j];
      store_strip(dtype_of<T>, &sum, grad_weight.dtype, to, size, 1);
    }
  }
}

}  // namespace

void embedding_bag_backward(const View& grad, const View& index, const View& offsets, Bag mode,
                            const View* sample_weights, int64_t padding_idx,
                            bool scale_by_frequency, const View* max_indices,
                            const View& grad_weight) {
  check_table("embedding_bag_backward", grad_weight);
  fill(grad_weight, 0);
  int64_t count = grad_weight.sizes[0];
  Places rows = rows_of("embedding_bag_backward", index, count);
  Bags bags("embedding_bag_backward", offsets, index.numel);
  visit_computing("embedding_bag_backward", grad_weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (mode == Bag::Max) return add_maxima<T>(grad, *max_indices, grad_weight);
    std::vector<T> scale = load_vector_or_ones<T>(sample_weights, rows.size()), factor;
    Places counts = frequencies(rows, count), source, row;
    for (int64_t b = 0; b < bags.count(); ++b) {
      auto begin = rows.begin() + bags.begin(b), end = rows.begin() + bags.end(b);
      int64_t used = end - begin - std::count(begin, end, padding_idx);
      for (auto r = begin; r != end; ++r) {
        if (*r == padding_idx) continue;
        T f = scale[static_cast<size_t>(r - rows.begin())];
        if (mode == Bag::Mean) f /= static_cast<T>(used);
        if (scale_by_frequency) f /= static_cast<T>(counts[static_cast<size_t>(*r)]);
        source.push_back(b);
        row.push_back(*r);
        factor.push_back(f);
      }
    }
    add_rows<T>(grad, source, row, factor, grad_weight);
  });
}

void embedding_bag_sample_weights_backward(const View& grad, const View& weight, const View& index,
                                           const View& offsets, int64_t padding_idx,
                                           const View& out) {
  const char* name = "embedding_bag_sample_weights_backward";
  check_table(name, weight);
  Places rows = rows_of(name, index, weight.sizes[0]);
  Bags bags(name, offsets, index.numel);
  visit_computing(name, weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> g(static_cast<size_t>(weight.sizes[1])), x(g.size()), result(rows.size(), T(0));
    for (int64_t b = 0; b < bags.count(); ++b) {
      load_row(grad, b, g.data());
      for (int64_t i = bags.begin(b); i < bags.end(b); ++i) {
        int64_t r = rows[static_cast<size_t>(i)];
        if (r == padding_idx) continue;
        load_row(weight, r, x.data());
        T dot = 0;
        for (size_t j = 0; j < g.size(); ++j) dot += g[j] * x[j];
        result[static_cast<size_t>(i)] = dot;
      }
    }
    store_strip(dtype_of<T>, result.data(), out.dtype, out.ptr<char>(),
                out.strides[0] * itemsize(out.dtype), out.numel);
  });
}

}  // namespace rl::kernels
