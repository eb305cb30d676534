// Convolutions in oneDNN, channels_last inside: its plain NCHW kernels take up to 8 times as long.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"

namespace rl::kernels {
namespace {

constexpr int key_length = 32;  // 8 + 6 x 3 + 6 strides

struct ConvKey {
  int64_t values[key_length] = {};
  bool operator==(const ConvKey& other) const {
    return std::memcmp(values, other.values, sizeof values) == 0;
  }
  size_t hash() const {
    uint64_t h = 0;
    for (int64_t v : values) h = (h ^ static_cast<uint64_t>(v)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
  }
};

// What a plan is made from: one chunk of the batch.
struct Layouts {
  ConvProblem problem;
  Dims weight;  // strides
  bool bias;
  DType dtype;  // of all but the bias, and of a gradient of the weight before it is written

  ConvKey key(ConvOp op) const {
    ConvKey k;
    const ConvProblem& p = problem;
    int64_t* v = k.values;
    for (int64_t x :
         {static_cast<int64_t>(op), static_cast<int64_t>(bias), static_cast<int64_t>(dtype),
          static_cast<int64_t>(p.dims), p.batch, p.channels, p.filters, p.groups})
      *v++ = x;
    for (int i = 0; i < p.dims; ++i)
      for (int64_t x :
           {p.large[i], p.small[i], p.kernel[i], p.stride[i], p.padding[i], p.dilation[i]})
        *v++ = x;
    for (int64_t x : weight) *v++ = x;
    return k;
  }
};

struct ConvPlan {
  bool supported = false;
  Port weight;
  Dnnl<dnnl_memory_t> large, small, bias;
  Primitive primitive;

  ConvPlan(ConvOp op, const Layouts& layouts);
};

Dims tensor_sizes(const ConvProblem& p, int64_t channels, const int64_t* spatial) {
  Dims sizes{p.batch, channels};
  for (int i = 0; i < p.dims; ++i) sizes.push_back(spatial[i]);
  return sizes;
}

Dims weight_sizes(const ConvProblem& p) {
  Dims sizes;
  if (p.groups > 1) sizes.push_back(p.groups);
  sizes.push_back(p.filters / p.groups);
  sizes.push_back(p.channels / p.groups);
  for (int i = 0; i < p.dims; ++i) sizes.push_back(p.kernel[i]);
  return sizes;
}

DnnlPrimitiveDesc conv_desc(ConvOp op, const Layouts& l) {
  const ConvProblem& p = l.problem;
  Dims large_sizes = tensor_sizes(p, p.channels, p.large),
       small_sizes = tensor_sizes(p, p.filters, p.small);
  DnnlDesc large = dnnl_desc(large_sizes, channels_last_strides(large_sizes), l.dtype);
  DnnlDesc small = dnnl_desc(small_sizes, channels_last_strides(small_sizes), l.dtype);
  DnnlDesc weight = dnnl_desc_any(weight_sizes(p), l.dtype);
  DnnlDesc bias = l.bias ? dnnl_desc(Dims{p.filters}, Dims{1}) : nullptr;
  dnnl_dim_t dilates[3], after[3];
  for (int i = 0; i < p.dims; ++i) {
    dilates[i] = p.dilation[i] - 1;
    after[i] = (p.small[i] - 1) * p.stride[i] + (p.kernel[i] - 1) * p.dilation[i] + 1 - p.large[i] -
               p.padding[i];
  }
  dnnl_primitive_desc_t forward = nullptr, result = nullptr;
  if (dnnl_convolution_forward_primitive_desc_create(
          &forward, onednn_engine(), dnnl_forward_training, dnnl_convolution_direct, large.get(),
          weight.get(), bias.get(), small.get(), p.stride, dilates, p.padding, after,
          dnnl_user_scratchpad()) != dnnl_success)
    return nullptr;
  if (op == ConvOp::Gather) return DnnlPrimitiveDesc(forward);
  DnnlPrimitiveDesc hint(forward);
  if (op == ConvOp::Weight) weight = dnnl_desc_any(weight_sizes(p));  // sums in float
  if (op == ConvOp::Scatter)
    dnnl_convolution_backward_data_primitive_desc_create(
        &result, onednn_engine(), dnnl_convolution_direct, large.get(), weight.get(), small.get(),
        p.stride, dilates, p.padding, after, hint.get(), dnnl_user_scratchpad());
  else
    dnnl_convolution_backward_weights_primitive_desc_create(
        &result, onednn_engine(), dnnl_convolution_direct, large.get(), weight.get(), bias.get(),
        small.get(), p.stride, dilates, p.padding, after, hint.get(), dnnl_user_scratchpad());
  return DnnlPrimitiveDesc(result);
}

ConvPlan::ConvPlan(ConvOp op, const Layouts& l) {
  DnnlPrimitiveDesc desc = conv_desc(op, l);
  if (!desc) return;
  const ConvProblem& p = l.problem;
  struct Queries {
    dnnl_query_t large, small, weight;  // the bias comes second among the weights
  };
  constexpr Queries queries[3] = {
      {dnnl_query_src_md, dnnl_query_dst_md, dnnl_query_weights_md},
      {dnnl_query_diff_src_md, dnnl_query_diff_dst_md, dnnl_query_weights_md},
      {dnnl_query_src_md, dnnl_query_diff_dst_md, dnnl_query_diff_weights_md}};
  const Queries& q = queries[static_cast<int>(op)];
  auto memory_of = [&](const_dnnl_memory_desc_t memory_desc) {
    dnnl_memory_t memory = nullptr;
    dnnl_memory_create(&memory, memory_desc, onednn_engine(), DNNL_MEMORY_NONE);
    return Dnnl<dnnl_memory_t>(memory);
  };
  large = memory_of(queried(desc, q.large));
  small = memory_of(queried(desc, q.small));
  weight = Port(dnnl_desc(weight_sizes(p), l.weight, l.dtype), queried(desc, q.weight),
                op == ConvOp::Weight ? Port::Out : Port::In);
  if (l.bias) bias = memory_of(queried(desc, q.weight, 1));
  primitive = Primitive(desc);
  supported = true;
}

using Cache = PlanCache<ConvKey, ConvPlan>;
Cache& plans() {
  static Cache* cache = new Cache(256);  // oneDNN may be gone when static objects are destroyed
  return *cache;
}
Cache::Lease lease(ConvOp op, const Layouts& layouts) {
  return plans().take(layouts.key(op), [&] { return std::make_unique<ConvPlan>(op, layouts); });
}

struct Chunk {
  View large, small;
  void *weight, *bias;  // in the primitive's layout
};

void run_chunk(ConvOp op, ConvPlan& plan, const Chunk& at) {
  ChannelsLast large(at.large, op != ConvOp::Scatter), small(at.small, op != ConvOp::Gather);
  dnnl_memory_set_data_handle(plan.large.get(), large.data<void>());
  dnnl_memory_set_data_handle(plan.small.get(), small.data<void>());
  plan.weight.attach(at.weight);
  if (plan.bias) dnnl_memory_set_data_handle(plan.bias.get(), at.bias);
  struct Names {
    int large, small, weight, bias;
  };
  constexpr Names names[3] = {
      {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS},
      {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS},
      {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS}};
  const Names& name = names[static_cast<int>(op)];
  dnnl_exec_arg_t args[4] = {{name.large, plan.large.get()},
                             {name.small, plan.small.get()},
                             {name.weight, plan.weight.memory()},
                             {name.bias, plan.bias.get()}};
  plan.primitive.run(args, plan.bias ? 4 : 3);
  if (op == ConvOp::Scatter) large.write_back();
  if (op == ConvOp::Gather) small.write_back();
}

double operation_count(const ConvProblem& p) {
  double n =
      2 * static_cast<double>(p.batch * p.filters) * static_cast<double>(p.channels / p.groups);
  for (int i = 0; i < p.dims; ++i)
    n *= static_cast<double>(p.small[i]) * static_cast<double>(p.kernel[i]);
  return n;
}

// Into how many equal parts the batch is cut. It follows from the sizes alone: the sums over the
// batch in a weight gradient have one order, whatever the number of threads.
int64_t chunk_count(ConvOp op, const ConvProblem& p) {
  double operations = operation_count(p), batch = static_cast<double>(p.batch), positions = 1,
         pixels = 1;
  for (int i = 0; i < p.dims; ++i) {
    positions *= static_cast<double>(p.small[i]);
    pixels *= static_cast<double>(p.large[i]);
  }
  // To read or write an element takes the time of about 32 operations.
  double moved = batch * (pixels * static_cast<double>(p.channels) +
                          positions * static_cast<double>(p.filters));
  double wanted = std::min({(operations + 32 * moved) / 1e7, batch, 16.0});
  // Each chunk of a weight gradient is a whole weight to add up: it must be worth that.
  if (op == ConvOp::Weight) wanted = std::min({wanted, batch * positions / 512, 8.0});
  int64_t count = std::max<int64_t>(1, static_cast<int64_t>(wanted)), most = p.batch;
  if (op == ConvOp::Weight || operations / batch < 1e6) most = count;
  // The parts are equal: a number that divides the batch, above the wanted one if it must be.
  for (int64_t more = count; more <= most; ++more)
    if (p.batch % more == 0) return more;
  while (p.batch % count) --count;
  return count;
}

// The strides of a weight (filters, channels / groups, *) with its first dim split into groups.
Dims grouped_strides(const View& weight, const ConvProblem& p) {
  Dims strides(weight.stride());
  if (p.groups > 1) strides.insert(0, weight.strides[0] * (p.filters / p.groups));
  return strides;
}

struct Task {
  ConvOp op;
  int64_t chunks;
  Layouts layouts;
  View large, small;
  Dims large_sizes, small_sizes;  // of a chunk
  void *weight, *bias;

  Task(ConvOp op_, const ConvProblem& p, const View& l, const View& s, const View& w, float* b)
      : op(op_),
        chunks(chunk_count(op_, p)),
        layouts{p, grouped_strides(w, p), b != nullptr, l.dtype},
        large(l),
        small(s),
        large_sizes(l.shape()),
        small_sizes(s.shape()),
        weight(w.data),
        bias(b) {
    layouts.problem.batch /= chunks;
    large_sizes[0] = small_sizes[0] = layouts.problem.batch;
  }

  Chunk chunk(int64_t i, void* own_weight, void* own_bias) const {
    int64_t begin = i * layouts.problem.batch;
    return {large.slice(0, begin, large_sizes), small.slice(0, begin, small_sizes), own_weight,
            own_bias};
  }
};

void run_data(const Task& task) {
  std::optional<Workspace> reordered;
  void* weight = task.weight;
  {
    LibraryCall call;
    auto plan = lease(task.op, task.layouts);
    if (!plan->weight.direct()) {
      weight = reordered.emplace(plan->weight.bytes()).data();
      plan->weight.transfer(task.weight, weight);
    }
    if (task.chunks == 1) return run_chunk(task.op, *plan, task.chunk(0, weight, task.bias));
  }
  parallel_for(0, task.chunks, 1, [&](int64_t begin, int64_t end) {
    LibraryCall call;
    auto plan = lease(task.op, task.layouts);
    for (int64_t i = begin; i < end; ++i)
      run_chunk(task.op, *plan, task.chunk(i, weight, task.bias));
  });
}

// A convolution of one image, cut by the sizes alone: by filters where the weight is larger than
// the image, so that each of its parts is read once, else by rows of the result.
std::vector<Task> parts_of(const ConvProblem& p, const View& large, const View& small,
                           const View& weight, float* bias) {
  int64_t pixels = 1;
  for (int i = 0; i < p.dims; ++i) pixels *= p.small[i];
  bool by_filters = p.groups == 1 && weight.numel > pixels * (p.channels + p.filters);
  int64_t count = std::min({static_cast<int64_t>(operation_count(p) / 1e7), int64_t(16),
                            by_filters ? p.filters / 32 : p.small[0] / 4});
  // Each row of parts needs a row of the image, however much padding there is.
  if (count < 2 || p.padding[0] > (p.kernel[0] - 1) * p.dilation[0]) return {};
  int64_t total = by_filters ? p.filters : p.small[0];
  int64_t step = (total + count - 1) / count;
  if (by_filters) step = (step + 15) / 16 * 16;
  std::vector<Task> parts;
  for (int64_t begin = 0; begin < total; begin += step) {
    int64_t n = std::min(step, total - begin);
    ConvProblem q = p;
    Dims large_sizes(large.shape()), small_sizes(small.shape()), weight_sizes(weight.shape());
    small_sizes[by_filters ? 1 : 2] = n;
    if (by_filters) {
      q.filters = weight_sizes[0] = n;
      parts.emplace_back(ConvOp::Gather, q, large, small.slice(1, begin, small_sizes),
                         weight.slice(0, begin, weight_sizes), bias ? bias + begin : nullptr);
    } else {
      int64_t first = begin * p.stride[0] - p.padding[0],
              end = first + (n - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
      q.padding[0] = std::max<int64_t>(0, -first);
      first = std::max<int64_t>(0, first);
      q.large[0] = large_sizes[2] = std::min(end, p.large[0]) - first;
      q.small[0] = n;
      parts.emplace_back(ConvOp::Gather, q, large.slice(2, first, large_sizes),
                         small.slice(2, begin, small_sizes), weight, bias);
    }
  }
  return parts;
}

bool run_parts(const std::vector<Task>& parts) {
  for (const Task& part : parts) {
    LibraryCall call;
    if (!lease(part.op, part.layouts)->supported) return false;
  }
  int64_t count = static_cast<int64_t>(parts.size());
  parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run_data(parts[static_cast<size_t>(i)]);
  });
  return true;
}

// A weight gradient: each chunk's in its own memory, then their sum in order.
void run_weight(const Task& task) {
  int64_t weights, biases = task.bias ? task.layouts.problem.filters : 0;
  bool direct;
  {
    auto plan = lease(task.op, task.layouts);
    weights = plan->weight.bytes() / 4;
    direct = plan->weight.direct();
  }
  Buffer<float> partial((task.chunks - direct) * weights), bias_partial(task.chunks * biases);
  auto weight_of = [&](int64_t i) {
    if (direct && i == 0) return static_cast<float*>(task.weight);
    return partial.data() + (i - direct) * weights;
  };
  auto bias_of = [&](int64_t i) { return bias_partial.data() + i * biases; };
  parallel_for(0, task.chunks, 1, [&](int64_t begin, int64_t end) {
    LibraryCall call;
    auto plan = lease(task.op, task.layouts);
    for (int64_t i = begin; i < end; ++i)
      run_chunk(task.op, *plan, task.chunk(i, weight_of(i), bias_of(i)));
  });
  parallel_for(0, task.chunks > 1 ? weights : 0, default_grain, [&](int64_t begin, int64_t end) {
    for (int64_t c = 1; c < task.chunks; ++c)
      for (int64_t i = begin; i < end; ++i) weight_of(0)[i] += weight_of(c)[i];
  });
  for (int64_t i = 0; i < biases; ++i) {
    float sum = 0;
    for (int64_t c = 0; c < task.chunks; ++c) sum += bias_of(c)[i];
    static_cast<float*>(task.bias)[i] = sum;
  }
  if (!direct) {
    LibraryCall call;
    lease(task.op, task.layouts)->weight.transfer(task.weight, weight_of(0));
  }
}

}  // namespace

bool onednn_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                 const View& weight, float* bias) {
  // Found by testing against a reference: with a padding in depth above its stride, the 3-D weight
  // gradient of oneDNN 3.2 can be wrong and write out of bounds.
  if (op == ConvOp::Weight && problem.dims == 3 && problem.stride[0] > 1 &&
      problem.padding[0] > problem.stride[0])
    return false;
  ScopedGilRelease work(operation_count(problem) > long_operations);
  if (op == ConvOp::Gather && problem.batch == 1) {
    std::vector<Task> parts = parts_of(problem, large, small, weight, bias);
    if (parts.size() > 1) return run_parts(parts);
  }
  Task task(op, problem, large, small, weight, bias);
  {
    LibraryCall call;
    if (!lease(op, task.layouts)->supported) return false;
  }
  op == ConvOp::Weight ? run_weight(task) : run_data(task);
  return true;
}

}  // namespace rl::kernels
