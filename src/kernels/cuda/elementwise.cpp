// Elementwise loops: each formula of the op table becomes a kernel for the dtypes it meets.
#include "kernels/elementwise.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "kernels/cpu/strips.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sources.h"

namespace rl::cuda {
namespace {

using kernels::HostStrips;
using kernels::Loop;
using kernels::LoopResult;
using kernels::max_loop_inputs;

// The kernels of one loop.
struct Compiled {
  const Loop* loop = nullptr;
  std::string definitions;
  // By device, compute dtype, whether 16-bit floats are stored, and the way of walking.
  std::atomic<CUfunction> functions[max_devices][dtype_count][3][2] = {};
};

// Some ops run a loop of the table under another name: its strips tell which it is.
Compiled* compiled_of(const Loop& loop) {
  // A direct-mapped cache beside the table: one comparison in most calls.
  static std::atomic<Compiled*> recent[256];
  std::atomic<Compiled*>& place =
      recent[reinterpret_cast<uintptr_t>(loop.strips) / alignof(std::max_align_t) % 256];
  Compiled* seen = place.load(std::memory_order_acquire);
  if (seen && seen->loop->strips == loop.strips) return seen;
  static auto* table = [] {
    auto* made = new std::unordered_map<const HostStrips*, Compiled*>;
    for (int i = 0; i < device_formula_count; ++i) {
      auto* compiled = new Compiled;
      const DeviceFormula& f = device_formulas[i];
      compiled->loop = f.loop;
      compiled->definitions =
          "namespace rl::math {\nstruct Formula {\n  static constexpr int numbers = " +
          std::to_string(f.loop->numbers) +
          ";\n  template <class T, class R> static __device__ R apply(const T* from_, "
          "const T* given_) {\n"
          "    (void)from_; (void)given_;\n    " +
          f.body + "\n  }\n};\n}\nusing rl::math::Formula;\n";
      (*made)[f.loop->strips] = compiled;
    }
    return made;
  }();
  auto it = table->find(loop.strips);
  check_implemented(it != table->end(), loop.name, ": this loop has no formula for CUDA");
  place.store(it->second, std::memory_order_release);
  return it->second;
}

const char* compute_type(DType t) { return t == DType::Bool ? "bool" : device_type(t); }

std::string expression(DType compute, LoopResult result, DType stored, int inputs, bool whole) {
  std::string t = compute_type(compute);
  DType result_dtype = kernels::loop_result_dtype(result, compute);
  std::string r = compute_type(result_dtype);
  if (!whole) return instance("elementwise_strided", std::string("Formula"), t, r, inputs);
  DType out = result == LoopResult::Bool ? DType::Bool : is_reduced(stored) ? stored : result_dtype;
  return instance("elementwise_contiguous", std::string("Formula"), t, stored, r, out, inputs);
}

// Dims in the order of the result's strides, neighbours that all operands step through alike
// joined.
template <int N>
void plan(StridedOperands<N>& strided, const View* const* views, Dims& sizes, Dims (&strides)[N]) {
  const View& first = *views[0];
  Dims order;
  for (int64_t d = 0; d < first.ndim; ++d)
    if (first.sizes[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    for (int k = 0; k < N; ++k) {
      int64_t x = std::abs(views[k]->strides[a]), y = std::abs(views[k]->strides[b]);
      if (x != y) return x > y;
    }
    return false;
  });
  for (int64_t d : order) {
    int64_t last = sizes.size() - 1;
    bool joins = last >= 0;
    for (int k = 0; joins && k < N; ++k)
      joins = strides[k][last] == views[k]->strides[d] * first.sizes[d];
    if (joins) {
      sizes[last] *= first.sizes[d];
      for (int k = 0; k < N; ++k) strides[k][last] = views[k]->strides[d];
    } else {
      sizes.push_back(first.sizes[d]);
      for (int k = 0; k < N; ++k) strides[k].push_back(views[k]->strides[d]);
    }
  }
  for (int k = 0; k < N; ++k) {
    strided.data[k] = views[k]->data;
    strided.dtypes[k] = static_cast<int>(views[k]->dtype);
  }
}

// Calls f(strided) for all elements; in several parts where there are more dims than a strided has.
template <int N, class F> void for_each_part(const View* const* views, F&& f) {
  if (views[0]->numel == 0) return;
  StridedOperands<N> strided{};
  Dims sizes, strides[N];
  plan(strided, views, sizes, strides);
  int64_t extra = std::max<int64_t>(0, sizes.size() - max_loop_dims), parts = 1;
  for (int64_t d = 0; d < extra; ++d) parts *= sizes[d];
  strided.ndim = static_cast<int>(sizes.size() - extra);
  strided.numel = 1;
  for (int64_t d = 0; d < strided.ndim; ++d) {
    strided.sizes[d] = sizes[d + extra];
    strided.numel *= strided.sizes[d];
    for (int k = 0; k < N; ++k) strided.strides[k][d] = strides[k][d + extra];
  }
  strided.narrow = strided.numel <= 0x7fffffff;
  char* begins[N];
  for (int k = 0; k < N; ++k) begins[k] = static_cast<char*>(strided.data[k]);
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t rest = part, d = extra - 1; d >= 0; rest /= sizes[d], --d)
      for (int k = 0; k < N; ++k)
        strided.data[k] = (d == extra - 1 ? begins[k] : static_cast<char*>(strided.data[k])) +
                          rest % sizes[d] * strides[k][d] * itemsize(views[k]->dtype);
    f(strided);
  }
}

template <int N>
void run(const Context& context, const Loop& loop, DType compute, LoopResult result,
         const View& out, Views inputs, const Numbers& numbers) {
  int device = context.device.index;
  const View* views[N + 1] = {&out};
  for (int k = 0; k < N; ++k) views[k + 1] = &inputs[k];
  // Whole: all inputs lie alike and are stored as one type, which is the compute type or a 16-bit
  // float that is computed in float.
  DType stored = inputs[0].dtype;
  bool uniform = compute_dtype(stored) == compute;
  for (int k = 1; k < N; ++k) uniform = uniform && inputs[k].dtype == stored;
  DType expected = result == LoopResult::Bool ? DType::Bool
                   : is_reduced(stored)       ? stored
                                              : kernels::loop_result_dtype(result, compute);
  uniform = uniform && out.dtype == expected;
  Compiled* compiled = compiled_of(loop);
  int storage = stored == DType::Float16 ? 1 : stored == DType::BFloat16 ? 2 : 0;
  for_each_part<N + 1>(views, [&](const StridedOperands<N + 1>& strided) {
    bool whole = uniform && strided.ndim <= 1;
    for (int k = 0; whole && strided.ndim == 1 && k <= N; ++k) whole = strided.strides[k][0] == 1;
    auto& slot = compiled->functions[device][static_cast<int>(compute)][whole ? storage : 0][whole];
    CUfunction function = slot.load(std::memory_order_acquire);
    if (__builtin_expect(!function, 0)) {
      function = load_kernel(device, "kernels/cuda/device/elementwise.cuh", compiled->definitions,
                             expression(compute, result, stored, N, whole), loop.name);
      slot.store(function, std::memory_order_release);
    }
    int64_t items = whole ? (strided.numel + 3) / 4 : strided.numel;
    launch_elements(function, device, loop.name, items, strided, numbers);
  });
}

}  // namespace

void run_loop(const Context& context, const Loop& loop, DType compute, LoopResult result,
              const View& out, Views inputs, const Scalar* given) {
  kernels::check_dtype(loop, compute);
  use(context.device.index);
  Numbers numbers;
  check(loop.numbers <= 8, loop.name, ": a loop on CUDA reads at most 8 numbers");
  for (int i = 0; i < loop.numbers; ++i) encode(given[i], compute, numbers.bytes[i]);
  switch (inputs.count) {
    case 1: return run<1>(context, loop, compute, result, out, inputs, numbers);
    case 2: return run<2>(context, loop, compute, result, out, inputs, numbers);
    case 3: return run<3>(context, loop, compute, result, out, inputs, numbers);
    case 4: return run<4>(context, loop, compute, result, out, inputs, numbers);
    case 5: return run<5>(context, loop, compute, result, out, inputs, numbers);
    case 6: return run<6>(context, loop, compute, result, out, inputs, numbers);
    default: return run<7>(context, loop, compute, result, out, inputs, numbers);
  }
}

namespace {

KernelTemplate conversions("kernels/cuda/device/elementwise.cuh");
KernelTemplate moves("kernels/cuda/device/elementwise.cuh");
KernelTemplate fills("kernels/cuda/device/elementwise.cuh");

const char* type_of_size(DType t) {
  switch (itemsize(t)) {
    case 1: return "uint8_t";
    case 2: return "uint16_t";
    case 4: return "uint32_t";
    case 8: return "uint64_t";
    default: return "rl::cuda::Element16";
  }
}

void convert(const Context& context, const View& from, const View& to, bool conjugate) {
  int device = context.device.index;
  use(device);
  const View* views[2] = {&to, &from};
  bool same = from.dtype == to.dtype && !(conjugate && is_complex(from.dtype));
  for_each_part<2>(views, [&](const StridedOperands<2>& strided) {
    if (same) {
      bool whole = strided.ndim == 0 ||
                   (strided.ndim == 1 && strided.strides[0][0] == 1 && strided.strides[1][0] == 1);
      if (whole) {
        if (strided.data[0] == strided.data[1]) return;
        timeline::Piece piece("Memcpy DtoD", device, current_stream(device));
        RL_CUDA(cuMemcpyDtoDAsync_v2, reinterpret_cast<CUdeviceptr>(strided.data[0]),
                reinterpret_cast<CUdeviceptr>(strided.data[1]),
                static_cast<size_t>(strided.numel * itemsize(to.dtype)), current_stream(device));
        return;
      }
      CUfunction f = moves.get(static_cast<uint64_t>(itemsize(to.dtype)), device, "copy", [&] {
        return instance("move_elements", std::string(type_of_size(to.dtype)));
      });
      launch_elements(f, device, "copy", strided.numel, strided);
      return;
    }
    uint64_t variant =
        static_cast<uint64_t>(to.dtype) * dtype_count + static_cast<uint64_t>(from.dtype);
    CUfunction f = conversions.get(variant, device, "copy", [&] {
      return instance("convert_elements", to.dtype, from.dtype);
    });
    launch_elements(f, device, "copy", strided.numel, strided, static_cast<int>(conjugate));
  });
}

}  // namespace

void copy(const Context& context, const View& from, const View& to) {
  convert(context, from, to, false);
}
void conj_copy(const Context& context, const View& from, const View& to) {
  convert(context, from, to, true);
}

void fill(const Context& context, const View& to, const Scalar& value) {
  int device = context.device.index;
  use(device);
  struct alignas(16) {
    unsigned char bytes[16] = {};
  } element;
  encode(value, to.dtype, element.bytes);
  bool zero = true;
  for (int64_t i = 0; i < itemsize(to.dtype); ++i) zero = zero && !element.bytes[i];
  const View* views[1] = {&to};
  for_each_part<1>(views, [&](const StridedOperands<1>& strided) {
    if (zero && (strided.ndim == 0 || (strided.ndim == 1 && strided.strides[0][0] == 1)))
      return set_zero(context, strided.data[0],
                      static_cast<size_t>(strided.numel * itemsize(to.dtype)));
    CUfunction f = fills.get(static_cast<uint64_t>(itemsize(to.dtype)), device, "fill", [&] {
      return instance("fill_elements", std::string(type_of_size(to.dtype)));
    });
    launch_elements(f, device, "fill", strided.numel, strided, element);
  });
}

}  // namespace rl::cuda
