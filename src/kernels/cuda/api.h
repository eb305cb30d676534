// The functions of NVIDIA's driver and run-time compiler that we call, declared by hand: the build
// needs no CUDA. X(result, name, parameters...), enumerations as int; names are those that the
// libraries export. tests/cpp/cuda_declarations.cpp compares them with the SDK's headers.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rl::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using nvrtcProgram = struct _nvrtcProgram*;
using nvrtcResult = int;

enum : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_READY = 600,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2,
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

struct CUuuid {
  unsigned char bytes[16];
};

// clang-format off
#define RL_DRIVER_API(X) \
  X(CUresult, cuInit, unsigned) \
  X(CUresult, cuDriverGetVersion, int*) \
  X(CUresult, cuGetErrorName, CUresult, const char**) \
  X(CUresult, cuGetErrorString, CUresult, const char**) \
  X(CUresult, cuDeviceGetCount, int*) \
  X(CUresult, cuDeviceGet, CUdevice*, int) \
  X(CUresult, cuDeviceGetName, char*, int, CUdevice) \
  X(CUresult, cuDeviceGetUuid_v2, CUuuid*, CUdevice) \
  X(CUresult, cuDeviceTotalMem_v2, size_t*, CUdevice) \
  X(CUresult, cuDeviceGetAttribute, int*, int, CUdevice) \
  X(CUresult, cuDeviceCanAccessPeer, int*, CUdevice, CUdevice) \
  X(CUresult, cuDevicePrimaryCtxRetain, CUcontext*, CUdevice) \
  X(CUresult, cuCtxSetCurrent, CUcontext) \
  X(CUresult, cuCtxSynchronize) \
  X(CUresult, cuMemGetInfo_v2, size_t*, size_t*) \
  X(CUresult, cuMemAlloc_v2, CUdeviceptr*, size_t) \
  X(CUresult, cuMemFree_v2, CUdeviceptr) \
  X(CUresult, cuMemHostAlloc, void**, size_t, unsigned) \
  X(CUresult, cuMemFreeHost, void*) \
  X(CUresult, cuMemHostGetDevicePointer_v2, CUdeviceptr*, void*, unsigned) \
  X(CUresult, cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*, size_t, CUstream) \
  X(CUresult, cuMemcpyDtoHAsync_v2, void*, CUdeviceptr, size_t, CUstream) \
  X(CUresult, cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream) \
  X(CUresult, cuMemcpyPeerAsync, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream) \
  X(CUresult, cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream) \
  X(CUresult, cuStreamCreateWithPriority, CUstream*, unsigned, int) \
  X(CUresult, cuStreamDestroy_v2, CUstream) \
  X(CUresult, cuStreamSynchronize, CUstream) \
  X(CUresult, cuStreamQuery, CUstream) \
  X(CUresult, cuStreamWaitEvent, CUstream, CUevent, unsigned) \
  X(CUresult, cuEventCreate, CUevent*, unsigned) \
  X(CUresult, cuEventDestroy_v2, CUevent) \
  X(CUresult, cuEventRecord, CUevent, CUstream) \
  X(CUresult, cuEventQuery, CUevent) \
  X(CUresult, cuEventSynchronize, CUevent) \
  X(CUresult, cuEventElapsedTime, float*, CUevent, CUevent) \
  X(CUresult, cuModuleLoadData, CUmodule*, const void*) \
  X(CUresult, cuModuleGetFunction, CUfunction*, CUmodule, const char*) \
  X(CUresult, cuFuncSetAttribute, CUfunction, int, int) \
  X(CUresult, cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, unsigned, CUstream, void**, void**) \
  X(CUresult, cuStreamBeginCapture_v2, CUstream, int) \
  X(CUresult, cuStreamEndCapture, CUstream, CUgraph*) \
  X(CUresult, cuStreamIsCapturing, CUstream, int*) \
  X(CUresult, cuThreadExchangeStreamCaptureMode, int*) \
  X(CUresult, cuGraphInstantiateWithFlags, CUgraphExec*, CUgraph, unsigned long long) \
  X(CUresult, cuGraphLaunch, CUgraphExec, CUstream) \
  X(CUresult, cuGraphDestroy, CUgraph) \
  X(CUresult, cuGraphExecDestroy, CUgraphExec)

#define RL_NVRTC_API(X) \
  X(nvrtcResult, nvrtcVersion, int*, int*) \
  X(nvrtcResult, nvrtcGetNumSupportedArchs, int*) \
  X(nvrtcResult, nvrtcGetSupportedArchs, int*) \
  X(nvrtcResult, nvrtcCreateProgram, nvrtcProgram*, const char*, const char*, int, \
    const char* const*, const char* const*) \
  X(nvrtcResult, nvrtcDestroyProgram, nvrtcProgram*) \
  X(nvrtcResult, nvrtcAddNameExpression, nvrtcProgram, const char*) \
  X(nvrtcResult, nvrtcCompileProgram, nvrtcProgram, int, const char* const*) \
  X(nvrtcResult, nvrtcGetLoweredName, nvrtcProgram, const char*, const char**) \
  X(nvrtcResult, nvrtcGetCUBINSize, nvrtcProgram, size_t*) \
  X(nvrtcResult, nvrtcGetCUBIN, nvrtcProgram, char*) \
  X(nvrtcResult, nvrtcGetProgramLogSize, nvrtcProgram, size_t*) \
  X(nvrtcResult, nvrtcGetProgramLog, nvrtcProgram, char*)
// clang-format on

#define RL_POINTER(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
struct Driver {
  RL_DRIVER_API(RL_POINTER)
};
struct Compiler {
  RL_NVRTC_API(RL_POINTER)
};
#undef RL_POINTER

}  // namespace rl::cuda
