// Distinct elements and rows: sorted, then those that differ from the one before are numbered.
#include "kernels/cuda/launch.h"
#include "kernels/index.h"
#include "kernels/scan.h"
#include "kernels/sort.h"

namespace rl::cuda {

RL_CUDA_KERNEL(cumsum);
RL_CUDA_KERNEL(index_select);
RL_CUDA_KERNEL(sort);

namespace {

constexpr const char* header = "kernels/cuda/device/order.cuh";

KernelTemplate marks(header), lists(header), counts_of(header);

// The order of the rows, by their last column first, as sorting keeps the order of equals.
void sort_rows(const Context& context, const View& rows, const View& order) {
  int64_t n = rows.sizes[0], width = rows.sizes[1], device = context.device.index;
  Dims column{n}, step{width};
  ScratchView values(Dims{n}, rows.dtype, static_cast<int>(device)),
      places(Dims{n}, DType::Int64, static_cast<int>(device)),
      before(Dims{n}, DType::Int64, static_cast<int>(device));
  for (int64_t k = width - 1; k >= 0; --k) {
    View at{static_cast<char*>(rows.data) + k * itemsize(rows.dtype),
            column.data(),
            step.data(),
            1,
            n,
            rows.dtype,
            rows.device};
    if (k == width - 1) {
      sort(context, at, 0, false, nullptr, order);
      continue;
    }
    index_select(context, at, 0, order, values);
    sort(context, values, 0, false, nullptr, places);
    copy(context, order, before);
    index_select(context, before, 0, places, order);
  }
}

// Numbers the groups of equal rows; `order` null: as they lie. Returns how many there are.
int64_t group(const Context& context, const char* op, const View& rows, int64_t n, int64_t width,
              const View* order, const View& first, const View* inverse, const View* counts) {
  int device = context.device.index;
  use(device);
  check_implemented(!is_complex(rows.dtype), op, ": not implemented for dtype ", rows.dtype);
  if (!n) return 0;
  ScratchView starts(Dims{n}, DType::Int64, device), groups(Dims{n}, DType::Int64, device);
  void* by = order ? order->data : nullptr;
  CUfunction f = marks.get(static_cast<uint64_t>(rows.dtype), device, op,
                           [&] { return instance("mark_starts", rows.dtype); });
  launch_elements(f, device, op, n, rows.data, by, n, width, starts.view().data);
  cumsum(context, starts, 0, groups, false);
  void* to = inverse ? inverse->data : nullptr;
  f = lists.get(0, device, op, [&] { return instance("list_groups", 0); });
  launch_elements(f, device, op, n, groups.view().data, by, n, first.data, starts.view().data, to);
  int64_t count = read_back<int64_t>(context, static_cast<int64_t*>(groups.view().data) + (n - 1));
  if (counts) {
    f = counts_of.get(0, device, op, [&] { return instance("count_groups", 0); });
    launch_elements(f, device, op, count, starts.view().data, count, n, counts->data);
  }
  return count;
}

// The elements of the groups' firsts.
int64_t elements(const Context& context, const char* op, const View& input, const View* order,
                 const View& values, const View* inverse, const View* counts) {
  int64_t n = input.numel;
  if (!n) return 0;
  ScratchView first(Dims{n}, DType::Int64, context.device.index);
  int64_t found = group(context, op, input, n, 1, order, first, inverse, counts);
  Dims sizes{found}, one{1};
  View chosen{first.view().data, sizes.data(), one.data(), 1, found, DType::Int64, input.device};
  View to{values.data, sizes.data(), one.data(), 1, found, values.dtype, values.device};
  index_select(context, input, 0, chosen, to);
  return found;
}

}  // namespace

int64_t unique(const Context& context, const View& input, const View& values, const View* inverse,
               const View* counts) {
  check_implemented(!is_complex(input.dtype), "unique: not implemented for dtype ", input.dtype);
  if (!input.numel) return 0;
  ScratchView order(Dims{input.numel}, DType::Int64, context.device.index);
  sort(context, input, 0, false, nullptr, order);
  const View& by = order;
  return elements(context, "unique", input, &by, values, inverse, counts);
}
int64_t unique_consecutive(const Context& context, const View& input, const View& values,
                           const View* inverse, const View* counts) {
  return elements(context, "unique_consecutive", input, nullptr, values, inverse, counts);
}
int64_t unique_rows(const Context& context, const View& input, bool consecutive, const View& first,
                    const View* inverse, const View* counts) {
  int64_t n = input.sizes[0], width = input.sizes[1];
  check_implemented(!is_complex(input.dtype), "unique_dim: not implemented for dtype ",
                    input.dtype);
  if (!n) return 0;
  ScratchView order(Dims{n}, DType::Int64, context.device.index);
  bool sorted = !consecutive && width > 0;
  if (sorted) sort_rows(context, input, order);
  const View& by = order;
  return group(context, "unique_dim", input, n, width, sorted ? &by : nullptr, first, inverse,
               counts);
}

}  // namespace rl::cuda
