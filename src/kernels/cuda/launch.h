// How the backend's kernels are launched: grids, parameters, views as kernels of a device take
// them.
#pragma once
#include <cstring>
#include <optional>

#include "core/scalar.h"
#include "core/view.h"
#include "kernels/context.h"
#include "kernels/cuda/allocator.h"
#include "kernels/cuda/device/parameters.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/program.h"
#include "kernels/cuda/timeline.h"

namespace rl::cuda {

using kernels::Context;

// Declares a kernel that another file of this backend defines.
#define RL_CUDA_KERNEL(name) std::remove_pointer_t<kernels::Kernel<decltype(kernels::name)>> name

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};
constexpr unsigned block_threads = 256;
constexpr unsigned most_shared_memory = 48 << 10;  // of a kernel that does not ask for more

// Blocks for `count` threads' worth of work in loops that stride by the grid.
inline Grid blocks_for(int64_t count, int device, unsigned threads = block_threads) {
  const Properties& p = properties(device);
  int64_t most = int64_t(p.multiprocessors) * (p.threads_per_multiprocessor / int(threads)) * 4;
  int64_t wanted = (count + threads - 1) / threads;
  return {static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most), 1, 1};
}
// One block for each of `count` rows, at most as many as a grid may have.
inline Grid blocks_of_rows(int64_t count) {
  return {static_cast<unsigned>(count < 1 ? 1 : count < 0x3fffffff ? count : 0x3fffffff), 1, 1};
}

template <class... Arguments>
void launch_kernel(CUfunction function, int device, const char* shown, Grid grid, Grid block,
                   unsigned shared, const Arguments&... arguments) {
  void* parameters[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  note_launch(shown);
  launch_count.fetch_add(1, std::memory_order_relaxed);
  CUstream stream = current_stream(device);
  timeline::Piece piece(shown, device, stream);
  if (__builtin_expect(shared > most_shared_memory, 0))
    check_call(driver().cuFuncSetAttribute(
                   function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(shared)),
               shown);
  check_call(driver().cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                     shared, stream, parameters, nullptr),
             shown);
  if (__builtin_expect(blocking_launches(), 0)) synchronize_stream(device, stream);
}
// Over `count` elements.
template <class... Arguments>
void launch_elements(CUfunction function, int device, const char* shown, int64_t count,
                     const Arguments&... arguments) {
  launch_kernel(function, device, shown, blocks_for(count, device), Grid{block_threads}, 0,
                arguments...);
}

// A view as kernels take it, dims of size 1 left out and neighbours joined; an error that names the
// op where more than 12 dims are left.
Strided strided(const View& view, const char* op);
// The same with all its dims, for kernels that count them.
Strided strided_as_is(const View& view, const char* op);

// Whether elements lie alike without gaps, in whatever order: what is done to each needs no
// strides.
bool lie_alike(const View& a, const View& b);

// How rows of `length` elements lie in registers while a kernel works on them: a warp each, or a
// block each, so many packs of `count` neighbours (16 bytes) a thread. None where a row does not
// fit, or packs would not begin at multiples of 16 bytes.
struct RowPlan {
  int count = 0, packs = 0;
  unsigned threads = 32;

  RowPlan(int64_t length, DType dtype, bool aligned)
      : count(static_cast<int>(16 / itemsize(dtype))) {
    if (!aligned || !count || length % count) return;
    int64_t all = length / count;
    threads = all <= 32 * 4 ? 32 : block_threads;
    int64_t each = (all + threads - 1) / threads;
    packs = each <= 1 ? 1 : each <= 2 ? 2 : each <= 4 ? 4 : each <= 8 ? 8 : 0;
  }
  explicit operator bool() const { return packs > 0; }
  Grid block() const { return {threads, threads == 32 ? 8u : 1u}; }
  Grid grid(int64_t rows) const { return blocks_of_rows(threads == 32 ? (rows + 7) / 8 : rows); }
};
inline bool is_aligned(const void* at) { return reinterpret_cast<uintptr_t>(at) % 32 == 0; }

// Bytes of the device for the length of a call.
class Scratch {
 public:
  Scratch(size_t bytes, int device) : device_(device), data_(allocate_device(bytes, device)) {}
  ~Scratch() { free_device(data_, device_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T = void> T* get() const { return static_cast<T*>(data_); }

 private:
  int device_;
  void* data_;
};
// The same as a contiguous view.
class ScratchView {
 public:
  ScratchView(IntSpan sizes, DType dtype, int device)
      : sizes_(sizes),
        strides_(contiguous_strides(sizes)),
        memory_(static_cast<size_t>(product(sizes) * itemsize(dtype)), device),
        view_{memory_.get(),
              sizes_.data(),
              strides_.data(),
              sizes_.size(),
              product(sizes),
              dtype,
              Device{DeviceType::CUDA, static_cast<int8_t>(device)}} {}
  const View& view() const { return view_; }
  operator const View&() const { return view_; }

 private:
  Dims sizes_, strides_;
  Scratch memory_;
  View view_;
};
// `view` if it is contiguous and of the dtype, else a contiguous copy in scratch memory.
class Contiguous {
 public:
  Contiguous(const Context& context, const View& view, DType dtype);
  Contiguous(const Context& context, const View& view) : Contiguous(context, view, view.dtype) {}
  const View& view() const { return copy_ ? copy_->view() : *given_; }
  operator const View&() const { return view(); }
  template <class T = void> T* data() const { return static_cast<T*>(view().data); }

 private:
  const View* given_;
  std::optional<ScratchView> copy_;
};
// A contiguous result of the dtype, which goes to `view` when the scope ends normally (finish()).
class ContiguousResult {
 public:
  ContiguousResult(const Context& context, const View& view, DType dtype);
  ContiguousResult(const Context& context, const View& view)
      : ContiguousResult(context, view, view.dtype) {}
  const View& view() const { return copy_ ? copy_->view() : target_; }
  operator const View&() const { return view(); }
  template <class T = void> T* data() const { return static_cast<T*>(view().data); }
  void finish();

 private:
  const Context& context_;
  const View& target_;
  std::optional<ScratchView> copy_;
};

// A number as an element of the dtype.
void encode(const Scalar& value, DType dtype, void* to);

// Waits for what was launched on the current stream, raises what it found, and reads an element.
template <class T> T read_back(const Context& context, const void* from) {
  int device = context.device.index;
  T value;
  CUstream stream = current_stream(device);
  note_waiting();
  {
    timeline::Piece piece("Memcpy DtoH", device, stream);
    RL_CUDA(cuMemcpyDtoHAsync_v2, &value, reinterpret_cast<CUdeviceptr>(from), sizeof(T), stream);
  }
  synchronize_stream(device, stream);
  return value;
}
inline void set_zero(const Context& context, void* data, size_t bytes) {
  if (!bytes) return;
  CUstream stream = current_stream(context.device.index);
  timeline::Piece piece("Memset", context.device.index, stream);
  RL_CUDA(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(data), 0, bytes, stream);
}
void upload(const Context& context, void* to, const void* from, size_t bytes);

// ---- used by several kernels

void copy(const Context& context, const View& from, const View& to);
void fill(const Context& context, const View& to, const Scalar& value);

}  // namespace rl::cuda
