#include "kernels/cpu/ctc_steps.h"

#include "kernels/cpu/simd.h"
#include "math/math.h"

namespace rl::kernels::RL_ISA {
namespace {

// before + log(exp(a) + exp(b) + exp(c)) for the three ways into a state.
template <class T> void step_states(const CtcStep<T>& step) {
  constexpr T none = -math::infinity<T>;
  const T *before = step.before, *skip = step.skip, *emitted = step.emitted;
  T* after = step.after;
  for (int64_t s = 0; s < step.states; ++s) {
    T a = before[s], b = before[s - 1], c = before[s - 2] + skip[s];
    T high = a > b ? a : b;
    high = c > high ? c : high;
    T shift = high > none ? high : T(0);
    T sum = math::exp_below(a - shift) + math::exp_below(b - shift) + math::exp_below(c - shift);
    after[s] = math::log(sum) + shift + emitted[s];
  }
}

template <class T> void weigh_states(const CtcStates<T>& job) {
  for (int64_t s = 0; s < job.states; ++s)
    job.probabilities[s] = math::exp(job.alpha[s] + job.beta[s] - job.emitted[s] + job.loss);
}

template <class T> void gradient(const T* x, T factor, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = (math::exp(x[i]) - to[i]) * factor;
}

}  // namespace

void ctc_step_of_floats(const CtcStep<float>& step) { step_states(step); }
void ctc_step_of_doubles(const CtcStep<double>& step) { step_states(step); }
void ctc_states_of_floats(const CtcStates<float>& job) { weigh_states(job); }
void ctc_states_of_doubles(const CtcStates<double>& job) { weigh_states(job); }
void ctc_gradient_of_floats(const float* x, float factor, float* to, int64_t n) {
  gradient(x, factor, to, n);
}
void ctc_gradient_of_doubles(const double* x, double factor, double* to, int64_t n) {
  gradient(x, factor, to, n);
}

}  // namespace rl::kernels::RL_ISA
