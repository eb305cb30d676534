// The CTC loss: a block for each sample, whose threads are states.
#pragma once
#include "kernels/cuda/device/ctc.h"
#include "kernels/cuda/device/prelude.cuh"

namespace rl::cuda {

// The states that alignments of a target go through: its labels with blanks around them; backwards,
// from the last to the first.
template <class T> class CtcPath {
 public:
  __device__ CtcPath(const CtcArgs& a, int64_t sample, bool backward)
      : args_(a), sample_(sample), count_(a.targets[sample]), backward_(backward) {}
  __device__ int64_t states() const { return 2 * count_ + 1; }
  __device__ int64_t label(int64_t state) const {
    if (state % 2 == 0) return args_.blank;
    int64_t i = backward_ ? count_ - 1 - state / 2 : state / 2;
    const Strided& v = args_.labels;
    int64_t label = load_index(v, sample_ * v.strides[0] + i * v.strides[1]);
    int64_t classes = args_.log_probs.sizes[2];
    if (label >= 0 && label < classes) return label;
    report(args_.fault, TargetOutOfRange, label, classes, 0);
    return 0;
  }
  __device__ T emitted(int64_t step, int64_t state) const {
    const Strided& v = args_.log_probs;
    return static_cast<const T*>(v.data)[step * v.strides[0] + sample_ * v.strides[1] +
                                         label(state) * v.strides[2]];
  }
  // A state's probability after a step, from those before it. `before` has two more in front.
  __device__ T follow(const T* before, int64_t step, int64_t s) const {
    constexpr T none = -math::infinity<T>;
    T a = before[s], b = s > 0 ? before[s - 1] : none, c = none;
    if (s > 2 && s % 2 && label(s) != label(s - 2) && label(s) != args_.blank) c = before[s - 2];
    T high = math::maximum(math::maximum(a, b), c);
    T shift = high > none ? high : T(0);
    T sum = math::exp(a - shift) + math::exp(b - shift) + math::exp(c - shift);
    return math::log(sum) + shift + emitted(step, s);
  }
  __device__ T begin(int64_t step, int64_t s) const {
    return s < 2 ? emitted(step, s) : -math::infinity<T>;
  }

 private:
  const CtcArgs& args_;
  int64_t sample_, count_;
  bool backward_;
};

// Rows of alpha begin behind two states that are never reached.
template <class T> __device__ T* alpha_row(const CtcArgs& a, int64_t sample, int64_t step) {
  return static_cast<T*>(a.alpha.data) + sample * a.alpha.strides[0] + step * a.alpha.strides[1] + 2;
}

template <class T> __global__ void ctc_forward(CtcArgs a, T* loss, int64_t loss_step) {
  constexpr T none = -math::infinity<T>;
  int64_t sample = blockIdx.x, steps = a.inputs[sample];
  CtcPath<T> path(a, sample, false);
  T* all = alpha_row<T>(a, sample, 0) - 2;
  for (int64_t i = threadIdx.x; i < a.alpha.sizes[1] * a.alpha.sizes[2]; i += blockDim.x)
    all[i] = none;
  __syncthreads();
  for (int64_t t = 0; t < steps; ++t) {
    T* row = alpha_row<T>(a, sample, t);
    for (int64_t s = threadIdx.x; s < path.states(); s += blockDim.x)
      row[s] = t == 0 ? path.begin(t, s) : path.follow(alpha_row<T>(a, sample, t - 1), t, s);
    __syncthreads();
  }
  if (threadIdx.x) return;
  T result = path.states() > 1 ? -none : T(0);
  if (steps) {
    T* row = alpha_row<T>(a, sample, steps - 1);
    T x = row[path.states() - 1], y = path.states() > 1 ? row[path.states() - 2] : none;
    T high = math::maximum(x, y);
    result = high == none ? -high : -(high + math::log(math::exp(x - high) + math::exp(y - high)));
  }
  loss[sample * loss_step] = result;
}

// `rows`: two for each sample, of the states' probabilities after and at a step.
template <class T>
__global__ void ctc_backward(CtcArgs a, Strided grad, Strided loss, Strided out, T* rows) {
  int64_t sample = blockIdx.x, all_steps = out.sizes[0], classes = out.sizes[2];
  T factor = static_cast<const T*>(grad.data)[sample * grad.strides[0]];
  T lost = static_cast<const T*>(loss.data)[sample * loss.strides[0]];
  int64_t steps = factor == T(0) ? 0 : a.inputs[sample];
  bool impossible = lost == math::infinity<T>;
  T* to = static_cast<T*>(out.data) + sample * out.strides[1];
  for (int64_t i = threadIdx.x; i < all_steps * classes; i += blockDim.x)
    to[i / classes * out.strides[0] + i % classes * out.strides[2]] =
        i / classes < steps && impossible ? math::quiet_nan<T> : T(0);
  __syncthreads();
  CtcPath<T> path(a, sample, true);
  int64_t states = path.states(), width = a.alpha.sizes[2];
  T *after = rows + sample * 2 * width, *at = after + width;
  for (int64_t t = steps - 1; t >= 0; --t) {
    const T* alpha = alpha_row<T>(a, sample, t);
    T* g = to + t * out.strides[0];
    for (int64_t s = threadIdx.x; s < states; s += blockDim.x) {
      at[s] = t == steps - 1 ? path.begin(t, s) : path.follow(after, t, s);
      T share = math::exp(alpha[states - 1 - s] + at[s] - path.emitted(t, s) + lost);
      add_at(g + path.label(s) * out.strides[2], share);
    }
    __syncthreads();
    const T* x = static_cast<const T*>(a.log_probs.data) + t * a.log_probs.strides[0] +
                 sample * a.log_probs.strides[1];
    for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) {
      T& y = g[c * out.strides[2]];
      y = (math::exp(x[c * a.log_probs.strides[2]]) - y) * factor;
    }
    T* other = after;
    after = at;
    at = other;
    __syncthreads();
  }
}

}  // namespace rl::cuda
