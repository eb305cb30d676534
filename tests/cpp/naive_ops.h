// A handful of differentiable float32 ops in plain loops, enough to test the graph by itself.
#pragma once
#include <cmath>
#include <functional>

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "autograd/meta.h"
#include "autograd/saved_tensor.h"

namespace naive {
using namespace rl;

// Element `i` of a broadcast of `t` to `sizes`.
inline float& at(const Tensor& t, IntSpan sizes, int64_t i) {
  int64_t offset = 0;
  for (int64_t d = sizes.size() - 1; d >= 0; --d) {
    int64_t index = i % sizes[d], own = d - (sizes.size() - t.dim());
    i /= sizes[d];
    if (own >= 0 && t.sizes()[own] != 1) offset += index * t.strides()[own];
  }
  return t.data<float>()[offset];
}
inline float at(const Tensor& t, int64_t i) { return at(t, t.sizes(), i); }

inline Tensor full(IntSpan sizes, float value) {
  Tensor t = empty(sizes, {});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = value;
  return t;
}
inline Tensor full(std::initializer_list<int64_t> sizes, float value) {
  return full(Dims(sizes), value);
}
inline Tensor vector(std::initializer_list<float> values) {
  Tensor t = empty(Dims{static_cast<int64_t>(values.size())}, {});
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}
inline Tensor parameter(std::initializer_list<float> values) {
  Tensor t = vector(values);
  t.impl()->requires_grad = true;
  return t;
}

template <class F> Tensor map(const Tensor& a, const Tensor& b, F f) {
  Dims sizes = broadcast_sizes(a.sizes(), b.sizes(), "map");
  Tensor out = empty(sizes, {});
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<float>()[i] = f(at(a, sizes, i), at(b, sizes, i));
  return out;
}
template <class F> void map_in_place(const Tensor& a, const Tensor& b, F f) {
  for (int64_t i = 0; i < a.numel(); ++i) at(a, a.sizes(), i) = f(at(a, i), at(b, a.sizes(), i));
}

Tensor add(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor exp(const Tensor& a);
Tensor sum(const Tensor& a);
Tensor sum_to(const Tensor& a, IntSpan sizes);
Tensor expand(const Tensor& a, IntSpan sizes);
Tensor clone(const Tensor& a);
Tensor as_strided(const Tensor& a, IntSpan sizes, IntSpan strides, int64_t offset);
const Tensor& add_(const Tensor& a, const Tensor& b);
const Tensor& mul_(const Tensor& a, const Tensor& b);
const Tensor& exp_(const Tensor& a);
const Tensor& copy_(const Tensor& a, const Tensor& b);
inline Tensor slice(const Tensor& a, int64_t from, int64_t to) {
  return as_strided(a, Dims{to - from}, Dims{a.strides()[0]}, a.offset() + from * a.strides()[0]);
}

struct Add final : Node {
  Add() : Node("add") {}
  void apply(Gradients& g, Gradients& r) override {
    for (size_t i = 0; i < 2; ++i)
      if (wants(i)) r[i] = g[0];
  }
};
struct Mul final : Node {
  Mul() : Node("mul") {}
  SavedTensor a, b;
  void apply(Gradients& g, Gradients& r) override {
    check_unreleased();
    if (wants(0)) r[0] = mul(g[0], b.unpack(*this));
    if (wants(1)) r[1] = mul(g[0], a.unpack(*this));
  }
  void release_saved() override {
    released |= a.release();
    released |= b.release();
  }
};
struct Exp final : Node {
  Exp() : Node("exp") {}
  SavedTensor out;
  void apply(Gradients& g, Gradients& r) override { r[0] = mul(g[0], out.unpack(*this)); }
  void release_saved() override { released |= out.release(); }
};
struct SumTo final : Node {
  explicit SumTo(IntSpan from) : Node("sum"), from(from) {}
  Dims from;
  void apply(Gradients& g, Gradients& r) override { r[0] = expand(g[0], from); }
};
struct Expand final : Node {
  explicit Expand(IntSpan from) : Node("expand"), from(from) {}
  Dims from;
  void apply(Gradients& g, Gradients& r) override { r[0] = sum_to(g[0], from); }
};
struct Clone final : Node {
  Clone() : Node("clone") {}
  void apply(Gradients& g, Gradients& r) override { r[0] = g[0]; }
};
struct Copy final : Node {
  Copy() : Node("copy") {}
  void apply(Gradients& g, Gradients& r) override { r[0] = g[0]; }
};

// The geometry of a view of a tensor of another geometry, and of its gradient.
struct Strided final : Node {
  Strided(const Tensor& of, const Tensor& view)
      : Node("as_strided"),
        base{of.sizes(), of.dtype(), of.device()},
        base_strides(of.strides()),
        base_offset(of.offset()),
        sizes(view.sizes()),
        strides(view.strides()),
        offset(view.offset()) {}
  OutputMeta base;
  Dims base_strides;
  int64_t base_offset;
  Dims sizes, strides;
  int64_t offset;
  void apply(Gradients& g, Gradients& r) override {
    r[0] =
        view_ops.as_strided_backward(g[0], base, base_strides, base_offset, sizes, strides, offset);
  }
};

inline Tensor add(const Tensor& a, const Tensor& b) {
  Tensor out = map(a, b, std::plus<float>());
  if (!records(a, b)) return out;
  Ref<Add> node = make_ref<Add>();
  node->add_input(a), node->add_input(b);
  set_history(out, node);
  return out;
}
inline Ref<Mul> mul_node(const Tensor& a, const Tensor& b, const Tensor& saved_a) {
  Ref<Mul> node = make_ref<Mul>();
  node->add_input(a), node->add_input(b);
  if (node->wants(1)) node->a.save(saved_a);
  if (node->wants(0)) node->b.save(b);
  return node;
}
inline Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor out = map(a, b, std::multiplies<float>());
  if (records(a, b)) set_history(out, mul_node(a, b, a));
  return out;
}
inline Tensor exp(const Tensor& a) {
  Tensor out = map(a, a, [](float x, float) { return std::exp(x); });
  if (!records(a)) return out;
  Ref<Exp> node = make_ref<Exp>();
  node->add_input(a);
  set_history(out, node);
  node->out.save(out, true);
  return out;
}
inline Tensor sum_to(const Tensor& a, IntSpan sizes) {
  Tensor out = full(sizes, 0);
  Tensor wide = alias(out);
  for (int64_t i = 0; i < a.numel(); ++i) at(wide, a.sizes(), i) += at(a, i);
  if (!records(a)) return out;
  Ref<SumTo> node = make_ref<SumTo>(a.sizes());
  node->add_input(a);
  set_history(out, node);
  return out;
}
inline Tensor sum(const Tensor& a) { return sum_to(a, {}); }
inline Tensor expand(const Tensor& a, IntSpan sizes) {
  Dims strides(sizes.size(), 0);
  int64_t extra = sizes.size() - a.dim();
  for (int64_t d = 0; d < a.dim(); ++d) strides[d + extra] = a.sizes()[d] == 1 ? 0 : a.strides()[d];
  Tensor out = make_view(a, alias(a, sizes, strides, a.offset()));
  if (!records(a)) return out;
  Ref<Expand> node = make_ref<Expand>(a.sizes());
  node->add_input(a);
  set_history(out, node);
  return out;
}
inline Tensor clone(const Tensor& a) {
  Tensor out = map(a, a, [](float x, float) { return x; });
  if (!records(a)) return out;
  Ref<Clone> node = make_ref<Clone>();
  node->add_input(a);
  set_history(out, node);
  return out;
}
inline Tensor as_strided(const Tensor& a, IntSpan sizes, IntSpan strides, int64_t offset) {
  Tensor out = make_view(a, alias(a, sizes, strides, offset));
  if (!records(a)) return out;
  Ref<Strided> node = make_ref<Strided>(a, out);
  node->add_input(a);
  set_history(out, node);
  return out;
}
inline const Tensor& add_(const Tensor& a, const Tensor& b) {
  check_in_place(a, "add_", records(b));
  Ref<Add> node;
  if (records(a, b)) {
    node = make_ref<Add>();
    node->add_input(a), node->add_input(b);
  }
  map_in_place(a, b, std::plus<float>());
  bump_version(a, "add_");
  if (node) rebase_history(a, node);
  return a;
}
inline const Tensor& mul_(const Tensor& a, const Tensor& b) {
  check_in_place(a, "mul_", records(b));
  Ref<Mul> node;
  if (records(a, b)) node = mul_node(a, b, clone(a));
  map_in_place(a, b, std::multiplies<float>());
  bump_version(a, "mul_");
  if (node) rebase_history(a, node);
  return a;
}
inline const Tensor& exp_(const Tensor& a) {
  check_in_place(a, "exp_");
  Ref<Exp> node;
  if (records(a)) {
    node = make_ref<Exp>();
    node->add_input(a);
  }
  map_in_place(a, a, [](float x, float) { return std::exp(x); });
  bump_version(a, "exp_");
  if (node) {
    rebase_history(a, node);
    node->out.save(a, true);
  }
  return a;
}
// Its node knows nothing of the overwritten tensor.
inline const Tensor& copy_(const Tensor& a, const Tensor& b) {
  check_in_place(a, "copy_", records(b));
  Ref<Copy> node;
  if (records(a, b)) {
    node = make_ref<Copy>();
    node->add_input(b);
  }
  map_in_place(a, b, [](float, float x) { return x; });
  bump_version(a, "copy_");
  if (node) rebase_history(a, node);
  return a;
}
inline Tensor as_strided_backward(const Tensor& grad, const OutputMeta& base,
                                  const Dims& base_strides, int64_t base_offset, IntSpan sizes,
                                  IntSpan strides, int64_t offset) {
  Tensor whole = empty_strided(base.sizes, base_strides, {});
  copy_(whole, full({}, 0));
  add_(as_strided(whole, sizes, strides, offset - base_offset), grad);
  return whole;
}

inline void install() {
  engine_ops.add = add;
  engine_ops.add_in_place = [](const Tensor& a, const Tensor& b) { add_(a, b); };
  engine_ops.sum_to = sum_to;
  engine_ops.cast = [](const Tensor& t, DType) { return t; };
  engine_ops.clone = clone;
  engine_ops.zeros = [](IntSpan sizes, TensorOptions) { return full(sizes, 0); };
  engine_ops.stays_finite = [](const Node&, const Gradients&) { return false; };
  engine_ops.has_nan = [](const Tensor& t) {
    for (int64_t i = 0; i < t.numel(); ++i)
      if (std::isnan(at(t, i))) return true;
    return false;
  };
  view_ops.as_strided = as_strided;
  view_ops.as_strided_backward = as_strided_backward;
  view_ops.clone = clone;
  view_ops.copy = [](const Tensor& a, const Tensor& b) { copy_(a, b); };
}

}  // namespace naive
