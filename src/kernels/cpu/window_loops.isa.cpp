#include "kernels/cpu/window_loops.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/cpu/lanes.h"

namespace rl::kernels::RL_ISA {
namespace {

// Calls row(output offset, plane offset, plane index, outputs) for every row of outputs and every
// window element that lies inside the plane there.
template <class Row> void for_rows(const WindowLoop& w, Row&& row) {
  for (int64_t kz = 0; kz < w.kernel[0]; ++kz)
    for (int64_t ky = 0; ky < w.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
        OutputRange depth = w.inside[0][kz], rows = w.inside[1][ky], cols = w.inside[2][kx];
        if (cols.begin == cols.end) continue;
        int64_t x = cols.begin * w.stride[2] + kx * w.dilation[2] - w.padding[2];
        for (int64_t oz = depth.begin; oz < depth.end; ++oz)
          for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
            int64_t z = oz * w.stride[0] + kz * w.dilation[0] - w.padding[0];
            int64_t y = oy * w.stride[1] + ky * w.dilation[1] - w.padding[1];
            row((oz * w.out_size[1] + oy) * w.out_size[2] + cols.begin,
                z * w.step[0] + y * w.step[1] + x * w.step[2],
                z * w.index_step[0] + y * w.index_step[1] + x * w.index_step[2],
                cols.end - cols.begin);
          }
      }
}

// f(i, x[i * step]) for i < n, compiled apart for the steps that have quick loads.
template <class F> void strided(const float* __restrict x, int64_t step, int64_t n, F&& f) {
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) f(i, x[i]);
  else if (step == 2)
    for (int64_t i = 0; i < n; ++i) f(i, x[2 * i]);
  else
    for (int64_t i = 0; i < n; ++i) f(i, x[i * step]);
}

// Not with vector scatters: they take three times as long.
__attribute__((optimize("no-tree-vectorize"))) void add_strided(const float* values, float* sums,
                                                                int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i * step] += values[i];
}

bool any_nan(const float* line, int64_t n) {
  int bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= line[i] != line[i];
  return bad;
}

template <int step, int... lane>
RL_INLINE vec<float> load_each(const float* p, std::integer_sequence<int, lane...>) {
  constexpr int lanes = sizeof...(lane), half = lanes / 2;
  if constexpr (step == 1) return load(p);
  // The second vector ends with the last element, as what lies beyond may be nobody's.
  else return shuffle<(lane < half ? 2 * lane : 2 * lane + 1)...>(load(p), load(p + lanes - 1));
}

// So many vectors of outputs from windows that begin at p.
template <int step, int vectors>
RL_INLINE void largest_of_whole(const float* p, int64_t kernel, int64_t dilation, float* best) {
  constexpr int lanes = Vector<float>::lanes;
  vec<float> most[vectors];
  for (auto& v : most) v = vec<float>{} - std::numeric_limits<float>::infinity();
  for (int64_t k = 0; k < kernel; ++k, p += dilation)
    for (int v = 0; v < vectors; ++v)
      most[v] = Fmax::apply(
          most[v], load_each<step>(p + v * lanes * step, std::make_integer_sequence<int, lanes>()));
  for (int v = 0; v < vectors; ++v) store(best + v * lanes, most[v]);
}

// n outputs, at least a vector of them, from windows that begin at p.
template <int step>
void largest_of_inner(const float* p, int64_t kernel, int64_t dilation, int64_t n, float* best) {
  constexpr int64_t lanes = Vector<float>::lanes, vectors = 4;
  int64_t i = 0;
  for (; i + vectors * lanes <= n; i += vectors * lanes)
    largest_of_whole<step, vectors>(p + i * step, kernel, dilation, best + i);
  for (; i < n; i += lanes) {
    i = std::min(i, n - lanes);  // the last ones may be written twice
    largest_of_whole<step, 1>(p + i * step, kernel, dilation, best + i);
  }
}

}  // namespace

void largest_of_line_f32(const WindowLoop& w, const float* line, int64_t size, float* best) {
  const int64_t step = w.stride[2], kernel = w.kernel[2], outputs = w.out_size[2];
  const OutputRange* inside = w.inside[2];
  OutputRange whole = {0, outputs};  // what has all of its window inside
  for (int64_t k = 0; k < kernel; ++k)
    whole = {std::max(whole.begin, inside[k].begin), std::min(whole.end, inside[k].end)};
  // Vectors of extremes drop NaN, which takes a third of the time.
  if (whole.end - whole.begin < Vector<float>::lanes || any_nan(line, size)) whole = {0, 0};
  const float* first = line - w.padding[2];
  for (int64_t x = 0; x < outputs; ++x) {
    if (x == whole.begin && whole.end) x = whole.end;
    if (x == outputs) break;
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t k = 0; k < kernel; ++k) {
      if (x < inside[k].begin || x >= inside[k].end) continue;
      float value = first[x * step + k * w.dilation[2]];
      most = (value > most) | (value != value) ? value : most;
    }
    best[x] = most;
  }
  if (!whole.end) return;
  auto inner = step == 1 ? largest_of_inner<1> : largest_of_inner<2>;
  inner(first + whole.begin * step, kernel, w.dilation[2], whole.end - whole.begin,
        best + whole.begin);
}

void max_of_windows_f32(const WindowLoop& w, const float* plane, float* best, int32_t* at) {
  int64_t step = w.stride[2] * w.step[2];
  int32_t index_step = static_cast<int32_t>(w.stride[2] * w.index_step[2]);
  for_rows(w, [&](int64_t out, int64_t in, int64_t index, int64_t n) {
    float* __restrict value = best + out;
    int32_t* __restrict place = at + out;
    int32_t first = static_cast<int32_t>(index);
    strided(plane + in, step, n, [&](int64_t i, float x) {
      bool better = (x > value[i]) | (x != x);
      value[i] = better ? x : value[i];
      place[i] = better ? first + static_cast<int32_t>(i) * index_step : place[i];
    });
  });
}

void max_of_pixels_f32(const float* const* rows, const int32_t* places, int64_t count,
                       int64_t channels, float* best, int64_t* at) {
  constexpr int64_t lanes = Vector<float>::lanes;
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  typedef int64_t Wide __attribute__((vector_size(2 * vector_bytes)));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    vec<float> most = vec<float>{} + lowest;
    vec<int32_t> place = vec<int32_t>{} + places[0];
    for (int64_t k = 0; k < count; ++k) {
      vec<float> x = load(rows[k] + c);
      vec<int32_t> better = (x > most) | (x != x);
      most = better ? x : most;
      place = better ? vec<int32_t>{} + places[k] : place;
    }
    store(best + c, most);
    Wide wide = __builtin_convertvector(place, Wide);
    std::memcpy(at + c, &wide, sizeof wide);
  }
  for (; c < channels; ++c) {
    float most = lowest;
    int64_t place = places[0];
    for (int64_t k = 0; k < count; ++k) {
      float x = rows[k][c];
      bool better = (x > most) | (x != x);
      most = better ? x : most;
      place = better ? places[k] : place;
    }
    best[c] = most;
    at[c] = place;
  }
}

void weigh_pixels_f32(const float* const* rows, const float* weights, int64_t count,
                      int64_t channels, float scale, float* out) {
  constexpr int64_t lanes = Vector<float>::lanes;
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) {
    vec<float> sum = {};
    for (int64_t k = 0; k < count; ++k) sum += load(rows[k] + c) * weights[k];
    store(out + c, sum * scale);
  }
  for (; c < channels; ++c) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += rows[k][c] * weights[k];
    out[c] = sum * scale;
  }
}

void sum_of_windows_f32(const WindowLoop& w, const float* plane, float* sums) {
  for_rows(w, [&](int64_t out, int64_t in, int64_t, int64_t n) {
    float* __restrict sum = sums + out;
    strided(plane + in, w.stride[2] * w.step[2], n, [&](int64_t i, float x) { sum[i] += x; });
  });
}

void spread_over_windows_f32(const WindowLoop& w, const float* values, float* plane) {
  int64_t step = w.stride[2] * w.step[2];
  for_rows(w, [&](int64_t out, int64_t in, int64_t, int64_t n) {
    const float* __restrict value = values + out;
    float* __restrict sum = plane + in;
    if (step == 1)
      for (int64_t i = 0; i < n; ++i) sum[i] += value[i];
    else add_strided(value, sum, step, n);
  });
}

}  // namespace rl::kernels::RL_ISA
