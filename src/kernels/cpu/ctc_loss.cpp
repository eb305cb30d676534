#include "kernels/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/ctc_steps.h"
#include "kernels/cpu/scratch.h"

namespace rl::kernels {
namespace {

void run(const CtcStep<float>& step) { ctc_step_of_floats(step); }
void run(const CtcStep<double>& step) { ctc_step_of_doubles(step); }
void run(const CtcStates<float>& job) { ctc_states_of_floats(job); }
void run(const CtcStates<double>& job) { ctc_states_of_doubles(job); }
void finish_gradient(const float* x, float factor, float* to, int64_t n) {
  ctc_gradient_of_floats(x, factor, to, n);
}
void finish_gradient(const double* x, double factor, double* to, int64_t n) {
  ctc_gradient_of_doubles(x, factor, to, n);
}

template <class T> constexpr T none = -std::numeric_limits<T>::infinity();

// The states that alignments of one target go through: its labels with blanks around them, from
// the first to the last or, for what follows a step, from the last to the first.
template <class T> class Path {
 public:
  Path(const View& log_probs, int64_t batch, const int64_t* labels, int64_t label_step,
       int64_t count, int64_t blank, bool backward)
      : labels_(static_cast<size_t>(2 * count + 1), blank),
        skip_(labels_.size(), none<T>),
        emitted_(labels_.size()),
        probs_(log_probs.ptr<T>() + batch * log_probs.strides[1]),
        step_(log_probs.strides[0]),
        class_step_(log_probs.strides[2]) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t label =
          __atomic_load_n(&labels[(backward ? count - 1 - i : i) * label_step], __ATOMIC_RELAXED);
      check_index(0 <= label && label < log_probs.sizes[2], "ctc_loss: label ", label,
                  " is not one of the ", log_probs.sizes[2], " classes");
      labels_[static_cast<size_t>(2 * i + 1)] = label;
    }
    for (size_t s = 3; s < labels_.size(); s += 2)
      if (labels_[s] != labels_[s - 2] && labels_[s] != blank) skip_[s] = 0;
  }
  int64_t states() const { return static_cast<int64_t>(labels_.size()); }
  int64_t label(int64_t state) const { return labels_[static_cast<size_t>(state)]; }
  const T* emitted(int64_t step) {
    const T* probs = probs_ + step * step_;
    for (size_t s = 0; s < labels_.size(); ++s) emitted_[s] = probs[labels_[s] * class_step_];
    return emitted_.data();
  }
  // The states' probabilities at the first step of the path's direction.
  void begin(const T* emitted, T* to) const {
    for (int64_t s = 0; s < states(); ++s) to[s] = s < 2 ? emitted[s] : none<T>;
  }
  void follow(const T* before, const T* emitted, T* after) const {
    run(CtcStep<T>{before, skip_.data(), emitted, after, states()});
  }
  // That the path has ended: in its last label or the blank after it.
  T ended(const T* at) const {
    T a = at[states() - 1], b = states() > 1 ? at[states() - 2] : none<T>;
    T high = std::max(a, b);
    if (high == none<T>) return high;
    return high + static_cast<T>(std::log(std::exp(a - high) + std::exp(b - high)));
  }

 private:
  Scratch<int64_t> labels_;
  Scratch<T> skip_, emitted_;
  const T* probs_;
  int64_t step_, class_step_;
};

// Rows of logarithms begin behind two states that are never reached.
template <class T> T* alpha_row(const View& alpha, int64_t batch, int64_t step) {
  return alpha.ptr<T>() + batch * alpha.strides[0] + step * alpha.strides[1] + 2;
}
template <class T> class Row {
 public:
  explicit Row(int64_t states) : values_(static_cast<size_t>(states + 2), none<T>) {}
  T* data() { return values_.data() + 2; }

 private:
  Scratch<T> values_;
};

// Runs f(n) for each sample; `states` tells the work of one.
template <class F> void each_sample(const View& log_probs, int64_t states, F&& f) {
  int64_t work = 16 * log_probs.sizes[0] * states + log_probs.sizes[0] * log_probs.sizes[2] + 1;
  parallel_for(0, log_probs.sizes[1], std::max<int64_t>(1, default_grain / work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) f(n);
               });
}

template <class T>
void forward(const View& log_probs, const View& labels, const CtcLengths& lengths, const View& loss,
             const View& alpha) {
  int64_t most = alpha.sizes[2];
  each_sample(log_probs, most, [&](int64_t n) {
    int64_t steps = lengths.inputs[n], count = lengths.targets[n];
    Path<T> path(log_probs, n, labels.ptr<int64_t>() + n * labels.strides[0], labels.strides[1],
                 count, lengths.blank, false);
    T* to = loss.ptr<T>() + n * loss.strides[0];
    *to = count ? -none<T> : T(0);
    std::fill_n(alpha.ptr<T>() + n * alpha.strides[0], alpha.sizes[1] * most, none<T>);
    for (int64_t t = 0; t < steps; ++t) {
      T* row = alpha_row<T>(alpha, n, t);
      const T* emitted = path.emitted(t);
      if (t == 0) path.begin(emitted, row);
      else path.follow(alpha_row<T>(alpha, n, t - 1), emitted, row);
      if (t == steps - 1) *to = -path.ended(row);
    }
  });
}

template <class T>
void backward(const View& grad, const View& log_probs, const View& labels,
              const CtcLengths& lengths, const View& loss, const View& alpha, const View& out) {
  int64_t all_steps = log_probs.sizes[0], classes = log_probs.sizes[2];
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  each_sample(log_probs, 2 * alpha.sizes[2], [&](int64_t n) {
    T factor = grad.ptr<T>()[n * grad.strides[0]], lost = loss.ptr<T>()[n * loss.strides[0]];
    int64_t steps = factor == T(0) ? 0 : lengths.inputs[n];
    T* to = out.ptr<T>() + n * out.strides[1];
    for (int64_t t = 0; t < all_steps; ++t)
      std::fill_n(to + t * out.strides[0], classes, t < steps && lost == -none<T> ? nan : T(0));
    if (steps == 0) return;
    Path<T> path(log_probs, n, labels.ptr<int64_t>() + n * labels.strides[0], labels.strides[1],
                 lengths.targets[n], lengths.blank, true);
    int64_t states = path.states();
    Row<T> after(states), at(states);
    Scratch<T> reversed(static_cast<size_t>(states)), share(static_cast<size_t>(states));
    for (int64_t t = steps - 1; t >= 0; --t) {
      const T* emitted = path.emitted(t);
      if (t == steps - 1) path.begin(emitted, at.data());
      else path.follow(after.data(), emitted, at.data());
      std::swap(after, at);
      const T* row = alpha_row<T>(alpha, n, t);
      std::reverse_copy(row, row + states, reversed.begin());
      run(CtcStates<T>{reversed.data(), after.data(), emitted, lost, share.data(), states});
      T* g = to + t * out.strides[0];
      for (int64_t s = 0; s < states; ++s) g[path.label(s)] += share[static_cast<size_t>(s)];
      finish_gradient(log_probs.ptr<T>() + t * log_probs.strides[0] + n * log_probs.strides[1],
                      factor, g, classes);
    }
  });
}

void check_kind(const View& log_probs) {
  check_implemented(log_probs.dtype == DType::Float32 || log_probs.dtype == DType::Float64,
                    "ctc_loss: not implemented for dtype ", log_probs.dtype);
}

}  // namespace

void ctc_loss(const View& log_probs, const View& labels, const CtcLengths& lengths,
              const View& loss, const View& alpha) {
  check_kind(log_probs);
  if (log_probs.dtype == DType::Float32) forward<float>(log_probs, labels, lengths, loss, alpha);
  else forward<double>(log_probs, labels, lengths, loss, alpha);
}

void ctc_loss_backward(const View& grad, const View& log_probs, const View& labels,
                       const CtcLengths& lengths, const View& loss, const View& alpha,
                       const View& out) {
  check_kind(log_probs);
  if (log_probs.dtype == DType::Float32)
    backward<float>(grad, log_probs, labels, lengths, loss, alpha, out);
  else backward<double>(grad, log_probs, labels, lengths, loss, alpha, out);
}

}  // namespace rl::kernels
