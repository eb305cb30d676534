// Walks the parameters of a fused optimizer and computes the numbers that its rule needs for each.
#include "kernels/optim.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/strip.h"
#include "kernels/walk.h"

namespace rl::kernels {
namespace {

constexpr int64_t strip_length = 512;
constexpr int max_numbers = 10;

// The part [begin, end) of one slot, with N arrays.
template <int N>
void update(OptimRule rule, const OptimSlot& slot, int64_t begin, int64_t end,
            const double* numbers) {
  const View* views[N] = {&slot.param, &slot.grad};
  for (int k = 2; k < N; ++k) views[k] = &slot.state[k - 2];
  Walk<N> walk(views, true);
  DType stored = slot.param.dtype;
  DType computed = stored == DType::Float64 ? DType::Float64 : DType::Float32;
  bool direct[N];
  int64_t strip = end - begin;
  for (int k = 0; k < N; ++k) {
    direct[k] = stored == computed && walk.strides[k][0] == itemsize(stored);
    if (!direct[k]) strip = strip_length;
  }
  alignas(64) char buffers[N][strip_length * sizeof(double)];
  walk.range(begin, end, walk.base, [&](char* const* p, int64_t n) {
    for (int64_t i = 0; i < n; i += strip) {
      int64_t m = std::min(strip, n - i);
      void* arrays[optim_arrays] = {};
      for (int k = 0; k < N; ++k) {
        char* at = p[k] + i * walk.strides[k][0];
        arrays[k] = direct[k] ? at : buffers[k];
        if (!direct[k]) load_strip(stored, at, walk.strides[k][0], computed, buffers[k], m);
      }
      optim_strip(rule, computed, m, arrays, numbers);
      for (int k = 0; k < N; ++k)
        if (!direct[k] && k != 1)
          store_strip(computed, buffers[k], stored, p[k] + i * walk.strides[k][0],
                      walk.strides[k][0], m);
    }
  });
}

void update(OptimRule rule, int arrays, const OptimSlot& slot, int64_t begin, int64_t end,
            const double* numbers) {
  switch (arrays) {
    case 2: return update<2>(rule, slot, begin, end, numbers);
    case 3: return update<3>(rule, slot, begin, end, numbers);
    case 4: return update<4>(rule, slot, begin, end, numbers);
    default: return update<5>(rule, slot, begin, end, numbers);
  }
}

// All slots as one index space, so that many small parameters and one large one divide equally
// well. numbers_of(slot, index, numbers) fills what the rule needs.
template <class NumbersOf>
void run(OptimRule rule, int arrays, OptimSlots list, NumbersOf numbers_of) {
  std::vector<int64_t> ends(static_cast<size_t>(list.count));
  int64_t total = 0;
  for (int64_t i = 0; i < list.count; ++i) ends[i] = total += list.slots[i].param.numel;
  parallel_for(0, total, default_grain / 2, [&](int64_t begin, int64_t end) {
    int64_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; ++i) {
      const OptimSlot& slot = list.slots[i];
      int64_t first = ends[i] - slot.param.numel, last = std::min(end, ends[i]);
      if (last <= begin) continue;
      double numbers[max_numbers] = {};
      numbers_of(slot, i, numbers);
      update(rule, arrays, slot, begin - first, last - first, numbers);
      begin = last;
    }
  });
}

double sign(bool maximize) { return maximize ? -1.0 : 1.0; }
// Weight decay is either added to the gradient or shrinks the parameter.
double added_decay(bool decoupled, double weight_decay) { return decoupled ? 0.0 : weight_decay; }
double shrink(bool decoupled, double lr, double weight_decay) {
  return decoupled ? 1.0 - lr * weight_decay : 1.0;
}

void set(double* numbers, std::initializer_list<double> values) {
  std::copy(values.begin(), values.end(), numbers);
}

}  // namespace

void fused_sgd(OptimSlots slots, const SgdArgs& args) {
  bool momentum = args.momentum != 0;
  run(momentum ? OptimRule::SgdMomentum : OptimRule::Sgd, momentum ? 3 : 2, slots,
      [&](const OptimSlot&, int64_t, double* numbers) {
        set(numbers, {sign(args.maximize), args.weight_decay, args.lr, args.momentum,
                      1 - args.dampening, args.nesterov ? 1.0 : 0.0, args.first_step ? 1.0 : 0.0});
      });
}

void fused_adam(OptimSlots slots, const AdamArgs& args) {
  run(args.amsgrad ? OptimRule::Amsgrad : OptimRule::Adam, args.amsgrad ? 5 : 4, slots,
      [&](const OptimSlot& slot, int64_t, double* numbers) {
        double correction1 = 1 - std::pow(args.beta1, slot.step);
        double correction2 = 1 - std::pow(args.beta2, slot.step);
        set(numbers,
            {sign(args.maximize), added_decay(args.decoupled, args.weight_decay),
             shrink(args.decoupled, args.lr, args.weight_decay), args.lr / correction1,
             1 - args.beta1, args.beta2, 1 - args.beta2, std::sqrt(correction2), args.eps});
      });
}

void fused_adagrad(OptimSlots slots, const AdagradArgs& args) {
  run(OptimRule::Adagrad, 3, slots, [&](const OptimSlot& slot, int64_t, double* numbers) {
    double lr = args.lr / (1 + (slot.step - 1) * args.lr_decay);
    set(numbers, {sign(args.maximize), args.weight_decay, lr, args.eps});
  });
}

void fused_adadelta(OptimSlots slots, const AdadeltaArgs& args) {
  run(OptimRule::Adadelta, 4, slots, [&](const OptimSlot&, int64_t, double* numbers) {
    set(numbers,
        {sign(args.maximize), args.weight_decay, args.lr, args.rho, 1 - args.rho, args.eps});
  });
}

void fused_adamax(OptimSlots slots, const AdamaxArgs& args) {
  run(OptimRule::Adamax, 4, slots, [&](const OptimSlot& slot, int64_t, double* numbers) {
    double step_size = args.lr / (1 - std::pow(args.beta1, slot.step));
    set(numbers,
        {sign(args.maximize), args.weight_decay, step_size, 1 - args.beta1, args.beta2, args.eps});
  });
}

void fused_nadam(OptimSlots slots, const NAdamArgs& args) {
  run(OptimRule::NAdam, 4, slots, [&](const OptimSlot& slot, int64_t i, double* numbers) {
    auto momentum = [&](double step) {
      return args.beta1 * (1 - 0.5 * std::pow(0.96, step * args.momentum_decay));
    };
    double mu = momentum(slot.step), next_mu = momentum(slot.step + 1);
    double product = args.mu_products[i];
    set(numbers,
        {sign(args.maximize), added_decay(args.decoupled, args.weight_decay),
         shrink(args.decoupled, args.lr, args.weight_decay), args.lr * (1 - mu) / (1 - product),
         args.lr * next_mu / (1 - product * next_mu), 1 - args.beta1, args.beta2, 1 - args.beta2,
         1 - std::pow(args.beta2, slot.step), args.eps});
  });
}

void fused_radam(OptimSlots slots, const RAdamArgs& args) {
  run(OptimRule::RAdam, 4, slots, [&](const OptimSlot& slot, int64_t, double* numbers) {
    double power2 = std::pow(args.beta2, slot.step);
    double step_size = args.lr / (1 - std::pow(args.beta1, slot.step));
    // The length of the average that exp_avg_sq is; up to 5 its variance is not tractable.
    double longest = 2 / (1 - args.beta2) - 1;
    double length = longest - 2 * slot.step * power2 / (1 - power2);
    bool rectified = length > 5;
    if (rectified)
      step_size *= std::sqrt((1 - power2) * (length - 4) * (length - 2) * longest /
                             ((longest - 4) * (longest - 2) * length));
    set(numbers, {sign(args.maximize), added_decay(args.decoupled, args.weight_decay),
                  shrink(args.decoupled, args.lr, args.weight_decay), step_size, 1 - args.beta1,
                  args.beta2, 1 - args.beta2, args.eps, rectified ? 1.0 : 0.0});
  });
}

void fused_rmsprop(OptimSlots slots, const RmspropArgs& args) {
  bool momentum = args.momentum > 0;
  OptimRule rule =
      args.centered ? (momentum ? OptimRule::RmspropCenteredMomentum : OptimRule::RmspropCentered)
                    : (momentum ? OptimRule::RmspropMomentum : OptimRule::Rmsprop);
  run(rule, 3 + args.centered + momentum, slots, [&](const OptimSlot&, int64_t, double* numbers) {
    set(numbers, {sign(args.maximize), args.weight_decay, args.lr, args.alpha, 1 - args.alpha,
                  args.eps, args.momentum});
  });
}

void fused_rprop(OptimSlots slots, const RpropArgs& args) {
  run(OptimRule::Rprop, 4, slots, [&](const OptimSlot&, int64_t, double* numbers) {
    set(numbers, {sign(args.maximize), args.eta_minus, args.eta_plus, args.step_size_min,
                  args.step_size_max});
  });
}

void fused_asgd(OptimSlots slots, const AsgdArgs& args) {
  run(OptimRule::Asgd, 3, slots, [&](const OptimSlot&, int64_t i, double* numbers) {
    set(numbers, {sign(args.maximize), args.weight_decay, 1 - args.lambd * args.etas[i],
                  args.etas[i], args.mus[i]});
  });
}

}  // namespace rl::kernels
