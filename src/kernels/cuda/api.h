// The functions of NVIDIA's libraries that we call, declared by hand: the build needs no CUDA.
// X(result, name, parameters...), enumerations as int; names are those that the libraries export.
// tools/cuda_declarations.cpp compares all of it with NVIDIA's headers.
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
using ncclResult_t = int;
using ncclComm_t = struct ncclComm*;
using cublasStatus_t = int;
using cudnnStatus_t = int;
using cudnnHandle_t = struct cudnnContext*;
using cudnnBackendDescriptor_t = void*;
using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque_t*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque_t*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque_t*;

// clang-format off
#define RL_CUDA_NUMBERS(X) \
  X(CUDA_SUCCESS, 0) X(CUDA_ERROR_OUT_OF_MEMORY, 2) X(CUDA_ERROR_NOT_READY, 600) \
  X(CU_STREAM_NON_BLOCKING, 1) X(CU_EVENT_DEFAULT, 0) X(CU_EVENT_DISABLE_TIMING, 2) \
  X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) X(CU_MEM_ALLOCATION_TYPE_PINNED, 1) \
  X(CU_MEM_LOCATION_TYPE_DEVICE, 1) X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3) \
  X(CU_EVENT_INTERPROCESS, 4) X(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, 1) \
  X(CU_MEMHOSTALLOC_PORTABLE, 1) X(CU_MEMHOSTALLOC_DEVICEMAP, 2) \
  X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0) X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) \
  X(CU_STREAM_CAPTURE_MODE_RELAXED, 2) X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8) \
  X(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 9) X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10) \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12) X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13) \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18) \
  X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33) X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34) \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36) X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37) \
  X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38) \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39) \
  X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50) X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81) \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82) \
  X(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 84) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) X(CUDA_R_32F, 0) X(CUDA_R_64F, 1) \
  X(CUDA_R_16F, 2) X(CUDA_C_32F, 4) X(CUDA_C_64F, 5) X(CUDA_R_16BF, 14) X(CUBLAS_OP_N, 0) \
  X(CUBLAS_OP_T, 1) X(CUBLAS_COMPUTE_32F, 68) X(CUBLAS_COMPUTE_64F, 70) \
  X(CUBLAS_COMPUTE_32F_FAST_TF32, 77) X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5) \
  X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) X(CUBLASLT_MATMUL_DESC_TRANSA, 3) \
  X(CUBLASLT_MATMUL_DESC_TRANSB, 4) X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7) \
  X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8) X(CUBLASLT_EPILOGUE_DEFAULT, 1) \
  X(CUBLASLT_EPILOGUE_RELU, 2) X(CUBLASLT_EPILOGUE_BIAS, 4) X(CUBLASLT_EPILOGUE_RELU_BIAS, 6) \
  X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1) X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5) \
  X(ncclInt8, 0) X(ncclUint8, 1) X(ncclInt32, 2) X(ncclInt64, 4) X(ncclFloat16, 6) \
  X(ncclFloat32, 7) X(ncclFloat64, 8) X(ncclBfloat16, 9) \
  X(ncclSum, 0) X(ncclProd, 1) X(ncclMax, 2) X(ncclMin, 3) X(ncclAvg, 4) X(ncclInProgress, 7) \
  X(ncclScalarHostImmediate, 1) X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400) \
  X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800) \
  X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100) X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101) \
  X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102) X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103) \
  X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104) X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105) \
  X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106) X(CUDNN_ATTR_ENGINECFG_ENGINE, 300) \
  X(CUDNN_ATTR_ENGINEHEUR_MODE, 200) X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201) \
  X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202) X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303) \
  X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401) \
  X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402) X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704) \
  X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705) X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900) \
  X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901) X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902) \
  X(CUDNN_ATTR_TENSOR_STRIDES, 903) X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906) \
  X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001) X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000) \
  X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003) X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1) \
  X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3) X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4) \
  X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2) X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5) \
  X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15) \
  X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12) \
  X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11) \
  X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10) \
  X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17) X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16) \
  X(CUDNN_CROSS_CORRELATION, 1) X(CUDNN_DATA_BFLOAT16, 9) X(CUDNN_DATA_DOUBLE, 1) \
  X(CUDNN_DATA_FLOAT, 0) X(CUDNN_DATA_HALF, 2) X(CUDNN_HEUR_MODE_A, 3) \
  X(CUDNN_HEUR_MODE_FALLBACK, 2) X(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1) \
  X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4) X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0) \
  X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15) X(CUDNN_TYPE_CONVOLUTION_MODE, 7) \
  X(CUDNN_TYPE_DATA_TYPE, 1) X(CUDNN_TYPE_DOUBLE, 5) X(CUDNN_TYPE_FLOAT, 4) \
  X(CUDNN_TYPE_HANDLE, 0) X(CUDNN_TYPE_HEUR_MODE, 8) X(CUDNN_TYPE_INT64, 3) \
  X(CUDNN_TYPE_NUMERICAL_NOTE, 11) X(CUDNN_TYPE_VOID_PTR, 6)
// clang-format on
#define RL_NUMBER(name, value) name = value,
enum : int { RL_CUDA_NUMBERS(RL_NUMBER) };
#undef RL_NUMBER

struct CUuuid {
  unsigned char bytes[16];
};

using CUmemGenericAllocationHandle = unsigned long long;
struct CUmemLocation {
  int type, id;
};
struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  unsigned char allocFlags[8];
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

struct CUipcMemHandle {
  char reserved[64];
};
struct CUipcEventHandle {
  char reserved[64];
};
struct ncclUniqueId {
  char internal[128];
};
// As of NCCL 2.14: later libraries take the rest, which they see is not there, as not set.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
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
  X(CUresult, cuPointerGetAttribute, void*, int, CUdeviceptr) \
  X(CUresult, cuMemGetAddressRange_v2, CUdeviceptr*, size_t*, CUdeviceptr) \
  X(CUresult, cuIpcGetMemHandle, CUipcMemHandle*, CUdeviceptr) \
  X(CUresult, cuIpcOpenMemHandle_v2, CUdeviceptr*, CUipcMemHandle, unsigned) \
  X(CUresult, cuIpcCloseMemHandle, CUdeviceptr) \
  X(CUresult, cuIpcGetEventHandle, CUipcEventHandle*, CUevent) \
  X(CUresult, cuIpcOpenEventHandle, CUevent*, CUipcEventHandle) \
  X(CUresult, cuMemAddressReserve, CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long) \
  X(CUresult, cuMemAddressFree, CUdeviceptr, size_t) \
  X(CUresult, cuMemCreate, CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, \
    unsigned long long) \
  X(CUresult, cuMemRelease, CUmemGenericAllocationHandle) \
  X(CUresult, cuMemMap, CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, \
    unsigned long long) \
  X(CUresult, cuMemUnmap, CUdeviceptr, size_t) \
  X(CUresult, cuMemSetAccess, CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) \
  X(CUresult, cuMemHostAlloc, void**, size_t, unsigned) \
  X(CUresult, cuMemFreeHost, void*) \
  X(CUresult, cuMemHostGetDevicePointer_v2, CUdeviceptr*, void*, unsigned) \
  X(CUresult, cuMemcpyHtoDAsync_v2, CUdeviceptr, const void*, size_t, CUstream) \
  X(CUresult, cuMemcpyDtoHAsync_v2, void*, CUdeviceptr, size_t, CUstream) \
  X(CUresult, cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream) \
  X(CUresult, cuMemcpyPeerAsync, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream) \
  X(CUresult, cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream) \
  X(CUresult, cuMemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream) \
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

#define RL_CUBLASLT_API(X) \
  X(cublasStatus_t, cublasLtCreate, cublasLtHandle_t*) \
  X(const char*, cublasLtGetStatusName, cublasStatus_t) \
  X(cublasStatus_t, cublasLtMatmulDescCreate, cublasLtMatmulDesc_t*, int, int) \
  X(cublasStatus_t, cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t, int, const void*, size_t) \
  X(cublasStatus_t, cublasLtMatrixLayoutCreate, cublasLtMatrixLayout_t*, int, uint64_t, uint64_t, \
    int64_t) \
  X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t, int, const void*, \
    size_t) \
  X(cublasStatus_t, cublasLtMatmulPreferenceCreate, cublasLtMatmulPreference_t*) \
  X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t) \
  X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t, int, \
    const void*, size_t) \
  X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t, \
    cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
    cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*, int*) \
  X(cublasStatus_t, cublasLtMatmul, cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, \
    cublasLtMatrixLayout_t, const void*, cublasLtMatrixLayout_t, const void*, const void*, \
    cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, \
    size_t, CUstream)

#define RL_CUDNN_API(X) \
  X(size_t, cudnnGetVersion) \
  X(const char*, cudnnGetErrorString, cudnnStatus_t) \
  X(void, cudnnGetLastErrorString, char*, size_t) \
  X(cudnnStatus_t, cudnnCreate, cudnnHandle_t*) \
  X(cudnnStatus_t, cudnnSetStream, cudnnHandle_t, CUstream) \
  X(cudnnStatus_t, cudnnBackendCreateDescriptor, int, cudnnBackendDescriptor_t*) \
  X(cudnnStatus_t, cudnnBackendDestroyDescriptor, cudnnBackendDescriptor_t) \
  X(cudnnStatus_t, cudnnBackendSetAttribute, cudnnBackendDescriptor_t, int, int, int64_t, \
    const void*) \
  X(cudnnStatus_t, cudnnBackendGetAttribute, cudnnBackendDescriptor_t, int, int, int64_t, int64_t*, \
    void*) \
  X(cudnnStatus_t, cudnnBackendFinalize, cudnnBackendDescriptor_t) \
  X(cudnnStatus_t, cudnnBackendExecute, cudnnHandle_t, cudnnBackendDescriptor_t, \
    cudnnBackendDescriptor_t)

#define RL_NCCL_API(X) \
  X(const char*, ncclGetErrorString, ncclResult_t) \
  X(ncclResult_t, ncclGetUniqueId, ncclUniqueId*) \
  X(ncclResult_t, ncclGetVersion, int*) \
  X(ncclResult_t, ncclCommInitRankConfig, ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) \
  X(ncclResult_t, ncclCommSplit, ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*) \
  X(ncclResult_t, ncclCommAbort, ncclComm_t) \
  X(ncclResult_t, ncclCommDestroy, ncclComm_t) \
  X(ncclResult_t, ncclGroupStart) \
  X(ncclResult_t, ncclGroupEnd) \
  X(ncclResult_t, ncclSend, const void*, size_t, int, int, ncclComm_t, CUstream) \
  X(ncclResult_t, ncclRecv, void*, size_t, int, int, ncclComm_t, CUstream) \
  X(ncclResult_t, ncclRedOpCreatePreMulSum, int*, void*, int, int, ncclComm_t) \
  X(ncclResult_t, ncclRedOpDestroy, int, ncclComm_t) \
  X(ncclResult_t, ncclCommGetAsyncError, ncclComm_t, ncclResult_t*) \
  X(ncclResult_t, ncclAllReduce, const void*, void*, size_t, int, int, ncclComm_t, CUstream) \
  X(ncclResult_t, ncclReduce, const void*, void*, size_t, int, int, int, ncclComm_t, CUstream) \
  X(ncclResult_t, ncclBroadcast, const void*, void*, size_t, int, int, ncclComm_t, CUstream) \
  X(ncclResult_t, ncclAllGather, const void*, void*, size_t, int, ncclComm_t, CUstream) \
  X(ncclResult_t, ncclReduceScatter, const void*, void*, size_t, int, int, ncclComm_t, CUstream)
// clang-format on

#define RL_POINTER(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
struct Driver {
  RL_DRIVER_API(RL_POINTER)
};
struct Compiler {
  RL_NVRTC_API(RL_POINTER)
};
struct CublasLt {
  RL_CUBLASLT_API(RL_POINTER)
};
struct Cudnn {
  RL_CUDNN_API(RL_POINTER)
};
struct Nccl {
  RL_NCCL_API(RL_POINTER)
};
#undef RL_POINTER

}  // namespace rl::cuda
