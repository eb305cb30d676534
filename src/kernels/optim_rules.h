// The update rules of optimizers, for a strip of elements of the host and for one of a device
// alike.
//
// Everything is in an unnamed namespace, as the host compiles it for several instruction sets.
#pragma once
#include "kernels/optim_rule.h"
#include "math/arithmetic.h"

namespace rl::kernels {
namespace {

// The arrays of one strip. They are distinct tensors, so loops may keep elements in registers.
template <class T>
struct Strip {
  int64_t n;
  T* __restrict param;
  const T* __restrict grad;
  T* __restrict first;
  T* __restrict second;
  T* __restrict third;
};

// The gradient as every rule begins: negated to maximize, and with L2 weight decay.
template <class T>
inline T gradient(T grad, T param, T sign, T weight_decay) {
  return weight_decay == T(0) ? sign * grad : sign * grad + weight_decay * param;
}

template <class T>
void sgd(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), lr = T(numbers[2]);
  for (int64_t i = 0; i < s.n; ++i) s.param[i] -= lr * gradient(s.grad[i], s.param[i], sign, decay);
}

template <class T>
void sgd_momentum(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), lr = T(numbers[2]);
  T momentum = T(numbers[3]), keep = T(numbers[4]);
  bool nesterov = numbers[5] != 0;
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T velocity = momentum * s.first[i] + keep * g;
    s.first[i] = velocity;
    s.param[i] -= lr * (nesterov ? g + momentum * velocity : velocity);
  }
}

template <class T>
void sgd_first(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), lr = T(numbers[2]), momentum = T(numbers[3]);
  bool nesterov = numbers[5] != 0;
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    s.first[i] = g;
    s.param[i] -= lr * (nesterov ? g + momentum * g : g);
  }
}

template <class T, bool amsgrad>
void adam(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), shrink = T(numbers[2]), step_size = T(numbers[3]);
  T weight1 = T(numbers[4]), beta2 = T(numbers[5]), weight2 = T(numbers[6]);
  T eps = T(numbers[7]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T p = s.param[i] * shrink;
    T m = s.first[i] + weight1 * (g - s.first[i]);
    T v = beta2 * s.second[i] + weight2 * g * g;
    s.first[i] = m;
    s.second[i] = v;
    if constexpr (amsgrad) {
      v = s.third[i] > v ? s.third[i] : v;
      s.third[i] = v;
    }
    s.param[i] = p - step_size * m / (math::sqrt(v) + eps);
  }
}

template <class T>
void adagrad(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), lr = T(numbers[2]), eps = T(numbers[3]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T sum = s.first[i] + g * g;
    s.first[i] = sum;
    s.param[i] -= lr * g / (math::sqrt(sum) + eps);
  }
}

template <class T>
void adadelta(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), lr = T(numbers[2]);
  T rho = T(numbers[3]), weight = T(numbers[4]), eps = T(numbers[5]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T square = rho * s.first[i] + weight * g * g;
    T delta = math::sqrt(s.second[i] + eps) / math::sqrt(square + eps) * g;
    s.first[i] = square;
    s.second[i] = rho * s.second[i] + weight * delta * delta;
    s.param[i] -= lr * delta;
  }
}

template <class T>
void adamax(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), step_size = T(numbers[2]);
  T weight1 = T(numbers[3]), beta2 = T(numbers[4]), eps = T(numbers[5]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T m = s.first[i] + weight1 * (g - s.first[i]);
    T faded = beta2 * s.second[i], now = math::magnitude(g) + eps;
    T bound = faded > now ? faded : now;
    s.first[i] = m;
    s.second[i] = bound;
    s.param[i] -= step_size * m / bound;
  }
}

template <class T>
void nadam(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), shrink = T(numbers[2]), grad_step = T(numbers[3]);
  T moment_step = T(numbers[4]), weight1 = T(numbers[5]), beta2 = T(numbers[6]),
    weight2 = T(numbers[7]);
  T correction = T(numbers[8]), eps = T(numbers[9]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T m = s.first[i] + weight1 * (g - s.first[i]);
    T v = beta2 * s.second[i] + weight2 * g * g;
    s.first[i] = m;
    s.second[i] = v;
    s.param[i] = s.param[i] * shrink -
                 (grad_step * g + moment_step * m) / (math::sqrt(v / correction) + eps);
  }
}

template <class T>
void radam(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), shrink = T(numbers[2]), step_size = T(numbers[3]);
  T weight1 = T(numbers[4]), beta2 = T(numbers[5]), weight2 = T(numbers[6]), eps = T(numbers[7]);
  bool rectified = numbers[8] != 0;
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T m = s.first[i] + weight1 * (g - s.first[i]);
    T v = beta2 * s.second[i] + weight2 * g * g;
    s.first[i] = m;
    s.second[i] = v;
    T update = rectified ? m / (math::sqrt(v) + eps) : m;
    s.param[i] = s.param[i] * shrink - step_size * update;
  }
}

template <class T, bool centered, bool with_momentum>
void rmsprop(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), lr = T(numbers[2]), alpha = T(numbers[3]);
  T weight = T(numbers[4]), eps = T(numbers[5]), momentum = T(numbers[6]);
  T* velocity = centered ? s.third : s.second;
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T square = alpha * s.first[i] + weight * g * g;
    s.first[i] = square;
    if constexpr (centered) {
      T mean = s.second[i] + weight * (g - s.second[i]);
      s.second[i] = mean;
      square -= mean * mean;
    }
    T update = g / (math::sqrt(square) + eps);
    if constexpr (with_momentum) {
      update += momentum * velocity[i];
      velocity[i] = update;
    }
    s.param[i] -= lr * update;
  }
}

template <class T>
void rprop(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), eta_minus = T(numbers[1]), eta_plus = T(numbers[2]);
  T smallest = T(numbers[3]), largest = T(numbers[4]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = sign * s.grad[i];
    T agreement = g * s.first[i];
    T size = s.second[i] * (agreement > T(0) ? eta_plus : agreement < T(0) ? eta_minus : T(1));
    size = size < smallest ? smallest : size > largest ? largest : size;
    g = agreement < T(0) ? T(0) : g;
    s.first[i] = g;
    s.second[i] = size;
    s.param[i] -= g > T(0) ? size : g < T(0) ? -size : T(0);
  }
}

template <class T>
void asgd(const Strip<T>& s, const double* numbers) {
  T sign = T(numbers[0]), decay = T(numbers[1]), shrink = T(numbers[2]), eta = T(numbers[3]),
    mu = T(numbers[4]);
  for (int64_t i = 0; i < s.n; ++i) {
    T g = gradient(s.grad[i], s.param[i], sign, decay);
    T p = s.param[i] * shrink - eta * g;
    s.param[i] = p;
    s.first[i] = mu == T(1) ? p : s.first[i] + mu * (p - s.first[i]);
  }
}

template <class T>
void apply(OptimRule rule, int64_t n, void* const* arrays, const double* numbers) {
  T* const* a = reinterpret_cast<T* const*>(arrays);
  Strip<T> s{n, a[0], a[1], a[2], a[3], a[4]};
  switch (rule) {
    case OptimRule::Sgd: return sgd(s, numbers);
    case OptimRule::SgdMomentum:
      return numbers[6] != 0 ? sgd_first(s, numbers) : sgd_momentum(s, numbers);
    case OptimRule::Adam: return adam<T, false>(s, numbers);
    case OptimRule::Amsgrad: return adam<T, true>(s, numbers);
    case OptimRule::Adagrad: return adagrad(s, numbers);
    case OptimRule::Adadelta: return adadelta(s, numbers);
    case OptimRule::Adamax: return adamax(s, numbers);
    case OptimRule::NAdam: return nadam(s, numbers);
    case OptimRule::RAdam: return radam(s, numbers);
    case OptimRule::Rmsprop: return rmsprop<T, false, false>(s, numbers);
    case OptimRule::RmspropCentered: return rmsprop<T, true, false>(s, numbers);
    case OptimRule::RmspropMomentum: return rmsprop<T, false, true>(s, numbers);
    case OptimRule::RmspropCenteredMomentum: return rmsprop<T, true, true>(s, numbers);
    case OptimRule::Rprop: return rprop(s, numbers);
    case OptimRule::Asgd: return asgd(s, numbers);
  }
}

}  // namespace
}  // namespace rl::kernels
