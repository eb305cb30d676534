#include "dispatch/lazy_expression.h"

#include "core/kernel_lock.h"
#include "launch_elementwise.h"

namespace rl {

// Of the interface of kernels: numbers, sizes and dtypes, nothing that a backend computes.
using kernels::affine_strip;
using kernels::repeated;

namespace {

// Held while lazy elements are computed, and while their expression is copied.
ForkMutex& computing() {
  static auto* mutex =
      new ForkMutex(ForkRank::ContentsComputation);  // tensors may outlive static objects
  return *mutex;
}

// The contents of a lazy tensor: the only owner of its expression, until the elements are computed.
class LazyContents final : public ChannelsLastContents {
 public:
  LazyContents(IntSpan sizes, LazyExpression expression)
      : ChannelsLastContents(sizes, product(sizes) * itemsize(DType::Float32)),
        expression_(std::move(expression)) {}

  void compute() override {
    if (is_computed()) return;
    KernelLock lock(computing(), nbytes / 4);
    if (is_computed()) return;
    BufferOwner buffer = expression_->take_operand();
    bool in_place = static_cast<bool>(buffer);
    if (!in_place) buffer = BufferOwner::allocate(nbytes);
    expression_->formula().fill(product(sizes), static_cast<float*>(buffer.data()), in_place);
    buffer.note_change(std::move(*expression_).release_operands());
    expression_.reset();
    set_buffer(std::move(buffer));
  }
  std::optional<LazyExpression> expression() const {
    ForkLock lock(computing());
    return expression_;
  }
  // Gives the expression up, which x may supply with operands, together with the memory for what it
  // describes.
  std::optional<LazyExpression> take(const BufferLease& x, BufferOwner& buffer) {
    ForkLock lock(computing());
    if (!expression_) return {};
    expression_->rematerialize(x);
    buffer = expression_->take_operand();
    if (!buffer) buffer = BufferOwner::allocate(nbytes);
    std::optional<LazyExpression> taken = std::move(expression_);
    expression_.reset();
    return taken;
  }

 private:
  std::optional<LazyExpression> expression_;  // empty once the elements are computed
};

// Contents without elements have an expression, as nothing else makes such.
LazyContents* as_lazy(ChannelsLastContents& contents) {
  return contents.is_computed() ? nullptr : static_cast<LazyContents*>(&contents);
}

// What an expression can have as an operand; null where `t` is something else.
Ref<ChannelsLastContents> operand_contents(const Tensor& t, const Dims& sizes) {
  if (t.dtype() != DType::Float32 || t.impl()->data || t.sizes() != sizes) return {};
  return channels_last_contents(t);
}

Tensor lazy_tensor(const Dims& sizes, LazyExpression expression) {
  return with_contents(DType::Float32, make_ref<LazyContents>(sizes, std::move(expression)));
}

}  // namespace

// How the elements of a buffer were computed from one other buffer, in one version of its bytes. It
// has no lease on that buffer: whoever computes the elements again brings one.
struct LazyExpression::Origin final : Provenance {
  Origin(LazyExpression expression, uint64_t source)
      : expression(std::move(expression)), source(source) {}
  const LazyExpression expression;
  const uint64_t source;
};

LazyExpression::LazyExpression(const LazyExpression& other) : formula_(other.formula_) {
  operands_.reserve(other.operands_.size());
  for (const Operand& operand : other.operands_)
    operands_.push_back({operand.buffer, nullptr, operand.channels});
  for (size_t i = 0; i < operands_.size(); ++i)
    if (other.operands_[i].nested) set_nested(i, *other.operands_[i].nested);
}

LazyExpression& LazyExpression::operator=(LazyExpression other) noexcept {
  std::swap(formula_, other.formula_);
  operands_.swap(other.operands_);
  return *this;
}

void LazyExpression::add(const kernels::StripFormula::Operand& source, Operand operand) {
  formula_.operands.push_back(source);
  operands_.push_back(std::move(operand));
}

void LazyExpression::set_nested(size_t i, LazyExpression expression) {
  Operand& operand = operands_[i];
  operand.buffer = {};
  operand.nested = std::make_unique<LazyExpression>(std::move(expression));
  formula_.operands[i] = {nullptr, 0, &operand.nested->formula_};
}

void LazyExpression::add_operand(ChannelsLastContents& contents) {
  std::optional<LazyExpression> nested;
  if (LazyContents* lazy = as_lazy(contents)) nested = lazy->expression();
  if (nested && formula_.size() + nested->formula_.size() <= kernels::max_strip_formulas) {
    add({}, {});
    return set_nested(operands_.size() - 1, std::move(*nested));
  }
  nested.reset();  // the elements may take the memory of its operands
  BufferLease buffer = contents.lease();
  const auto* data = static_cast<const float*>(buffer.data());
  add({data}, {std::move(buffer), nullptr, nullptr});
}

void LazyExpression::add_channels(const std::vector<double>& values) {
  auto all = std::make_shared<const std::vector<float>>(repeated(values));
  const float* data = all->data();
  add({data, static_cast<int64_t>(values.size())}, {{}, nullptr, std::move(all)});
}

int LazyExpression::streams() const {
  int count = 0;
  for (const Operand& operand : operands_)
    count += operand.nested ? operand.nested->streams() : !operand.channels;
  return count;
}

void LazyExpression::rematerialize(const BufferLease& x) {
  std::vector<std::shared_ptr<const Origin>> origins;
  int size = formula_.size();
  for (const Operand& operand : operands_) {
    std::shared_ptr<const Origin> origin;
    if (operand.buffer)
      origin = std::static_pointer_cast<const Origin>(operand.buffer.provenance());
    if (origin && origin->source != x.version()) origin = nullptr;
    if (origin) size += origin->expression.formula_.size();
    origins.push_back(std::move(origin));
  }
  if (size > kernels::max_strip_formulas) return;
  for (size_t i = 0; i < origins.size(); ++i) {
    if (!origins[i]) continue;
    LazyExpression again = origins[i]->expression;
    again.set_source(x);
    set_nested(i, std::move(again));
  }
}

BufferOwner LazyExpression::take_operand() {
  BufferOwner taken;
  for (Operand& operand : operands_)
    if (operand.buffer && (taken = BufferOwner::take(operand.buffer))) return taken;
  for (Operand& operand : operands_)
    if (operand.nested && (taken = operand.nested->take_operand())) return taken;
  return taken;
}

// False where there are several sources, or the only one has been taken.
bool LazyExpression::find_source(uint64_t& version) const {
  for (const Operand& operand : operands_) {
    if (operand.channels) continue;
    if (operand.nested) {
      if (!operand.nested->find_source(version)) return false;
      continue;
    }
    if (!operand.buffer || (version && version != operand.buffer.version())) return false;
    version = operand.buffer.version();
  }
  return true;
}

void LazyExpression::set_source(const BufferLease& buffer) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    Operand& operand = operands_[i];
    if (operand.channels) continue;
    if (operand.nested) {
      operand.nested->set_source(buffer);
      continue;
    }
    operand.buffer = buffer;
    formula_.operands[i].data = buffer ? static_cast<const float*>(buffer.data()) : nullptr;
  }
}

std::shared_ptr<const Provenance> LazyExpression::release_operands() && {
  uint64_t source = 0;
  bool has_one = find_source(source) && source;
  set_source({});
  return has_one ? std::make_shared<const Origin>(std::move(*this), source) : nullptr;
}

std::optional<LazyExpression> lazy_expression(const Tensor& t) {
  Ref<ChannelsLastContents> contents = channels_last_contents(t);
  LazyContents* lazy = contents ? as_lazy(*contents) : nullptr;
  return lazy && t.dtype() == DType::Float32 ? lazy->expression() : std::nullopt;
}

std::optional<LazyExpression> take_expression(const Tensor& t, const BufferLease& x) {
  Ref<ChannelsLastContents> contents = channels_last_contents(t);
  LazyContents* lazy = contents ? as_lazy(*contents) : nullptr;
  if (!lazy) return {};
  BufferOwner buffer;
  std::optional<LazyExpression> taken = lazy->take(x, buffer);
  if (!taken) return {};
  buffer.note_change();
  t.storage()->replace_contents(
      make_ref<ChannelsLastContents>(t.sizes(), contents->nbytes, std::move(buffer)));
  return taken;
}

Tensor make_lazy(const kernels::Loop& loop, const Tensor* const* inputs, int count,
                 const Scalar* numbers, const Tensor& given) {
  const Dims& sizes = inputs[0]->sizes();
  // A gradient's operands are as a rule read once, by the op that computes them, so that being lazy
  // saves no further pass.
  bool saves_a_pass = (mode() & (InBackward | NoGrad)) == (InBackward | NoGrad);
  Ref<ChannelsLastContents> operands[kernels::max_loop_inputs];
  for (int k = 0; k < count; ++k) {
    operands[k] = operand_contents(*inputs[k], sizes);
    if (!operands[k]) return {};
    saves_a_pass = saves_a_pass || as_lazy(*operands[k]);
  }
  if (!saves_a_pass || (given.defined() && !operand_contents(given, sizes))) return {};
  LazyExpression expression(launch::find_strip(loop, DType::Float32));
  for (int i = 0; i < loop.numbers; ++i) expression.add_number(numbers[i]);
  for (int k = 0; k < count; ++k) expression.add_operand(*operands[k]);
  if (!given.defined()) return lazy_tensor(sizes, std::move(expression));
  given.storage()->replace_contents(make_ref<LazyContents>(sizes, std::move(expression)));
  return given;
}

Tensor make_lazy_affine(const Tensor& x, const std::vector<double>& scale,
                        const std::vector<double>& shift) {
  Ref<ChannelsLastContents> contents = operand_contents(x, x.sizes());
  if (!contents) return {};
  LazyExpression expression(affine_strip());
  expression.add_operand(*contents);
  expression.add_channels(scale);
  expression.add_channels(shift);
  return lazy_tensor(x.sizes(), std::move(expression));
}

}  // namespace rl
