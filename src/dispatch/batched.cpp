#include "dispatch/batched.h"

#include <algorithm>
#include <cstring>

#include "ops_shape.h"

namespace rl {

__thread OpBatch* op_batch = nullptr;

namespace {

template <class F> void for_each_tensor(GivenList given, F&& f) {
  for (const Given& g : given) {
    if (g.kind == Given::OneTensor) f(*static_cast<const Tensor*>(g.at));
    if (g.kind == Given::Tensors)
      for (const Tensor& t : *static_cast<const TensorList*>(g.at)) f(t);
  }
}

Dims behind(int64_t first, IntSpan sizes) {
  Dims all{first};
  for (int64_t size : sizes) all.push_back(size);
  return all;
}

// Do the images of a batch share a tensor that is for no gradient?
bool shares(Spread how) { return how == Spread::Images || how == Spread::Channels; }
// Is the dim of gradients a part of the first?
bool is_merged(Spread how) { return how == Spread::Merged || shares(how); }

// So many dims of size 1 behind the first.
Tensor with_dims(const Tensor& examples, int64_t missing) {
  if (missing <= 0) return examples;
  Dims sizes(missing + 1, 1);
  sizes[0] = examples.size(0);
  for (int64_t d = 1; d < examples.dim(); ++d) sizes.push_back(examples.sizes()[d]);
  return ops::reshape(examples, sizes);
}

}  // namespace

OpBatch::Entry* OpBatch::find(const Tensor& t) {
  if (!t.defined() || !t.is_meta()) return nullptr;
  for (Entry& e : entries_)
    if (e.stand_in.impl() == t.impl()) return &e;
  fail(ErrorKind::NotImplemented, "a tensor on meta that stands for no gradients");
}

Tensor OpBatch::examples(const Tensor& stand_in) {
  const Entry* found = find(stand_in);
  return found ? found->examples : Tensor();
}

bool OpBatch::records_of(const Tensor& t) {
  if (!records || !t.defined()) return false;
  const Entry* found = find(t);
  return (found ? found->examples : t).requires_grad();
}

Tensor OpBatch::stand_in(const Tensor& result, Spread how) {
  if (!result.defined()) return {};
  Tensor examples = result;
  if (how == Spread::Channels) {
    examples = ops::movedim(ops::unflatten(result, 0, Dims{groups, size, -1}), Dims{1}, Dims{0});
    examples = ops::flatten(examples, 1, 2);
  } else if (is_merged(how)) {
    examples = ops::unflatten(result, 0, Dims{size, -1});
  }
  const IntSpan sizes(examples.sizes().data() + 1, examples.dim() - 1);
  Tensor one = rl::empty(Dims(sizes), {examples.dtype(), Device{DeviceType::Meta}});
  entries_.push_back({one, examples});
  return one;
}

// A number by its rank does not decide the dtype, and has no dims to work along. What images share
// is one for all gradients.
bool OpBatch::fits(GivenList given, Spread how) {
  bool fits = true, first = true;
  std::optional<DType> common;
  for_each_tensor(given, [&](const Tensor& t) {
    if (!t.defined()) return;
    if (shares(how)) fits &= first == (find(t) != nullptr);
    first = false;
    if (how == Spread::Dim || how == Spread::Dims) fits &= t.dim() > 0;
    if (how != Spread::Elementwise || t.impl()->wrapped_number) return;
    fits &= t.dtype() == common.value_or(t.dtype());
    common = t.dtype();
  });
  if (how == Spread::Channels)
    for (const Given& g : given) {
      fits &= !(g.kind == Given::Flag && g.integer);  // transposed
      if (g.kind == Given::Integer) groups = g.integer;
    }
  if (how != Spread::View && how != Spread::Expand) return fits;
  const Dims* sizes = nullptr;
  for (const Given& g : given)
    if (g.kind == Given::Integers) sizes = static_cast<const Dims*>(g.at);
  return sizes && std::all_of(sizes->begin(), sizes->end(), [](int64_t n) { return n > 0; });
}

Batching OpBatch::compute(const char* op, GivenList given, Spread how) {
  bool stands = false;
  for_each_tensor(given, [&](const Tensor& t) { stands |= find(t) != nullptr; });
  for (const Given& g : given)  // a tensor like a stand-in
    if (g.kind == Given::Other && g.type == Given::Place)
      stands |= static_cast<const Device*>(g.at)->is_meta();
  const char* key = op + std::strlen(op) + 1;
  if (!stands) return Batching::Plain;
  if (*key == '!') return Batching::Body;
  if (how != Spread::ByRule && fits(given, how)) return Batching::Spread;
  ModeGuard plain = outside();
  results.clear();
  return compute_by_rule(*key ? key : op, given) ? Batching::Results : Batching::Body;
}

SpreadArguments::SpreadArguments(OpBatch& batch, Spread how, GivenList given)
    : batch_(batch), how_(how) {
  for_each_tensor(given, [&](const Tensor& t) {
    if (t.defined()) rank_ = std::max(rank_, t.dim());
  });
  if (how == Spread::Expand)
    for (const Given& g : given)
      if (g.kind == Given::Integers) rank_ = static_cast<const Dims*>(g.at)->size();
}

Tensor SpreadArguments::operator()(const Tensor& t) const {
  if (!t.defined()) return t;
  Tensor all = batch_.examples(t);
  ModeGuard plain = batch_.outside();
  if (!all.defined()) {
    if (how_ == Spread::Elementwise || shares(how_)) return t;
    all = ops::expand(t, behind(batch_.size, t.sizes()));
  }
  switch (how_) {
    case Spread::Elementwise:
    case Spread::Expand: return with_dims(all, rank_ - t.dim());
    case Spread::View: return ops::contiguous(all);
    case Spread::Merged:
    case Spread::Images: return ops::flatten(all, 0, 1);
    case Spread::Channels:
      all = ops::movedim(ops::unflatten(all, 2, Dims{batch_.groups, -1}), Dims{0}, Dims{2});
      return ops::flatten(all, 1, 3);
    default: return all;
  }
}

TensorList SpreadArguments::operator()(const TensorList& list) const {
  TensorList spread;
  for (const Tensor& t : list) spread.push_back((*this)(t));
  return spread;
}

Dims SpreadArguments::operator()(const Dims& dims) const {
  if (how_ == Spread::View || how_ == Spread::Expand) return behind(batch_.size, dims);
  Dims spread = dims;  // the first are of a result like the gradient, others of windows
  if (is_merged(how_) && !seen_ && dims.size() == rank_) spread[0] *= batch_.size;
  seen_ = true;
  return spread;
}

int64_t SpreadArguments::operator()(int64_t number) const {
  const bool is_dim = how_ == Spread::Dims || (how_ == Spread::Dim && !seen_);
  seen_ = true;
  return is_dim && number >= 0 ? number + 1 : number;
}

}  // namespace rl
