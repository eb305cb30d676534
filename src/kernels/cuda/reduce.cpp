#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cuda/device/reduce.h"
#include "kernels/cuda/launch.h"
#include "kernels/magnitude.h"

namespace rl::cuda {
namespace {

constexpr const char* header = "kernels/cuda/device/reduce.cuh";
constexpr size_t state_bytes = 64;  // at least every state's

KernelTemplate in_thread(header), in_block(header), part(header), parts_joined(header);

enum StateId : uint64_t {
  SumId,
  NanSumId,
  ProdId,
  AllId,
  AnyId,
  CountId,
  LargestId,
  SmallestId,
  NormId,
  VarId,
  LogSumExpId
};
const char* const state_names[] = {"SumState",  "NanSumState", "ProdState",     "AllState",
                                   "AnyState",  "CountState",  "LargestState",  "SmallestState",
                                   "NormState", "VarState",    "LogSumExpState"};

// What the kernels read and write: the dims that are kept, and those that are reduced.
struct Operands {
  Strided kept, reduced, out, second;
  bool columns;  // neighbours in memory belong to different results
};

int64_t smallest_of(const Dims& strides) {
  int64_t smallest = INT64_MAX;
  for (int64_t s : strides) smallest = std::min(smallest, std::abs(s));
  return smallest;
}

Operands operands_of(const Context& context, const char* op, const View& input, const View& shape,
                     const View* out, const View* second) {
  Dims kept_sizes, kept_strides, reduced_sizes, reduced_strides, out_strides, second_strides;
  for (int64_t d = 0; d < input.ndim; ++d) {
    if (input.sizes[d] == 1) continue;
    if (shape.sizes[d] == 1) {
      reduced_sizes.push_back(input.sizes[d]);
      reduced_strides.push_back(input.strides[d]);
    } else {
      kept_sizes.push_back(input.sizes[d]);
      kept_strides.push_back(input.strides[d]);
      out_strides.push_back(out ? out->strides[d] : 0);
      second_strides.push_back(second ? second->strides[d] : 0);
    }
  }
  auto view = [&](void* data, const Dims& sizes, const Dims& strides, DType dtype) {
    return strided(View{data, sizes.data(), strides.data(), sizes.size(), product(sizes), dtype,
                        context.device},
                   op);
  };
  auto result = [&](const View* v, const Dims& strides) {
    return view(v ? v->data : nullptr, kept_sizes, strides, v ? v->dtype : DType::Int64);
  };
  return {view(input.data, kept_sizes, kept_strides, input.dtype),
          view(nullptr, reduced_sizes, reduced_strides, input.dtype), result(out, out_strides),
          result(second, second_strides), smallest_of(kept_strides) < smallest_of(reduced_strides)};
}

// Into how many parts the elements of one result go: by the sizes alone, so that the same input
// always gives the same sum.
int parts_of(int64_t rows, int64_t length) {
  if (rows >= 64 || length < 32768) return 1;
  return static_cast<int>(std::min<int64_t>(length / 8192, 512 / rows));
}

// `shape` has size 1 where a dim is reduced; out and second (may be null) have its strides' form.
void reduce(const Context& context, const char* op, StateId id, const View& input,
            const View& shape, const View* out, const View* second, ReduceArgs args) {
  int device = context.device.index;
  use(device);
  if (shape.numel == 0) return;
  Operands on = operands_of(context, op, input, shape, out, second);
  if (out) args.dtype = static_cast<int>(out->dtype);
  if (second) {
    args.second = second->data;
    args.second_dtype = static_cast<int>(second->dtype);
  }
  uint64_t variant = id * dtype_count + static_cast<uint64_t>(input.dtype);
  std::string state =
      std::string("rl::cuda::") + state_names[id] + "<" + device_type(input.dtype) + ">";
  auto expression = [&](const char* kernel) {
    return [&, kernel] { return instance(kernel, state, input.dtype); };
  };
  int64_t rows = on.kept.numel, length = on.reduced.numel;
  if (length <= 32 || (on.columns && rows >= 4096)) {
    CUfunction f = in_thread.get(variant, device, op, expression("reduce_in_thread"));
    return launch_elements(f, device, op, rows, on.kept, on.reduced, on.out, on.second, args);
  }
  unsigned threads =
      static_cast<unsigned>(std::min<int64_t>(block_threads, (length + 31) / 32 * 32));
  if (int parts = parts_of(rows, length); parts > 1) {
    Scratch states(static_cast<size_t>(rows * parts) * state_bytes, device);
    void* memory = states.get();
    CUfunction f = part.get(variant, device, op, expression("reduce_part"));
    launch_kernel(f, device, op, blocks_of_rows(rows * parts), Grid{threads}, 0, on.kept,
                  on.reduced, args, parts, memory);
    f = parts_joined.get(variant, device, op, [&] { return instance("reduce_parts", state); });
    return launch_elements(f, device, op, rows, rows, parts, memory, on.out, on.second, args);
  }
  CUfunction f = in_block.get(variant, device, op, expression("reduce_in_block"));
  launch_kernel(f, device, op, blocks_of_rows(rows), Grid{threads}, 0, on.kept, on.reduced, on.out,
                on.second, args);
}

void check_elements(const View& input, const View& out, const char* op) {
  check(input.numel || !out.numel, op, ": the reduced dims of shape ", input.shape(),
        " hold no element");
}

void extreme(const Context& context, const View& input, const View* values, const View& indices,
             StateId id, const char* op) {
  check_elements(input, indices, op);
  reduce(context, op, id, input, indices, values, &indices, {});
}

}  // namespace

void sum(const Context& c, const View& input, const View& out) {
  reduce(c, "sum", SumId, input, out, &out, nullptr, {});
}
void nansum(const Context& c, const View& input, const View& out) {
  reduce(c, "nansum", NanSumId, input, out, &out, nullptr, {});
}
void prod(const Context& c, const View& input, const View& out) {
  reduce(c, "prod", ProdId, input, out, &out, nullptr, {});
}
void all(const Context& c, const View& input, const View& out) {
  reduce(c, "all", AllId, input, out, &out, nullptr, {});
}
void any(const Context& c, const View& input, const View& out) {
  reduce(c, "any", AnyId, input, out, &out, nullptr, {});
}
void count_nonzero(const Context& c, const View& input, const View& out) {
  reduce(c, "count_nonzero", CountId, input, out, &out, nullptr, {});
}
void amax(const Context& c, const View& input, const View& out) {
  check_elements(input, out, "amax");
  reduce(c, "amax", LargestId, input, out, &out, nullptr, {});
}
void amin(const Context& c, const View& input, const View& out) {
  check_elements(input, out, "amin");
  reduce(c, "amin", SmallestId, input, out, &out, nullptr, {});
}
void max_with_index(const Context& c, const View& input, const View* values, const View& indices) {
  extreme(c, input, values, indices, LargestId, "max");
}
void min_with_index(const Context& c, const View& input, const View* values, const View& indices) {
  extreme(c, input, values, indices, SmallestId, "min");
}
void norm(const Context& c, const View& input, double p, const View& out) {
  if (p < 0 || std::isinf(p)) check_elements(input, out, "norm");
  ReduceArgs args;
  args.p = p;
  reduce(c, "norm", NormId, input, out, &out, nullptr, args);
}
void var(const Context& c, const View& input, double correction, bool root, const View& out,
         const View* mean) {
  ReduceArgs args;
  args.p = correction;
  args.root = root;
  reduce(c, "var", VarId, input, out, &out, mean, args);
}
void logsumexp(const Context& c, const View& input, const View& out) {
  reduce(c, "logsumexp", LogSumExpId, input, out, &out, nullptr, {});
}

double largest_magnitude(const Context& context, const View& input) {
  if (!input.numel) return 0;
  use(context.device.index);
  Dims sizes(input.shape()), strides(input.stride());
  if (is_complex(input.dtype)) {  // the parts of a complex number each by itself
    for (int64_t& s : strides) s *= 2;
    sizes.push_back(2);
    strides.push_back(1);
  }
  View parts{input.data,     sizes.data(),         strides.data(), sizes.size(),
             product(sizes), to_real(input.dtype), input.device};
  ScratchView largest(Dims(sizes.size(), 1), DType::Float64, context.device.index);
  norm(context, parts, std::numeric_limits<double>::infinity(), largest);
  return read_back<double>(context, largest.view().data);
}

}  // namespace rl::cuda
