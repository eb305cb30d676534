// Devices, streams and events, and how what fails there becomes an exception.
#pragma once
#include <string>

#include "core/error.h"
#include "kernels/cuda/library.h"

namespace rl::cuda {

inline constexpr int max_devices = 16;

struct Properties {
  std::string name;
  int major, minor, multiprocessors, threads_per_multiprocessor, threads_per_block, warp_size;
  int shared_bytes, shared_bytes_optin, shared_bytes_multiprocessor, registers_multiprocessor;
  int l2_bytes, clock_khz, memory_clock_khz, memory_bus_bits;
  int pci_domain, pci_bus, pci_device, integrated, multi_gpu_board;
  size_t total_memory;
  unsigned char uuid[16];
};

// An error names the call, the driver's name of the error and, if kernels ran, the last of them.
[[noreturn]] void fail_call(CUresult status, const char* call);
inline void check_call(CUresult status, const char* call) {
  if (__builtin_expect(status != CUDA_SUCCESS, 0)) fail_call(status, call);
}
#define RL_CUDA(call, ...) ::rl::cuda::check_call(::rl::cuda::driver().call(__VA_ARGS__), #call)

int device_count();  // 0 where CUDA is unavailable
bool was_initialized();
const Properties& properties(int device);

// Starts the backend if that has not happened; an error that says what is missing.
void require();

// The thread's current device, and its current stream on each.
int current_device();
void set_device(int device);
CUstream current_stream(int device);
void set_current_stream(int device, CUstream stream);  // null: the default stream
CUstream pooled_stream(int device, bool high_priority);

// Makes the device's context that of this thread.
void use(int device);
CUcontext context_of(int device);
// The device on which memory lies that somebody else allocated.
int device_of_pointer(const void* data);

// Another current device for its scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : before_(current_device()) { set_device(device); }
  ~DeviceScope() { set_device(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_;
};

// Waits, and raises what kernels found meanwhile (fault.h).
void synchronize_device(int device);
void synchronize_stream(int device, CUstream stream);
void synchronize_event(CUevent event);

// To be called before a copy that will be waited for because a call needs data that the device
// computes. By the debug mode, 1: such calls warn, 2: they raise an error.
void note_waiting();
int sync_debug_mode();
void set_sync_debug_mode(int mode);

// Makes `waiting` wait for what `other` was given so far.
void wait_for_stream(int device, CUstream waiting, CUstream other);

// Events without timing, kept for reuse.
CUevent take_event(int device);
void give_back_event(int device, CUevent event);

// Where kernels report what they find wrong (fault.h), for the host and for kernels.
struct Fault;
Fault* fault_of(int device);
CUdeviceptr fault_address(int device);

// Launches wait for their end, and so errors come from the call that made them.
bool blocking_launches();
void set_blocking_launches(bool blocking);

void note_launch(const char* kernel);  // for messages

// Capture of graphs.
bool is_capturing(int device);

}  // namespace rl::cuda
