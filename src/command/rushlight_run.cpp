// rushlight-run: run a program in a file on arrays in files.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "program/model.h"
#include "program/npy.h"

using namespace rl;
using namespace rl::program;

namespace {

const char usage[] =
    "usage: rushlight-run MODEL [--input FILE.npy | --input NUMBER]... [--output FILE.npy]...\n"
    "                     [--threads N] [--repeat N] [--describe]\n"
    "Runs a program that rushlight.export.save wrote. Inputs and outputs come in the program's\n"
    "order; outputs that no file is named for are printed. --repeat says how long a run takes,\n"
    "--describe prints the inputs and runs nothing.\n";

struct Options {
  std::string model;
  std::vector<std::string> inputs, outputs;
  int repeat = 0;
  bool describe = false;
};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "rushlight-run: %s\n%s", what.c_str(), usage);
  std::exit(2);
}

Options read_options(int count, char** arguments) {
  Options found;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    auto next = [&]() -> std::string {
      if (++i == count) refuse(name + " needs a value");
      return arguments[i];
    };
    auto number = [&]() -> int {
      const int value = std::atoi(next().c_str());
      if (value < 1) refuse(name + " needs a number of at least 1");
      return value;
    };
    if (name == "--input") found.inputs.push_back(next());
    else if (name == "--output") found.outputs.push_back(next());
    else if (name == "--repeat") found.repeat = number();
    else if (name == "--threads") set_num_threads(number());
    else if (name == "--describe") found.describe = true;
    else if (name == "--help" || name == "-h") std::exit(std::fputs(usage, stdout) < 0);
    else if (name[0] == '-' || !found.model.empty()) refuse("unknown argument " + name);
    else found.model = name;
  }
  if (found.model.empty()) refuse("no model");
  return found;
}

Value input_of(const std::string& text) {
  if (text.size() > 4 && text.compare(text.size() - 4, 4, ".npy") == 0)
    return Value(read_npy(text));
  if (text == "true" || text == "false") return Value(text == "true");
  char* end = nullptr;
  const int64_t whole = std::strtoll(text.c_str(), &end, 10);
  if (!text.empty() && !*end) return Value(whole);
  const double real = std::strtod(text.c_str(), &end);
  if (!text.empty() && !*end) return Value(real);
  refuse("the input '" + text + "' is neither a .npy file nor a number");
}

void describe(const Model& model) {
  for (const InputRule& rule : model.inputs()) {
    std::printf("%s:", rule.name.c_str());
    if (rule.kind == InputRule::OfTensor) std::printf(" %s", name(rule.dtype));
    else if (rule.kind == InputRule::Typed) std::printf(" %s", rule.type.c_str());
    else std::printf(rule.kind == InputRule::OfNumber ? " int" : " fixed");
    for (const SizeRule& size : rule.sizes) {
      if (size.symbol < 0) std::printf(" %lld", static_cast<long long>(size.fixed));
      else std::printf(" %s", model.symbols()[size.symbol].name.c_str());
    }
    std::printf("\n");
  }
}

void print(const Value& value, size_t place) {
  if (const Tensor* t = value.get<Tensor>()) {
    std::printf("output %zu: %s tensor of shape (", place, name(t->dtype()));
    for (int64_t n : t->sizes()) std::printf("%lld, ", static_cast<long long>(n));
    std::printf(")\n");
  } else if (const int64_t* n = value.get<int64_t>()) {
    std::printf("output %zu: %lld\n", place, static_cast<long long>(*n));
  } else if (const double* d = value.get<double>()) {
    std::printf("output %zu: %.17g\n", place, *d);
  } else {
    std::printf("output %zu: %s\n", place, value.type_name());
  }
}

int run(const Options& options) {
  const Model model = Model::load(options.model);
  if (options.describe) return describe(model), 0;
  ValueList inputs;
  for (const std::string& text : options.inputs) inputs.push_back(input_of(text));
  ValueList outputs = model.run(inputs);
  if (outputs.size() < options.outputs.size())
    refuse("the program has " + std::to_string(outputs.size()) + " outputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < options.outputs.size())
      write_npy(options.outputs[i], outputs[i].tensor("rushlight-run: an output"));
    else print(outputs[i], i);
  }
  if (!options.repeat) return 0;
  double best = 1e300;
  for (int i = 0; i < options.repeat; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    outputs = model.run(inputs);
    for (const Value& value : outputs)  // what is lazy is computed when it is asked for
      if (const Tensor* t = value.get<Tensor>()) t->view();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  std::printf("%.1f us\n", best);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(read_options(count, arguments));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rushlight-run: %s\n", error.what());
    return 1;
  }
}
