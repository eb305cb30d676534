#include "kernels/attention.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

// The matrix of one sample and head of a view (N, H, rows, columns).
AttentionMatrix matrix(const View& v, int64_t sample, int64_t head) {
  int64_t offset = sample * v.strides[0] + head * v.strides[1];
  return {static_cast<char*>(v.data) + offset * itemsize(v.dtype), v.strides[2], v.strides[3]};
}

class Heads {
 public:
  explicit Heads(const AttentionViews& a)
      : a_(a),
        samples(a.query.sizes[0]),
        heads(a.query.sizes[1]),
        shared(a.key.sizes[1]),
        group(heads / shared) {}

  AttentionHead at(int64_t sample, int64_t head) const {
    AttentionHead h{};
    h.dtype = a_.query.dtype;
    h.queries = a_.query.sizes[2];
    h.keys = a_.key.sizes[2];
    h.width = a_.query.sizes[3];
    h.value_width = a_.value.sizes[3];
    h.query = matrix(a_.query, sample, head);
    h.key = matrix(a_.key, sample, head / group);
    h.value = matrix(a_.value, sample, head / group);
    if (a_.mask) {
      h.mask = matrix(*a_.mask, sample, head);
      h.mask_is_bool = a_.mask->dtype == DType::Bool;
    }
    if (a_.kept) h.kept = matrix(*a_.kept, sample, head);
    h.kept_scale = a_.kept_scale;
    h.causal = a_.causal;
    h.scale = a_.scale;
    return h;
  }
  int64_t scratch_bytes() const {
    return attention_scratch(a_.key.sizes[2], a_.query.sizes[3], a_.value.sizes[3]) *
           itemsize(a_.query.dtype);
  }

 private:
  const AttentionViews& a_;

 public:
  const int64_t samples, heads, shared, group;
};

char* row(const View& v, int64_t sample, int64_t head, int64_t i) {
  int64_t at = (sample * v.sizes[1] + head) * v.sizes[2] + i;
  return static_cast<char*>(v.data) + at * itemsize(v.dtype);
}

}  // namespace

void attention(const AttentionViews& a, const View& out, const View& log_sum) {
  Heads all(a);
  int64_t queries = a.query.sizes[2], blocks = (queries + attention_rows - 1) / attention_rows;
  int64_t work = attention_rows * a.key.sizes[2] * (a.query.sizes[3] + a.value.sizes[3]);
  int64_t grain = std::max<int64_t>(1, 4 * default_grain / std::max<int64_t>(1, work));
  parallel_for(0, all.samples * all.heads * blocks, grain, [&](int64_t begin, int64_t end) {
    Workspace scratch(all.scratch_bytes());
    int64_t packed = -1;
    for (int64_t task = begin; task < end; ++task) {
      int64_t index = task / blocks, sample = index / all.heads, head = index % all.heads;
      AttentionHead h = all.at(sample, head);
      if (index / all.group != packed) attention_pack(h, false, scratch.data());
      packed = index / all.group;
      int64_t first = task % blocks * attention_rows;
      attention_block(h, first, std::min(attention_rows, queries - first),
                      matrix(out, sample, head), row(log_sum, sample, head, first), scratch.data());
    }
  });
}

void attention_backward(const AttentionViews& a, const View& grad, const View& out,
                        const View& log_sum, const View& grad_query, const View& grad_key,
                        const View& grad_value) {
  Heads all(a);
  int64_t work =
      all.group * a.query.sizes[2] * a.key.sizes[2] * (a.query.sizes[3] + a.value.sizes[3]);
  int64_t grain = std::max<int64_t>(1, 4 * default_grain / std::max<int64_t>(1, work));
  // Heads that share keys add to one gradient: they are one task.
  parallel_for(0, all.samples * all.shared, grain, [&](int64_t begin, int64_t end) {
    Workspace scratch(all.scratch_bytes());
    for (int64_t task = begin; task < end; ++task) {
      int64_t sample = task / all.shared, shared = task % all.shared;
      for (int64_t head = shared * all.group; head < (shared + 1) * all.group; ++head) {
        AttentionHead h = all.at(sample, head);
        if (head == shared * all.group) attention_pack(h, true, scratch.data());
        attention_head_backward(h, head > shared * all.group, matrix(grad, sample, head),
                                matrix(out, sample, head), row(log_sum, sample, head, 0),
                                matrix(grad_query, sample, head), matrix(grad_key, sample, shared),
                                matrix(grad_value, sample, shared), scratch.data());
      }
    }
  });
}

}  // namespace rl::kernels
