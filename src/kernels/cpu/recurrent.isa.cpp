#include "kernels/recurrent.h"

#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

template <class T>
void lstm(const RecurrentStep& s, T* gates, const T* cell, T* new_cell, T* new_hidden) {
  int64_t h = s.size;
  for (int64_t row = 0; row < s.n; ++row) {
    T* __restrict i = gates + row * 4 * h, * __restrict f = i + h, * __restrict g = f + h, * __restrict o = g + h;
    const T* __restrict c = cell + row * h;
    T* __restrict c_out = new_cell + row * h, * __restrict h_out = new_hidden + row * h;
    for (int64_t k = 0; k < h; ++k) i[k] = math::sigmoid(i[k]);
    for (int64_t k = 0; k < h; ++k) f[k] = math::sigmoid(f[k]);
    for (int64_t k = 0; k < h; ++k) g[k] = math::tanh(g[k]);
    for (int64_t k = 0; k < h; ++k) o[k] = math::sigmoid(o[k]);
    for (int64_t k = 0; k < h; ++k) c_out[k] = f[k] * c[k] + i[k] * g[k];
    for (int64_t k = 0; k < h; ++k) h_out[k] = o[k] * math::tanh(c_out[k]);
  }
}

template <class T>
void lstm_backward(const RecurrentStep& s, const T* gates, const T* cell, const T* new_cell,
                   const T* grad_hidden, T* grad_cell, const T* grad_gates, T* grad_sums) {
  int64_t h = s.size;
  for (int64_t row = 0; row < s.n; ++row) {
    const T* __restrict i = gates + row * 4 * h, * __restrict f = i + h, * __restrict g = f + h, * __restrict o = g + h;
    const T* __restrict c = cell + row * h, * __restrict c_new = new_cell + row * h, * __restrict dh = grad_hidden + row * h;
    T* __restrict dc = grad_cell + row * h;
    T* __restrict di = grad_sums + row * 4 * h, * __restrict df = di + h, * __restrict dg = df + h, * __restrict d_o = dg + h;
    for (int64_t k = 0; k < h; ++k) {
      T t = math::tanh(c_new[k]);
      T slope = dc[k] + dh[k] * o[k] * (1 - t * t);
      di[k] = slope * g[k];
      df[k] = slope * c[k];
      dg[k] = slope * i[k];
      d_o[k] = dh[k] * t;
      dc[k] = slope * f[k];
    }
    if (grad_gates)
      for (int64_t k = 0; k < 4 * h; ++k) di[k] += grad_gates[row * 4 * h + k];
    for (int64_t k = 0; k < h; ++k) {
      di[k] *= i[k] * (1 - i[k]);
      df[k] *= f[k] * (1 - f[k]);
      dg[k] *= 1 - g[k] * g[k];
      d_o[k] *= o[k] * (1 - o[k]);
    }
  }
}

template <class T>
void gru(const RecurrentStep& s, const T* x, const T* sums, const T* hidden, T* gates,
         T* new_hidden) {
  int64_t h = s.size;
  for (int64_t row = 0; row < s.n; ++row) {
    const T* __restrict x_r = x + row * 3 * h, * __restrict x_z = x_r + h, * __restrict x_n = x_z + h;
    const T* __restrict h_r = sums + row * 3 * h, * __restrict h_z = h_r + h, * __restrict h_n = h_z + h;
    const T* __restrict before = hidden + row * h;
    T* __restrict r = gates + row * 4 * h, * __restrict z = r + h, * __restrict n = z + h, * __restrict from_hidden = n + h;
    T* __restrict out = new_hidden + row * h;
    for (int64_t k = 0; k < h; ++k) r[k] = math::sigmoid(x_r[k] + h_r[k]);
    for (int64_t k = 0; k < h; ++k) z[k] = math::sigmoid(x_z[k] + h_z[k]);
    for (int64_t k = 0; k < h; ++k) from_hidden[k] = h_n[k];
    for (int64_t k = 0; k < h; ++k) n[k] = math::tanh(x_n[k] + r[k] * h_n[k]);
    for (int64_t k = 0; k < h; ++k) out[k] = n[k] + z[k] * (before[k] - n[k]);
  }
}

template <class T>
void gru_backward(const RecurrentStep& s, const T* gates, const T* hidden, T* grad_hidden,
                  const T* grad_gates, T* grad_x, T* grad_sums) {
  int64_t h = s.size;
  for (int64_t row = 0; row < s.n; ++row) {
    const T* __restrict r = gates + row * 4 * h, * __restrict z = r + h, * __restrict n = z + h, * __restrict from_hidden = n + h;
    const T* __restrict before = hidden + row * h;
    const T* __restrict more = grad_gates ? grad_gates + row * 4 * h : nullptr;
    T* __restrict dh = grad_hidden + row * h;
    T* __restrict dr = grad_x + row * 3 * h, * __restrict dz = dr + h, * __restrict dn = dz + h;
    T* __restrict sr = grad_sums + row * 3 * h, * __restrict sz = sr + h, * __restrict sn = sz + h;
    for (int64_t k = 0; k < h; ++k) {
      T slope_n = dh[k] * (1 - z[k]) + (more ? more[2 * h + k] : T(0));
      T slope_z = dh[k] * (before[k] - n[k]) + (more ? more[h + k] : T(0));
      dn[k] = slope_n * (1 - n[k] * n[k]);
      dz[k] = sz[k] = slope_z * z[k] * (1 - z[k]);
      T slope_r = dn[k] * from_hidden[k] + (more ? more[k] : T(0));
      dr[k] = sr[k] = slope_r * r[k] * (1 - r[k]);
      sn[k] = dn[k] * r[k] + (more ? more[3 * h + k] : T(0));
      dh[k] *= z[k];
    }
  }
}

}  // namespace

void lstm_step(const RecurrentStep& s, void* gates, const void* cell, void* new_cell,
               void* new_hidden) {
  visit<float, double>("lstm", s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    lstm<T>(s, static_cast<T*>(gates), static_cast<const T*>(cell), static_cast<T*>(new_cell),
            static_cast<T*>(new_hidden));
  });
}

void lstm_step_backward(const RecurrentStep& s, const void* gates, const void* cell,
                        const void* new_cell, const void* grad_hidden, void* grad_cell,
                        const void* grad_gates, void* grad_sums) {
  visit<float, double>("lstm", s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    lstm_backward<T>(s, static_cast<const T*>(gates), static_cast<const T*>(cell),
                     static_cast<const T*>(new_cell), static_cast<const T*>(grad_hidden),
                     static_cast<T*>(grad_cell), static_cast<const T*>(grad_gates),
                     static_cast<T*>(grad_sums));
  });
}

void gru_step(const RecurrentStep& s, const void* x, const void* sums, const void* hidden,
              void* gates, void* new_hidden) {
  visit<float, double>("gru", s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    gru<T>(s, static_cast<const T*>(x), static_cast<const T*>(sums), static_cast<const T*>(hidden),
           static_cast<T*>(gates), static_cast<T*>(new_hidden));
  });
}

void gru_step_backward(const RecurrentStep& s, const void* gates, const void* hidden,
                       void* grad_hidden, const void* grad_gates, void* grad_x, void* grad_sums) {
  visit<float, double>("gru", s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    gru_backward<T>(s, static_cast<const T*>(gates), static_cast<const T*>(hidden),
                    static_cast<T*>(grad_hidden), static_cast<const T*>(grad_gates),
                    static_cast<T*>(grad_x), static_cast<T*>(grad_sums));
  });
}

}  // namespace rl::kernels::RL_ISA
