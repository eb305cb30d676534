// What a step of an RNN, LSTM or GRU does element by element, after the product with its weight.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/recurrent.h"

namespace rl::cuda {

template <class T> __device__ T cell_sigmoid(T x) { return T(1) / (T(1) + math::exp(-x)); }

template <class T, int kind> __global__ void cell_forward(CellForward a) {
  int64_t h = a.size;
  for (int64_t i = thread_id(); i < a.rows * h; i += thread_count()) {
    int64_t row = i / h, k = i % h;
    T* output = static_cast<T*>(a.output);
    if constexpr (kind == CellTanh || kind == CellRelu) {
      T sum = static_cast<const T*>(a.x)[i] + static_cast<const T*>(a.sums)[i];
      output[i] = kind == CellRelu ? math::maximum(sum, T(0)) : math::tanh(sum);
    } else if constexpr (kind == CellLSTM) {
      int64_t at = 4 * row * h + k;
      const T *x = static_cast<const T*>(a.x) + at, *s = static_cast<const T*>(a.sums) + at;
      T* gates = static_cast<T*>(a.gates) + at;
      T in = cell_sigmoid(x[0] + s[0]), forget = cell_sigmoid(x[h] + s[h]);
      T fresh = math::tanh(x[2 * h] + s[2 * h]), out = cell_sigmoid(x[3 * h] + s[3 * h]);
      T cell = forget * static_cast<const T*>(a.cells_before)[i] + in * fresh;
      gates[0] = in;
      gates[h] = forget;
      gates[2 * h] = fresh;
      gates[3 * h] = out;
      static_cast<T*>(a.cells)[i] = cell;
      output[i] = out * math::tanh(cell);
    } else {
      int64_t at = 3 * row * h + k;
      const T *x = static_cast<const T*>(a.x) + at, *s = static_cast<const T*>(a.sums) + at;
      const T* bias = static_cast<const T*>(a.bias);
      T* gates = static_cast<T*>(a.gates) + 4 * row * h + k;
      auto from = [&](int g) { return s[g * h] + (bias ? bias[g * h + k] : T(0)); };
      T reset = cell_sigmoid(x[0] + from(0)), update = cell_sigmoid(x[h] + from(1));
      T hidden = from(2), fresh = math::tanh(x[2 * h] + reset * hidden);
      gates[0] = reset;
      gates[h] = update;
      gates[2 * h] = fresh;
      gates[3 * h] = hidden;
      output[i] = fresh + update * (static_cast<const T*>(a.hidden)[i] - fresh);
    }
  }
}

// A gradient that comes, or zero where none does.
template <class T> __device__ T coming(const void* grad, int64_t i) {
  return grad ? static_cast<const T*>(grad)[i] : T(0);
}

// grad_hidden and grad_cell are those of the states after the step; grad_cell becomes that of the
// cells before, and of a GRU, grad_hidden what goes to the states before past the product.
template <class T, int kind> __global__ void cell_backward(CellBackward a) {
  int64_t h = a.size;
  for (int64_t i = thread_id(); i < a.rows * h; i += thread_count()) {
    int64_t row = i / h, k = i % h, at = 4 * row * h + k;
    T* dh = static_cast<T*>(a.grad_hidden);
    T slope = dh[i] + coming<T>(a.grad_output, i);
    const T* gates = static_cast<const T*>(a.gates) + at;
    auto more = [&](int g) { return coming<T>(a.grad_gates, at + g * h); };
    if constexpr (kind == CellTanh || kind == CellRelu) {
      T out = static_cast<const T*>(a.output)[i];
      static_cast<T*>(a.grad_x)[i] =
          kind == CellRelu ? (out <= T(0) ? T(0) : slope) : slope * (T(1) - out * out);
    } else if constexpr (kind == CellLSTM) {
      T in = gates[0], forget = gates[h], fresh = gates[2 * h], out = gates[3 * h];
      T t = math::tanh(static_cast<const T*>(a.cells)[i]);
      T* dc = static_cast<T*>(a.grad_cell);
      T cell = dc[i] + coming<T>(a.grad_cells, i) + slope * out * (T(1) - t * t);
      T* dx = static_cast<T*>(a.grad_x) + at;
      dx[0] = (cell * fresh + more(0)) * in * (T(1) - in);
      dx[h] = (cell * static_cast<const T*>(a.cells_before)[i] + more(1)) * forget *
              (T(1) - forget);
      dx[2 * h] = (cell * in + more(2)) * (T(1) - fresh * fresh);
      dx[3 * h] = (slope * t + more(3)) * out * (T(1) - out);
      dc[i] = cell * forget;
    } else {
      T reset = gates[0], update = gates[h], fresh = gates[2 * h], hidden = gates[3 * h];
      T before = static_cast<const T*>(a.before)[i];
      T dn = (slope * (T(1) - update) + more(2)) * (T(1) - fresh * fresh);
      T dz = (slope * (before - fresh) + more(1)) * update * (T(1) - update);
      T dr = (dn * hidden + more(0)) * reset * (T(1) - reset);
      T *dx = static_cast<T*>(a.grad_x) + 3 * row * h + k,
        *ds = static_cast<T*>(a.grad_sums) + 3 * row * h + k;
      dx[0] = ds[0] = dr;
      dx[h] = ds[h] = dz;
      dx[2 * h] = dn;
      ds[2 * h] = dn * reset + more(3);
      dh[i] = slope * update;
    }
  }
}

}  // namespace rl::cuda
