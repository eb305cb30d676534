#include "kernels/cuda/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

#include "kernels/cuda/sources.h"

namespace rl::cuda {
namespace {

std::mutex mutex;
auto& loaded = *new std::map<std::pair<int, std::string>, CUfunction>;
auto& asked = *new std::string;
KernelCounts counts{};

// A hash of 128 bits, for names of files: two of FNV-1a with different starts.
std::string digest(const std::vector<std::string>& parts) {
  uint64_t a = 14695981039346656037ull, b = 0x9ae16a3b2f90404full;
  for (const std::string& part : parts) {
    for (unsigned char c : part) {
      a = (a ^ c) * 1099511628211ull;
      b = (b ^ c) * 0x00000100000001b3ull + 0x632be59bd9b4e019ull;
    }
    a = (a ^ 0x1ff) * 1099511628211ull;
    b = (b ^ 0x1fe) * 0x00000100000001b3ull;
  }
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return text;
}

// Adds the headers that `text` includes, and those that they include, by their order.
void add_included(const char* text, std::vector<bool>& included) {
  static const char before[] = "#include \"";
  for (const char* at = text; (at = std::strstr(at, before));) {
    at += sizeof before - 1;
    std::string name(at, std::strcspn(at, "\""));
    const DeviceSources& s = device_sources();
    for (size_t i = 0; i < included.size(); ++i)
      if (name == s.names[i] && !included[i]) {
        included[i] = true;
        add_included(s.texts[i], included);
      }
  }
}

// Of what a program that includes `header` is made of: a change of other headers leaves what was
// compiled of this one.
const std::string& sources_digest(const std::string& header) {
  static auto* found = new std::map<std::string, std::string>;
  std::string& result = (*found)[header];
  if (!result.empty()) return result;
  const DeviceSources& s = device_sources();
  std::vector<bool> included(s.names.size());
  add_included(("#include \"" + header + "\"").c_str(), included);
  std::vector<std::string> parts;
  for (size_t i = 0; i < included.size(); ++i)
    if (included[i]) parts.insert(parts.end(), {s.names[i], s.texts[i]});
  return result = digest(parts);
}

int architecture(int device) {
  const Properties& p = properties(device);
  int wanted = p.major * 10 + p.minor, found = 0;
  int n = 0;
  compiler().nvrtcGetNumSupportedArchs(&n);
  std::vector<int> known(static_cast<size_t>(n));
  compiler().nvrtcGetSupportedArchs(known.data());
  for (int arch : known)  // a cubin runs on later minor versions of its major one
    if (arch <= wanted && arch / 10 == p.major && arch > found) found = arch;
  check(found, "the CUDA compiler knows no architecture for a device of compute capability ",
        p.major, ".", p.minor, ": pip install -U nvidia-cuda-nvrtc");
  return found;
}

// "a": with the instructions that later architectures do not have. Since CUDA 12.
std::string target_of(int arch) {
  int major = 0, minor = 0;
  compiler().nvrtcVersion(&major, &minor);
  return "sm_" + std::to_string(arch) + (arch == 90 && major >= 12 ? "a" : "");
}

}  // namespace

void compiler_version(int* major, int* minor) { compiler().nvrtcVersion(major, minor); }

namespace {

struct Compiled {
  std::string name, image, log;
};

Compiled compile(int arch, const char* header, const std::string& definitions,
                 const std::string& expression) {
  const Compiler& c = compiler();
  std::string source = std::string("#include \"") + header + "\"\n" + definitions + "\n";
  nvrtcProgram program = nullptr;
  const DeviceSources& s = device_sources();
  int status =
      c.nvrtcCreateProgram(&program, source.c_str(), "rushlight.cu",
                           static_cast<int>(s.names.size()), s.texts.data(), s.names.data());
  check(!status, "the CUDA compiler does not start: nvrtcCreateProgram gave ", status);
  c.nvrtcAddNameExpression(program, expression.c_str());
  std::string target = "-arch=" + target_of(arch);
  std::vector<const char*> options = {target.c_str(), "-std=c++17", "-default-device",
                                      "-fmad=false",  "-lineinfo",  "-DRL_DEVICE=1"};
  status = c.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  Compiled result;
  size_t size = 0;
  c.nvrtcGetProgramLogSize(program, &size);
  if (size > 1) {
    result.log.resize(size);
    c.nvrtcGetProgramLog(program, result.log.data());
    result.log.resize(std::strlen(result.log.c_str()));
  }
  if (const char* folder = std::getenv("RUSHLIGHT_CUDA_DUMP")) {
    std::ofstream(std::string(folder) + "/" + digest({source, expression}) + ".cu")
        << "// " << expression << "\n"
        << source;
  }
  if (status) {
    c.nvrtcDestroyProgram(&program);
    fail(ErrorKind::Runtime, "a kernel does not compile: ", expression, " of ", header,
         " (nvrtc error ", status, "):\n", result.log, "\n", definitions);
  }
  const char* name = nullptr;
  c.nvrtcGetLoweredName(program, expression.c_str(), &name);
  result.name = name ? name : "";
  c.nvrtcGetCUBINSize(program, &size);
  result.image.resize(size);
  c.nvrtcGetCUBIN(program, result.image.data());
  c.nvrtcDestroyProgram(&program);
  return result;
}

// ---- on disk: a line with a digest of the rest, the lowered name, the image

std::string cache_folder() {
  std::string folder;
  if (const char* given = std::getenv("RUSHLIGHT_CACHE_DIR")) folder = given;
  else if (const char* xdg = std::getenv("XDG_CACHE_HOME"))
    folder = std::string(xdg) + "/rushlight";
  else if (const char* home = std::getenv("HOME")) folder = std::string(home) + "/.cache/rushlight";
  else return "";
  int major = 0, minor = 0;
  compiler().nvrtcVersion(&major, &minor);
  folder += "/cubin/" + std::to_string(major) + "." + std::to_string(minor);
  for (size_t i = 1; i <= folder.size(); ++i)
    if (i == folder.size() || folder[i] == '/') mkdir(folder.substr(0, i).c_str(), 0700);
  struct stat info;
  // Another user must not be able to put code there.
  if (stat(folder.c_str(), &info) || info.st_uid != geteuid() || (info.st_mode & 022)) return "";
  return folder;
}
const std::string& cache() {
  static const std::string* folder = new std::string(cache_folder());
  return *folder;
}

bool read_cached(const std::string& path, Compiled& result) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  std::string sum;
  std::getline(file, sum);
  std::getline(file, result.name);
  std::stringstream rest;
  rest << file.rdbuf();
  result.image = rest.str();
  return !result.image.empty() && digest({result.name, result.image}) == sum;
}

// A cache that cannot be written costs time, nothing else.
void write_cached(const std::string& path, const Compiled& compiled) {
  std::string fresh = path + "." + std::to_string(getpid());
  {
    std::ofstream file(fresh, std::ios::binary);
    file << digest({compiled.name, compiled.image}) << "\n" << compiled.name << "\n";
    file.write(compiled.image.data(), static_cast<std::streamsize>(compiled.image.size()));
    if (!file) {
      unlink(fresh.c_str());
      return;
    }
  }
  if (std::rename(fresh.c_str(), path.c_str())) unlink(fresh.c_str());
}

// Of RUSHLIGHT_CUDA_LIST, for tools/cuda_compile_check.py, which knows all formulas already.
void list_kernel(const char* header, const std::string& definitions,
                 const std::string& expression) {
  const char* path = std::getenv("RUSHLIGHT_CUDA_LIST");
  if (path && definitions.empty())
    std::ofstream(path, std::ios::app) << std::string(header) + "\t\t" + expression + "\n";
}

}  // namespace

std::atomic<int64_t> launch_count{0};

CUfunction load_kernel(int device, const char* header, const std::string& definitions,
                       const std::string& expression, const char* shown) {
  use(device);
  std::lock_guard<std::mutex> lock(mutex);
  std::string whole = std::string(header) + "\t" + definitions + "\t" + expression;
  auto it = loaded.find({device, whole});
  if (it != loaded.end()) return it->second;
  int arch = architecture(device);
  Compiled compiled;
  int major = 0, minor = 0;
  compiler().nvrtcVersion(&major, &minor);
  std::string path = cache().empty()
                         ? ""
                         : cache() + "/" +
                               digest({sources_digest(header), whole, std::to_string(arch),
                                       std::to_string(major), std::to_string(minor)});
  if (!path.empty() && read_cached(path, compiled)) {
    ++counts.from_disk;
  } else {
    compiled = compile(arch, header, definitions, expression);
    ++counts.compiled;
    if (!path.empty()) write_cached(path, compiled);
  }
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // allowed while a stream is captured
  RL_CUDA(cuThreadExchangeStreamCaptureMode, &mode);
  CUmodule module = nullptr;
  CUresult status = driver().cuModuleLoadData(&module, compiled.image.data());
  driver().cuThreadExchangeStreamCaptureMode(&mode);
  check_call(status, shown);
  CUfunction function = nullptr;
  RL_CUDA(cuModuleGetFunction, &function, module, compiled.name.c_str());
  loaded[{device, whole}] = function;
  asked += whole + "\n";
  list_kernel(header, definitions, expression);
  return function;
}

bool has_warpgroup_products(int device) {
  static const bool compiled = !is_unwanted("wgmma") && target_of(90) == "sm_90a";
  return compiled && properties(device).major == 9;
}

std::string compile_check(int arch, const char* header, const std::string& definitions,
                          const std::string& expression) {
  return compile(arch, header, definitions, expression).log;
}

std::string kernels_asked_for() {
  std::lock_guard<std::mutex> lock(mutex);
  return asked;
}
KernelCounts kernel_counts() {
  std::lock_guard<std::mutex> lock(mutex);
  KernelCounts result = counts;
  result.launches = launch_count;
  return result;
}

std::mutex& kernel_mutex() { return mutex; }

const char* device_type(DType t) {
  static const char* const names[dtype_count] = {
      "rl::Bool", "uint8_t",      "int8_t", "int16_t", "int32_t",       "int64_t",
      "rl::half", "rl::bfloat16", "float",  "double",  "rl::complex64", "rl::complex128"};
  return names[static_cast<int>(t)];
}

}  // namespace rl::cuda
