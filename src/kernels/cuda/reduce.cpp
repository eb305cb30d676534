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

KernelTemplate in_thread(header), in_rows(header), in_columns(header), parts_joined(header);

enum StateId : uint64_t {
  SumId,
  NanSumId,
  MeanId,
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
const char* const state_names[] = {"SumState",      "NanSumState", "MeanState",  "ProdState",
                                   "AllState",      "AnyState",    "CountState", "LargestState",
                                   "SmallestState", "NormState",   "VarState",   "LogSumExpState"};

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

// Into how many parts the elements of one result go: by the sizes alone.
int parts_of_row(int64_t rows, int64_t length) {
  if (rows >= 256 || length < 32768) return 1;
  return static_cast<int>(std::clamp<int64_t>(1024 / rows, 1, length / 8192));
}
int parts_of_columns(int64_t groups, int64_t length) {
  return static_cast<int>(std::clamp<int64_t>(1024 / groups, 1, std::max<int64_t>(length / 64, 1)));
}

bool keeps_packs(const Strided& v, int count, int but) {
  for (int d = 0; d < v.ndim; ++d)
    if (d != but && v.strides[d] % count) return false;
  return true;
}
// How many neighbours along the last dim of `along` a thread takes at a time: 16 bytes, where packs
// of them begin at multiples of 16 bytes everywhere. `rest`: a last one that is not whole is read
// by elements.
int pack_of(const Strided& along, const Strided& across, const void* data, DType dtype, bool rest) {
  int count = static_cast<int>(std::max<int64_t>(16 / itemsize(dtype), 1)), last = along.ndim - 1;
  bool whole = last >= 0 && along.strides[last] == 1 &&
               (along.sizes[last] % count == 0 || (rest && last == 0)) &&
               keeps_packs(along, count, last) && keeps_packs(across, count, -1) &&
               reinterpret_cast<uintptr_t>(data) % 16 == 0;
  return whole ? count : 1;
}

// A reduction of an input whose operands are known.
struct Reduction {
  const char* op;
  StateId id;
  DType dtype;
  int device;
  Operands on;
  ReduceArgs args;

  uint64_t variant() const { return id * dtype_count + static_cast<uint64_t>(dtype); }
  std::string state() const {
    return std::string("rl::cuda::") + state_names[id] + "<" + device_type(dtype) + ">";
  }
  CUfunction kernel(KernelTemplate& kernels, const char* name, int count) const {
    return kernels.get(variant() << 5 | static_cast<uint64_t>(count), device, op,
                       [&] { return instance(name, state(), dtype, count); });
  }
  void join(int parts, void* states) const {
    CUfunction f =
        parts_joined.get(variant(), device, op, [&] { return instance("reduce_parts", state()); });
    launch_elements(f, device, op, on.kept.numel * 32, on.kept.numel, parts, states, on.out,
                    on.second, args);
  }
  // With the states of `parts` parts of each result, where there are several.
  template <class Launch> void in_parts(int parts, Launch&& launch) const {
    if (parts == 1) return launch(nullptr);
    Scratch states(static_cast<size_t>(on.kept.numel * parts) * state_bytes, device);
    launch(states.get());
    join(parts, states.get());
  }

  void each_in_thread() const {
    CUfunction f = in_thread.get(variant(), device, op,
                                 [&] { return instance("reduce_in_thread", state(), dtype); });
    launch_elements(f, device, op, on.kept.numel, on.kept, on.reduced, on.out, on.second, args);
  }
  void columns() const {
    int count = pack_of(on.kept, on.reduced, on.kept.data, dtype, false);
    int64_t groups = (on.kept.numel / count + 31) / 32;
    int parts = parts_of_columns(groups, on.reduced.numel);
    CUfunction f = kernel(in_columns, "reduce_columns", count);
    in_parts(parts, [&](void* states) {
      launch_kernel(f, device, op, blocks_of_rows(groups * parts), Grid{32, 8}, 0, on.kept,
                    on.reduced, on.out, on.second, args, parts, states);
    });
  }
  void rows() const {
    int count = pack_of(on.reduced, on.kept, on.kept.data, dtype, true);
    int64_t length = on.reduced.numel, packs = (length + count - 1) / count;
    int parts = parts_of_row(on.kept.numel, length);
    auto threads = static_cast<unsigned>(std::min<int64_t>(block_threads, (packs + 31) / 32 * 32));
    CUfunction f = kernel(in_rows, "reduce_rows", count);
    in_parts(parts, [&](void* states) {
      launch_kernel(f, device, op, blocks_of_rows(on.kept.numel * parts), Grid{threads}, 0, on.kept,
                    on.reduced, on.out, on.second, args, parts, states);
    });
  }
};

// `shape` has size 1 where a dim is reduced; out and second (may be null) have its strides' form.
void reduce(const Context& context, const char* op, StateId id, const View& input,
            const View& shape, const View* out, const View* second, ReduceArgs args) {
  int device = context.device.index;
  use(device);
  if (shape.numel == 0) return;
  if (out) args.dtype = static_cast<int>(out->dtype);
  if (second) {
    args.second = second->data;
    args.second_dtype = static_cast<int>(second->dtype);
  }
  Reduction r{op,  id, input.dtype, device, operands_of(context, op, input, shape, out, second),
              args};
  if (r.on.reduced.numel <= 32) r.each_in_thread();
  else if (r.on.columns) r.columns();
  else r.rows();
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
void mean(const Context& c, const View& input, const View& out) {
  ReduceArgs args;
  args.p = static_cast<double>(input.numel) / static_cast<double>(std::max<int64_t>(out.numel, 1));
  reduce(c, "mean", MeanId, input, out, &out, nullptr, args);
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
