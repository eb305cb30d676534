// Kernels: compiled when they are first needed, found again without a string, a hash or a lock.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "core/dtype.h"
#include "kernels/cuda/runtime.h"

namespace rl::cuda {

// The kernel `expression` of a program that includes device/`header`, after `definitions`. From the
// disk's cache where it was compiled before.
CUfunction load_kernel(int device, const char* header, const std::string& definitions,
                       const std::string& expression, const char* shown);
// Whether kernels for the device may use wgmma, which compute capability 9.0 alone has.
// RUSHLIGHT_CUDA_WITHOUT=wgmma does without.
bool has_warpgroup_products(int device);

void compiler_version(int* major, int* minor);

// Compiles for an architecture without a device; the log, "" if the compiler said nothing.
std::string compile_check(int arch, const char* header, const std::string& definitions,
                          const std::string& expression);

// Which instances this process asked for: "header<TAB>definitions<TAB>expression" a line.
std::string kernels_asked_for();

struct KernelCounts {
  int64_t compiled, from_disk, launches;
};
KernelCounts kernel_counts();
std::mutex& kernel_mutex();
extern std::atomic<int64_t> launch_count;

// Kernels by a number that the caller makes of dtypes and variants: so many are found without a
// lock.
template <unsigned slots> class KernelSlots {
 public:
  // `load` is called when a variant is met for the first time on the device.
  template <class Load> CUfunction get(uint64_t variant, int device, Load&& load) {
    uint64_t key = (variant << 5 | static_cast<uint64_t>(device)) + 1;
    unsigned place = static_cast<unsigned>(key * 0x9e3779b97f4a7c15ull >> 56);
    for (unsigned i = 0; i < slots; ++i) {
      Slot& slot = slots_[(place + i) % slots];
      uint64_t found = slot.key.load(std::memory_order_acquire);
      if (found == key) return slot.function.load(std::memory_order_relaxed);
      if (!found) break;
    }
    CUfunction function = load();
    keep(key, place, function);
    return function;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> key{0};
    std::atomic<CUfunction> function{nullptr};
  };
  void keep(uint64_t key, unsigned place, CUfunction function) {
    std::lock_guard<std::mutex> lock(kernel_mutex());
    for (unsigned i = 0; i < slots; ++i) {
      Slot& slot = slots_[(place + i) % slots];
      uint64_t found = slot.key.load(std::memory_order_relaxed);
      if (found == key) return;
      if (found) continue;
      slot.function.store(function, std::memory_order_relaxed);
      slot.key.store(key, std::memory_order_release);
      return;
    }  // full: what does not fit is looked up by its text each time
  }

  Slot slots_[slots];
};

// The instances of one kernel template. Its slots are made when the first is asked for and never
// freed: 4 KB for each of 130 templates would otherwise stand in the library's file.
class KernelTemplate {
 public:
  constexpr explicit KernelTemplate(const char* header) : header_(header) {}

  // `expression` is called when the instance is met for the first time on the device.
  template <class Expression>
  CUfunction get(uint64_t variant, int device, const char* shown, Expression&& expression) {
    return slots().get(variant, device,
                       [&] { return load_kernel(device, header_, "", expression(), shown); });
  }

 private:
  using Slots = KernelSlots<256>;
  Slots& slots() {
    Slots* now = slots_.load(std::memory_order_acquire);
    if (now) return *now;
    auto made = std::make_unique<Slots>();
    return slots_.compare_exchange_strong(now, made.get()) ? *made.release() : *now;
  }

  const char* header_;
  std::atomic<Slots*> slots_{nullptr};
};

// An element type's name in device code.
const char* device_type(DType t);
// "name<A, B>".
template <class... Parts> std::string instance(const char* name, const Parts&... parts) {
  std::string text = std::string("rl::cuda::") + name;
  const char* before = "<";
  auto add = [&](const auto& part) {
    text += before;
    if constexpr (std::is_same_v<std::decay_t<decltype(part)>, DType>) text += device_type(part);
    else if constexpr (std::is_same_v<std::decay_t<decltype(part)>, bool>)
      text += part ? "true" : "false";
    else if constexpr (std::is_integral_v<std::decay_t<decltype(part)>>)
      text += std::to_string(part);
    else text += part;
    before = ", ";
  };
  (add(parts), ...);
  return text + ">";
}

}  // namespace rl::cuda
