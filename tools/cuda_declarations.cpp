// Compares src/kernels/cuda/api.h with NVIDIA's headers, function by function and number by number:
//   make cuda-declarations CUDA_HEADERS="folder folder"
// compiles it, which is the test. The headers are in the wheels nvidia-cuda-runtime,
// nvidia-cuda-crt, nvidia-cuda-nvrtc, nvidia-cublas, nvidia-cudnn-cu13 and nvidia-nccl-cu13.
#include "kernels/cuda/api.h"

// Before macros of the driver's header take some of the names.
namespace rl::cuda::ours {
#define RL_OURS(name, value) constexpr int name##_value = value;
RL_CUDA_NUMBERS(RL_OURS)
#undef RL_OURS
#define RL_OURS(result, name, ...) using name##_type = result (*)(__VA_ARGS__);
RL_DRIVER_API(RL_OURS)
RL_NVRTC_API(RL_OURS)
RL_CUBLASLT_API(RL_OURS)
RL_CUDNN_API(RL_OURS)
RL_NCCL_API(RL_OURS)
}  // namespace rl::cuda::ours

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <nccl.h>
#include <nvrtc.h>

#include <cstddef>
#include <type_traits>

namespace {

// Equal, an enumeration beside an int, handles beside handles, pointers to what is alike.
template <class A, class B> constexpr bool alike_values() {
  if constexpr (std::is_same_v<A, B>) return true;
  else if constexpr (std::is_enum_v<A>)
    return std::is_same_v<B, int> || std::is_same_v<B, unsigned>;
  else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using X = std::remove_pointer_t<A>;
    using Y = std::remove_pointer_t<B>;
    if constexpr (std::is_const_v<X> != std::is_const_v<Y>) return false;
    else if constexpr (std::is_function_v<X>) return std::is_function_v<Y>;
    else if constexpr (std::is_class_v<std::remove_cv_t<X>> && std::is_class_v<std::remove_cv_t<Y>>)
      return true;
    else return alike_values<std::remove_cv_t<X>, std::remove_cv_t<Y>>();
  } else if constexpr (std::is_class_v<A> && std::is_class_v<B>) return sizeof(A) == sizeof(B);
  else return false;
}

template <class F, class G> struct Compare : std::false_type {};
template <class R, class... A, class S, class... B>
struct Compare<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return alike_values<R, S>() && (alike_values<A, B>() && ...);
  }();
};

#define RL_SAME(result, name, ...) \
  static_assert(Compare<decltype(&::name), rl::cuda::ours::name##_type>::value, #name);
RL_DRIVER_API(RL_SAME)
RL_NVRTC_API(RL_SAME)
RL_CUBLASLT_API(RL_SAME)
RL_CUDNN_API(RL_SAME)
RL_NCCL_API(RL_SAME)

#define RL_NUMBER(name, value) \
  static_assert(rl::cuda::ours::name##_value == static_cast<int>(name), #name);
RL_CUDA_NUMBERS(RL_NUMBER)

static_assert(sizeof(rl::cuda::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t));
static_assert(sizeof(rl::cuda::cublasLtMatmulHeuristicResult_t) ==
              sizeof(::cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(rl::cuda::cublasLtMatmulHeuristicResult_t, workspaceSize) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(rl::cuda::cublasLtMatmulHeuristicResult_t, state) ==
              offsetof(::cublasLtMatmulHeuristicResult_t, state));
static_assert(sizeof(rl::cuda::CUuuid) == sizeof(::CUuuid));
static_assert(sizeof(rl::cuda::CUipcMemHandle) == sizeof(::CUipcMemHandle));
static_assert(sizeof(rl::cuda::CUipcEventHandle) == sizeof(::CUipcEventHandle));
static_assert(sizeof(rl::cuda::ncclUniqueId) == sizeof(::ncclUniqueId));
static_assert(sizeof(rl::cuda::ncclConfig_t) <= sizeof(::ncclConfig_t));
static_assert(offsetof(rl::cuda::ncclConfig_t, magic) == offsetof(::ncclConfig_t, magic));
static_assert(offsetof(rl::cuda::ncclConfig_t, version) == offsetof(::ncclConfig_t, version));
static_assert(offsetof(rl::cuda::ncclConfig_t, blocking) == offsetof(::ncclConfig_t, blocking));
constexpr ::ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
static_assert(theirs.magic == rl::cuda::ncclConfig_t().magic);

}  // namespace
