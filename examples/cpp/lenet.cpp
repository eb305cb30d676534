// A LeNet learns handwritten digits, in C++.
//
//   python examples/cpp/digits.py runs        writes images.npy and labels.npy
//   cmake -S examples/cpp -B build/example -DCMAKE_PREFIX_PATH=$PWD/build/cpp
//   cmake --build build/example
//   build/example/lenet runs runs/lenet.safetensors
//
// The parameters are those of the same module in Python, which can read the file.
#include <rushlight/nn.h>
#include <rushlight/npy.h>
#include <rushlight/optim.h>

#include <cstdio>

namespace torch = rushlight;
namespace nn = rushlight::nn;
using torch::Tensor;

struct LeNet : nn::Module {
  nn::Conv2d conv1{1, 6, 3, {{1, 1}, {1, 1}}}, conv2{6, 16, 3, {{1, 1}, {1, 1}}};
  nn::Linear fc1{64, 84}, fc2{84, 10};

  LeNet() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  Tensor operator()(Tensor x) const {
    x = torch::max_pool2d(torch::relu(conv1(x)), {2, 2});
    x = torch::max_pool2d(torch::relu(conv2(x)), {2, 2});
    return fc2(torch::relu(fc1(torch::flatten(x, 1))));
  }
};

double accuracy(const LeNet& net, const Tensor& images, const Tensor& labels) {
  torch::NoGradGuard guard;
  const Tensor right = torch::eq(torch::argmax(net(images), 1), labels);
  return torch::item<double>(torch::sum(right)) / double(labels.numel());
}

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: lenet FOLDER_OF_DIGITS WEIGHTS.safetensors\n");
    return 2;
  }
  try {
    const std::string folder = arguments[1];
    torch::manual_seed(0);
    LeNet net;
    const Tensor images = rl::program::read_npy(folder + "/images.npy");
    const Tensor labels = rl::program::read_npy(folder + "/labels.npy");
    const int64_t training = 1500, batch = 50, examples = images.size(0);
    const Tensor test_images = torch::slice(images, 0, training, examples);
    const Tensor test_labels = torch::slice(labels, 0, training, examples);
    torch::optim::Adam optimizer(net.parameters(), 2e-3);
    for (int epoch = 1; epoch <= 10; ++epoch) {
      const Tensor order = torch::randperm(training);
      double total = 0;
      for (int64_t at = 0; at < training; at += batch) {
        const Tensor which = torch::slice(order, 0, at, at + batch);
        const Tensor x = torch::index_select(images, 0, which);
        const Tensor y = torch::index_select(labels, 0, which);
        optimizer.zero_grad();
        const Tensor loss = torch::cross_entropy(net(x), y);
        torch::backward(loss);
        optimizer.step();
        total += torch::item<double>(loss) * batch;
      }
      std::printf("epoch %d: loss %.4f, accuracy on other digits %.3f\n", epoch, total / training,
                  accuracy(net, test_images, test_labels));
    }
    net.save(arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lenet: %s\n", error.what());
    return 1;
  }
}
