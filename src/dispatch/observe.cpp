#include "dispatch/observe.h"

#include <cstring>

#include "dispatch/trap.h"

namespace rl {
namespace {

using observer::Details;

size_t words_for(const Tensor& t) { return t.defined() ? 3 + 2 * t.sizes().size() : 1; }
size_t words_for(const Given& g) {
  if (g.kind == Given::OneTensor) return words_for(*static_cast<const Tensor*>(g.at));
  if (g.kind == Given::Integers) return 2 + static_cast<const Dims*>(g.at)->size();
  if (g.kind != Given::Tensors) return 2;
  size_t words = 2;
  for (const Tensor& t : *static_cast<const TensorList*>(g.at)) words += words_for(t);
  return words;
}

int64_t* write(int64_t* to, const Tensor& t) {
  if (!t.defined()) {
    *to++ = Details::None;
    return to;
  }
  *to++ = Details::Tensor;
  *to++ = static_cast<int64_t>(t.dtype());
  const int ndim = t.sizes().size();
  *to++ = ndim;
  for (int64_t size : t.sizes()) *to++ = size;
  for (int d = 0; d < ndim; ++d) *to++ = d < t.strides().size() ? t.strides()[d] : 0;
  return to;
}

int64_t* write(int64_t* to, const Given& g) {
  switch (g.kind) {
    case Given::OneTensor: return write(to, *static_cast<const Tensor*>(g.at));
    case Given::Tensors: {
      const auto& list = *static_cast<const TensorList*>(g.at);
      *to++ = Details::Tensors;
      *to++ = static_cast<int64_t>(list.size());
      for (const Tensor& t : list) to = write(to, t);
      return to;
    }
    case Given::Integers: {
      const auto& dims = *static_cast<const Dims*>(g.at);
      *to++ = Details::Integers;
      *to++ = dims.size();
      for (int64_t d : dims) *to++ = d;
      return to;
    }
    case Given::Integer:
    case Given::Flag:
      *to++ = g.kind == Given::Flag ? Details::Flag : Details::Integer;
      *to++ = g.integer;
      return to;
    case Given::Real:
      *to++ = Details::Real;
      std::memcpy(to++, &g.real, sizeof g.real);
      return to;
    case Given::Other:
    case Given::None: *to++ = Details::None;
  }
  return to;
}

template <class List> const int64_t* describe_all(const List& all) {
  size_t words = 1;
  for (const auto& each : all) words += words_for(each);
  int64_t* first = observer::reserve(words);
  if (!first) return nullptr;
  int64_t* to = first;
  for (const auto& each : all) to = write(to, each);
  *to++ = Details::End;
  observer::keep(static_cast<size_t>(to - first));
  return first;
}

struct Results {
  const Tensor* first;
  size_t count;
  const Tensor* begin() const { return first; }
  const Tensor* end() const { return first + count; }
};

// The lines that called the user's line, behind the arguments.
const int64_t* describe_stack() {
  constexpr int most = 32;
  SourceLocation frames[most];
  int count = source_tracer.stack ? source_tracer.stack(frames, most) : 0;
  int64_t* first = observer::reserve(2 + 2 * static_cast<size_t>(count));
  int64_t* to = first;
  *to++ = Details::Stack;
  *to++ = count;
  for (int i = 0; i < count; ++i) {
    *to++ = reinterpret_cast<int64_t>(frames[i].code);
    *to++ = frames[i].instruction;
  }
  observer::keep(static_cast<size_t>(to - first));
  return first;
}

}  // namespace

OpObserver::OpObserver(const char* op, GivenList given, Elements elements)
    : op_(op),
      given_(given),
      event_(EventKind::Op, op),
      checks_((mode() & Trapped) && thread_state().op_depth == 0 && elements == Elements::Computed),
      sequence_(thread_state().next_sequence + 1) {
  ThreadState& thread = thread_state();
  if (Event* e = event_.event()) {
    if (grad_enabled()) e->sequence = static_cast<int64_t>(sequence_);
    if (observer::options().shapes) e->given = describe_all(given);
    if (thread.op_depth == 0) {
      if (observer::options().stacks) e->stack = describe_stack();
      else e->where = source_here();
    }
  }
  ++thread.op_depth;
}

OpObserver::~OpObserver() { --thread_state().op_depth; }

void OpObserver::done(const Tensor* results, size_t count) {
  Event* e = event_.event();
  if (e && observer::options().shapes) e->result = describe_all(Results{results, count});
  if (checks_) trap::check_results(op_, given_, results, count, sequence_);
}

}  // namespace rl
