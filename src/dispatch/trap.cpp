#include "dispatch/trap.h"

#include <cmath>

#include "autograd/saved_tensor.h"
#include "core/fork_mutex.h"
#include "core/text_stream.h"
#include "launch_magnitude.h"
#include "tensor/physical_layout.h"

namespace rl::trap {
namespace {

constexpr double large = 1e4;   // a value as large is where a search for the cause ends
constexpr double unknown = -1;  // the magnitude of what was not looked at
constexpr size_t remembered = 32768;
constexpr int most_steps = 24;
constexpr size_t most_inputs = 3;

// How large a result was, and what it was made of. Tensors are known by their addresses, of which
// the latest use counts.
struct Record {
  const void* result = nullptr;
  const void* inputs[most_inputs] = {};
  const char* op = nullptr;
  double magnitude = unknown;
  uint64_t sequence = 0;
  SourceLocation where;  // owned; of forward alone
  bool is_backward = false;
};

class History {
 public:
  void start() {
    ForkLock lock(mutex_);
    records_.resize(remembered);
  }
  void stop() {
    std::vector<Record> old;
    {
      ForkLock lock(mutex_);
      old.swap(records_);
      count_ = 0;
    }
    for (Record& r : old) forget(r.where);
  }
  void add(Record record) {
    {
      ForkLock lock(mutex_);
      if (!records_.empty()) std::swap(records_[count_++ % records_.size()], record);
    }
    forget(record.where);  // of the one that made room
  }
  // The latest record of a result before `before`; returns its number, or -1.
  int64_t find(const void* result, int64_t before) const {
    int64_t oldest = std::max<int64_t>(0, count() - int64_t(records_.size()));
    for (int64_t i = before - 1; i >= oldest; --i)
      if (at(i).result == result) return i;
    return -1;
  }
  int64_t find_forward(uint64_t sequence) const {
    int64_t oldest = std::max<int64_t>(0, count() - int64_t(records_.size()));
    for (int64_t i = count() - 1; i >= oldest; --i)
      if (!at(i).is_backward && at(i).sequence == sequence) return i;
    return -1;
  }
  const Record& at(int64_t i) const { return records_[static_cast<size_t>(i) % records_.size()]; }
  int64_t count() const { return records_.empty() ? 0 : static_cast<int64_t>(count_); }
  ForkMutex& mutex() { return mutex_; }

 private:
  ForkMutex mutex_{ForkRank::Observers};
  std::vector<Record> records_;
  size_t count_ = 0;
};

History& history() {
  static History* instance = new History;  // threads may outlive static destruction
  return *instance;
}

bool traps_infinity = true;

bool is_looked_at(const Tensor& t) {
  return t.defined() && !t.is_sparse() && t.device().is_cpu() && is_differentiable(t.dtype());
}

double magnitude_of(const Tensor& t) {
  if (t.numel() == 0) return 0;
  if (Ref<ChannelsLastContents> contents = channels_last_contents(t))
    if (!contents->is_computed()) return unknown;  // whoever reads it is looked at
  PhysicalView elements(t);
  return launch::largest_magnitude(elements);
}

// Calls f(place, value) for each element, the parts of a complex one by itself.
template <class F> void each_value(const Tensor& t, F&& f) {
  const View v = t.view();
  Dims place(v.ndim);
  for (int64_t& p : place) p = 0;
  for (int64_t i = 0; i < v.numel; ++i) {
    int64_t at = 0;
    for (int64_t d = 0; d < v.ndim; ++d) at += place[d] * v.strides[d];
    Scalar value = load_scalar(v.ptr<char>() + at * itemsize(v.dtype), v.dtype);
    if (value.is_complex()) {
      f(place, value.to<complex128>().real());
      f(place, value.to<complex128>().imag());
    } else {
      f(place, value.real());
    }
    for (int64_t d = v.ndim - 1; d >= 0 && ++place[d] == v.sizes[d]; --d) place[d] = 0;
  }
}

struct Statistics {
  int64_t nan = 0, infinite = 0, finite = 0;
  double least = 0, most = 0, sum = 0;
  Dims first;  // place of the first that is not finite
  explicit Statistics(const Tensor& t) {
    each_value(t, [&](const Dims& place, double v) {
      if (!std::isfinite(v)) {
        if (nan + infinite == 0) first = place;
        ++(std::isnan(v) ? nan : infinite);
        return;
      }
      least = finite ? std::min(least, v) : v;
      most = finite ? std::max(most, v) : v;
      sum += v;
      ++finite;
    });
  }
  bool is_finite() const { return nan + infinite == 0; }
  std::string counts() const {
    TextStream text;
    if (nan) text << nan << " nan";
    if (infinite) text << (nan ? ", " : "") << infinite << " inf";
    return text.str();
  }
};

std::string line_of(const SourceLocation& where) {
  std::string text = describe(where);
  if (where.module) text += (text.empty() ? "" : ", ") + std::string("module ") + where.module;
  return text;
}

std::string shown(double magnitude) {
  TextStream text;
  if (std::isnan(magnitude)) text << "nan";
  else if (std::isinf(magnitude)) text << "inf";
  else if (magnitude == unknown) text << "not looked at";
  else text << "largest magnitude " << magnitude;
  return text.str();
}

// From the largest of the inputs back to what made it, and so on.
std::string post_mortem(const void* const* inputs, size_t count) {
  struct Step {
    std::string op, text;
    SourceLocation where;
  };
  std::vector<Step> steps;
  {
    History& h = history();
    ForkLock lock(h.mutex());
    int64_t before = h.count();
    auto rank = [](double m) { return std::isnan(m) ? INFINITY : m; };
    for (int n = 0; n < most_steps; ++n) {
      int64_t best = -1;
      for (size_t i = 0; i < count; ++i) {
        int64_t found = inputs[i] ? h.find(inputs[i], before) : -1;
        if (found >= 0 && (best < 0 || rank(h.at(found).magnitude) > rank(h.at(best).magnitude)))
          best = found;
      }
      if (best < 0) break;
      const Record& r = h.at(best);
      SourceLocation where = r.where;
      if (r.is_backward) {
        int64_t forward = h.find_forward(r.sequence);
        if (forward >= 0) where = h.at(forward).where;
      }
      steps.push_back(
          {r.op + std::string(r.is_backward ? " (backward)" : ""), shown(r.magnitude), where});
      before = best;
      inputs = r.inputs;
      count = most_inputs;
      if (r.magnitude != unknown && std::isfinite(r.magnitude) && r.magnitude < large) break;
    }
  }
  if (steps.empty()) return "";
  std::string text = "\nHow it came about, the latest first:";
  for (const Step& s : steps) {  // outside the lock: this asks the interpreter
    std::string line = line_of(s.where);
    text += "\n  " + s.op + (line.empty() ? "" : " on " + line) + ": " + s.text;
  }
  return text;
}

struct Named {
  std::string name;
  const Tensor* tensor;
};

std::vector<Named> tensors_in(GivenList given) {
  std::vector<Named> all;
  for (const Given& g : given) {
    if (g.kind == Given::OneTensor) all.push_back({g.name, static_cast<const Tensor*>(g.at)});
    if (g.kind != Given::Tensors) continue;
    size_t i = 0;
    for (const Tensor& t : *static_cast<const TensorList*>(g.at))
      all.push_back({g.name + ("[" + std::to_string(i++) + "]"), &t});
  }
  return all;
}

// A number that is not finite is the program's intention.
bool has_such_number(GivenList given) {
  for (const Given& g : given)
    if (g.kind == Given::Real && !std::isfinite(g.real)) return true;
  return false;
}

bool holds_infinity(GivenList given, const Tensor* results, size_t count) {
  for (const Named& n : tensors_in(given)) {
    bool changed = false;
    for (size_t i = 0; i < count; ++i) changed = changed || n.tensor->is_same(results[i]);
    if (!changed && is_looked_at(*n.tensor) && !Statistics(*n.tensor).is_finite()) return true;
  }
  return false;
}

[[noreturn]] void fail_result(const char* op, GivenList given, const Tensor* results, size_t count,
                              const Tensor& bad) {
  Statistics of(bad);
  SourceLocation where = source_here();
  std::string line = line_of(where);
  forget(where);
  TextStream text;
  text << op << ": the result is not finite: " << of.counts() << " of " << bad.numel()
       << " elements, the first at " << of.first << (line.empty() ? "" : "; ") << line;
  const void* inputs[most_inputs] = {};
  size_t known = 0;
  for (const Named& n : tensors_in(given)) {
    const Tensor& t = *n.tensor;
    if (!t.defined()) continue;
    if (known < most_inputs) inputs[known++] = t.impl();
    bool changed = false;
    for (size_t i = 0; i < count; ++i) changed = changed || t.is_same(results[i]);
    text << "\n  " << n.name << ": ";
    if (changed) text << "changed in place";
    else if (!is_looked_at(t)) text << name(t.dtype()) << " " << t.sizes();
    else {
      text << describe_values(t);
      if (!Statistics(t).is_finite()) text << " <- carried it";
    }
  }
  for (const Given& g : given)
    if (g.kind == Given::Real) text << "\n  " << g.name << ": " << g.real;
  text << post_mortem(inputs, known);
  fail(ErrorKind::Runtime, text.str());
}

Record record_of(const char* op, const Tensor& result, uint64_t sequence) {
  Record r;
  r.op = op;
  r.result = result.impl();
  r.sequence = sequence;
  return r;
}

// What a node has kept, as an error tells of it.
struct SavedValues final : SavedReader {
  TextStream text;
  void tensor(const char* name, const SavedTensor& saved) override {
    const Tensor& t = saved.tensor();
    if (!t.defined()) return;
    text << "\n  it saved " << name << ": ";
    if (is_looked_at(t)) text << describe_values(t);
    else text << rl::name(t.dtype()) << " " << t.sizes();
  }
  void tensors(const char* name, const std::vector<SavedTensor>& saved) override {
    for (const SavedTensor& s : saved) tensor(name, s);
  }
  void value(const char*, SavedValue) override {}
};

[[noreturn]] void fail_gradient(const Node& node, const SmallVector<const void*, 2>& grads,
                                const Gradients& results, size_t i) {
  Statistics of(results[i]);
  TextStream text;
  text << node.name() << ": the gradient of input " << i << " is not finite: " << of.counts()
       << " of " << results[i].numel() << " elements, the first at " << of.first;
  std::string line = line_of(node.where);
  if (!line.empty()) text << "; it belongs to " << node.op << " on " << line;
  {
    History& h = history();
    ForkLock lock(h.mutex());
    for (size_t g = 0; g < grads.size(); ++g) {
      int64_t at = grads[g] ? h.find(grads[g], h.count()) : -1;
      if (at >= 0)
        text << "\n  the gradient that came for output " << g << ": " << shown(h.at(at).magnitude);
    }
  }
  SavedValues saved;
  node.read_saved(saved);
  text << saved.text.str() << post_mortem(grads.begin(), grads.size());
  fail(ErrorKind::Runtime, text.str());
}

}  // namespace

std::string describe_values(const Tensor& t) {
  check(t.device().is_cpu() && !t.is_sparse(),
        "describe: expected a strided tensor on the CPU, got one of shape ", t.sizes(), " on ",
        t.device());
  Statistics of(t);
  TextStream text;
  text << name(t.dtype()) << " " << t.sizes() << ": ";
  if (!of.is_finite()) text << of.counts() << (of.finite ? "; the others " : "");
  if (of.finite)
    text << "from " << of.least << " to " << of.most << ", mean " << of.sum / double(of.finite);
  else if (of.is_finite()) text << "no elements";
  return text.str();
}

void start(bool infinity) {
  traps_infinity = infinity;
  history().start();
  set_mode_of_all(Trapped);
}

void stop() {
  clear_mode_of_all(Trapped);
  history().stop();
}

void check_results(const char* op, GivenList given, const Tensor* results, size_t count,
                   uint64_t sequence) {
  for (size_t i = 0; i < count; ++i) {
    const Tensor& t = results[i];
    if (!is_looked_at(t)) continue;
    Record record = record_of(op, t, sequence);
    size_t known = 0;
    bool is_view = false, in_place = false;
    for (const Given& g : given) {
      if (g.kind != Given::OneTensor) continue;
      const Tensor& input = *static_cast<const Tensor*>(g.at);
      if (!input.defined()) continue;
      in_place = in_place || input.is_same(t);
      is_view = is_view || (!input.is_sparse() && input.storage() == t.storage());
      if (known < most_inputs) record.inputs[known++] = input.impl();
    }
    if (in_place || !is_view) record.magnitude = magnitude_of(t);
    const bool bad =
        std::isnan(record.magnitude) || (traps_infinity && std::isinf(record.magnitude));
    if (__builtin_expect(bad, 0)) {
      bool let = has_such_number(given) ||
                 (!std::isnan(record.magnitude) && holds_infinity(given, results, count));
      if (!let) fail_result(op, given, results, count, t);
    }
    record.where = source_here();
    history().add(record);
  }
}

// An embedding adds rows of the gradient to a table of zeros, which is large: the table is finite
// if the rows are, and so small that no sum of as many as memory holds overflows.
bool stays_finite(const Node& node, const Gradients& grads) {
  constexpr double small = 1e18;
  if (std::string_view(node.op) != "embedding" || !is_looked_at(grads[0])) return false;
  return grads[0].dtype() != DType::Float16 && magnitude_of(grads[0]) < small;
}

void check_gradients(const Node& node, const SmallVector<const void*, 2>& grads,
                     const Gradients& results, bool stay_finite) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& t = results[i];
    if (!is_looked_at(t)) continue;
    Record record = record_of(node.op, t, node.sequence);
    record.is_backward = true;
    for (size_t g = 0; g < grads.size() && g < most_inputs; ++g) record.inputs[g] = grads[g];
    bool passed_on = false;
    for (const void* g : grads) passed_on = passed_on || g == t.impl();
    if (passed_on) continue;
    if (!stay_finite) record.magnitude = magnitude_of(t);
    bool bad = std::isnan(record.magnitude);
    if (traps_infinity && std::isinf(record.magnitude)) {
      History& h = history();
      ForkLock lock(h.mutex());
      bool came = false;
      for (const void* g : grads) {
        int64_t at = g ? h.find(g, h.count()) : -1;
        came = came || (at >= 0 && !std::isfinite(h.at(at).magnitude));
      }
      bad = !came;
    }
    if (__builtin_expect(bad, 0)) fail_gradient(node, grads, results, i);
    history().add(record);
  }
}

void check_values(const char* what, const Tensor& values) {
  if (!is_looked_at(values) || !std::isnan(magnitude_of(values))) return;
  SourceLocation where = source_here();
  std::string line = line_of(where);
  forget(where);
  fail(ErrorKind::Runtime, what, ": not finite: ", describe_values(values), "; ", line);
}

}  // namespace rl::trap
