#include "kernels/cuda/address_range.h"

namespace rl::cuda {
namespace {

// Memory may be mapped while another stream is captured.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

std::unique_ptr<AddressRange> AddressRange::reserve(int device, size_t bytes, size_t page) {
  use(device);
  CUdeviceptr base = 0;
  RL_CUDA(cuMemAddressReserve, &base, bytes, 0, 0, 0);
  return std::unique_ptr<AddressRange>(new AddressRange(device, base, bytes, page));
}

AddressRange::~AddressRange() { driver().cuMemAddressFree(base_, pages_.size() * page_); }

bool AddressRange::map(size_t offset, size_t size) {
  RelaxedCapture relaxed;
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  for (size_t at = offset; at < offset + size; at += page_) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult status = driver().cuMemCreate(&handle, page_, &kind, 0);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
      unmap(offset, at - offset);
      return false;
    }
    check_call(status, "cuMemCreate");
    RL_CUDA(cuMemMap, base_ + at, page_, 0, handle, 0);
    pages_[at / page_] = handle;
  }
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_},
                         CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  RL_CUDA(cuMemSetAccess, base_ + offset, size, &access, 1);
  return true;
}

void AddressRange::unmap(size_t offset, size_t size) {
  for (size_t at = offset; at < offset + size; at += page_) {
    RL_CUDA(cuMemUnmap, base_ + at, page_);
    RL_CUDA(cuMemRelease, pages_[at / page_]);
    pages_[at / page_] = 0;
  }
}

}  // namespace rl::cuda
