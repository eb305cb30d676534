#include "kernels/cpu/recurrent_unit.h"

#include <optional>

#include "kernels/cpu/register_tile.h"
#include "kernels/cpu/short_exp2.h"
#include "kernels/cpu/tile_unit.h"

namespace rl::kernels::RL_ISA {
namespace {

using Floats = vec<float>;
constexpr int64_t lanes = Vector<float>::lanes;
constexpr int64_t square = unit_samples * unit_states;

RL_INLINE Floats at_most(float most, Floats x) { return x > most ? Floats{} + most : x; }

RL_INLINE Floats sigmoid(Floats x) {
  return 1.0f / (1.0f + short_exp2(at_most(126, x * -log2_of_e)));
}

// To the last bits for small x too, where 2 sigmoid(2 x) - 1 has none: a quotient of polynomials.
RL_INLINE Floats tanh(Floats x) {
  constexpr float most = 7.90531110763549805f;  // from which on it is 1
  x = at_most(most, x);
  x = x < -most ? Floats{} - most : x;
  Floats y = x * x;
  Floats p = mul_add(y, -2.76076847742355e-16f, Floats{} + 2.00018790482477e-13f);
  p = mul_add(p, y, -8.60467152213735e-11f);
  p = mul_add(p, y, 5.12229709037114e-08f);
  p = mul_add(p, y, 1.48572235717979e-05f);
  p = mul_add(p, y, 6.37261928875436e-04f);
  p = mul_add(p, y, 4.89352455891786e-03f);
  Floats q = mul_add(y, 1.19825839466702e-06f, Floats{} + 1.18534705686654e-04f);
  q = mul_add(q, y, 2.26843463243900e-03f);
  q = mul_add(q, y, 4.89352518554385e-03f);
  return x * p / q;
}

// Vectors of a row, of which `count` states are there; all of them in most blocks.
template <bool whole> struct Part {
  int64_t count;

  RL_INLINE Floats get(const float* from) const {
    if constexpr (whole) return load(from);
    else return load_part(from, count);
  }
  RL_INLINE Floats get(const bfloat16* from) const {
    if constexpr (whole) return load_wide(from);
    else {
      bfloat16 near[lanes] = {};
      std::memcpy(static_cast<void*>(near), from, static_cast<size_t>(2 * count));
      return load_wide(near);
    }
  }
  template <class T> RL_INLINE Floats get_if(const T* from) const {
    return from ? get(from) : Floats{};
  }
  RL_INLINE void put(float* to, Floats x) const {
    if constexpr (whole) store(to, x);
    else store_part(to, x, count);
  }
  RL_INLINE void put(bfloat16* to, HalfBits bits) const {
    std::memcpy(static_cast<void*>(to), &bits,
                whole ? sizeof bits : static_cast<size_t>(2 * count));
  }
};

// A block of states of a group of samples, at a step.
struct Group {
  const RecurrentUnit& u;
  int64_t block, sample, count;
  int64_t row;  // of the first sample, in the arrays

  int64_t size() const { return u.layer.size; }
  // f(part, r, j): vectors of states, from the block's j-th on, of the group's r-th sample. What
  // tiles and kept states have beyond the last one stays zero.
  template <class F> RL_INLINE void for_vectors(F f) const {
    for (int64_t j = 0; j < unit_states; j += lanes) {
      int64_t left = size() - block * unit_states - j;
      if (left <= 0) return;
      if (left >= lanes)
        for (int64_t r = 0; r < count; ++r) f(Part<true>{lanes}, r, j);
      else
        for (int64_t r = 0; r < count; ++r) f(Part<false>{left}, r, j);
    }
  }
  // The place in a row of `width` times H of the arrays.
  RL_INLINE int64_t place(int64_t width, int64_t r, int64_t j) const {
    return (row + r) * width * size() + block * unit_states + j;
  }
  RL_INLINE float* kept(float* of, int64_t r, int64_t j) const {
    return u.of(of, block, sample + r) + j;
  }
  // To the left side of the next step's products, whose `step`th block they are, and to an array.
  template <class P>
  RL_INLINE void put(P part, Floats x, int64_t turn, int64_t step, int64_t r, int64_t j,
                     bfloat16* to) const {
    HalfBits bits = narrowed_to_bfloat16(x);
    std::memcpy(u.left(turn, sample + r, step) + 2 * j, &bits, sizeof bits);
    part.put(to, bits);
  }
};

// `rows` rows by `width` vectors of the same in registers, by products of pairs of bfloat16, each
// in a float. Of the last of `blocks` blocks only `last` pairs are there.
template <int rows, int width>
void multiply_pairs(const float* left, const float* panel, int64_t depth, int64_t blocks,
                    int64_t last, float* sums) {
  constexpr int64_t row = unit_states / 2, step = unit_step_bytes / sizeof(float);
  Floats tile[rows][width] = {};
  for (int64_t i = 0, whole = blocks; i < depth; ++i) {
    bool ends = --whole == 0;
    if (ends) whole = blocks;
    multiply_tile<float, vector_bytes, 2>(
        tile, ends ? last : row, left + i * step, row, 1, panel + i * step, row,
        [](const float*) {}, step / 2);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t w = 0; w < 2; ++w)
      store(sums + r * unit_states + w * lanes, w < width ? tile[r][w % width] : Floats{});
}

// sums (32, 32) = the left side's rows of a group by a panel.
void multiply(const Group& g, int64_t turn, int64_t product, float* sums) {
  static constexpr UnitMeanwhile nothing = {};
  const RecurrentUnit& u = g.u;
  if (!u.has_unit) {
    constexpr int rows = panel_tile_rows;
    int64_t last = (g.size() - (u.blocks - 1) * unit_states + 1) / 2;
    bool narrow = g.size() - g.block * unit_states <= lanes;
    for (int64_t r = 0; r < g.count; r += rows) {
      bool few = g.count - r <= rows / 2;
      auto product_of = narrow ? (few ? multiply_pairs<rows / 2, 1> : multiply_pairs<rows, 1>)
                               : (few ? multiply_pairs<rows / 2, 2> : multiply_pairs<rows, 2>);
      product_of(reinterpret_cast<const float*>(u.left(turn, g.sample + r, 0)),
                 reinterpret_cast<const float*>(u.panel(g.block, product)), u.depth, u.blocks, last,
                 sums + r * unit_states);
    }
    return;
  }
  unit_product_for<1>(g.count, unit_states)(
      {u.left(turn, g.sample, 0), 64, tile_bytes, 0, unit_step_bytes},
      {u.panel(g.block, product), 64, tile_bytes, 0, unit_step_bytes}, u.depth, false, sums,
      nothing, unit_states);
}

void lstm(const Group& g, const RecurrentForward& a, const float* sums, int64_t turn) {
  const int64_t h = g.size();
  g.for_vectors([&](auto part, int64_t r, int64_t j) {
    const int64_t at = g.place(1, r, j);
    float* gates = static_cast<float*>(a.gates) + g.place(4, r, j);
    const float* s = sums + r * unit_states + j;
    Floats in = sigmoid(part.get(gates) + load(s));
    Floats forget = sigmoid(part.get(gates + h) + load(s + square));
    Floats cell = tanh(part.get(gates + 2 * h) + load(s + 2 * square));
    Floats out = sigmoid(part.get(gates + 3 * h) + load(s + 3 * square));
    part.put(gates, in), part.put(gates + h, forget);
    part.put(gates + 2 * h, cell), part.put(gates + 3 * h, out);
    float* kept = g.kept(g.u.states, r, j);
    Floats c = forget * load(kept) + in * cell;
    store(kept, c);
    part.put(static_cast<float*>(a.cells) + at, c);
    g.put(part, out * tanh(c), turn, g.block, r, j, static_cast<bfloat16*>(a.output) + at);
  });
}

void gru(const Group& g, const RecurrentForward& a, const float* sums, int64_t turn) {
  const int64_t h = g.size();
  g.for_vectors([&](auto part, int64_t r, int64_t j) {
    float* gates = static_cast<float*>(a.gates) + g.place(4, r, j);
    const float* s = sums + r * unit_states + j;
    const float* bias = static_cast<const float*>(a.bias);
    auto bias_of = [&](int64_t gate) {
      return bias ? part.get(bias + gate * h + g.block * unit_states + j) : Floats{};
    };
    Floats reset = sigmoid(part.get(gates) + (load(s) + bias_of(0)));
    Floats update = sigmoid(part.get(gates + h) + (load(s + square) + bias_of(1)));
    Floats from_hidden = load(s + 2 * square) + bias_of(2);
    Floats made = tanh(part.get(gates + 2 * h) + reset * from_hidden);
    part.put(gates, reset), part.put(gates + h, update);
    part.put(gates + 2 * h, made), part.put(gates + 3 * h, from_hidden);
    float* kept = g.kept(g.u.states, r, j);
    Floats hidden = made + update * (load(kept) - made);
    store(kept, hidden);
    g.put(part, hidden, turn, g.block, r, j, static_cast<bfloat16*>(a.output) + g.place(1, r, j));
  });
}

template <bool relu>
void rnn(const Group& g, const RecurrentForward& a, const float* sums, int64_t turn) {
  g.for_vectors([&](auto part, int64_t r, int64_t j) {
    const int64_t at = g.place(1, r, j);
    Floats x = part.get(static_cast<const float*>(a.gates) + at) + load(sums + r * unit_states + j);
    Floats out;
    if constexpr (relu) out = x < 0.0f ? Floats{} : x;
    else out = tanh(x);
    g.put(part, out, turn, g.block, r, j, static_cast<bfloat16*>(a.output) + at);
  });
}

void forward(const RecurrentUnit& u, const RecurrentForward& a, const RecurrentUnitStep& step,
             int64_t first, int64_t last) {
  std::optional<UnitScope> scope;
  if (u.has_unit) scope.emplace();
  alignas(64) float sums[4 * square];
  const int64_t now = step.turn, next = now + 1;
  for (int64_t block = first; block < last; ++block)
    for (int64_t row = 0; row < step.rows; row += unit_samples) {
      Group g{u, block, row, std::min(unit_samples, step.rows - row), step.begin + row};
      for (int64_t gate = 0; gate < u.gates; ++gate) multiply(g, now, gate, sums + gate * square);
      if (u.layer.cell == RecurrentCell::LSTM) lstm(g, a, sums, next);
      else if (u.layer.cell == RecurrentCell::GRU) gru(g, a, sums, next);
      else if (u.layer.cell == RecurrentCell::Tanh) rnn<false>(g, a, sums, next);
      else rnn<true>(g, a, sums, next);
    }
}

// The gradient of a hidden state: what later steps give, and what comes from outside.
template <class P>
RL_INLINE Floats hidden_slope(const Group& g, const RecurrentBackward& a, P part, int64_t r,
                              int64_t j) {
  const bfloat16* from_output = static_cast<const bfloat16*>(a.grad_output);
  Floats slope = load(g.kept(g.u.states, r, j));
  return from_output ? slope + part.get(from_output + g.place(1, r, j)) : slope;
}
template <class T> RL_INLINE const T* row_of(const void* array, int64_t place) {
  return array ? static_cast<const T*>(array) + place : nullptr;
}

void lstm_slopes(const Group& g, const RecurrentBackward& a, const float* before, int64_t turn) {
  const int64_t h = g.size(), blocks = g.u.blocks;
  g.for_vectors([&](auto part, int64_t r, int64_t j) {
    const int64_t at = g.place(1, r, j), gate = g.place(4, r, j);
    const float* gates = static_cast<const float*>(a.gates) + gate;
    const float* more = row_of<float>(a.grad_gates, gate);
    auto extra = [&](int64_t k) { return more ? part.get(more + k * h) : Floats{}; };
    Floats in = part.get(gates), forget = part.get(gates + h);
    Floats cell = part.get(gates + 2 * h), out = part.get(gates + 3 * h);
    Floats t = tanh(part.get(static_cast<const float*>(a.cells) + at));
    Floats from_hidden = hidden_slope(g, a, part, r, j);
    float* kept = g.kept(g.u.cells, r, j);
    Floats slope = load(kept) + part.get_if(row_of<float>(a.grad_cells, at)) +
                   from_hidden * out * (1.0f - t * t);
    store(kept, slope * forget);
    Floats c = part.get(before + r * h + g.block * unit_states + j);
    auto put = [&](int64_t k, Floats x) {
      g.put(part, x, turn, k * blocks + g.block, r, j,
            static_cast<bfloat16*>(a.grad_x) + gate + k * h);
    };
    put(0, (slope * cell + extra(0)) * in * (1.0f - in));
    put(1, (slope * c + extra(1)) * forget * (1.0f - forget));
    put(2, (slope * in + extra(2)) * (1.0f - cell * cell));
    put(3, (from_hidden * t + extra(3)) * out * (1.0f - out));
  });
}

void gru_slopes(const Group& g, const RecurrentBackward& a, int64_t turn) {
  const int64_t h = g.size(), blocks = g.u.blocks;
  g.for_vectors([&](auto part, int64_t r, int64_t j) {
    const int64_t gate = g.place(4, r, j), to = g.place(3, r, j);
    const float* gates = static_cast<const float*>(a.gates) + gate;
    const float* more = row_of<float>(a.grad_gates, gate);
    auto extra = [&](int64_t k) { return more ? part.get(more + k * h) : Floats{}; };
    Floats reset = part.get(gates), update = part.get(gates + h);
    Floats made = part.get(gates + 2 * h), from_hidden = part.get(gates + 3 * h);
    Floats before = part.get(static_cast<const bfloat16*>(a.before) + g.place(1, r, j));
    Floats slope = hidden_slope(g, a, part, r, j);
    store(g.kept(g.u.states, r, j), slope * update);
    Floats dn = (slope * (1.0f - update) + extra(2)) * (1.0f - made * made);
    Floats dz = (slope * (before - made) + extra(1)) * update * (1.0f - update);
    Floats dr = (dn * from_hidden + extra(0)) * reset * (1.0f - reset);
    bfloat16 *x = static_cast<bfloat16*>(a.grad_x) + to,
             *sums = static_cast<bfloat16*>(a.grad_sums) + to;
    auto put = [&](int64_t k, Floats gradient) {
      g.put(part, gradient, turn, k * blocks + g.block, r, j, sums + k * h);
    };
    put(0, dr), put(1, dz), put(2, dn * reset + extra(3));
    part.put(x, narrowed_to_bfloat16(dr));
    part.put(x + h, narrowed_to_bfloat16(dz));
    part.put(x + 2 * h, narrowed_to_bfloat16(dn));
  });
}

template <bool relu> void rnn_slopes(const Group& g, const RecurrentBackward& a, int64_t turn) {
  g.for_vectors([&](auto part, int64_t r, int64_t j) {
    const int64_t at = g.place(1, r, j);
    Floats out = part.get(static_cast<const bfloat16*>(a.output) + at);
    Floats slope = hidden_slope(g, a, part, r, j);
    if constexpr (relu) slope = out <= 0.0f ? Floats{} : slope;
    else slope *= 1.0f - out * out;
    g.put(part, slope, turn, g.block, r, j, static_cast<bfloat16*>(a.grad_x) + at);
  });
}

// The hidden states' gradients = or += what the step after gives them by the product.
void carry(const Group& g, int64_t turn, bool adds) {
  alignas(64) float sums[square];
  multiply(g, turn, 0, sums);
  float* kept = g.kept(g.u.states, 0, 0);
  for (int64_t k = 0; k < g.count * unit_states; k += lanes)
    store(kept + k, adds ? load(kept + k) + load(sums + k) : load(sums + k));
}

// `before`: of an LSTM, the cells before the step, (rows, H).
void slopes(const Group& g, const RecurrentBackward& a, const float* before, int64_t turn) {
  if (g.u.layer.cell == RecurrentCell::LSTM) lstm_slopes(g, a, before, turn);
  else if (g.u.layer.cell == RecurrentCell::GRU) gru_slopes(g, a, turn);
  else if (g.u.layer.cell == RecurrentCell::Tanh) rnn_slopes<false>(g, a, turn);
  else rnn_slopes<true>(g, a, turn);
}

void backward(const RecurrentUnit& u, const RecurrentBackward& a, const RecurrentUnitStep& step,
              int64_t first, int64_t last) {
  std::optional<UnitScope> scope;
  if (u.has_unit) scope.emplace();
  const bool adds = u.layer.cell == RecurrentCell::GRU;
  for (int64_t block = first; block < last; ++block) {
    for (int64_t row = 0; row < step.later; row += unit_samples)
      carry({u, block, row, std::min(unit_samples, step.later - row), 0}, step.turn + 1, adds);
    for (int64_t row = 0, end; row < step.rows; row = end) {
      bool carried = row < step.carried;
      end = std::min(row + unit_samples, carried ? step.carried : step.rows);
      const float* before = row_of<float>(carried ? a.cells : u.layer.cells,
                                          (carried ? step.before + row : row) * u.layer.size);
      slopes({u, block, row, end - row, step.begin + row}, a, before, step.turn);
    }
  }
}

}  // namespace

void recurrent_unit_pack(const RecurrentUnit& u, int64_t first, int64_t last) {
  if constexpr (may_have_unit) {
    const int64_t h = u.layer.size;
    const bfloat16* weight = static_cast<const bfloat16*>(u.layer.weight);
    for (int64_t block = first; block < last; ++block)
      for (int64_t gate = 0; gate < u.gates; ++gate)
        for (int64_t other = 0; other < u.blocks; ++other)
          for (int64_t tile = 0; tile < 2; ++tile) {
            // Lines are the states that come of the product, terms those that it sums over.
            int64_t line = block * unit_states + tile * tile_side, term = other * unit_states;
            const bfloat16* from = weight + gate * h * h;
            Lines<bfloat16> lines = u.forward ? Lines<bfloat16>{from + line * h + term, h, 1}
                                              : Lines<bfloat16>{from + term * h + line, 1, h};
            char* to = u.forward ? u.panel(block, gate) + other * unit_step_bytes
                                 : u.panel(block, 0) + (gate * u.blocks + other) * unit_step_bytes;
            pack_tile_of<true>(lines, h - line, h - term, to + tile * tile_bytes, 0, nullptr);
          }
  }
}

void recurrent_unit_forward(const RecurrentUnit& u, const RecurrentForward& arrays,
                            const RecurrentUnitStep& step, int64_t first, int64_t last) {
  if constexpr (may_have_unit) forward(u, arrays, step, first, last);
}

void recurrent_unit_backward(const RecurrentUnit& u, const RecurrentBackward& arrays,
                             const RecurrentUnitStep& step, int64_t first, int64_t last) {
  if constexpr (may_have_unit) backward(u, arrays, step, first, last);
}

}  // namespace rl::kernels::RL_ISA
