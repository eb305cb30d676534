// Recurrent layers: a kernel for all steps where its blocks can keep the weight; else a product and
// a kernel for each step.
#include "kernels/recurrent.h"

#include <algorithm>

#include "kernels/cuda/device/recurrent.h"
#include "kernels/cuda/launch.h"
#include "kernels/gemm.h"

namespace rl::cuda {

RL_CUDA_KERNEL(gemm);

namespace {

using kernels::RecurrentBackward;
using kernels::RecurrentCell;
using kernels::RecurrentForward;
using kernels::RecurrentLayer;
using kernels::RecurrentSteps;

static_assert(static_cast<int>(RecurrentCell::Tanh) == CellTanh &&
              static_cast<int>(RecurrentCell::Relu) == CellRelu &&
              static_cast<int>(RecurrentCell::LSTM) == CellLSTM &&
              static_cast<int>(RecurrentCell::GRU) == CellGRU);

constexpr const char* header = "kernels/cuda/device/recurrent.cuh";

KernelTemplate forwards(header), backwards(header), all_forward(header), all_backward(header);

const void* at(const void* p, int64_t bytes) {
  return p ? static_cast<const char*>(p) + bytes : nullptr;
}
void* at(void* p, int64_t bytes) { return p ? static_cast<char*>(p) + bytes : nullptr; }

class Layer {
 public:
  Layer(const Context& context, const RecurrentLayer& layer)
      : context_(context),
        layer_(layer),
        device(context.device.index),
        gates(kernels::gates_of(layer.cell)),
        row(layer.size * itemsize(layer.dtype)),
        saved(layer.cell == RecurrentCell::GRU ? 4 : gates) {
    use(device);
    check_implemented(layer.dtype == DType::Float32 || layer.dtype == DType::Float64,
                      "recurrent layers: not implemented on CUDA for dtype ", layer.dtype);
  }

  CUfunction kernel(KernelTemplate& kernels, const char* name) const {
    int kind = static_cast<int>(layer_.cell);
    uint64_t variant = static_cast<uint64_t>(layer_.dtype) * 4 + static_cast<uint64_t>(kind);
    return kernels.get(variant, device, "recurrent",
                       [&] { return instance(name, layer_.dtype, kind); });
  }
  // out (rows, G H) = states (rows, H) @ weight^T
  void to_gates(int64_t rows, const void* states, void* out) const {
    multiply(rows, layer_.size, gates * layer_.size, states, {1, layer_.size}, out, false);
  }
  // out (rows, H) = sums (rows, G H) @ weight, plus what out held if `add`
  void to_states(int64_t rows, const void* sums, void* out, bool add) const {
    multiply(rows, gates * layer_.size, layer_.size, sums, {layer_.size, 1}, out, add);
  }

 private:
  void multiply(int64_t rows, int64_t depth, int64_t columns, const void* from, Dims steps,
                void* to, bool add) const {
    if (!rows) return;
    Dims a{rows, depth}, b{depth, columns}, c{rows, columns};
    Dims a_steps{depth, 1}, c_steps{columns, 1};
    auto view = [&](const void* data, const Dims& sizes, const Dims& strides) {
      return View{const_cast<void*>(data), sizes.data(), strides.data(), sizes.size(),
                  product(sizes),          layer_.dtype, context_.device};
    };
    kernels::GemmScale scale;
    scale.beta = add ? 1 : 0;
    gemm(context_, view(from, a, a_steps), view(layer_.weight, b, steps), view(to, c, c_steps),
         scale, nullptr);
  }

  const Context& context_;
  const RecurrentLayer& layer_;

 public:
  const int device;
  const int64_t gates, row, saved;
};

// The samples of a step in runs [begin, end) whose states before it lie together, f(begin, end,
// place): with the first states if `place` is negative, else with those after steps, from row
// `place` on.
template <class F> void for_runs(const RecurrentSteps& steps, int64_t i, F f) {
  int64_t rows = steps.rows(i), carried = steps.carried(i);
  if (carried) f(0, carried, steps.begin(i - 1));
  if (carried < rows) f(carried, rows, -1);
}

// How blocks of one sample keep the weight: `depth` elements a thread, `held` of them in registers.
struct Kept {
  int depth = 0, held = 0;
  unsigned threads = 0, most = 0;
  explicit operator bool() const { return depth > 0; }

  Kept(const RecurrentLayer& layer, int64_t gates) {
    const RecurrentSteps& steps = layer.steps;
    constexpr int64_t most_samples = 1024;  // from where on products of all samples are quicker
    if (layer.size > (layer.dtype == DType::Float32 ? 128 : 64) || layer.batch > most_samples ||
        !steps.count() || steps.rows(0) != layer.batch ||
        steps.rows(steps.count() - 1) != layer.batch)  // the last of samples of unlike lengths
      return;
    depth = layer.size <= 32 ? 32 : layer.size <= 64 ? 64 : 128;
    held = std::min(depth, 64);
    threads = static_cast<unsigned>((gates * layer.size + 31) / 32 * 32);
    most = static_cast<unsigned>(4 * depth);
  }
  uint64_t variant(const RecurrentLayer& layer) const {
    return (static_cast<uint64_t>(layer.dtype) * 4 + static_cast<uint64_t>(layer.cell)) << 8 |
           static_cast<uint64_t>(depth);
  }
  unsigned shared(int64_t numbers, DType dtype) const {
    return static_cast<unsigned>((numbers + threads + int64_t(depth - held) * threads) *
                                 itemsize(dtype));
  }
  std::string expression(const char* name, const RecurrentLayer& layer) const {
    return instance(name, layer.dtype, static_cast<int>(layer.cell), depth, held, most);
  }
};
int64_t stride_of(const RecurrentSteps& steps) {
  return steps.count() > 1 ? steps.begin(1) - steps.begin(0) : 0;
}

void all_steps_forward(const RecurrentLayer& layer, const RecurrentForward& arrays,
                       const Kept& kept, int device) {
  StepsForward args{layer.batch,
                    layer.size,
                    layer.steps.count(),
                    layer.steps.begin(0),
                    stride_of(layer.steps),
                    layer.weight,
                    arrays.x,
                    arrays.bias,
                    layer.hidden,
                    layer.cells,
                    arrays.output,
                    arrays.cells,
                    arrays.gates};
  CUfunction f = all_forward.get(kept.variant(layer), device, "recurrent",
                                 [&] { return kept.expression("steps_forward", layer); });
  launch_kernel(f, device, "recurrent", blocks_of_rows(layer.batch), Grid{kept.threads},
                kept.shared(kept.depth, layer.dtype), args);
}

void all_steps_backward(const RecurrentLayer& layer, const RecurrentBackward& arrays,
                        const Kept& kept, int64_t gates, int device) {
  StepsBackward args{layer.batch, layer.steps.count(), layer.steps.begin(0), stride_of(layer.steps),
                     layer.size,  layer.weight,        layer.cells,          {}};
  args.cell = {layer.batch,        layer.size,        arrays.output, arrays.cells,
               arrays.gates,       arrays.before,     nullptr,       arrays.grad_output,
               arrays.grad_cells,  arrays.grad_gates, arrays.grad_x, arrays.grad_sums,
               arrays.grad_hidden, arrays.grad_cell};
  CUfunction f = all_backward.get(kept.variant(layer), device, "recurrent_backward",
                                  [&] { return kept.expression("steps_backward", layer); });
  launch_kernel(f, device, "recurrent_backward", blocks_of_rows(layer.batch), Grid{kept.threads},
                kept.shared(gates * kept.depth, layer.dtype), args);
}

}  // namespace

void recurrent_forward(const Context& context, const RecurrentLayer& layer,
                       const RecurrentForward& arrays) {
  Layer l(context, layer);
  const RecurrentSteps& steps = layer.steps;
  if (!layer.batch || !layer.size) return;
  if (Kept kept(layer, l.gates); kept) return all_steps_forward(layer, arrays, kept, l.device);
  Scratch sums(static_cast<size_t>(layer.batch * l.gates * l.row), l.device);
  CUfunction f = l.kernel(forwards, "cell_forward");
  for (int64_t i = 0; i < steps.count(); ++i)
    for_runs(steps, i, [&](int64_t begin, int64_t end, int64_t place) {
      bool starts = place < 0;
      int64_t from = (starts ? begin : place) * l.row, to = steps.begin(i) + begin;
      const void* hidden = at(starts ? layer.hidden : arrays.output, from);
      l.to_gates(end - begin, hidden, sums.get());
      CellForward args{end - begin,
                       layer.size,
                       at(arrays.x, to * l.gates * l.row),
                       sums.get(),
                       arrays.bias,
                       hidden,
                       at(starts ? layer.cells : arrays.cells, from),
                       at(arrays.output, to * l.row),
                       at(arrays.cells, to * l.row),
                       at(arrays.gates, to * l.saved * l.row)};
      launch_elements(f, l.device, "recurrent", args.rows * args.size, args);
    });
}

// Each round multiplies with the weight what the last one gave.
void recurrent_backward(const Context& context, const RecurrentLayer& layer,
                        const RecurrentBackward& arrays) {
  Layer l(context, layer);
  const RecurrentSteps& steps = layer.steps;
  if (!layer.batch || !layer.size) return;
  if (Kept kept(layer, l.gates); kept)
    return all_steps_backward(layer, arrays, kept, l.gates, l.device);
  size_t bytes = static_cast<size_t>(layer.batch * l.row);
  set_zero(context, arrays.grad_hidden, bytes);
  if (arrays.grad_cell) set_zero(context, arrays.grad_cell, bytes);
  void* grad_sums = arrays.grad_sums ? arrays.grad_sums : arrays.grad_x;
  bool adds = layer.cell == RecurrentCell::GRU;
  CUfunction f = l.kernel(backwards, "cell_backward");
  for (int64_t i = steps.count(); i >= 0; --i) {
    if (steps.rows(i))
      l.to_states(steps.rows(i), at(grad_sums, steps.begin(i) * l.gates * l.row),
                  arrays.grad_hidden, adds);
    for_runs(steps, i - 1, [&](int64_t begin, int64_t end, int64_t place) {
      int64_t to = steps.begin(i - 1) + begin;
      CellBackward args{
          end - begin,
          layer.size,
          at(arrays.output, to * l.row),
          at(arrays.cells, to * l.row),
          at(arrays.gates, to * l.saved * l.row),
          at(arrays.before, to * l.row),
          at(place < 0 ? layer.cells : arrays.cells, (place < 0 ? begin : place) * l.row),
          at(arrays.grad_output, to * l.row),
          at(arrays.grad_cells, to * l.row),
          at(arrays.grad_gates, to * l.saved * l.row),
          at(arrays.grad_x, to * l.gates * l.row),
          at(arrays.grad_sums, to * l.gates * l.row),
          at(arrays.grad_hidden, begin * l.row),
          at(arrays.grad_cell, begin * l.row)};
      launch_elements(f, l.device, "recurrent_backward", args.rows * args.size, args);
    });
  }
}

}  // namespace rl::cuda
