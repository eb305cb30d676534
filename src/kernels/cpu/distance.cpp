#include "kernels/distance.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/distance_tiles.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

constexpr int64_t row_block = 256;   // rows that a panel meets in one task
constexpr int64_t depth_block = 32;  // elements whose gradients one task makes

void run_tile(const DistanceTile<float>& t) { distance_tile_f32(t); }
void run_tile(const DistanceTile<double>& t) { distance_tile_f64(t); }
void run_tile(const DistanceGradientTile<float>& t) { distance_gradient_tile_f32(t); }
void run_tile(const DistanceGradientTile<double>& t) { distance_gradient_tile_f64(t); }

int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

template <class T> void transpose_part(const T* from, int64_t from_step, T* to, int64_t to_step,
                                       int64_t rows, int64_t columns) {
  int64_t size = sizeof(T);
  transpose(size, reinterpret_cast<const char*>(from), from_step * size, size,
            reinterpret_cast<char*>(to), to_step * size, size, rows, columns, false);
}

// Elements [k, k + depth) of `count` rows of d elements, as a panel.
template <class T>
void pack(const T* rows, int64_t d, int64_t count, int64_t k, int64_t depth, T* panel) {
  if (count < panel_columns) std::fill_n(panel, depth * panel_columns, T(0));
  transpose_part(rows + k, d, panel, panel_columns, count, depth);
}

// f(item, i, j) for all parts of `batch` items that are cut into n by m parts.
template <class F> void for_parts(int64_t batch, int64_t n, int64_t m, double work, F f) {
  int64_t count = batch * n * m;
  ScopedGilRelease long_work(static_cast<double>(count) * work > long_operations);
  int64_t grain = std::max<int64_t>(static_cast<int64_t>(default_grain / std::max(work, 1.0)), 1);
  parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) f(at / (n * m), at / m % n, at % m);
  });
}

// Where a batch's matrices lie; any strides between them.
template <class T> T* matrix_at(const View& v, int64_t index) {
  int64_t at = 0;
  for (int64_t d = v.ndim - 3; d >= 0; --d) {
    at += index % v.sizes[d] * v.strides[d];
    index /= v.sizes[d];
  }
  return v.ptr<T>() + at;
}
int64_t matrices_of(const View& v) {
  int64_t count = 1;
  for (int64_t d = 0; d < v.ndim - 2; ++d) count *= v.sizes[d];
  return count;
}

// In the list of one matrix's own pairs, (i, j) with i < j stands at own_row(i, n) + j.
int64_t own_row(int64_t i, int64_t n) { return i * n - i * (i + 1) / 2 - i - 1; }

// For the pairs of rows [i, i + rows) and [j, j + columns): put(r, c, count, tile) with each row's
// pieces of distances.
template <class T> struct Forward {
  const T *a, *b;
  int64_t n, m, d;
  double p;
  template <class Put> void run(int64_t row, int64_t last_row, int64_t j, Put put) const {
    int64_t columns = std::min(panel_columns, m - j);
    Buffer<T> panel(d * panel_columns), sums(rows_together * panel_columns);
    pack(b + j * d, d, columns, 0, d, panel.data());
    for (int64_t r = row; r < last_row; r += rows_together) {
      int64_t rows = std::min(rows_together, last_row - r);
      run_tile(DistanceTile<T>{a + r * d, panel.data(), rows, columns, d, p, sums.data()});
      for (int64_t i = 0; i < rows; ++i) put(r + i, columns, sums.data() + i * panel_columns);
    }
  }
};

// The gradient by rows [i, i + 64) of a, elements [k, k + 32). load(first, rows, weights,
// distances) brings those of rows of b, `first` and following, one row of 64 for each.
template <class T> struct Backward {
  const T *a, *b;
  int64_t n, m, d;
  double p;
  template <class Load> void run(int64_t i, int64_t k, Load load, T* out) const {
    int64_t columns = std::min(panel_columns, n - i), depth = std::min(depth_block, d - k);
    constexpr int64_t size = rows_together * panel_columns;
    Buffer<T> panel(depth * panel_columns), sums(depth * panel_columns), weights(size),
        distances(size);
    pack(a + i * d, d, columns, k, depth, panel.data());
    std::fill_n(sums.data(), depth * panel_columns, T(0));
    std::fill_n(weights.data(), size, T(0));
    std::fill_n(distances.data(), size, T(0));
    for (int64_t r = 0; r < m; r += rows_together) {
      int64_t rows = std::min(rows_together, m - r);
      load(r, rows, columns, weights.data(), distances.data());
      run_tile(DistanceGradientTile<T>{b + r * d + k, d, panel.data(), distances.data(), rows,
                                       columns, depth, p, weights.data(), sums.data()});
    }
    transpose_part(sums.data(), panel_columns, out + i * d + k, d, depth, columns);
  }
};

// Work of one part: a multiplication and an addition for each pair and element, powers far more.
double part_work(int64_t rows, int64_t d, double p) {
  bool simple = p == 0 || p == 1 || p == 2 || p == __builtin_inf();
  return static_cast<double>(rows * panel_columns) * static_cast<double>(d + 8) *
         (simple ? 0.125 : 4);
}

template <class T> void load_block(const T* from, int64_t from_step, T* to, int64_t rows,
                                   int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * panel_columns, from + r * from_step,
                static_cast<size_t>(columns) * sizeof(T));
}

// The elements from one matrix to the next, if that is the same for all; else -1.
int64_t matrix_step(const View& v) {
  int64_t step = 0, count = 1;
  for (int64_t d = v.ndim - 3; d >= 0; --d) {
    if (v.sizes[d] == 1) continue;
    if (count == 1) step = v.strides[d];
    else if (v.strides[d] != step * count) return -1;
    count *= v.sizes[d];
  }
  return step;
}

// Some of many matrices of few rows, or room for them: a lane of a vector for each.
struct MatrixLanes {
  int64_t elements, apart;  // of a matrix, and from one to the next
  float* data;
  Buffer<float> lanes;
  [[gnu::noinline]] MatrixLanes(const View& v, bool used, bool zeros)
      : elements(used ? v.sizes[v.ndim - 2] * v.sizes[v.ndim - 1] : 0),
        apart(matrix_step(v)),
        data(v.ptr<float>()),
        lanes(elements * panel_columns) {
    if (zeros) std::fill_n(lanes.data(), elements * panel_columns, 0.0f);
  }
  float* row(int64_t i) const { return lanes.data() + i * panel_columns; }
  void load(int64_t first, int64_t count) {
    transpose_floats(data + first * apart, apart, lanes.data(), panel_columns, count, elements);
  }
  void store(int64_t first, int64_t count) const {
    transpose_floats(lanes.data(), panel_columns, data + first * apart, apart, elements, count);
  }
};

// Distances of pairs of matrices of few rows, or of those by their `slopes` the gradient by a, in
// all lanes at a time: they are those of the rows' differences from zero. One pair of matrices at a
// time took 5 to 30 times as long.
struct Slopes {
  const View &grad, &distances;
  bool by_columns;
};
void run_by_lanes(const View& a, const View& b, double p, const View& out, const Slopes* slopes) {
  const int64_t n = a.sizes[a.ndim - 2], m = b.sizes[b.ndim - 2], d = a.sizes[a.ndim - 1];
  const int64_t count = matrices_of(out);
  const std::vector<float> zeros(static_cast<size_t>(d));
  for_parts(parts_of(count, panel_columns), 1, 1, part_work(n * m, d, p),
            [&](int64_t part, int64_t, int64_t) {
              const int64_t first = part * panel_columns;
              const int64_t lanes = std::min(panel_columns, count - first);
              const bool part_of_them = lanes < panel_columns;
              MatrixLanes left(a, true, part_of_them), right(b, true, part_of_them),
                  to(out, true, true), weights(slopes ? slopes->grad : out, slopes, part_of_them),
                  distances(slopes ? slopes->distances : out, slopes, part_of_them);
              left.load(first, lanes);
              right.load(first, lanes);
              if (slopes) weights.load(first, lanes), distances.load(first, lanes);
              Buffer<float> panel(d * panel_columns);
              float* __restrict between = panel.data();
              for (int64_t pair = 0; pair < n * m; ++pair) {
                const int64_t i = pair / m, j = pair % m;
                const float *x = left.row(i * d), *y = right.row(j * d);
                for (int64_t k = 0; k < d; ++k, x += panel_columns, y += panel_columns)
                  for (int64_t c = 0; c < panel_columns; ++c)
                    between[k * panel_columns + c] = x[c] - y[c];
                const int64_t at = slopes && slopes->by_columns ? j * n + i : pair;
                if (slopes)
                  distance_gradient_tile_f32({zeros.data(), d, between, distances.row(at), 1, lanes,
                                              d, p, weights.row(at), to.row(i * d)});
                else distance_tile_f32({zeros.data(), between, 1, lanes, d, p, to.row(at)});
              }
              to.store(first, lanes);
            });
}

bool few_rows(const View& a, const View& b, const View& out, int64_t most_pairs,
              int64_t most_elements) {
  constexpr int64_t least_matrices = 16;
  const int64_t n = a.sizes[a.ndim - 2], m = b.sizes[b.ndim - 2], d = a.sizes[a.ndim - 1];
  return a.dtype == DType::Float32 && n * m <= most_pairs && (n + m) * d <= most_elements &&
         matrices_of(out) >= least_matrices && matrix_step(a) >= 0 && matrix_step(b) >= 0;
}

}  // namespace

void pair_distances(const View& a, const View& b, double p, const View& out) {
  if (out.numel == 0) return;
  if (few_rows(a, b, out, 64, 512)) return run_by_lanes(a, b, p, out, nullptr);
  int64_t n = a.sizes[a.ndim - 2], m = b.sizes[b.ndim - 2], d = a.sizes[a.ndim - 1];
  visit<float, double>("cdist", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_parts(
        matrices_of(out), parts_of(n, row_block), parts_of(m, panel_columns),
        part_work(std::min(n, row_block), d, p), [&](int64_t item, int64_t i, int64_t j) {
          T* to = out.ptr<T>() + item * n * m + j * panel_columns;
          Forward<T>{matrix_at<const T>(a, item), matrix_at<const T>(b, item), n, m, d, p}.run(
              i * row_block, std::min(n, (i + 1) * row_block), j * panel_columns,
              [&](int64_t r, int64_t columns, const T* sums) {
                std::memcpy(to + r * m, sums, static_cast<size_t>(columns) * sizeof(T));
              });
        });
  });
}

void own_distances(const View& a, double p, const View& out) {
  if (out.numel == 0) return;
  int64_t n = a.sizes[0], d = a.sizes[1];
  visit<float, double>("pdist", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Forward<T> pairs{a.ptr<const T>(), a.ptr<const T>(), n, n, d, p};
    T* to = out.ptr<T>();
    for_parts(1, parts_of(n, row_block), parts_of(n, panel_columns),
              part_work(std::min(n, row_block), d, p), [&](int64_t, int64_t i, int64_t part) {
                int64_t j = part * panel_columns, last = std::min(n, j + panel_columns);
                // Rows from the last column on have no pairs here.
                pairs.run(i * row_block, std::min(last, (i + 1) * row_block), j,
                          [&](int64_t r, int64_t columns, const T* sums) {
                            for (int64_t c = std::max<int64_t>(r + 1 - j, 0); c < columns; ++c)
                              to[own_row(r, n) + j + c] = sums[c];
                          });
              });
  });
}

void pair_distance_gradient(const View& grad, const View& distances, const View& a, const View& b,
                            double p, bool by_columns, const View& out) {
  if (out.numel == 0) return;
  const Slopes slopes{grad, distances, by_columns};
  if (few_rows(a, b, out, 256, 2048)) return run_by_lanes(a, b, p, out, &slopes);
  int64_t n = a.sizes[a.ndim - 2], m = b.sizes[b.ndim - 2], d = a.sizes[a.ndim - 1];
  visit<float, double>("cdist", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_parts(
        matrices_of(out), parts_of(n, panel_columns), parts_of(d, depth_block),
        part_work(m, std::min(d, depth_block), p), [&](int64_t item, int64_t i, int64_t k) {
          const T *g = grad.ptr<const T>() + item * n * m,
                  *all = distances.ptr<const T>() + item * n * m;
          auto load = [&](int64_t r, int64_t rows, int64_t columns, T* weights, T* far) {
            if (by_columns) {
              load_block(g + r * n + i * panel_columns, n, weights, rows, columns);
              load_block(all + r * n + i * panel_columns, n, far, rows, columns);
            } else {
              transpose_part(g + i * panel_columns * m + r, m, weights, panel_columns, columns,
                             rows);
              transpose_part(all + i * panel_columns * m + r, m, far, panel_columns, columns, rows);
            }
          };
          Backward<T>{matrix_at<const T>(a, item), matrix_at<const T>(b, item), n, m, d, p}.run(
              i * panel_columns, k * depth_block, load, out.ptr<T>() + item * n * d);
        });
  });
}

void own_distance_gradient(const View& grad, const View& distances, const View& a, double p,
                           const View& out) {
  if (out.numel == 0) return;
  int64_t n = a.sizes[0], d = a.sizes[1];
  visit<float, double>("pdist", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *g = grad.ptr<const T>(), *all = distances.ptr<const T>();
    // For rows r and columns i of a square: the pair (r, i) where i is later, else (i, r).
    auto load = [&](int64_t i, const T* from, int64_t r, int64_t rows, int64_t columns, T* to) {
      for (int64_t row = 0; row < rows; ++row) {
        int64_t c = std::min(std::max<int64_t>(r + row + 1 - i, 0), columns);
        std::copy(from + own_row(r + row, n) + i + c, from + own_row(r + row, n) + i + columns,
                  to + row * panel_columns + c);
      }
      if (i + columns <= r) {
        T turned[rows_together * panel_columns];
        for (int64_t c = 0; c < columns; ++c)
          std::copy_n(from + own_row(i + c, n) + r, rows, turned + c * rows_together);
        return transpose_part(turned, rows_together, to, panel_columns, columns, rows);
      }
      for (int64_t c = std::max<int64_t>(r - i, 0); c < columns; ++c) {
        const T* line = from + own_row(i + c, n) + r;
        for (int64_t row = i + c + 1 - r; row < rows; ++row)
          to[row * panel_columns + c] = line[row];
        if (i + c < r + rows) to[(i + c - r) * panel_columns + c] = T(0);
      }
    };
    for_parts(1, parts_of(n, panel_columns), parts_of(d, depth_block),
              part_work(n, std::min(d, depth_block), p), [&](int64_t, int64_t part, int64_t k) {
                int64_t i = part * panel_columns;
                Backward<T>{a.ptr<const T>(), a.ptr<const T>(), n, n, d, p}.run(
                    i, k * depth_block,
                    [&](int64_t r, int64_t rows, int64_t columns, T* weights, T* far) {
                      load(i, g, r, rows, columns, weights);
                      load(i, all, r, rows, columns, far);
                    },
                    out.ptr<T>());
              });
  });
}

}  // namespace rl::kernels
