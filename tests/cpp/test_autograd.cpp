// The graph without Python and without the op table: engine, saved tensors, in-place history,
// hooks, threads, leaks.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "naive_ops.h"

using namespace naive;

namespace {

int failures = 0;

void expect(bool ok, const char* what, int line) {
  if (ok) return;
  std::printf("line %d: %s\n", line, what);
  ++failures;
}
#define EXPECT(condition) expect(static_cast<bool>(condition), #condition, __LINE__)

bool equal(const Tensor& t, std::initializer_list<float> values) {
  if (!t.defined() || t.numel() != static_cast<int64_t>(values.size())) return false;
  int64_t i = 0;
  for (float v : values)
    if (std::fabs(at(t, i++) - v) > 1e-5f * (1 + std::fabs(v))) return false;
  return true;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void backward(const Tensor& root, bool keep = false, const std::vector<Edge>& inputs = {}) {
  run_backward({root}, {full(root.sizes(), 1)}, keep, false, inputs, true);
}
TensorList grad(const Tensor& root, const TensorList& inputs, bool create = false,
                bool keep = false) {
  std::vector<Edge> edges;
  for (const Tensor& t : inputs) edges.push_back(gradient_edge(t));
  return run_backward({root}, {full(root.sizes(), 1)}, keep || create, create, edges, false);
}

struct Hook : TensorHook {
  std::function<Tensor(const Tensor&)> f;
  explicit Hook(std::function<Tensor(const Tensor&)> f) : f(std::move(f)) {}
  Tensor call(const Tensor& g) override { return f(g); }
};
std::shared_ptr<TensorHook> hook(std::function<Tensor(const Tensor&)> f) {
  return std::make_shared<Hook>(std::move(f));
}
struct AroundNode : NodeHook {
  std::function<void(Gradients&)> f;
  explicit AroundNode(std::function<void(Gradients&)> f) : f(std::move(f)) {}
  void call(Gradients& changed, const Gradients&) override { f(changed); }
};

void test_chain_and_accumulation() {
  Tensor x = parameter({1, 2}), w = parameter({3, 4});
  Tensor y = sum(mul(add(mul(x, w), x), x));  // x^2 w + x^2
  EXPECT(y.impl()->grad_fn && grad_fn(y)->name() == "SumBackward0");
  backward(y, true);
  EXPECT(equal(grad_of(x), {8, 20}));
  EXPECT(equal(grad_of(w), {1, 4}));
  TensorImpl* first = grad_of(x).impl();
  backward(y);
  EXPECT(equal(grad_of(x), {16, 40}));
  EXPECT(grad_of(x).impl() == first);  // added in place
  EXPECT(has(error_of([&] { backward(y); }), "Trying to backward through the graph a second time"));
  EXPECT(has(error_of([] { backward(vector({1})); }), "element 0 of tensors does not require"));
}

void test_grad_of_inputs() {
  Tensor x = parameter({2}), w = parameter({5});
  Tensor h = mul(x, w), y = mul(h, h);
  TensorList g = grad(y, {x, h, x, parameter({1})});
  EXPECT(equal(g[0], {100}) && equal(g[1], {20}) && equal(g[2], {100}) && !g[3].defined());
  EXPECT(!grad_of(x).defined());
  y = mul(mul(x, w), w);
  backward(y, false, {gradient_edge(x)});
  EXPECT(equal(grad_of(x), {25}) && !grad_of(w).defined());
  h = mul(x, w);
  retain_grad(h);
  backward(mul(h, h), false, {gradient_edge(h)});
  EXPECT(equal(grad_of(h), {20}) && equal(grad_of(x), {25}));
}

void test_double_backward() {
  Tensor x = parameter({3});
  Tensor y = mul(mul(x, x), x);
  Tensor first = grad(y, {x}, true)[0];
  EXPECT(equal(first, {27}));
  Tensor second = grad(first, {x}, true)[0];
  EXPECT(equal(second, {18}));
  EXPECT(equal(grad(second, {x})[0], {6}));
  Tensor e = exp(x);  // a saved output
  first = grad(e, {x}, true)[0];
  EXPECT(equal(grad(first, {x})[0], {std::exp(3.f)}));
}

void test_broadcast_gradients() {
  Tensor x = parameter({2}), m = full({3, 2}, 1);
  m.impl()->requires_grad = true;
  backward(sum(mul(m, x)));
  EXPECT(equal(grad_of(x), {6}) && equal(grad_of(m), {2, 2, 2, 2, 2, 2}));
  EXPECT(grad_of(m).is_contiguous());

  struct Wrong final : Node {
    Wrong() : Node("wrong_thing") {}
    void apply(Gradients&, Gradients& r) override { r[0] = full({3}, 1); }
  };
  Tensor two = parameter({1, 2});
  Tensor y = clone(two);
  Ref<Wrong> node = make_ref<Wrong>();
  node->add_input(two);
  set_history(y, node);
  EXPECT(error_of([&] { backward(y); }) ==
         "Function WrongThingBackward0 returned an invalid gradient at index 0 - got [3] but "
         "expected shape compatible with [2]");
  Tensor again = mul(two, two);  // the failed pass has left nothing behind
  backward(again);
  EXPECT(equal(grad_of(two), {2, 4}));
}

void test_saved_version() {
  Tensor x = parameter({1}), y = exp(x);
  add_(y, vector({1}));
  std::string text = error_of([&] { backward(y); });
  EXPECT(has(text,
             "[torch.FloatTensor [1]], which is output 0 of ExpBackward0, is at version 1; "
             "expected version 0 instead."));
  EXPECT(has(text, "saved by exp and changed by add_") && has(text, "x = x.add(...)"));
  Tensor w = parameter({2});
  y = mul(x, w);
  {
    NoGradGuard guard;
    add_(x, vector({1}));
  }
  EXPECT(has(error_of([&] { backward(y); }),
             "[torch.FloatTensor [1]] is at version 1; expected version 0"));
}

void test_in_place() {
  Tensor x = parameter({1, 2, 3});
  EXPECT(has(error_of([&] { add_(x, x); }), "a leaf Variable that requires grad"));
  EXPECT(has(error_of([&] { add_(slice(x, 0, 1), vector({1})); }),
             "a view of a leaf Variable that requires grad"));
  EXPECT(has(error_of([] { add_(expand(vector({1}), Dims{3}), vector({1})); }),
             "unsupported operation"));
  Tensor y = mul(x, x);
  retain_grad(y);
  mul_(y, vector({2, 2, 2}));
  backward(y);
  EXPECT(equal(grad_of(x), {4, 8, 12}) && equal(grad_of(y), {1, 1, 1}));
}

void test_views_in_place() {
  Tensor x = parameter({1, 2, 3, 4}), w = parameter({10, 20});
  Tensor y = clone(x), middle = slice(y, 1, 3), other = slice(y, 2, 4), inner = slice(middle, 0, 1);
  mul_(middle, w);  // 1 20 60 4
  EXPECT(equal(y, {1, 20, 60, 4}) && grad_fn(y)->name() == "torch::autograd::CopySlices");
  EXPECT(grad_fn(middle)->name() == "AsStridedBackward0");
  EXPECT(grad_fn(other)->name() == "AsStridedBackward0");
  exp_(inner);
  add_(other, w);  // far from what exp_ saved, but in the same storage
  EXPECT(has(error_of([&] { backward(sum(y)); }), "modified by an inplace operation"));

  set_grad(x, {});
  set_grad(w, {});
  y = clone(x);
  middle = slice(y, 1, 3);
  inner = slice(middle, 0, 1);
  other = slice(y, 2, 4);
  mul_(middle, w);
  copy_(slice(y, 3, 4), slice(w, 0, 1));
  exp_(slice(y, 0, 1));
  // e^x0 + x1 w0 + x2 w1 + w0 + x1 w0 (x2 w1 + w0)
  backward(add(sum(y), sum(mul(inner, other))));
  float e = std::exp(1.f);
  EXPECT(equal(grad_of(x), {e, 10 + 10 * (60 + 10), 20 + 20 * 20, 0}));
  EXPECT(equal(grad_of(w), {2 + 1 + 2 * (60 + 10) + 20, 3 + 3 * 20}));
}

void test_view_of_what_comes_to_need_grad() {
  Tensor w = parameter({5}), base = vector({1, 2});
  Tensor view = slice(base, 0, 1), rest = slice(base, 1, 2);
  EXPECT(!requires_grad(view));
  mul_(view, w);
  EXPECT(requires_grad(base) && requires_grad(view) && requires_grad(rest) && grad_fn(rest));
  backward(sum(mul(rest, rest)), true);
  EXPECT(equal(grad_of(w), {0}));
  backward(sum(view));
  EXPECT(equal(grad_of(w), {1}));
}

void test_double_backward_through_views() {
  Tensor x = parameter({2, 3}), w = parameter({4});
  Tensor y = clone(x);
  mul_(slice(y, 0, 1), w);
  exp_(slice(y, 1, 2));
  Tensor z = sum(mul(y, y));  // x0^2 w^2 + e^(2 x1)
  TensorList g = grad(z, {x, w}, true);
  float e6 = std::exp(6.f);
  EXPECT(equal(g[0], {64, 2 * e6}) && equal(g[1], {32}));
  TensorList h = grad(add(sum(g[0]), sum(g[1])), {x, w});
  EXPECT(equal(h[0], {32 + 2 * 2 * 4 * 2, 4 * e6}) && equal(h[1], {2 * 2 * 4 * 2 + 8}));
}

void test_view_origins() {
  Tensor x = parameter({1, 2}), w = parameter({3}), y = clone(x), v;
  {
    NoGradGuard guard;
    v = slice(y, 0, 1);
  }
  EXPECT(has(error_of([&] { mul_(v, w); }),
             "A view was created in no_grad mode and is being modified inplace"));
  mul_(slice(y, 0, 1), w);
  EXPECT(has(error_of([&] { grad_fn(v); }), "A view was created in no_grad mode and its base"));
  Tensor frozen;
  {
    ModeGuard inference(Inference | NoGrad, 0);
    frozen = vector({1});
    add_(frozen, frozen);
  }
  EXPECT(has(error_of([&] { add_(frozen, frozen); }), "Inplace update to inference tensor"));
  EXPECT(has(error_of([&] { mul(frozen, w); }), "Inference tensors cannot be saved for backward"));
}

// Stands for a view that geometry does not describe.
struct Middle final : ViewRule {
  Tensor replay(const Tensor& base) const override { return slice(base, 1, 3); }
};
void test_view_rules() {
  Tensor x = parameter({1, 2, 3, 4}), y = clone(x);
  Tensor v = make_view(y, alias(y, Dims{2}, Dims{1}, 1), make_ref<Middle>());
  set_history(v, [&] {
    Ref<Strided> node = make_ref<Strided>(y, v);
    node->add_input(y);
    return node;
  }());
  Tensor part = slice(v, 1, 2);
  EXPECT(part.impl()->view_rule);
  mul_(part, vector({7}));
  backward(sum(v));
  EXPECT(equal(grad_of(x), {0, 1, 7, 0}));
}

void test_hook_order() {
  std::string order;
  auto note = [&](const char* what) {
    return hook([&order, what](const Tensor&) {
      order += what;
      return Tensor();
    });
  };
  auto around = [&](const char* what) {
    return std::make_shared<AroundNode>([&order, what](Gradients&) { order += what; });
  };
  Tensor x = parameter({1}), y = mul(x, x);
  retain_grad(y);
  add_tensor_hook(y, note("a"));
  add_tensor_hook(y, hook([&](const Tensor& g) {
                    order += "b";
                    return add(g, g);
                  }));
  grad_fn(y)->hooks().before.push_back(around("c"));
  grad_fn(y)->hooks().after.push_back(around("d"));
  add_tensor_hook(x, note("e"));
  meta(x).after_accumulate.push_back(hook([&](const Tensor& t) {
    order += equal(grad_of(t), {4}) ? "f" : "?";
    return Tensor();
  }));
  backward(y);
  EXPECT(order == "abcdef");
  EXPECT(equal(grad_of(y), {2}) && equal(grad_of(x), {4}));
  Tensor z = mul(x, x);
  add_tensor_hook(z, hook([](const Tensor&) { return vector({1, 2}); }));
  EXPECT(has(error_of([&] { backward(z); }), "has changed the size of value"));
}

void test_shared_gradients_stay_apart() {
  Tensor x = parameter({1, 2}), y = parameter({3, 4});
  Tensor g = vector({1, 1}), total = add(x, y);
  run_backward({total}, {g}, true, false, {}, true);  // one gradient reaches both leaves
  EXPECT(grad_of(x).storage() != grad_of(y).storage() && grad_of(x).storage() != g.storage());
  backward(add(total, total));
  EXPECT(equal(grad_of(x), {3, 3}) && equal(grad_of(y), {3, 3}) && equal(g, {1, 1}));
  Tensor z = parameter({1, 2}), h = mul(z, z);
  TensorList both = grad(add(h, h), {h, z}, false, true);
  EXPECT(equal(both[0], {2, 2}) && equal(both[1], {4, 8}));
  run_backward({h, h, z}, {g, g, g}, false, false, {}, true);
  EXPECT(equal(grad_of(z), {5, 9}));
}

struct Split final : Node {  // x to (x, 2 x)
  Split() : Node("split", 2) {}
  void apply(Gradients& g, Gradients& r) override {
    EXPECT(!g[0].defined() && g[1].defined());
    r[0] = add(g[1], g[1]);
  }
};
void test_several_outputs() {
  Tensor x = parameter({3}), one = clone(vector({3})), two = clone(vector({6}));
  Ref<Split> node = make_ref<Split>();
  node->add_input(x);
  set_history(one, node, 0);
  set_history(two, node, 1);
  TensorList g = grad(mul(two, two), {x, one, two});
  EXPECT(equal(g[0], {24}) && !g[1].defined() && equal(g[2], {12}));
}

void test_errors_leave_nothing_behind() {
  Tensor x = parameter({1}), h = mul(x, x), y = mul(h, h);
  bool fails = true;
  add_tensor_hook(h, hook([&](const Tensor&) -> Tensor {
                    if (fails) fail(ErrorKind::Value, "from the hook");
                    return {};
                  }));
  EXPECT(error_of([&] { backward(y, true); }) == "from the hook");
  EXPECT(error_of([&] { grad(y, {x}, false, true); }) == "from the hook");
  fails = false;
  backward(y);
  EXPECT(equal(grad_of(x), {4}) && !(mode() & (NoGrad | InBackward)));
}

// Ends the branch of `through` without a gradient, or runs a pass of its own.
struct Stop final : Node {
  Stop() : Node("stop") {}
  void apply(Gradients&, Gradients&) override {}
};
struct Nest final : Node {
  explicit Nest(int depth) : Node("nest"), depth(depth) {}
  int depth;
  void apply(Gradients& g, Gradients& r) override {
    if (depth > 0) {
      GradModeGuard on(true);
      Tensor x = parameter({1}), y = clone(x);
      Ref<Nest> node = make_ref<Nest>(depth - 1);
      node->add_input(x);
      set_history(y, node);
      backward(y);
      EXPECT(equal(grad_of(x), {1}));
    }
    r[0] = g[0];
  }
};

void test_undefined_and_nested() {
  Tensor x = parameter({2}), y = mul(x, x), z = clone(y);
  Ref<Stop> stop = make_ref<Stop>();
  stop->add_input(y);
  set_history(z, stop);
  backward(z);
  EXPECT(!grad_of(x).defined());
  Tensor a = parameter({1}), b = clone(a);
  Ref<Nest> nest = make_ref<Nest>(500);
  nest->add_input(a);
  set_history(b, nest);
  backward(b);
  EXPECT(equal(grad_of(a), {1}));

  // A hook runs backward through the very nodes that the outer pass has claimed.
  Tensor h = mul(x, x), out = mul(h, x);
  TensorList inside;
  add_tensor_hook(out, hook([&](const Tensor&) {
                    inside = grad(h, {x}, false, true);
                    return Tensor();
                  }));
  backward(out);
  EXPECT(equal(inside[0], {4}) && equal(grad_of(x), {12}));
}

void test_anomaly() {
  Tensor x = parameter({0}), inf = vector({INFINITY});
  ModeGuard watch(Anomaly, 0);
  Tensor y = mul(mul(x, inf), vector({0}));
  EXPECT(has(error_of([&] { backward(y); }),
             "Function 'MulBackward0' returned nan values in its 0th output."));
}

void test_threads() {
  Tensor x = parameter({1}), h = mul(x, x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) backward(mul(h, h), true);
    });
  for (std::thread& t : threads) t.join();
  EXPECT(equal(grad_of(x), {4 * 800}));
}

void test_deep_chain() {
  Tensor x = parameter({1});
  Tensor y = exp(mul(x, vector({0})));
  for (int i = 0; i < 200000; ++i) y = mul(y, x);
  backward(y);
  EXPECT(equal(grad_of(x), {200000}));
  Tensor z = x;
  for (int i = 0; i < 200000; ++i) z = exp(mul(z, vector({0})));  // dies without a backward
}

void test_pack_hooks() {
  struct Doubled final : PackedTensor {
    Tensor kept;
    Tensor unpack() override { return add(kept, kept); }
  };
  pack_saved = [](const Tensor& t) {
    auto packed = std::make_unique<Doubled>();
    packed->kept = t;
    return std::unique_ptr<PackedTensor>(std::move(packed));
  };
  Tensor x = parameter({3}), y;
  {
    ModeGuard hooks(SavedHooks, 0);
    y = mul(x, x);
  }
  Tensor g = grad(y, {x}, true)[0];
  EXPECT(equal(g, {12}));
  EXPECT(equal(grad(g, {x})[0], {2}));
  pack_saved = nullptr;
}

}  // namespace

int main() {
  naive::install();
  void (*const tests[])() = {
      test_chain_and_accumulation,
      test_grad_of_inputs,
      test_double_backward,
      test_broadcast_gradients,
      test_saved_version,
      test_in_place,
      test_views_in_place,
      test_view_of_what_comes_to_need_grad,
      test_double_backward_through_views,
      test_view_origins,
      test_view_rules,
      test_hook_order,
      test_shared_gradients_stay_apart,
      test_several_outputs,
      test_errors_leave_nothing_behind,
      test_undefined_and_nested,
      test_anomaly,
      test_threads,
      test_deep_chain,
      test_pack_hooks,
  };
  for (size_t i = 0; i < std::size(tests); ++i) {
    tests[i]();
    if (live_nodes() == 0 && live_tensors() == 0) continue;
    std::printf("test %zu leaves %ld nodes and %ld tensors\n", i, live_nodes(), live_tensors());
    return 1;
  }
  std::printf(failures ? "%d failures\n" : "passed\n", failures);
  return failures != 0;
}
