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

// `shape` has size 1 where a dim is reduced; out and second (may be null) have its strides' form.
void reduce(const Context& context, const char* op, StateId id, const View& input,
            const View& shape, const View* out, const View* second, ReduceArgs args) {
  int device = context.device.index;
  use(device);
  if (shape.numel == 0) return;
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
    return View{data,           sizes.data(), strides.data(), sizes.size(),
                product(sizes), dtype,        context.device};
  };
  Strided kept = strided(view(input.data, kept_sizes, kept_strides, input.dtype), op);
  Strided reduced = strided(view(nullptr, reduced_sizes, reduced_strides, input.dtype), op);
  Strided written = strided(
      view(out ? out->data : nullptr, kept_sizes, out_strides, out ? out->dtype : DType::Int64),
      op);
  Strided other = strided(view(second ? second->data : nullptr, kept_sizes, second_strides,
                               second ? second->dtype : DType::Int64),
                          op);
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
  int64_t rows = kept.numel, length = reduced.numel;
  int64_t smallest_stride = INT64_MAX, smallest_kept = INT64_MAX;
  for (int64_t s : reduced_strides) smallest_stride = std::min(smallest_stride, std::abs(s));
  for (int64_t s : kept_strides) smallest_kept = std::min(smallest_kept, std::abs(s));
  bool columns = smallest_kept < smallest_stride && rows >= 4096;
  if (length <= 32 || columns) {
    CUfunction f = in_thread.get(variant, device, op, expression("reduce_in_thread"));
    return launch_elements(f, device, op, rows, kept, reduced, written, other, args);
  }
  unsigned threads =
      static_cast<unsigned>(std::min<int64_t>(block_threads, (length + 31) / 32 * 32));
  // A split by the sizes alone, so that the same input always gives the same sum.
  int splits = rows < 64 && length >= 32768
                   ? static_cast<int>(std::min<int64_t>(length / 8192, 512 / rows))
                   : 1;
  if (splits > 1) {
    Scratch states(static_cast<size_t>(rows * splits) * state_bytes, device);
    void* memory = states.get();
    CUfunction f = part.get(variant, device, op, expression("reduce_part"));
    launch_kernel(f, device, op, blocks_of_rows(rows * splits), Grid{threads}, 0, kept, reduced,
                  args, splits, memory);
    f = parts_joined.get(variant, device, op, [&] { return instance("reduce_parts", state); });
    return launch_elements(f, device, op, rows, rows, splits, memory, written, other, args);
  }
  CUfunction f = in_block.get(variant, device, op, expression("reduce_in_block"));
  launch_kernel(f, device, op, blocks_of_rows(rows), Grid{threads}, 0, kept, reduced, written,
                other, args);
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
