// Addresses of a device, of which pages are given memory and lose it again.
#pragma once
#include <memory>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace rl::cuda {

class AddressRange {
 public:
  // `bytes` is a multiple of `page`, which is one of 2 MiB.
  static std::unique_ptr<AddressRange> reserve(int device, size_t bytes, size_t page);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  CUdeviceptr base() const { return base_; }
  size_t page() const { return page_; }
  // Of whole pages. False where the device has no memory left, and then nothing is mapped.
  bool map(size_t offset, size_t size);
  // The device has done what it does there.
  void unmap(size_t offset, size_t size);

 private:
  AddressRange(int device, CUdeviceptr base, size_t bytes, size_t page)
      : device_(device), base_(base), page_(page), pages_(bytes / page) {}

  int device_;
  CUdeviceptr base_;
  size_t page_;
  std::vector<CUmemGenericAllocationHandle> pages_;  // 0: not mapped
};

}  // namespace rl::cuda
