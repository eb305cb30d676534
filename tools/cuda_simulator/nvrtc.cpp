// A libnvrtc.so.13 that compiles kernels with g++ for the emulator.
//
// RUSHLIGHT_SIMULATOR_CXX is the compiler (g++), RUSHLIGHT_SIMULATOR_CXXFLAGS its flags. Headers
// that programs share are kept, and precompiled, in a folder that is named by their contents, below
// RUSHLIGHT_SIMULATOR_CACHE or the system's temporary folder. With RUSHLIGHT_SIMULATOR_IDLE, where no
// kernel runs, nothing is compiled.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/api.h"

using rl::cuda::nvrtcProgram;
using rl::cuda::nvrtcResult;

namespace rl::cuda {
struct _nvrtcProgram {
  std::string source, log, image;
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> names;
  std::map<std::string, std::string> lowered;
};
}  // namespace rl::cuda

namespace {
uint64_t hash(const std::string& text, uint64_t h = 14695981039346656037ull) {
  for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
  return h;
}
std::string hex(uint64_t h) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
  return text;
}
std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
void make_folders(const std::string& path) {
  for (size_t i = 1; i <= path.size(); ++i)
    if (i == path.size() || path[i] == '/') mkdir(path.substr(0, i).c_str(), 0700);
}
bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }
std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}
// Where emulator.h lies: beside this library.
std::string own_folder() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&own_folder), &info);
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}
int run(const std::string& command) { return std::system(command.c_str()); }

std::string compiler_command() {
  return variable("RUSHLIGHT_SIMULATOR_CXX", "g++") + " -std=c++17 -fPIC -w -DRL_DEVICE=1 " +
         variable("RUSHLIGHT_SIMULATOR_CXXFLAGS",
                  "-O1 -mavx2 -mfma -ffp-contract=off -fno-math-errno -fno-strict-aliasing");
}
bool idle() { return variable("RUSHLIGHT_SIMULATOR_IDLE", "0") != "0"; }
// Of all but the program itself: what was compiled with another emulator does not fit this one.
uint64_t emulator_hash() {
  static const uint64_t h =
      idle() ? 0
             : hash(compiler_command() + read(own_folder() + "/emulator.h") +
                    read(own_folder() + "/emulator_math.h"));
  return h;
}

// The folder that holds the headers and their precompiled form.
std::string header_folder(const nvrtcProgram program) {
  uint64_t h = emulator_hash();
  for (const auto& [name, text] : program->headers) h = hash(text, hash(name, h));
  std::string folder = variable("RUSHLIGHT_SIMULATOR_CACHE",
                                ("/tmp/rushlight-simulator-" + std::to_string(getuid())).c_str()) +
                       "/headers-" + hex(h);
  if (exists(folder + "/ready")) return folder;
  std::string fresh = folder + "." + std::to_string(getpid());
  make_folders(fresh);
  for (const auto& [name, text] : program->headers) {
    std::string path = fresh + "/" + name;
    make_folders(path.substr(0, path.rfind('/')));
    std::ofstream(path) << text;
  }
  // The first header is what all programs include.
  std::ofstream(fresh + "/all.h") << "#include \"" << own_folder() << "/emulator.h\"\n#include \""
                                  << own_folder() << "/emulator_math.h\"\n#include \""
                                  << program->headers.front().first << "\"\n";
  run("cd '" + fresh + "' && " + compiler_command() +
      " -I. -x c++-header all.h -o all.h.gch 2>all.log");
  std::ofstream(fresh + "/ready") << "ready\n";
  if (std::rename(fresh.c_str(), folder.c_str())) {  // another process was first
    run("rm -rf '" + fresh + "'");
  }
  return folder;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) nvrtcResult

API nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = static_cast<int>(emulator_hash() & 0xffffff);  // caches tell what they hold by it
  return 0;
}
API nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}
API nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80;
  archs[1] = 90;
  archs[2] = 100;
  return 0;
}
API nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int count,
                       const char* const* headers, const char* const* names) {
  *program = new rl::cuda::_nvrtcProgram;
  (*program)->source = source;
  for (int i = 0; i < count; ++i) (*program)->headers.push_back({names[i], headers[i]});
  return 0;
}
API nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return 0;
}
API nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  program->names.push_back(expression);
  return 0;
}
API nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  if (idle()) {
    for (const std::string& expression : program->names) program->lowered[expression] = "idle";
    program->image.assign(sizeof(uint64_t), 0);
    return 0;
  }
  std::string headers = header_folder(program);
  char name[] = "/tmp/rushlight-kernel-XXXXXX";
  if (!mkdtemp(name)) return 1;
  std::string folder = name;
  {
    std::ofstream file(folder + "/kernel.cpp");
    file << program->source << "\n";
    int i = 0;
    for (const std::string& expression : program->names) {
      std::string lowered = "kernel_" + std::to_string(i++);
      program->lowered[expression] = lowered;
      file << "extern \"C\" const emulator::KernelDescription* " << lowered
           << "() {\n  static emulator::KernelDescription d = emulator::Trampoline<&" << expression
           << ">::description(R\"(" << expression << ")\");\n  return &d;\n}\n";
    }
  }
  // Without the standard libraries, whose symbols libcuda.so.1 brings: linking them takes longer.
  int status =
      run("cd '" + folder + "' && " + compiler_command() + " -I'" + headers + "' -include '" +
          headers + "/all.h' -shared -nostdlib kernel.cpp -o kernel.so '" + own_folder() +
          "/libcuda.so.1' 2>log");
  program->log = read(folder + "/log");
  std::string library = read(folder + "/kernel.so");
  uint64_t size = library.size();
  program->image.assign(reinterpret_cast<const char*>(&size), 8);
  program->image += library;
  run("rm -rf '" + folder + "'");
  return status ? 6 : 0;
}
API nvrtcGetLoweredName(nvrtcProgram program, const char* expression, const char** name) {
  auto it = program->lowered.find(expression);
  if (it == program->lowered.end()) return 10;
  *name = it->second.c_str();
  return 0;
}
API nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->image.size();
  return 0;
}
API nvrtcGetCUBIN(nvrtcProgram program, char* image) {
  std::memcpy(image, program->image.data(), program->image.size());
  return 0;
}
API nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
API nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
