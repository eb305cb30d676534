// Walks the parameters of a fused optimizer and computes the numbers that its rule needs for each.
#include "kernels/optim.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/optim_strips.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/optim_numbers.h"

namespace rl::kernels {
namespace {

constexpr int64_t strip_length = 512;

// The part [begin, end) of one slot, with N arrays.
template <int N>
void update(OptimRule rule, const OptimSlot& slot, int64_t begin, int64_t end,
            const double* numbers) {
  const View* views[N] = {&slot.param, &slot.grad};
  for (int k = 2; k < N; ++k) views[k] = &slot.state[k - 2];
  StridedIterator<N> walk(views, true);
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
    NumbersOf numbers_of_slot = numbers_of;
    int64_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; begin < end; ++i) {
      const OptimSlot& slot = list.slots[i];
      int64_t first = ends[i] - slot.param.numel, last = std::min(end, ends[i]);
      if (last <= begin) continue;
      double numbers[max_optim_numbers] = {};
      numbers_of_slot(slot, i, numbers);
      update(rule, arrays, slot, begin - first, last - first, numbers);
      begin = last;
    }
  });
}

}  // namespace

#define RL_OPTIMIZER(name, Args)                                                                 \
  void fused_##name(OptimSlots slots, const Args& args) {                                        \
    update_##name(args,                                                                          \
                  [&](OptimRule rule, int arrays, auto&& of) { run(rule, arrays, slots, of); }); \
  }
RL_OPTIMIZER(sgd, SgdArgs)
RL_OPTIMIZER(adam, AdamArgs)
RL_OPTIMIZER(adagrad, AdagradArgs)
RL_OPTIMIZER(adadelta, AdadeltaArgs)
RL_OPTIMIZER(adamax, AdamaxArgs)
RL_OPTIMIZER(nadam, NAdamArgs)
RL_OPTIMIZER(radam, RAdamArgs)
RL_OPTIMIZER(rmsprop, RmspropArgs)
RL_OPTIMIZER(rprop, RpropArgs)
RL_OPTIMIZER(asgd, AsgdArgs)
#undef RL_OPTIMIZER

}  // namespace rl::kernels
