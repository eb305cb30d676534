// Convolutions of small groups of channels, and of single ones, that lie channels_last: in place,
// vectors of several groups at a time.
#include "core/parallel.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/group_product.h"
#include "kernels/cpu/threads.h"

namespace rl::kernels {
namespace {

// What a box sees of images that lie channels_last, from its first result on.
Seen seen_of(const Windows& w, const Box& box, const float* data, int64_t channels) {
  Seen seen{};
  seen.data = data;
  int64_t next = channels;
  for (int d = 2; d >= 0; --d) {
    seen.step[d] = next;
    seen.of[d] = w.source(d, box.of[d]);
    seen.data += seen.of[d].begin * next;
    next *= w.whole_source(d).end;
  }
  seen.image = next;
  seen.data += box.first * next;
  return seen;
}

// What group products are to a problem whose groups have as many outputs as inputs.
struct Groups {
  Windows w;
  int64_t channels, strips, member, strip;

  Groups(ConvOp op, const ConvProblem& p)
      : w(op == ConvOp::Scatter ? op : ConvOp::Gather, p, false),
        channels(p.channels),
        strips((channels + strip_lanes - 1) / strip_lanes),
        member(w.taps * strip_lanes),
        strip(w.inputs * member) {
    w.words = 1;  // a tap is a term
    w.pixel = channels;
    for (bool& split : w.split) split = true;
  }
  int64_t size() const { return strips * strip; }

  // Of a strip: members, taps and lanes, from and to a weight.
  template <class F> void for_weights(int64_t s, F f) const {
    int64_t n = w.inputs, lanes = std::min(strip_lanes, channels - s * strip_lanes);
    for (int64_t i = 0; i < lanes; ++i)
      for (int64_t m = 0; m < n; ++m) {
        int64_t channel = s * strip_lanes + i;
        int64_t row = w.scatter ? channel / n * n + m : channel,
                column = w.scatter ? channel % n : m;
        f(s * strip + m * member + i, (row * n + column) * w.taps);
      }
  }
  void pack(const float* weight, float* packed) const {
    std::fill_n(packed, size(), 0.0f);
    parallel_for(0, strips, 1 + default_grain / strip, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s)
        for_weights(s, [&](int64_t to, int64_t from) {
          for (int64_t t = 0; t < w.taps; ++t) packed[to + t * strip_lanes] = weight[from + t];
        });
    });
  }
  void unpack(const float* sums, float* weight) const {
    for (int64_t s = 0; s < strips; ++s)
      for_weights(s, [&](int64_t from, int64_t to) {
        for (int64_t t = 0; t < w.taps; ++t) weight[to + t] = sums[from + t * strip_lanes];
      });
  }
  // Calls f(product) for all results of a box.
  template <class F> void run(const Box& box, const float* in, std::optional<Plan>& plan,
                              float* out, F f) const {
    Seen seen = seen_of(w, box, in, channels);
    if (!plan || !plan->fits(box)) plan.emplace(w, box, seen);
    std::vector<GroupProduct::Tap> taps;
    for (const Part& part : plan->parts()) {
      taps.clear();
      for (const Span& s : part.spans)
        for (int64_t i = 0; i < s.terms; ++i) {
          int64_t tap = w.scatter ? w.taps - 1 - s.row - i : s.row + i;
          taps.push_back({s.offset + i, tap * strip_lanes});
        }
      f(GroupProduct{channels, w.inputs, seen.data, part.from.data(),
                     static_cast<int64_t>(part.from.size()), taps.data(),
                     static_cast<int64_t>(taps.size()), nullptr, strip, member, nullptr,
                     out + Plan::first_result(w, box), part.to.data()});
    }
  }
};

void run_data(const Groups& g, const ConvProblem& p, const View& from, const View& to,
              const float* weight, const float* bias) {
  ChannelsLast in(from, true), out(to, false);
  Buffer<float> packed(g.size());
  g.pack(weight, packed.data());
  Boxes boxes = g.w.boxes(box_elements, g.channels, 64);
  parallel_for(0, boxes.count, grain_of(boxes.count, 4 * operations_of(p)),
               [&](int64_t begin, int64_t end) {
                 std::optional<Plan> plan;
                 for (int64_t i = begin; i < end; ++i)
                   g.run(boxes.at(i), in.data(), plan, out.data(), [&](GroupProduct product) {
                     product.weights = packed.data();
                     product.bias = bias;
                     group_product(product);
                   });
               });
  out.write_back();
}

void run_weight(const Groups& g, const View& large, const View& small, float* weight) {
  ChannelsLast in(large, true), gradient(small, true);
  Boxes boxes = g.w.boxes(box_elements, g.channels, 64);
  int64_t runs = std::min<int64_t>(boxes.count, 8), size = g.size();
  Buffer<float> sums(runs * size);
  parallel_for(0, runs, 1, [&](int64_t begin, int64_t end) {
    std::optional<Plan> plan;
    for (int64_t r = begin; r < end; ++r) {
      float* to = sums.data() + r * size;
      std::fill_n(to, size, 0.0f);
      for (int64_t i = boxes.count * r / runs; i < boxes.count * (r + 1) / runs; ++i)
        g.run(boxes.at(i), in.data(), plan, gradient.data(),
              [&](const GroupProduct& product) { group_gradient(product, to); });
    }
  });
  for (int64_t r = 1; r < runs; ++r)
    for (int64_t i = 0; i < size; ++i) sums[i] += sums[r * size + i];
  g.unpack(sums.data(), weight);
}

}  // namespace

bool group_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                const View& weight, const float* bias) {
  int64_t members = p.channels / p.groups;
  if (p.channels != p.filters || members > most_members() || (members & (members - 1)) ||
      p.groups == 1)
    return false;
  ScopedGilRelease work(operations_of(p) > long_operations);
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) {
    if (op == ConvOp::Weight) plain.emplace(weight.shape(), DType::Float32);
    else plain.emplace(RowMajor::copy_of(weight, DType::Float32));
  }
  float* filters = plain ? plain->ptr<float>() : weight.ptr<float>();
  Groups g(op, p);
  switch (op) {
    case ConvOp::Gather: run_data(g, p, large, small, filters, bias); break;
    case ConvOp::Scatter: run_data(g, p, small, large, filters, bias); break;
    case ConvOp::Weight: run_weight(g, large, small, filters);
  }
  if (plain && op == ConvOp::Weight) copy(plain->view(), weight);
  return true;
}

}  // namespace rl::kernels
