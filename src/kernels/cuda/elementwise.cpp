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

constexpr const char* header = "kernels/cuda/device/elementwise.cuh";

// The kernels of one loop, by what they compute in and how their operands are stored.
struct Compiled {
  const Loop* loop = nullptr;
  std::string definitions;
  KernelSlots<32> kernels;
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
    const std::vector<const char*>& formulas = device_sources().formulas;
    for (size_t i = 0; i < formulas.size(); ++i) {
      auto* compiled = new Compiled;
      compiled->loop = device_loops[i];
      compiled->definitions =
          "namespace rl::math {\nstruct Formula {\n  static constexpr int numbers = " +
          std::to_string(compiled->loop->numbers) +
          ";\n  template <class T, class R> static __device__ R apply(const T* from_, "
          "const T* given_) {\n"
          "    (void)from_; (void)given_;\n    " +
          formulas[i] + "\n  }\n};\n}\nusing rl::math::Formula;\n";
      (*made)[compiled->loop->strips] = compiled;
    }
    return made;
  }();
  auto it = table->find(loop.strips);
  check_implemented(it != table->end(), loop.name, ": this loop has no formula for CUDA");
  place.store(it->second, std::memory_order_release);
  return it->second;
}

const char* compute_type(DType t) { return t == DType::Bool ? "bool" : device_type(t); }

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
template <int N, class F>
void for_each_part(const View* const* views, StridedOperands<N>& strided, F&& f) {
  if (views[0]->numel == 0) return;
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
    f();
  }
}

// The number of neighbours in a row that a thread takes at a time: packs of 16 bytes of the
// smallest elements and at most 32 of the largest, where all rows begin at a multiple of their
// pack. 1 where they do not; 0 where an operand steps otherwise through the last dim. Says how each
// steps.
template <int N> int pack_of(RowOperands<N>& w) {
  int last = w.ndim - 1;
  int64_t smallest = 16, largest = 1;
  for (int k = 0; k < N; ++k) {
    int64_t step = last < 0 ? 1 : w.strides[k][last], size = itemsize(DType(w.dtypes[k]));
    if (w.steps[k] == StepNumber) continue;
    if (step != 1 && (step != 0 || k == 0)) return 0;
    w.steps[k] = step == 1 ? StepRow : StepRepeat;
    if (step == 0) continue;
    smallest = std::min(smallest, size);
    largest = std::max(largest, size);
  }
  int64_t count = std::max<int64_t>(std::min(16 / smallest, 32 / largest), 1);
  if (last > 0 && w.sizes[last] % count) return 1;
  for (int k = 0; k < N; ++k) {
    if (w.steps[k] != StepRow) continue;
    auto bytes = static_cast<uintptr_t>(count * itemsize(DType(w.dtypes[k])));
    if (reinterpret_cast<uintptr_t>(w.data[k]) % bytes) return 1;
    for (int d = 0; d < last; ++d)
      if (w.strides[k][d] % count) return 1;
  }
  return static_cast<int>(count);
}

// The kernel of `formula` for operands that are stored as they are, and for that pack.
template <int N>
std::string expression(const char* formula, DType compute, DType result, int count,
                       const RowOperands<N>& w) {
  std::string t = compute_type(compute), r = compute_type(result);
  if (!count) return instance("elementwise_strided", std::string(formula), t, r, N - 1);
  std::string stored;
  for (int k = 1; k < N; ++k) {
    if (k > 1) stored += ", ";
    stored += w.steps[k] == StepNumber ? t : device_type(DType(w.dtypes[k]));
  }
  return instance("elementwise_rows", std::string(formula), t, r, DType(w.dtypes[0]), w.ndim <= 1,
                  count, stored);
}
template <int N> uint64_t variant_of(DType compute, int count, const RowOperands<N>& w) {
  uint64_t variant = static_cast<uint64_t>(compute) << 5 | static_cast<uint64_t>(count);
  if (!count) return variant;
  variant = variant << 1 | (w.ndim <= 1);
  for (int k = 0; k < N; ++k)
    variant =
        variant << 4 | static_cast<uint64_t>(w.steps[k] == StepNumber ? int(compute) : w.dtypes[k]);
  return variant;
}

template <int N>
void run(const Context& context, const Loop& loop, DType compute, LoopResult result,
         const View& out, Views inputs, const Numbers& numbers) {
  int device = context.device.index;
  const View* views[N + 1] = {&out};
  RowOperands<N + 1> w{};
  for (int k = 0; k < N; ++k) {
    views[k + 1] = &inputs[k];
    if (!inputs[k].device.is_cpu()) continue;  // else a number
    w.steps[k + 1] = StepNumber;
    encode(load_scalar(inputs[k].data, inputs[k].dtype), compute, w.numbers[k + 1]);
  }
  Compiled* compiled = compiled_of(loop);
  for_each_part<N + 1>(views, w, [&] {
    int count = pack_of(w);
    CUfunction function = compiled->kernels.get(variant_of(compute, count, w), device, [&] {
      return load_kernel(
          device, header, compiled->definitions,
          expression("Formula", compute, kernels::loop_result_dtype(result, compute), count, w),
          loop.name);
    });
    int64_t items = count > 1 ? (w.numel + count - 1) / count : w.numel;
    launch_elements(function, device, loop.name, items, w, numbers);
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

KernelTemplate conversions(header), moves(header), rows(header), transposes(header), fills(header);

const char* type_of_size(DType t) {
  switch (itemsize(t)) {
    case 1: return "uint8_t";
    case 2: return "uint16_t";
    case 4: return "uint32_t";
    case 8: return "uint64_t";
    default: return "rl::cuda::Element16";
  }
}

std::string stored_type(DType t, bool same) {
  return same ? type_of_size(t) : std::string(device_type(t));
}

// Where the source's columns are rows of the result: the dim that has stride 1 there, or -1.
int column_of(const StridedOperands<2>& w) {
  constexpr int64_t least = 16;  // elements that make a tile worth its barriers
  int last = w.ndim - 1;
  if (last < 1 || w.strides[0][last] != 1 || w.strides[1][last] == 1 || w.sizes[last] < least)
    return -1;
  for (int d = 0; d < last; ++d)
    if (w.strides[1][d] == 1 && w.sizes[d] >= least) return d;
  return -1;
}

void transpose(const View& from, const View& to, int device, bool same, int column,
               const StridedOperands<2>& w) {
  uint64_t variant =
      same ? uint64_t(itemsize(to.dtype)) : (uint64_t(to.dtype) + 1) << 8 | uint64_t(from.dtype);
  CUfunction f = transposes.get(variant, device, "copy", [&] {
    return instance("transpose_elements", stored_type(to.dtype, same),
                    stored_type(from.dtype, same));
  });
  int64_t x = w.sizes[w.ndim - 1], y = w.sizes[column];
  int64_t tiles = (x + 31) / 32 * ((y + 31) / 32) * (w.numel / x / y);
  launch_kernel(f, device, "copy", blocks_for(tiles * block_threads, device), Grid{32, 8}, 0, w,
                column, tiles);
}

void copy_rows(const View& from, const View& to, int device, bool same, int count,
               const RowOperands<2>& w) {
  DType compute = compute_dtype(from.dtype);
  uint64_t variant =
      same ? uint64_t(itemsize(to.dtype)) : (uint64_t(to.dtype) + 1) << 8 | uint64_t(from.dtype);
  variant = (variant << 1 | (w.ndim <= 1)) << 5 | static_cast<uint64_t>(count);
  CUfunction f = rows.get(variant, device, "copy", [&] {
    if (!same) return expression("rl::cuda::Unchanged", compute, compute, count, w);
    std::string t = type_of_size(to.dtype);
    return instance("elementwise_rows", std::string("rl::cuda::Unchanged"), t, t, t, w.ndim <= 1,
                    count, t);
  });
  launch_elements(f, device, "copy", (w.numel + count - 1) / count, w, Numbers{});
}

void copy_part(const Context& context, const View& from, const View& to, bool conjugate,
               RowOperands<2>& w) {
  int device = context.device.index;
  bool conjugates = conjugate && is_complex(from.dtype), same = from.dtype == to.dtype;
  int count = conjugates ? 0 : pack_of(w);
  if (same && count && w.ndim <= 1 && w.steps[1] == StepRow) {
    if (w.data[0] == w.data[1]) return;
    timeline::Piece piece("Memcpy DtoD", device, current_stream(device));
    RL_CUDA(cuMemcpyDtoDAsync_v2, reinterpret_cast<CUdeviceptr>(w.data[0]),
            reinterpret_cast<CUdeviceptr>(w.data[1]),
            static_cast<size_t>(w.numel * itemsize(to.dtype)), current_stream(device));
    return;
  }
  if (count) return copy_rows(from, to, device, same, count, w);
  if (int column = conjugates ? -1 : column_of(w); column >= 0)
    return transpose(from, to, device, same, column, w);
  const StridedOperands<2>& strided = w;
  if (same && !conjugates) {
    CUfunction f = moves.get(static_cast<uint64_t>(itemsize(to.dtype)), device, "copy", [&] {
      return instance("move_elements", std::string(type_of_size(to.dtype)));
    });
    return launch_elements(f, device, "copy", w.numel, strided);
  }
  uint64_t variant =
      static_cast<uint64_t>(to.dtype) * dtype_count + static_cast<uint64_t>(from.dtype);
  CUfunction f = conversions.get(
      variant, device, "copy", [&] { return instance("convert_elements", to.dtype, from.dtype); });
  launch_elements(f, device, "copy", w.numel, strided, static_cast<int>(conjugate));
}

void convert(const Context& context, const View& from, const View& to, bool conjugate) {
  use(context.device.index);
  const View* views[2] = {&to, &from};
  RowOperands<2> w{};
  for_each_part<2>(views, w, [&] { copy_part(context, from, to, conjugate, w); });
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
  StridedOperands<1> strided{};
  for_each_part<1>(views, strided, [&] {
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
