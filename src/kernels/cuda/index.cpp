#include "kernels/index.h"

#include <limits>

#include "kernels/cuda/device/fault.h"
#include "kernels/cuda/device/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding.h"

namespace rl::cuda {
namespace {

using kernels::Combine;

static_assert(static_cast<int>(Combine::Set) == CombineSet &&
              static_cast<int>(Combine::Sum) == CombineSum &&
              static_cast<int>(Combine::Prod) == CombineProd &&
              static_cast<int>(Combine::Mean) == CombineMean &&
              static_cast<int>(Combine::Max) == CombineMax &&
              static_cast<int>(Combine::Min) == CombineMin);

constexpr const char* header = "kernels/cuda/device/index.cuh";

KernelTemplate gathers(header), scatters(header), begins(header), means(header), takes(header),
    puts(header), indexings(header), counts_of(header), sums_of(header), selections(header),
    flagged(header), places(header), triangles(header), row_selections(header),
    index_counts(header), embed_gradients(header);

const char* type_of_bytes(int64_t bytes) {
  switch (bytes) {
    case 1: return "uint8_t";
    case 2: return "uint16_t";
    case 4: return "uint32_t";
    case 8: return "uint64_t";
    default: return "rl::cuda::Element16";
  }
}
const char* type_of_size(DType t) { return type_of_bytes(itemsize(t)); }
uint64_t size_of(DType t) { return static_cast<uint64_t>(itemsize(t)); }

// A 0-d view has one dim of one element.
Strided at_least_one(const View& v, const char* op) {
  Strided s = strided_as_is(v, op);
  if (s.ndim == 0) {
    s.ndim = 1;
    s.sizes[0] = 1;
    s.strides[0] = 1;
  }
  return s;
}
PlaceArgs place_args(const Context& context, int64_t dim, int64_t size, bool negative, int kind,
                     const char* op) {
  return {static_cast<int>(dim), negative, kind, size, faults(context.device.index, op)};
}

void gather_some(const Context& context, const Strided& input, const Strided& index,
                 const Strided& out, DType dtype, const PlaceArgs& args, const char* op) {
  int device = context.device.index;
  use(device);
  if (!index.numel) return;
  CUfunction f = gathers.get(size_of(dtype), device, op, [&] {
    return instance("gather_elements", std::string(type_of_size(dtype)));
  });
  launch_elements(f, device, op, index.numel, input, index, out, args);
}

// Rows of contiguous tables, in elements of up to 16 bytes; says whether the views are such.
bool select_rows(const Context& context, const View& input, int64_t dim, const View& index,
                 const View& out, const PlaceArgs& args, const char* op) {
  if (!input.contiguous() || !out.contiguous() || !input.ndim) return false;
  int64_t outer = 1, bytes = itemsize(input.dtype);
  for (int64_t d = 0; d < dim; ++d) outer *= input.sizes[d];
  for (int64_t d = dim + 1; d < input.ndim; ++d) bytes *= input.sizes[d];
  uint64_t aligned = reinterpret_cast<uintptr_t>(input.data) |
                     reinterpret_cast<uintptr_t>(out.data) | static_cast<uint64_t>(bytes) | 16;
  int64_t element = static_cast<int64_t>(aligned & (~aligned + 1));  // the largest that divides all
  int device = context.device.index;
  use(device);
  CUfunction f = row_selections.get(static_cast<uint64_t>(element), device, op, [&] {
    return instance("select_rows", std::string(type_of_bytes(element)));
  });
  launch_elements(f, device, op, out.numel * itemsize(out.dtype) / element, input.data, out.data,
                  strided_as_is(index, op), outer, bytes / element, args);
  return true;
}

Scalar identity(Combine op, DType t) {
  if (op == Combine::Prod) return Scalar(1);
  if (op == Combine::Sum || op == Combine::Mean || op == Combine::Set) return Scalar(0);
  bool low = op == Combine::Max;
  double infinite = std::numeric_limits<double>::infinity();
  if (is_floating(t)) return Scalar(low ? -infinite : infinite);
  if (t == DType::Bool) return Scalar(!low);
  if (t == DType::UInt8) return Scalar(low ? 0 : 255);
  int64_t largest = t == DType::Int64 ? std::numeric_limits<int64_t>::max()
                                      : (int64_t(1) << (8 * itemsize(t) - 1)) - 1;
  return Scalar(low ? -largest - 1 : largest);
}

void scatter_some(const Context& context, const View& self_view, const Strided& self,
                  const Strided& index, const Strided& src, DType dtype, const PlaceArgs& args,
                  Combine op, bool include_self, const char* name) {
  int device = context.device.index;
  use(device);
  if (!index.numel) return;
  check_implemented(!is_complex(dtype) || op == Combine::Set || op == Combine::Sum ||
                        op == Combine::Mean || itemsize(dtype) == 8,
                    name, ": not implemented on CUDA for dtype ", dtype);
  if (!include_self && op != Combine::Set) {
    struct alignas(16) {
      unsigned char bytes[16] = {};
    } value;
    encode(identity(op, dtype), dtype, value.bytes);
    CUfunction f = begins.get(static_cast<uint64_t>(dtype), device, name,
                              [&] { return instance("begin_scatter", dtype); });
    launch_elements(f, device, name, index.numel, self, index, args, value);
  }
  std::optional<ScratchView> counted;
  Strided count_view{};
  void* counts = nullptr;
  if (op == Combine::Mean) {
    counted.emplace(self_view.shape(), DType::Int64, device);
    set_zero(context, counted->view().data, static_cast<size_t>(self_view.numel) * 8);
    count_view = at_least_one(counted->view(), name);
    counts = counted->view().data;
  }
  CUfunction f = scatters.get(static_cast<uint64_t>(dtype), device, name,
                              [&] { return instance("scatter_elements", dtype); });
  launch_elements(f, device, name, index.numel, self, index, src, args, static_cast<int>(op),
                  counts, count_view);
  if (op == Combine::Mean) {
    f = means.get(static_cast<uint64_t>(dtype), device, name,
                  [&] { return instance("divide_by_counts", dtype); });
    launch_elements(f, device, name, self_view.numel, strided_as_is(self_view, name), counts,
                    int64_t(include_self));
  }
}

// The 1-D index of whole slices, as one for each element of `like`.
Strided spread(const View& index, int64_t dim, const View& like, const char* op) {
  Strided s = at_least_one(like, op);
  for (int d = 0; d < s.ndim; ++d) s.strides[d] = 0;
  s.strides[dim] = index.ndim ? index.strides[0] : 0;
  s.data = index.data;
  s.dtype = static_cast<int>(index.dtype);
  return s;
}

}  // namespace

void gather(const Context& context, const View& input, int64_t dim, const View& index,
            const View& out) {
  gather_some(context, at_least_one(input, "gather"), at_least_one(index, "gather"),
              at_least_one(out, "gather"), out.dtype,
              place_args(context, dim, input.ndim ? input.sizes[dim] : 1, false, IndexOutOfBounds,
                         "gather"),
              "gather");
}
void scatter(const Context& context, const View& self, int64_t dim, const View& index,
             const View& src, Combine op, bool include_self, bool) {
  scatter_some(
      context, self, at_least_one(self, "scatter"), at_least_one(index, "scatter"),
      at_least_one(src, "scatter"), self.dtype,
      place_args(context, dim, self.ndim ? self.sizes[dim] : 1, false, IndexOutOfBounds, "scatter"),
      op, include_self, "scatter");
}
void index_select(const Context& context, const View& input, int64_t dim, const View& index,
                  const View& out) {
  PlaceArgs args = place_args(context, dim, input.ndim ? input.sizes[dim] : 1, false,
                              IndexOutOfRange, "index_select");
  if (!out.numel || select_rows(context, input, dim, index, out, args, "index_select")) return;
  gather_some(context, at_least_one(input, "index_select"), spread(index, dim, out, "index_select"),
              at_least_one(out, "index_select"), out.dtype, args, "index_select");
}
void index_combine(const Context& context, const char* op_name, const View& self, int64_t dim,
                   const View& index, const View& src, Combine op, bool include_self,
                   bool negative) {
  scatter_some(
      context, self, at_least_one(self, op_name), spread(index, dim, src, op_name),
      at_least_one(src, op_name), self.dtype,
      place_args(context, dim, self.ndim ? self.sizes[dim] : 1, negative, IndexOutOfRange, op_name),
      op, include_self, op_name);
}

void take(const Context& context, const View& input, const View& index, const View& out) {
  int device = context.device.index;
  use(device);
  if (!index.numel) return;
  CUfunction f = takes.get(size_of(out.dtype), device, "take", [&] {
    return instance("take_elements", std::string(type_of_size(out.dtype)));
  });
  launch_elements(f, device, "take", index.numel, strided_as_is(input, "take"),
                  strided_as_is(index, "take"), strided_as_is(out, "take"),
                  place_args(context, 0, input.numel, true, IndexOutOfRange, "take"));
}
void put(const Context& context, const View& self, const View& index, const View& src,
         bool accumulate) {
  int device = context.device.index;
  use(device);
  if (!index.numel) return;
  CUfunction f = puts.get(static_cast<uint64_t>(self.dtype), device, "put_",
                          [&] { return instance("put_elements", self.dtype); });
  launch_elements(f, device, "put_", index.numel, strided_as_is(self, "put_"),
                  strided_as_is(index, "put_"), strided_as_is(src, "put_"),
                  place_args(context, 0, self.numel, true, IndexOutOfRange, "put_"),
                  static_cast<int>(accumulate ? Combine::Sum : Combine::Set));
}

namespace {
void index_some(const Context& context, const View& tensor, Views indices, const View& whole,
                bool write, bool accumulate, const char* op) {
  int device = context.device.index;
  use(device);
  if (!whole.numel) return;
  check_implemented(indices.count <= most_indices, op, ": at most ", most_indices,
                    " index tensors on CUDA, got ", indices.count);
  Indices list{};
  list.count = static_cast<int>(indices.count);
  list.fault = faults(device, op);
  for (int64_t k = 0; k < indices.count; ++k) {
    list.sizes[k] = tensor.sizes[k];
    list.strides[k] = tensor.strides[k];
    list.views[k] = strided_as_is(indices[k], op);
  }
  View rest{nullptr,
            tensor.sizes + indices.count,
            tensor.strides + indices.count,
            tensor.ndim - indices.count,
            product(IntSpan(tensor.sizes + indices.count, tensor.ndim - indices.count)),
            tensor.dtype,
            tensor.device};
  std::string type = write ? device_type(tensor.dtype) : type_of_size(tensor.dtype);
  uint64_t variant = write ? 32 + static_cast<uint64_t>(tensor.dtype) : size_of(tensor.dtype);
  CUfunction f =
      indexings.get(variant, device, op, [&] { return instance("index_elements", type, write); });
  launch_elements(f, device, op, whole.numel, tensor.data, list, strided_as_is(whole, op),
                  strided(rest, op), static_cast<int>(accumulate ? Combine::Sum : Combine::Set));
}
}  // namespace
void index(const Context& context, const View& input, Views indices, const View& out) {
  index_some(context, input, indices, out, false, false, "index");
}
void index_put(const Context& context, const View& self, Views indices, const View& values,
               bool accumulate) {
  index_some(context, self, indices, values, true, accumulate, "index_put_");
}

namespace {
// For each chunk how many are true before it, and how many are at all behind the last.
int64_t chunks_of(const View& flags) { return (flags.numel + chunk - 1) / chunk; }
void add_up_flags(const Context& context, const View& flags, int64_t* counts, const char* op) {
  int device = context.device.index;
  CUfunction f = counts_of.get(0, device, op, [&] { return instance("count_flags", 0); });
  launch_kernel(f, device, op, blocks_of_rows(chunks_of(flags)), Grid{block_threads}, 0,
                strided_as_is(flags, op), counts);
  f = sums_of.get(0, device, op, [&] { return instance("add_up", 0); });
  launch_kernel(f, device, op, Grid{1}, Grid{block_threads}, 0, counts, chunks_of(flags));
}
}  // namespace

int64_t count_true(const Context& context, const View& mask) {
  use(context.device.index);
  if (!mask.numel) return 0;
  Scratch counts(static_cast<size_t>(chunks_of(mask) + 1) * 8, context.device.index);
  add_up_flags(context, mask, counts.get<int64_t>(), "count_true");
  return read_back<int64_t>(context, counts.get<int64_t>() + chunks_of(mask));
}
void masked_select(const Context& context, const View& input, const View& mask, const View& out) {
  int device = context.device.index;
  use(device);
  if (!out.numel) return;
  Scratch counts(static_cast<size_t>(chunks_of(mask) + 1) * 8, device);
  add_up_flags(context, mask, counts.get<int64_t>(), "masked_select");
  CUfunction f = selections.get(size_of(input.dtype), device, "masked_select", [&] {
    return instance("select_flagged", std::string(type_of_size(input.dtype)));
  });
  launch_elements(f, device, "masked_select", chunks_of(mask), strided_as_is(mask, "masked_select"),
                  counts.get(), strided_as_is(input, "masked_select"),
                  strided_as_is(out, "masked_select"));
}
void masked_scatter(const Context& context, const View& self, const View& mask, const View& src) {
  int device = context.device.index;
  use(device);
  if (!self.numel) return;
  Scratch counts(static_cast<size_t>(chunks_of(mask) + 1) * 8, device);
  add_up_flags(context, mask, counts.get<int64_t>(), "masked_scatter");
  int64_t needed = read_back<int64_t>(context, counts.get<int64_t>() + chunks_of(mask));
  check(needed <= src.numel, "masked_scatter_: expected self and source to have same dtypes and ",
        "source of at least ", needed, " elements, got ", src.numel);
  CUfunction f = flagged.get(size_of(self.dtype), device, "masked_scatter", [&] {
    return instance("scatter_flagged", std::string(type_of_size(self.dtype)));
  });
  launch_elements(f, device, "masked_scatter", chunks_of(mask),
                  strided_as_is(mask, "masked_scatter"), counts.get(),
                  strided_as_is(self, "masked_scatter"), strided_as_is(src, "masked_scatter"));
}
void nonzero(const Context& context, const View& input, const View& out) {
  int device = context.device.index;
  use(device);
  if (!out.sizes[0] || !input.ndim) return;
  Scratch counts(static_cast<size_t>(chunks_of(input) + 1) * 8, device);
  add_up_flags(context, input, counts.get<int64_t>(), "nonzero");
  CUfunction f = places.get(0, device, "nonzero", [&] { return instance("write_places", 0); });
  launch_elements(f, device, "nonzero", chunks_of(input), strided_as_is(input, "nonzero"),
                  counts.get(), strided_as_is(out, "nonzero"));
}

void flip(const Context& context, const View& input, IntSpan dims, const View& out) {
  if (!input.numel) return;
  Dims strides(input.stride());
  char* begin = static_cast<char*>(input.data);
  for (int64_t d : dims) {
    if (!input.ndim) break;
    begin += (input.sizes[d] - 1) * input.strides[d] * itemsize(input.dtype);
    strides[d] = -input.strides[d];
  }
  copy(context,
       View{begin, input.sizes, strides.data(), input.ndim, input.numel, input.dtype, input.device},
       out);
}
void roll(const Context& context, const View& input, IntSpan shifts, IntSpan dims,
          const View& out) {
  // A dim's elements move in two pieces.
  struct Move {
    const Context& context;
    IntSpan shifts, dims;
    void part(const View& from, const View& to, int64_t k) {
      if (!from.numel) return;
      if (k == dims.size()) return copy(context, from, to);
      int64_t d = dims[k], size = from.sizes[d];
      int64_t shift = size ? (shifts[k] % size + size) % size : 0;
      Dims first(from.shape()), second(from.shape());
      first[d] = size - shift;
      second[d] = shift;
      part(from.slice(d, 0, first), to.slice(d, shift, first), k + 1);
      part(from.slice(d, size - shift, second), to.slice(d, 0, second), k + 1);
    }
  };
  Move{context, shifts, dims}.part(input, out, 0);
}

namespace {
void triangle(const Context& context, const View& input, int64_t diagonal, const View& out,
              bool upper, const char* op) {
  int device = context.device.index;
  use(device);
  if (!input.numel) return;
  CUfunction f = triangles.get(size_of(input.dtype), device, op, [&] {
    return instance("keep_triangle", std::string(type_of_size(input.dtype)));
  });
  launch_elements(f, device, op, input.numel, strided_as_is(input, op), strided_as_is(out, op),
                  diagonal, static_cast<int>(upper));
}
}  // namespace
void tril(const Context& context, const View& input, int64_t diagonal, const View& out) {
  triangle(context, input, diagonal, out, false, "tril");
}
void triu(const Context& context, const View& input, int64_t diagonal, const View& out) {
  triangle(context, input, diagonal, out, true, "triu");
}

void embedding(const Context& context, const View& weight, const View& index_view,
               const View& out) {
  if (!out.numel) return;
  PlaceArgs args = place_args(context, 0, weight.sizes[0], false, EmbeddingOutOfRange, "embedding");
  Contiguous table(context, weight);
  ContiguousResult result(context, out);
  select_rows(context, table, 0, index_view, result, args, "embedding");
  result.finish();
}
void embedding_backward(const Context& context, const View& grad, const View& index_view,
                        int64_t padding_idx, bool scale_by_frequency, const View& grad_weight) {
  int device = context.device.index;
  use(device);
  if (!grad.numel) return;
  PlaceArgs args = place_args(context, 0, grad_weight.sizes[0], false, EmbeddingOutOfRange,
                              "embedding_backward");
  std::optional<Scratch> counted;
  void* counts = nullptr;
  if (scale_by_frequency) {
    size_t bytes = static_cast<size_t>(grad_weight.sizes[0]) * 8;
    counts = counted.emplace(bytes, device).get();
    set_zero(context, counts, bytes);
    CUfunction f = index_counts.get(0, device, "embedding_backward",
                                    [&] { return instance("count_indices", 0); });
    launch_elements(f, device, "embedding_backward", index_view.numel,
                    strided_as_is(index_view, "embedding"), counts, args);
  }
  CUfunction f =
      embed_gradients.get(static_cast<uint64_t>(grad.dtype), device, "embedding_backward",
                          [&] { return instance("embed_gradient", grad.dtype); });
  launch_elements(f, device, "embedding_backward", grad.numel, strided_as_is(grad, "embedding"),
                  strided_as_is(index_view, "embedding"), strided_as_is(grad_weight, "embedding"),
                  padding_idx, counts, args);
}

}  // namespace rl::cuda
