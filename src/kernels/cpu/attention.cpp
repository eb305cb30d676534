#include "kernels/attention.h"

#include <algorithm>
#include <atomic>

#include "core/parallel.h"
#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/cpu/units.h"
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
    h.packed = true;
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

// The operands as floats.
struct Widened {
  RowMajor query, key, value;
  explicit Widened(const AttentionViews& a)
      : query(RowMajor::copy_of(a.query, DType::Float32)),
        key(RowMajor::copy_of(a.key, DType::Float32)),
        value(RowMajor::copy_of(a.value, DType::Float32)) {}
  AttentionViews of(const AttentionViews& a) const {
    return {query.view(), key.view(), value.view(), a.mask,
            a.kept,       a.causal,   a.scale,      a.kept_scale};
  }
};

// f(sample, head, first, count, fresh, scratch) for the blocks of queries of all heads; the scratch
// is `fresh` where it held other keys before.
template <class F> void for_blocks(const AttentionViews& a, const Heads& all, int64_t bytes, F f) {
  int64_t queries = a.query.sizes[2], blocks = (queries + attention_rows - 1) / attention_rows;
  int64_t work = attention_rows * a.key.sizes[2] * (a.query.sizes[3] + a.value.sizes[3]);
  int64_t grain = std::max<int64_t>(1, 4 * default_grain / std::max<int64_t>(1, work));
  parallel_for(0, all.samples * all.heads * blocks, grain, [&](int64_t begin, int64_t end) {
    Workspace scratch(bytes);
    int64_t packed = -1;
    for (int64_t task = begin; task < end; ++task) {
      int64_t index = task / blocks, first = task % blocks * attention_rows;
      f(index / all.heads, index % all.heads, first, std::min(attention_rows, queries - first),
        index / all.group != packed, scratch.data());
      packed = index / all.group;
    }
  });
}

// Gives out parts of a memory, each at a multiple of 64 bytes.
struct Parts {
  char* memory;
  int64_t bytes = 0;
  template <class T> void operator()(T*& part, int64_t size) {
    part = memory ? reinterpret_cast<T*>(memory + bytes) : nullptr;
    bytes += (size + 63) / 64 * 64;
  }
};

// Whether all of the numbers of a view are such that the unit can tell them.
bool unit_tells(const View& v) {
  int64_t heads = v.sizes[1], work = std::max<int64_t>(1, v.sizes[2] * v.sizes[3]);
  std::atomic<bool> all{true};
  parallel_for(0, v.sizes[0] * heads, 1 + default_grain / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bool these = true;
      attention_unit_tells(matrix(v, i / heads, i % heads), v.sizes[2], v.sizes[3], &these);
      if (!these) all = false;
    }
  });
  return all;
}

// Packing keys and values takes as long as a few queries do, and splitting floats as long as some
// more. `grad` is null where there is none yet.
bool takes_unit(const AttentionViews& a, const View* grad = nullptr) {
  if (!has_matrix_unit()) return false;
  if (a.query.dtype == DType::BFloat16) return a.query.sizes[2] >= 16;
  return a.query.dtype == DType::Float32 && a.query.sizes[2] >= 64 && a.key.sizes[2] >= 64 &&
         a.query.sizes[3] >= 48 && a.value.sizes[3] >= 48 && unit_tells(a.query) &&
         unit_tells(a.key) && unit_tells(a.value) && (!grad || unit_tells(*grad));
}

AttentionUnitSizes unit_sizes(const AttentionViews& a) {
  return {a.query.dtype, a.key.sizes[2], a.query.sizes[3], a.value.sizes[3]};
}

constexpr int64_t row_groups = attention_rows / 32;

// Of a block's weights or slopes: in rows of bfloat16, or in tiles.
int64_t narrow_bytes(const AttentionUnitSizes& s) {
  return s.parts == 1 ? attention_rows * s.stride * 2 : row_groups * s.tiles(s.columns / 32);
}

}  // namespace

AttentionUnitSizes::AttentionUnitSizes(DType dtype, int64_t key_count, int64_t width,
                                       int64_t value_width)
    : parts(dtype == DType::Float32 ? 3 : 1),
      width_steps((width + 31) / 32),
      value_steps((value_width + 31) / 32),
      key_steps((key_count + 31) / 32),
      columns(key_count < attention_keys ? 32 * key_steps : attention_keys),
      stride(columns + 16) {}

AttentionUnitScratch::AttentionUnitScratch(const AttentionUnitSizes& sizes, void* memory)
    : AttentionUnitSizes(sizes) {
  Parts take{static_cast<char*>(memory)};
  take(keys, key_steps * tiles(width_steps));
  take(values, value_steps * tiles(key_steps));
  take(queries, row_groups * tiles(width_steps));
  take(scores, attention_rows * stride * 4);
  take(weights, narrow_bytes(*this));
  take(sums, attention_rows * value_steps * 32 * 4);
  take(high, attention_rows * 4);
  take(total, attention_rows * 4);
  bytes = take.bytes;
}

AttentionUnitGradients::AttentionUnitGradients(const AttentionUnitSizes& sizes, void* memory)
    : AttentionUnitSizes(sizes) {
  Parts take{static_cast<char*>(memory)};
  take(keys, key_steps * tiles(width_steps));
  take(values, key_steps * tiles(value_steps));
  take(keys_by_column, width_steps * tiles(key_steps));
  take(queries, row_groups * tiles(width_steps));
  take(grads, row_groups * tiles(value_steps));
  take(queries_by_column, width_steps * tiles(row_groups));
  take(grads_by_column, value_steps * tiles(row_groups));
  take(turned, columns / 32 * tiles(row_groups));
  take(products, attention_rows * stride * 4);
  take(slopes, attention_rows * stride * 4);
  take(weights, narrow_bytes(*this));
  take(narrow_slopes, narrow_bytes(*this));
  take(query_sums, attention_rows * width_steps * 32 * 4);
  take(key_sums, key_steps * 32 * width_steps * 32 * 4);
  take(value_sums, key_steps * 32 * value_steps * 32 * 4);
  bytes = take.bytes;
}

void attention(const AttentionViews& a, const View& out, const View& log_sum) {
  Heads all(a);
  if (takes_unit(a)) {
    AttentionUnitScratch plan(unit_sizes(a), nullptr);
    return for_blocks(
        a, all, plan.bytes,
        [&](int64_t sample, int64_t head, int64_t first, int64_t count, bool fresh, void* scratch) {
          AttentionHead h = all.at(sample, head);
          if (fresh) attention_unit_pack(h, scratch);
          attention_unit_block(h, first, count, matrix(out, sample, head),
                               reinterpret_cast<float*>(row(log_sum, sample, head, first)),
                               scratch);
        });
  }
  if (is_reduced(a.query.dtype)) {
    RowMajor wide_out(out.shape(), DType::Float32);
    attention(Widened(a).of(a), wide_out.view(), log_sum);
    return copy(wide_out.view(), out);
  }
  // Few queries, that of the next word say, read the keys where they lie.
  const bool packed = a.query.sizes[2] >= 4 || a.key.strides[3] != 1;
  for_blocks(
      a, all, all.scratch_bytes(),
      [&](int64_t sample, int64_t head, int64_t first, int64_t count, bool fresh, void* scratch) {
        AttentionHead h = all.at(sample, head);
        h.packed = packed;
        if (packed && fresh) attention_pack(h, false, scratch);
        attention_block(h, first, count, matrix(out, sample, head),
                        row(log_sum, sample, head, first), scratch);
      });
}

// f(sample, shared, i, scratch) for all heads, the `i`th of those that share keys. They add to one
// gradient: they are one task.
template <class F>
static void for_shared_heads(const AttentionViews& a, const Heads& all, int64_t bytes, F f) {
  int64_t work =
      all.group * a.query.sizes[2] * a.key.sizes[2] * (a.query.sizes[3] + a.value.sizes[3]);
  int64_t grain = std::max<int64_t>(1, 4 * default_grain / std::max<int64_t>(1, work));
  parallel_for(0, all.samples * all.shared, grain, [&](int64_t begin, int64_t end) {
    Workspace scratch(bytes);
    for (int64_t task = begin; task < end; ++task)
      for (int64_t i = 0; i < all.group; ++i)
        f(task / all.shared, task % all.shared, i, scratch.data());
  });
}

static void backward_on_unit(const AttentionViews& a, const View& grad, const View& out,
                             const View& log_sum, const View& grad_query, const View& grad_key,
                             const View& grad_value) {
  Heads all(a);
  AttentionUnitGradients plan(unit_sizes(a), nullptr);
  for_shared_heads(
      a, all, plan.bytes, [&](int64_t sample, int64_t shared, int64_t i, void* scratch) {
        int64_t head = shared * all.group + i;
        attention_unit_backward(all.at(sample, head), i == 0, i == all.group - 1,
                                matrix(grad, sample, head), matrix(out, sample, head),
                                reinterpret_cast<float*>(row(log_sum, sample, head, 0)),
                                matrix(grad_query, sample, head), matrix(grad_key, sample, shared),
                                matrix(grad_value, sample, shared), scratch);
      });
}

void attention_backward(const AttentionViews& a, const View& grad, const View& out,
                        const View& log_sum, const View& grad_query, const View& grad_key,
                        const View& grad_value) {
  if (takes_unit(a, &grad))
    return backward_on_unit(a, grad, out, log_sum, grad_query, grad_key, grad_value);
  if (is_reduced(a.query.dtype)) {
    RowMajor wide_grad = RowMajor::copy_of(grad, DType::Float32);
    RowMajor wide_out = RowMajor::copy_of(out, DType::Float32);
    RowMajor query(grad_query.shape(), DType::Float32), key(grad_key.shape(), DType::Float32),
        value(grad_value.shape(), DType::Float32);
    attention_backward(Widened(a).of(a), wide_grad.view(), wide_out.view(), log_sum, query.view(),
                       key.view(), value.view());
    copy(query.view(), grad_query);
    copy(key.view(), grad_key);
    return copy(value.view(), grad_value);
  }
  Heads all(a);
  for_shared_heads(
      a, all, all.scratch_bytes(), [&](int64_t sample, int64_t shared, int64_t i, void* scratch) {
        int64_t head = shared * all.group + i;
        AttentionHead h = all.at(sample, head);
        if (i == 0) attention_pack(h, true, scratch);
        attention_head_backward(h, i > 0, matrix(grad, sample, head), matrix(out, sample, head),
                                row(log_sum, sample, head, 0), matrix(grad_query, sample, head),
                                matrix(grad_key, sample, shared),
                                matrix(grad_value, sample, shared), scratch);
      });
}

}  // namespace rl::kernels
