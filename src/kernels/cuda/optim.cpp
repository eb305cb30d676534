#include "kernels/optim.h"

#include <deque>
#include <vector>

#include "kernels/cuda/device/optim.h"
#include "kernels/cuda/launch.h"
#include "kernels/optim_numbers.h"

namespace rl::cuda {
namespace {

using namespace kernels;

KernelTemplate updates("kernels/cuda/device/optim.cuh");

const View& array(const OptimSlot& slot, int k) {
  return k == 0 ? slot.param : k == 1 ? slot.grad : slot.state[k - 2];
}

bool arrays_lie_alike(const OptimSlot& slot, int arrays) {
  for (int k = 1; k < arrays; ++k)
    if (!lie_alike(slot.param, array(slot, k))) return false;
  return true;
}

template <class NumbersOf>
void run(const Context& context, OptimRule rule, int arrays, OptimSlots list,
         NumbersOf&& numbers_of) {
  int device = context.device.index;
  use(device);
  for (int t = 0; t < dtype_count; ++t) {  // slots of a dtype together
    DType dtype = static_cast<DType>(t);
    UpdateSlots u;
    std::deque<ContiguousResult> results;
    std::deque<Contiguous> inputs;
    auto flush = [&] {
      if (!u.count) return;
      uint64_t variant = static_cast<uint64_t>(dtype) * 8 + static_cast<uint64_t>(arrays);
      CUfunction f = updates.get(variant, device, "optimizer",
                                 [&] { return instance("update_slots", dtype, arrays); });
      u.rule = static_cast<int>(rule);
      launch_elements(f, device, "optimizer", u.total, u);
      for (ContiguousResult& r : results) r.finish();
      results.clear();
      inputs.clear();
      u.count = 0;
      u.total = 0;
    };
    for (int64_t i = 0; i < list.count; ++i) {
      const OptimSlot& slot = list.slots[i];
      if (slot.param.dtype != dtype || !slot.param.numel) continue;
      UpdateSlot& to = u.slots[u.count++];
      bool alike = arrays_lie_alike(slot, arrays);
      for (int k = 0; k < arrays; ++k) {
        const View& v = array(slot, k);
        if (alike) {
          to.arrays[k] = v.data;
        } else if (k == 1) {
          to.arrays[k] = inputs.emplace_back(context, v).data();
        } else {
          ContiguousResult& r = results.emplace_back(context, v);
          if (r.view().data != v.data) copy(context, v, r.view());
          to.arrays[k] = r.data();
        }
      }
      to.end = u.total += slot.param.numel;
      for (double& n : to.numbers) n = 0;
      numbers_of(slot, i, to.numbers);
      if (u.count == slots_per_launch) flush();
    }
    flush();
  }
}

}  // namespace

#define RL_OPTIMIZER(name, Args)                                                  \
  void fused_##name(const Context& context, OptimSlots slots, const Args& args) { \
    update_##name(args, [&](OptimRule rule, int arrays, auto&& of) {              \
      run(context, rule, arrays, slots, of);                                      \
    });                                                                           \
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

}  // namespace rl::cuda
