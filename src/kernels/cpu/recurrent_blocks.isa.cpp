#include "kernels/cpu/recurrent_blocks.h"

#include "kernels/cpu/register_tile.h"
#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

// Rows of the panel that stay in the first cache while all rows of a pass them.
constexpr int64_t deep = 64;

// `rows` rows by `width` vectors of out.
template <class T, int rows, int width>
void tile(const RecurrentProduct& p, int64_t row, int64_t column, int64_t from, int64_t to) {
  constexpr int n = Vector<T>::lanes;
  const T* a = static_cast<const T*>(p.a) + row * p.a_row;
  const T* b = static_cast<const T*>(p.panel) + from * p.columns + column;
  T* out = static_cast<T*>(p.out) + row * p.columns + column;
  vec<T> sums[rows][width] = {};
  multiply_tile<T, vector_bytes>(sums, to - from, a + from, p.a_row, 1, b, p.columns,
                                 [](const T*) {});
  if (p.add || from > 0)
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int w = 0; w < width; ++w) sums[r][w] += load(out + r * p.columns + w * n);
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < width; ++w) store(out + r * p.columns + w * n, sums[r][w]);
}

template <class T, int width, int rows>
void tiles(const RecurrentProduct& p, int64_t row, int64_t column, int64_t from, int64_t to) {
  for (; row + rows <= p.rows; row += rows) tile<T, rows, width>(p, row, column, from, to);
  if constexpr (rows > 1)
    if (row < p.rows) tiles<T, width, rows - 1>(p, row, column, from, to);
}

template <class T, int columns> void multiply(const RecurrentProduct& p) {
  constexpr int lanes = Vector<T>::lanes, vectors = columns / lanes;
  constexpr bool many = vector_registers == 32;
  constexpr int width = vectors % 3 == 0 ? 3 : many && vectors % 4 == 0 ? 4 : 2;
  constexpr int rows = !many ? (width == 2 && fused_vectors ? 6 : 4) : width == 4 ? 6 : 8;
  static_assert(vectors % width == 0);
  for (int64_t from = 0; from < p.depth; from += deep) {
    int64_t to = p.depth - from < deep ? p.depth : from + deep;
    for (int column = 0; column < columns; column += width * lanes)
      tiles<T, width, rows>(p, 0, column, from, to);
  }
}

// math::sigmoid, which spends as much again on its last bit.
template <class T> RL_INLINE T sigmoid(T x) { return T(1) / (T(1) + math::exp(-x)); }

// The gates of a state lie `h` apart in memory, and `states` apart in the sums. A block is most
// often whole, and the length `n` of its loops is then a constant.

template <class T, class N> RL_INLINE void take(N n, const T* from, T* to) {
  for (int64_t k = 0; k < n; ++k) to[k] = from[k];
}
template <class T, class N> RL_INLINE void take_sum(N n, const T* a, const T* b, T* to) {
  for (int64_t k = 0; k < n; ++k) to[k] = a[k] + b[k];
}

template <class T, int states, bool relu, class N>
void rnn(N n, const RecurrentBlock& b, const RecurrentForward& step, const T* sums) {
  T out[states] = {};
  for (int64_t row = 0; row < b.rows; ++row) {
    int64_t at = row * b.size + b.first;
    take_sum(n, static_cast<const T*>(step.gates) + at, sums + row * states, out);
    for (T& o : out) o = relu ? math::maximum(o, T(0)) : math::tanh(o);
    take(n, out, static_cast<T*>(step.output) + at);
  }
}

// In two passes, so that the functions of several samples are under way at once. One loop for all
// gates would be too much for gcc to find vectors in.
template <class T, int states, class N>
void lstm(N n, const RecurrentBlock& b, const RecurrentForward& step, const T* sums,
          const T* cells) {
  int64_t h = b.size;
  T *all_gates = static_cast<T*>(step.gates) + b.first, *new_cells = static_cast<T*>(step.cells);
  T i[states] = {}, f[states] = {}, g[states] = {}, o[states] = {}, c[states] = {};
  for (int64_t row = 0; row < b.rows; ++row, sums += 4 * states) {
    T* gates = all_gates + 4 * row * h;
    take_sum(n, gates, sums, i);
    take_sum(n, gates + h, sums + states, f);
    take_sum(n, gates + 2 * h, sums + 2 * states, g);
    take_sum(n, gates + 3 * h, sums + 3 * states, o);
    take(n, cells + row * h + b.first, c);
    for (T& x : i) x = sigmoid(x);
    for (T& x : f) x = sigmoid(x);
    for (T& x : g) x = math::tanh(x);
    for (T& x : o) x = sigmoid(x);
    for (int k = 0; k < states; ++k) c[k] = f[k] * c[k] + i[k] * g[k];
    take(n, i, gates);
    take(n, f, gates + h);
    take(n, g, gates + 2 * h);
    take(n, o, gates + 3 * h);
    take(n, c, new_cells + row * h + b.first);
  }
  for (int64_t row = 0; row < b.rows; ++row) {
    int64_t at = row * h + b.first;
    take(n, all_gates + (4 * row + 3) * h, o);
    take(n, new_cells + at, c);
    for (int k = 0; k < states; ++k) c[k] = o[k] * math::tanh(c[k]);
    take(n, c, static_cast<T*>(step.output) + at);
  }
}

template <class T, int states, class N>
void gru(N n, const RecurrentBlock& b, const RecurrentForward& step, const T* sums,
         const T* hidden) {
  int64_t h = b.size;
  T bias_r[states] = {}, bias_z[states] = {}, bias_n[states] = {};
  if (step.bias) {
    const T* bias = static_cast<const T*>(step.bias) + b.first;
    take(n, bias, bias_r);
    take(n, bias + h, bias_z);
    take(n, bias + 2 * h, bias_n);
  }
  T r[states] = {}, z[states] = {}, in[states] = {}, from_hidden[states] = {}, out[states] = {};
  for (int64_t row = 0; row < b.rows; ++row) {
    const T* s = sums + 3 * row * states;
    T* gates = static_cast<T*>(step.gates) + 4 * row * h + b.first;
    take_sum(n, gates, s, r);
    take_sum(n, gates + h, s + states, z);
    take(n, gates + 2 * h, in);
    take(n, s + 2 * states, from_hidden);
    take(n, hidden + row * h + b.first, out);
    for (int k = 0; k < states; ++k) {
      r[k] = sigmoid(r[k] + bias_r[k]);
      z[k] = sigmoid(z[k] + bias_z[k]);
      from_hidden[k] += bias_n[k];
    }
    for (int k = 0; k < states; ++k) in[k] = math::tanh(in[k] + r[k] * from_hidden[k]);
    for (int k = 0; k < states; ++k) out[k] = in[k] + z[k] * (out[k] - in[k]);
    take(n, r, gates);
    take(n, z, gates + h);
    take(n, in, gates + 2 * h);
    take(n, from_hidden, gates + 3 * h);
    take(n, out, static_cast<T*>(step.output) + row * h + b.first);
  }
}

// A row of a gradient that comes, or zeros where none does: vectors of what may lie nowhere are
// read under masks, which took Zen 5 longer than all the rest.
template <class T> const T* row_of(const void* p, int64_t place) {
  alignas(64) static constexpr T zeros[backward_states] = {};
  return p ? static_cast<const T*>(p) + place : zeros;
}

template <class T, int states, bool relu, class N>
void rnn_slopes(N n, const RecurrentBlock& b, const RecurrentBackward& step, const T* dh) {
  for (int64_t row = 0; row < b.rows; ++row, dh += states) {
    int64_t at = row * b.size + b.first;
    const T* __restrict out = static_cast<const T*>(step.output) + at;
    const T* __restrict from_output = row_of<T>(step.grad_output, at);
    T* __restrict dx = static_cast<T*>(step.grad_x) + at;
    for (int64_t k = 0; k < n; ++k) {
      T slope = dh[k] + from_output[k];
      dx[k] = relu ? (out[k] <= 0 ? T(0) : slope) : slope * (1 - out[k] * out[k]);
    }
  }
}

template <class T, int states, class N>
void lstm_slopes(N n, const RecurrentBlock& b, const RecurrentBackward& step, const T* cells,
                 T* grad_hidden, T* grad_cell) {
  int64_t h = b.size;
  for (int64_t row = 0; row < b.rows; ++row) {
    int64_t at = row * h + b.first, gate = 4 * row * h + b.first;
    const T* __restrict i = static_cast<const T*>(step.gates) + gate, * __restrict f = i + h, * __restrict g = f + h, * __restrict o = g + h;
    const T* __restrict c = cells + at;
    const T* __restrict c_new = static_cast<const T*>(step.cells) + at;
    const T* __restrict from_output = row_of<T>(step.grad_output, at);
    const T* __restrict from_cells = row_of<T>(step.grad_cells, at);
    const T* more[4];
    for (int k = 0; k < 4; ++k) more[k] = row_of<T>(step.grad_gates, gate + k * h);
    const T* __restrict dh = grad_hidden + row * states;
    T* __restrict dc = grad_cell + row * states;
    T* __restrict di = static_cast<T*>(step.grad_x) + gate, * __restrict df = di + h, * __restrict dg = df + h, * __restrict d_o = dg + h;
    T slopes[states], outer[states];
    for (int64_t k = 0; k < n; ++k) {
      T t = math::tanh(c_new[k]), from_hidden = dh[k] + from_output[k];
      slopes[k] = dc[k] + from_cells[k] + from_hidden * o[k] * (1 - t * t);
      outer[k] = from_hidden * t;
    }
    for (int64_t k = 0; k < n; ++k) di[k] = (slopes[k] * g[k] + more[0][k]) * i[k] * (1 - i[k]);
    for (int64_t k = 0; k < n; ++k) df[k] = (slopes[k] * c[k] + more[1][k]) * f[k] * (1 - f[k]);
    for (int64_t k = 0; k < n; ++k) dg[k] = (slopes[k] * i[k] + more[2][k]) * (1 - g[k] * g[k]);
    for (int64_t k = 0; k < n; ++k) d_o[k] = (outer[k] + more[3][k]) * o[k] * (1 - o[k]);
    for (int64_t k = 0; k < n; ++k) dc[k] = slopes[k] * f[k];
  }
}

template <class T, int states, class N>
void gru_slopes(N n, const RecurrentBlock& b, const RecurrentBackward& step, T* grad_hidden) {
  int64_t h = b.size;
  for (int64_t row = 0; row < b.rows; ++row) {
    int64_t at = row * h + b.first, gate = 4 * row * h + b.first, sum = 3 * row * h + b.first;
    const T* __restrict r = static_cast<const T*>(step.gates) + gate, * __restrict z = r + h, * __restrict new_h = z + h, * __restrict from_hidden = new_h + h;
    const T* __restrict before = static_cast<const T*>(step.before) + at;
    const T* __restrict from_output = row_of<T>(step.grad_output, at);
    const T* more[4];
    for (int k = 0; k < 4; ++k) more[k] = row_of<T>(step.grad_gates, gate + k * h);
    T* __restrict dh = grad_hidden + row * states;
    T* __restrict dr = static_cast<T*>(step.grad_x) + sum, * __restrict dz = dr + h, * __restrict dn = dz + h;
    T* __restrict sr = static_cast<T*>(step.grad_sums) + sum, * __restrict sz = sr + h, * __restrict sn = sz + h;
    T slope[states];
    for (int64_t k = 0; k < n; ++k) slope[k] = dh[k] + from_output[k];
    for (int64_t k = 0; k < n; ++k)
      dn[k] = (slope[k] * (1 - z[k]) + more[2][k]) * (1 - new_h[k] * new_h[k]);
    for (int64_t k = 0; k < n; ++k)
      dz[k] = (slope[k] * (before[k] - new_h[k]) + more[1][k]) * z[k] * (1 - z[k]);
    for (int64_t k = 0; k < n; ++k)
      dr[k] = (dn[k] * from_hidden[k] + more[0][k]) * r[k] * (1 - r[k]);
    take(n, dr, sr);
    take(n, dz, sz);
    for (int64_t k = 0; k < n; ++k) sn[k] = dn[k] * r[k] + more[3][k];
    for (int64_t k = 0; k < n; ++k) dh[k] = slope[k] * z[k];
  }
}

// f(n), where n is a constant if the block is whole.
template <int64_t states, class F> void for_width(const RecurrentBlock& b, F f) {
  if (b.count == states) f(std::integral_constant<int64_t, states>());
  else f(b.count);
}

}  // namespace

void recurrent_product(const RecurrentProduct& p) {
  visit<float, double>("recurrent", p.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (p.columns == 64) multiply<T, 64>(p);
    else if (p.columns == 48) multiply<T, 48>(p);
    else multiply<T, 32>(p);
  });
}

void recurrent_gates(const RecurrentBlock& b, const RecurrentForward& step, const void* sums,
                     const void* hidden, const void* cells) {
  visit<float, double>("recurrent", b.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *s = static_cast<const T*>(sums), *h = static_cast<const T*>(hidden),
            *c = static_cast<const T*>(cells);
    if (b.cell == RecurrentCell::LSTM)
      for_width<16>(b, [&](auto n) { lstm<T, 16>(n, b, step, s, c); });
    else if (b.cell == RecurrentCell::GRU)
      for_width<16>(b, [&](auto n) { gru<T, 16>(n, b, step, s, h); });
    else if (b.cell == RecurrentCell::Tanh)
      for_width<32>(b, [&](auto n) { rnn<T, 32, false>(n, b, step, s); });
    else for_width<32>(b, [&](auto n) { rnn<T, 32, true>(n, b, step, s); });
  });
}

void recurrent_slopes(const RecurrentBlock& b, const RecurrentBackward& step, const void* cells,
                      void* grad_hidden, void* grad_cell) {
  constexpr int states = backward_states;
  visit<float, double>("recurrent", b.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T *dh = static_cast<T*>(grad_hidden), *dc = static_cast<T*>(grad_cell);
    for_width<states>(b, [&](auto n) {
      if (b.cell == RecurrentCell::LSTM)
        lstm_slopes<T, states>(n, b, step, static_cast<const T*>(cells), dh, dc);
      else if (b.cell == RecurrentCell::GRU) gru_slopes<T, states>(n, b, step, dh);
      else if (b.cell == RecurrentCell::Tanh) rnn_slopes<T, states, false>(n, b, step, dh);
      else rnn_slopes<T, states, true>(n, b, step, dh);
    });
  });
}

}  // namespace rl::kernels::RL_ISA
