// A backend from outside the library trains a network through the launch seam alone.
//
// Its memory is readable inside its kernels and nowhere else: an op that reached an element in any
// other way would end the process. Its kernels are the CPU's, each of which notes its name.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "core/generator.h"
#include "dispatch/install.h"
#include "dispatch/operators.h"
#include "kernels/backend.h"
#include "ops.h"

using namespace rl;

namespace {

#define REQUIRE(condition)                                                      \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                             \
    }                                                                           \
  } while (false)

// ---- memory that the host cannot touch

constexpr size_t arena_bytes = size_t(1) << 32;
char* arena = nullptr;
size_t used = 0;
int open_count = 0;

// Opens the arena for its scope.
class Opened {
 public:
  Opened() {
    if (open_count++ == 0) mprotect(arena, arena_bytes, PROT_READ | PROT_WRITE);
  }
  ~Opened() {
    if (--open_count == 0) mprotect(arena, arena_bytes, PROT_NONE);
  }
};

void* allocate_traced(size_t bytes, Device) {
  size_t begin = used;
  used += (bytes + 63) / 64 * 64;
  REQUIRE(used <= arena_bytes);
  return arena + begin;
}
void deallocate_traced(void*, size_t, Device) {}
void copy_traced(void* to, Device, const void* from, Device, size_t bytes) {
  Opened opened;
  __builtin_memcpy(to, from, bytes);
}
const DeviceMemory traced_memory{allocate_traced, deallocate_traced, copy_traced};

// ---- kernels that note that they ran

std::map<std::string, int> launches;

template <class Slot, Slot slot> struct Traced;
template <class Kernels, class Result, class... Arguments,
          Result (*Kernels::*slot)(const kernels::Context&, Arguments...)>
struct Traced<Result (*Kernels::*)(const kernels::Context&, Arguments...), slot> {
  static inline const char* name;
  static Result call(const kernels::Context& context, Arguments... arguments) {
    REQUIRE(context.device.type == DeviceType::PrivateUse1);
    ++launches[name];
    Opened opened;
    return (kernels::cpu_kernels.*slot)(kernels::Context(), arguments...);
  }
};

struct Fill {
  kernels::KernelTable* table;
  template <class Slot, Slot slot> void visit(const char* name) const {
    Traced<Slot, slot>::name = name;
    table->*slot = Traced<Slot, slot>::call;
  }
};

kernels::KernelTable traced_kernels;
const Device traced{DeviceType::PrivateUse1, 0};

// ---- the network of the quickstart

struct Network {
  explicit Network(Device device) : device(device) {}
  const Device device;
  std::vector<Tensor> parameters, averages, squares, steps;

  Tensor parameter(Dims sizes, double bound) {
    Tensor drawn = (ops::rand(sizes) - Scalar(0.5)) * Scalar(2 * bound);
    Tensor t = ops::to(drawn, device, std::nullopt);
    t.impl()->requires_grad = true;
    parameters.push_back(t);
    averages.push_back(ops::zeros_like(t));
    squares.push_back(ops::zeros_like(t));
    steps.push_back(ops::zeros(Dims(), DType::Float32));
    return t;
  }

  Tensor conv1 = parameter({6, 1, 3, 3}, 0.3), bias1 = parameter({6}, 0.3);
  Tensor conv2 = parameter({16, 6, 3, 3}, 0.13), bias2 = parameter({16}, 0.13);
  Tensor weight3 = parameter({32, 64}, 0.12), bias3 = parameter({32}, 0.12);
  Tensor weight4 = parameter({10, 32}, 0.17), bias4 = parameter({10}, 0.17);

  Tensor forward(const Tensor& images) {
    Tensor x = ops::relu(ops::conv2d(images, conv1, bias1, Dims{1, 1}, Dims{1, 1}));
    x = ops::max_pool2d(x, Dims{2, 2}, Dims{2, 2});
    x = ops::relu(ops::conv2d(x, conv2, bias2, Dims{1, 1}, Dims{1, 1}));
    x = ops::max_pool2d(x, Dims{2, 2}, Dims{2, 2});
    x = ops::relu(ops::linear(ops::flatten(x, 1), weight3, bias3));
    return ops::linear(x, weight4, bias4);
  }
};

double train(int count, Device device) {
  default_generator().manual_seed(0);
  Network network(device);
  // Ten patterns to tell from each other.
  Tensor patterns = ops::randn(Dims{10, 1, 8, 8});
  double loss = 0;
  for (int step = 0; step < count; ++step) {
    Tensor labels = ops::randint(0, 10, Dims{32});
    Tensor noise = ops::randn(Dims{32, 1, 8, 8}) * Scalar(0.3);
    Tensor images = ops::add(ops::index_select(patterns, 0, labels), noise);
    for (const Tensor& p : network.parameters) set_grad(p, Tensor());
    Tensor total = ops::cross_entropy(network.forward(ops::to(images, device, std::nullopt)),
                                      ops::to(labels, device, std::nullopt));
    run_backward({total}, {ops::ones_like(total)}, false, false, {}, true);
    std::vector<Tensor> grads;
    for (const Tensor& p : network.parameters) grads.push_back(grad_of(p));
    NoGradGuard guard;
    for (const Tensor& s : network.steps) ops::add_(s, wrap_number(Scalar(1)));
    ops::_fused_adam_(network.parameters, grads, network.averages, network.squares, {},
                      network.steps, 0.005, 0.9, 0.999, 0, 1e-8, false, false, Tensor(), Tensor());
    loss = item<double>(total);
  }
  return loss;
}

}  // namespace

int main() {
  install_ops();
  arena = static_cast<char*>(
      mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  kernels::for_each_kernel(Fill{&traced_kernels});
  kernels::register_backend(DeviceType::PrivateUse1, traced_kernels, traced_memory);

  double first = train(1, traced), last = train(60, traced), expected = train(60, Device());
  REQUIRE(last < 0.5 * first && std::abs(last - expected) < 1e-3);
  for (const char* name :
       {"conv_forward", "conv_backward_input", "conv_backward_weight", "gemm", "max_pool",
        "max_pool_backward", "cross_entropy", "cross_entropy_backward", "fused_adam", "run_loop"})
    REQUIRE(launches[name] > 0);

  // An empty slot names the kernel and the device.
  traced_kernels.sort = nullptr;
  std::string message;
  try {
    ops::sort(ops::to(ops::rand(Dims{4}), traced, std::nullopt), 0, false);
  } catch (const Error& error) {
    message = error.what();
  }
  REQUIRE(message == "sort: not implemented on device privateuseone:0");
  // So do tensors of two devices.
  try {
    ops::mm(ops::to(ops::rand(Dims{2, 2}), traced, std::nullopt), ops::rand(Dims{2, 2}));
  } catch (const Error& error) {
    message = error.what();
  }
  REQUIRE(message.find("input is on privateuseone:0 and mat2 on cpu") != std::string::npos);
  std::printf("passed\n");
}
