// What a step of an RNN, LSTM or GRU does element by element, after the product with its weight.
#pragma once
#include "kernels/cuda/device/prelude.cuh"
#include "kernels/cuda/device/recurrent.h"

namespace rl::cuda {

template <class T> __device__ T cell_sigmoid(T x) { return T(1) / (T(1) + math::exp(-x)); }

// What a step does for state k of a sample with h states. x and sums stand at its first gate, gates at
// the first that is kept; `before` is the state, `cell` becomes the next one. Gives the next state.
template <class T, int kind>
__device__ T step_state(const T* x, const T* sums, const T* bias, int64_t h, int64_t k, T before,
                        T& cell, T* gates) {
  if constexpr (kind == CellTanh || kind == CellRelu) {
    T sum = x[0] + sums[0];
    return kind == CellRelu ? math::maximum(sum, T(0)) : math::tanh(sum);
  } else if constexpr (kind == CellLSTM) {
    T in = cell_sigmoid(x[0] + sums[0]), forget = cell_sigmoid(x[h] + sums[h]);
    T fresh = math::tanh(x[2 * h] + sums[2 * h]), out = cell_sigmoid(x[3 * h] + sums[3 * h]);
    cell = forget * cell + in * fresh;
    gates[0] = in;
    gates[h] = forget;
    gates[2 * h] = fresh;
    gates[3 * h] = out;
    return out * math::tanh(cell);
  } else {
    auto from = [&](int g) { return sums[g * h] + (bias ? bias[g * h + k] : T(0)); };
    T reset = cell_sigmoid(x[0] + from(0)), update = cell_sigmoid(x[h] + from(1));
    T hidden = from(2), fresh = math::tanh(x[2 * h] + reset * hidden);
    gates[0] = reset;
    gates[h] = update;
    gates[2 * h] = fresh;
    gates[3 * h] = hidden;
    return fresh + update * (before - fresh);
  }
}

template <int kind>
constexpr int gates_of = kind == CellLSTM ? 4 : kind == CellGRU ? 3 : 1;  // of a product
template <int kind> constexpr int kept_gates = kind == CellLSTM || kind == CellGRU ? 4 : 1;

template <class T, int kind> __global__ void cell_forward(CellForward a) {
  int64_t h = a.size;
  for (int64_t i = thread_id(); i < a.rows * h; i += thread_count()) {
    int64_t row = i / h, k = i % h, at = gates_of<kind> * row * h + k;
    T cell = kind == CellLSTM ? static_cast<const T*>(a.cells_before)[i] : T(0);
    T before = kind == CellGRU ? static_cast<const T*>(a.hidden)[i] : T(0);
    static_cast<T*>(a.output)[i] = step_state<T, kind>(
        static_cast<const T*>(a.x) + at, static_cast<const T*>(a.sums) + at,
        static_cast<const T*>(a.bias), h, k, before, cell,
        static_cast<T*>(a.gates) + kept_gates<kind> * row * h + k);
    if (kind == CellLSTM) static_cast<T*>(a.cells)[i] = cell;
  }
}

// A gradient that comes, or zero where none does.
template <class T> __device__ T coming(const void* grad, int64_t i) {
  return grad ? static_cast<const T*>(grad)[i] : T(0);
}

// The gradients of a step for state k: what goes to the gates from x, and from the state before, and
// what goes to that past the product. `slope` is the state's, `cell_slope` the cell's, which becomes
// that of the cell before.
template <class T, int kind> struct StepGradient {
  T to_x[gates_of<kind>], to_sums[gates_of<kind>], past = T(0);

  __device__ StepGradient(const CellBackward& a, int64_t i, int64_t gate, T slope, T& cell_slope) {
    int64_t h = a.size;
    const T* gates = static_cast<const T*>(a.gates) + gate;
    auto more = [&](int g) { return coming<T>(a.grad_gates, gate + g * h); };
    if constexpr (kind == CellTanh || kind == CellRelu) {
      T out = static_cast<const T*>(a.output)[i];
      to_x[0] = kind == CellRelu ? (out <= T(0) ? T(0) : slope) : slope * (T(1) - out * out);
    } else if constexpr (kind == CellLSTM) {
      T in = gates[0], forget = gates[h], fresh = gates[2 * h], out = gates[3 * h];
      T t = math::tanh(static_cast<const T*>(a.cells)[i]);
      T cell = cell_slope + coming<T>(a.grad_cells, i) + slope * out * (T(1) - t * t);
      to_x[0] = (cell * fresh + more(0)) * in * (T(1) - in);
      to_x[1] = (cell * static_cast<const T*>(a.cells_before)[i] + more(1)) * forget *
                (T(1) - forget);
      to_x[2] = (cell * in + more(2)) * (T(1) - fresh * fresh);
      to_x[3] = (slope * t + more(3)) * out * (T(1) - out);
      cell_slope = cell * forget;
    } else {
      T reset = gates[0], update = gates[h], fresh = gates[2 * h], hidden = gates[3 * h];
      T before = static_cast<const T*>(a.before)[i];
      T dn = (slope * (T(1) - update) + more(2)) * (T(1) - fresh * fresh);
      to_x[1] = (slope * (before - fresh) + more(1)) * update * (T(1) - update);
      to_x[0] = (dn * hidden + more(0)) * reset * (T(1) - reset);
      to_x[2] = dn;
      past = slope * update;
    }
    for (int g = 0; g < gates_of<kind>; ++g) to_sums[g] = to_x[g];
    if constexpr (kind == CellGRU) to_sums[2] = to_x[2] * gates[0] + more(3);
  }
  // i is the place of the first gate's.
  __device__ void write(const CellBackward& a, int64_t i) const {
    for (int g = 0; g < gates_of<kind>; ++g) {
      static_cast<T*>(a.grad_x)[i + g * a.size] = to_x[g];
      if (kind == CellGRU) static_cast<T*>(a.grad_sums)[i + g * a.size] = to_sums[g];
    }
  }
};

// grad_hidden and grad_cell are those of the states after the step; grad_cell becomes that of the
// cells before, and of a GRU, grad_hidden what goes to the states before past the product.
template <class T, int kind> __global__ void cell_backward(CellBackward a) {
  int64_t h = a.size;
  for (int64_t i = thread_id(); i < a.rows * h; i += thread_count()) {
    int64_t row = i / h, k = i % h;
    T* dh = static_cast<T*>(a.grad_hidden);
    T cell = kind == CellLSTM ? static_cast<T*>(a.grad_cell)[i] : T(0);
    StepGradient<T, kind> made(a, i, kept_gates<kind> * row * h + k,
                               dh[i] + coming<T>(a.grad_output, i), cell);
    made.write(a, gates_of<kind> * row * h + k);
    if (kind == CellLSTM) static_cast<T*>(a.grad_cell)[i] = cell;
    if (kind == CellGRU) dh[i] = made.past;
  }
}

// ---- all steps of a sample by one block, which keeps the weight: `depth` rows or columns of it a
// thread, the first `held` in registers, the others in shared memory

template <class T, int depth, int held> struct KeptWeight {
  T own[held];
  T* others;  // [depth - held][threads]

  // Element j of the thread lies at from[j * step]; there are `count`, and zeros behind.
  __device__ KeptWeight(const T* from, int64_t step, int64_t count, T* shared) : others(shared) {
#pragma unroll
    for (int j = 0; j < held; ++j) own[j] = j < count ? from[j * step] : T(0);
    for (int j = held; j < depth; ++j)
      others[(j - held) * blockDim.x + threadIdx.x] = j < count ? from[j * step] : T(0);
  }
  // With `depth` numbers in shared memory.
  __device__ T times(const T* numbers) const {
    T sums[4] = {};
#pragma unroll
    for (int j = 0; j < held; ++j) sums[j % 4] = math::plus_product(sums[j % 4], own[j], numbers[j]);
#pragma unroll 8
    for (int j = held; j < depth; ++j)
      sums[j % 4] = math::plus_product(
          sums[j % 4], others[(j - held) * blockDim.x + threadIdx.x], numbers[j]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

// Threads: one for each gate of each state.
template <class T, int kind, int depth, int held, int threads>
__global__ void __launch_bounds__(threads) steps_forward(const __grid_constant__ StepsForward a) {
  constexpr int gates = gates_of<kind>, kept = kept_gates<kind>;
  RL_DYNAMIC_SHARED(T, state);
  T *sums = state + depth, *others = sums + blockDim.x;
  int h = static_cast<int>(a.size), gate = threadIdx.x;
  KeptWeight<T, depth, held> weight(static_cast<const T*>(a.weight) + int64_t(gate) * h, 1,
                                    gate < gates * h ? h : 0, others);
  for (int64_t sample = blockIdx.x; sample < a.batch; sample += gridDim.x) {
    int64_t i = sample * h + gate;
    T before = gate < h ? static_cast<const T*>(a.hidden)[i] : T(0);
    T cell = kind == CellLSTM && gate < h ? static_cast<const T*>(a.cells)[i] : T(0);
    if (gate < depth) state[gate] = before;
    for (int j = blockDim.x + gate; j < depth; j += blockDim.x) state[j] = T(0);
    for (int64_t step = 0; step < a.steps; ++step) {
      int64_t row = (a.first + step * a.stride) + sample;
      __syncthreads();  // the state is there
      sums[gate] = weight.times(state);
      __syncthreads();  // the state was read, the sums are there
      if (gate >= h) continue;
      before = step_state<T, kind>(static_cast<const T*>(a.x) + row * gates * h + gate, sums + gate,
                                   static_cast<const T*>(a.bias), h, gate, before, cell,
                                   static_cast<T*>(a.gates) + row * kept * h + gate);
      state[gate] = before;
      static_cast<T*>(a.output)[row * h + gate] = before;
      if (kind == CellLSTM) static_cast<T*>(a.new_cells)[row * h + gate] = cell;
    }
    __syncthreads();
  }
}

// Thread (g, k) multiplies the rows of gate g with column k of the weight.
template <class T, int kind, int depth, int held, int threads>
__global__ void __launch_bounds__(threads) steps_backward(const __grid_constant__ StepsBackward a) {
  constexpr int gates = gates_of<kind>, kept = kept_gates<kind>;
  RL_DYNAMIC_SHARED(T, slopes);  // [gates][depth]
  T *products = slopes + gates * depth, *others = products + blockDim.x;
  int h = static_cast<int>(a.size), g = threadIdx.x / h, k = threadIdx.x % h;
  bool works = g < gates, leads = g == 0;
  KeptWeight<T, depth, held> weight(static_cast<const T*>(a.weight) + (works ? g * h * h + k : 0),
                                    h, works ? h : 0, others);
  for (int j = threadIdx.x; j < gates * depth; j += blockDim.x) slopes[j] = T(0);
  for (int64_t sample = blockIdx.x; sample < a.batch; sample += gridDim.x) {
    T slope = T(0), cell_slope = T(0);
    for (int64_t step = a.steps - 1; step >= 0; --step) {
      int64_t row = (a.first + step * a.stride) + sample;
      __syncthreads();  // the products and slopes were read
      T past = T(0);
      if (leads) {
        CellBackward cell = a.cell;
        cell.cells_before = step ? a.cell.cells : a.first_cells;
        int64_t own = row * h + k, earlier = step ? own - a.stride * h : sample * h + k;
        if (kind == CellLSTM)
          cell.cells_before = static_cast<const T*>(cell.cells_before) + earlier - own;
        StepGradient<T, kind> made(cell, own, row * kept * h + k,
                                   slope + coming<T>(a.cell.grad_output, own), cell_slope);
        made.write(a.cell, row * gates * h + k);
        for (int j = 0; j < gates; ++j) slopes[j * depth + k] = made.to_sums[j];
        past = made.past;
      }
      __syncthreads();
      products[threadIdx.x] = weight.times(slopes + (works ? g : 0) * depth);
      __syncthreads();
      if (!leads) continue;
      slope = past;
      for (int j = 0; j < gates; ++j) slope += products[j * h + k];
    }
    if (!leads) continue;
    static_cast<T*>(a.cell.grad_hidden)[sample * h + k] = slope;
    if (kind == CellLSTM) static_cast<T*>(a.cell.grad_cell)[sample * h + k] = cell_slope;
  }
}

}  // namespace rl::cuda
