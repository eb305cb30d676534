#include "kernels/cuda/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <memory>
#include <mutex>

namespace rl::cuda {
namespace {

auto& folders = *new std::vector<std::string>;
auto& simulator = *new std::string;
Driver driver_functions;
Compiler compiler_functions;

// NVIDIA's compiler of a wheel opens its builtins by a bare name that nothing leads to: they have
// to be there already.
void open_builtins(const std::string& folder) {
  glob_t found;
  if (glob((folder + "/libnvrtc-builtins.so.1*").c_str(), 0, nullptr, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
  globfree(&found);
}

void* open_driver(std::string& tried) {
  const char* name = "libcuda.so.1";
  std::string path = simulator.empty() ? name : simulator + "/" + name;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) tried = dlerror();
  return handle;
}

// The first that opens of these names; those of the simulator alone, where it is asked for.
void* open_library(const std::vector<std::string>& names, std::string& tried) {
  if (!simulator.empty()) {
    void* handle = dlopen((simulator + "/" + names[0]).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) tried = dlerror();
    return handle;
  }
  // Another library of the process may have loaded it; a second copy would be a waste.
  for (const std::string& name : names)
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return handle;
  for (const std::string& folder : folders)
    for (const std::string& name : names) {
      open_builtins(folder);
      if (void* handle = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL))
        return handle;
    }
  for (const std::string& name : names)
    if (void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  tried = dlerror();
  return nullptr;
}

std::string open_all() {
  std::string tried;
  void* library = open_driver(tried);
  if (!library)
    return "no NVIDIA driver was found (" + tried +
           "): install the driver of your GPU, which brings libcuda.so.1";
#define RL_RESOLVE(result, name, ...)                                           \
  driver_functions.name =                                                       \
      reinterpret_cast<decltype(driver_functions.name)>(dlsym(library, #name)); \
  if (!driver_functions.name)                                                   \
    return "the NVIDIA driver is too old (it has no " #name                     \
           "): install one of version 525 or newer";
  RL_DRIVER_API(RL_RESOLVE)
#undef RL_RESOLVE
  if (CUresult status = driver_functions.cuInit(0)) {
    const char* name = nullptr;
    driver_functions.cuGetErrorName(status, &name);
    return std::string("the NVIDIA driver does not start (cuInit: ") +
           (name ? name : std::to_string(status).c_str()) + ")";
  }
  int count = 0;
  driver_functions.cuDeviceGetCount(&count);
  if (!count) return "the NVIDIA driver knows no GPU";
  library = open_library({"libnvrtc.so.13", "libnvrtc.so.12"}, tried);
  if (!library)
    return "NVIDIA's run-time compiler was not found (" + tried +
           "): pip install nvidia-cuda-nvrtc, which the extra rushlight[cuda] brings";
#define RL_RESOLVE(result, name, ...)                                             \
  compiler_functions.name =                                                       \
      reinterpret_cast<decltype(compiler_functions.name)>(dlsym(library, #name)); \
  if (!compiler_functions.name)                                                   \
    return "NVIDIA's run-time compiler is too old (it has no " #name              \
           "): pip install -U "                                                   \
           "nvidia-cuda-nvrtc";
  RL_NVRTC_API(RL_RESOLVE)
#undef RL_RESOLVE
  return "";
}

}  // namespace

void set_library_folders(std::vector<std::string> given, std::string simulator_folder) {
  folders = std::move(given);
  simulator = std::move(simulator_folder);
}

const std::string& why_unavailable() {
  static const std::string* reason = new std::string(open_all());
  return *reason;
}

namespace {

// The functions of a library that we can do without; null where it is missing.
template <class Functions, class Resolve>
const Functions* open_optional(const char* name, const std::vector<std::string>& files,
                               Resolve&& resolve) {
  std::string tried;
  void* library = is_unwanted(name) ? nullptr : open_library(files, tried);
  auto functions = std::make_unique<Functions>();
  return library && resolve(library, *functions) ? functions.release() : nullptr;
}

}  // namespace

#define RL_RESOLVE(result, name, ...)                                                 \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name)); \
  if (!functions.name) return false;

const CublasLt* cublas_lt() {
  static const CublasLt* found =
      open_optional<CublasLt>("cublasLt", {"libcublasLt.so.13", "libcublasLt.so.12"},
                              [](void* library, CublasLt& functions) {
                                RL_CUBLASLT_API(RL_RESOLVE)
                                return true;
                              });
  return found;
}
const Cudnn* cudnn() {
  cublas_lt();  // of which some of its engines are made: they find it by its name
  static const Cudnn* found =
      open_optional<Cudnn>("cudnn", {"libcudnn.so.9"}, [](void* library, Cudnn& functions) {
        RL_CUDNN_API(RL_RESOLVE)
        return true;
      });
  return found;
}
const Nccl* nccl() {
  static const Nccl* found =
      open_optional<Nccl>("nccl", {"libnccl.so.2"}, [](void* library, Nccl& functions) {
        RL_NCCL_API(RL_RESOLVE)
        return true;
      });
  return found;
}
#undef RL_RESOLVE

const Driver& driver() { return driver_functions; }
const Compiler& compiler() { return compiler_functions; }
bool is_unwanted(const char* name) {
  const char* list = std::getenv("RUSHLIGHT_CUDA_WITHOUT");
  return list &&
         ("," + std::string(list) + ",").find("," + std::string(name) + ",") != std::string::npos;
}
bool is_simulated() { return !simulator.empty(); }

}  // namespace rl::cuda
