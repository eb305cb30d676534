// Depthwise convolutions: each channel with a filter of its own. Bands of an image are brought into
// strips of channels, with zeros around, whatever order they lie in; a formula is evaluated on
// the way.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/conv_axes.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/depthwise.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

constexpr int64_t band_size = int64_t(1) << 17;  // elements, which stay in the second-level cache
constexpr int64_t least_formula = int64_t(1) << 20;  // elements of a formula that are not stored
constexpr int64_t fast_size = int64_t(1) << 13;     // elements, which stay in the first-level cache
constexpr int64_t largest_band = int64_t(1) << 22;  // of the least rows that there can be

// The source's places for whole rows, which are read from end to end.
Range columns_of(bool scatter, const Axis& a) {
  Range needed = source_of(scatter, a, {0, scatter ? a.large : a.small});
  return {std::min<int64_t>(needed.begin, 0), std::max(needed.end, scatter ? a.small : a.large)};
}

// A row of strip_width channels, whose pixels lie `plane` apart, to pixels of a strip: the last
// square of pixels lies over the one before where they fill no whole number of them.
void transpose_row(const float* from, int64_t plane, float* to, int64_t width) {
  int64_t rest = width % strip_width;
  transpose_floats(from, plane, to, strip_width, strip_width, width - rest);
  if (!rest) return;
  int64_t first = width - strip_width;
  transpose_floats(from + first, plane, to + first * strip_width, strip_width, strip_width,
                   strip_width);
}

// What is read: images in either order of memory, or a formula in channels_last order.
struct Source {
  const float* data;
  int64_t height, width, channels;
  bool last;
  const StripFormula* formula;

  // Rows [rows.begin, rows.end) of an image, that exist, to strips whose rows are `row` apart.
  void spread(int64_t image, Range rows, float* to, int64_t row, int64_t strip_step) const {
    int64_t line = width * channels;
    if (last) {
      int64_t most = formula ? std::max<int64_t>(1, 2048 / channels) : width;
      Buffer<float> evaluated(formula ? most * channels : 0);
      for (int64_t y = rows.begin; y < rows.end; ++y)
        for (int64_t x = 0; x < width; x += most) {
          int64_t at = (image * height + y) * line + x * channels, some = std::min(most, width - x);
          if (formula) formula->evaluate(at, some * channels, evaluated.data());
          spread_to_strips(formula ? evaluated.data() : data + at, some, channels,
                           to + (y - rows.begin) * row + x * strip_width, strip_step);
        }
      return;
    }
    int64_t pixels = rows.size() * width, plane = height * width;
    Buffer<float> strip(pixels * strip_width);
    for (int64_t c = 0; c < channels; c += strip_width, to += strip_step) {
      int64_t some = std::min(strip_width, channels - c);
      const float* from = data + (image * channels + c) * plane + rows.begin * width;
      if (some == strip_width && width >= strip_width) {
        for (int64_t y = 0; y < rows.size(); ++y)
          transpose_row(from + y * width, plane, to + y * row, width);
        continue;
      }
      if (some < strip_width) std::fill_n(strip.data(), pixels * strip_width, 0.0f);
      transpose_floats(from, plane, strip.data(), strip_width, some, pixels);
      for (int64_t y = 0; y < rows.size(); ++y)
        spread_to_strips(strip.data() + y * width * strip_width, width, strip_width, to + y * row,
                         strip_step);
    }
  }
};

std::optional<Source> source_of(const View& v, const Axis* axes, bool small,
                                const StripFormula* formula) {
  bool last = lies_channels_last(v);
  if (!last && (formula || !v.contiguous())) return std::nullopt;
  return Source{v.ptr<const float>(),
                small ? axes[0].small : axes[0].large,
                small ? axes[1].small : axes[1].large,
                v.sizes[1],
                last,
                formula};
}

// A band of an image in strips of channels, with zeros where the image has no pixels.
class Band {
 public:
  Band(int64_t strips, int64_t rows, Range columns)
      : strips_(strips),
        columns_(columns),
        step_(rows * row() + strip_width),
        memory_(strips * step_) {}

  void load(const Source& source, int64_t image, Range rows) {
    first_ = rows.begin;
    Range there{std::clamp<int64_t>(rows.begin, 0, source.height),
                std::clamp<int64_t>(rows.end, 0, source.height)};
    bool whole = columns_.begin == 0 && columns_.end == source.width;
    if (!whole || there.size() < rows.size())
      for (int64_t s = 0; s < strips_; ++s)
        for (int64_t y = rows.begin; y < rows.end; ++y) {
          bool inside = y >= there.begin && y < there.end;
          clear(s, y, {columns_.begin, inside ? 0 : columns_.end});
          if (inside) clear(s, y, {source.width, columns_.end});
        }
    if (there.size() > 0) source.spread(image, there, at(0, there.begin, 0), row(), step_);
  }
  float* at(int64_t strip, int64_t y, int64_t x) const {
    return memory_.data() + strip * step_ + (y - first_) * row() +
           (x - columns_.begin) * strip_width;
  }
  int64_t row() const { return columns_.size() * strip_width; }
  int64_t strip_step() const { return step_; }

 private:
  void clear(int64_t strip, int64_t y, Range x) const {
    if (x.size() > 0) std::fill_n(at(strip, y, x.begin), x.size() * strip_width, 0.0f);
  }
  int64_t strips_;
  Range columns_;
  int64_t step_, first_ = 0;
  Buffer<float> memory_;
};

// Filters (channels, taps) to strips of taps.
class Weights {
 public:
  Weights(const float* filters, int64_t channels, int64_t taps)
      : step_((taps + strip_width - 1) / strip_width * strip_width * strip_width),
        memory_((channels + strip_width - 1) / strip_width * step_) {
    Buffer<float> some(strip_width * taps + strip_width);  // taps are transposed in whole squares
    std::fill_n(some.data(), strip_width * taps + strip_width, 0.0f);
    for (int64_t c = 0; c < channels; c += strip_width) {
      int64_t count = std::min(strip_width, channels - c);
      std::copy_n(filters + c * taps, count * taps, some.data());
      transpose_floats(some.data(), taps, memory_.data() + c / strip_width * step_, strip_width,
                       strip_width, step_ / strip_width);
    }
  }
  const float* strip(int64_t s) const { return memory_.data() + s * step_; }
  int64_t strip_step() const { return step_; }

 private:
  int64_t step_;
  Buffer<float> memory_;
};

// How results are cut: by the sizes alone.
struct Bands {
  int64_t rows, count;  // rows of a result in each, bands in an image
  Bands(int64_t batch, int64_t height, int64_t row_size) {
    int64_t wanted = (height * row_size + band_size - 1) / band_size;
    if (batch * wanted < 4)
      wanted = std::max(wanted, std::min((4 + batch - 1) / batch, height / 7));
    rows = (height + wanted - 1) / wanted;
    count = (height + rows - 1) / rows;
  }
  Range of(int64_t i, int64_t height) const { return {i * rows, std::min(height, (i + 1) * rows)}; }
};

struct Depthwise {
  std::array<Axis, 2> axes;
  int64_t batch, channels, strips, taps;

  explicit Depthwise(const ConvProblem& p)
      : axes(axes_of<2>(p)),
        batch(p.batch),
        channels(p.channels),
        strips((p.channels + strip_width - 1) / strip_width),
        taps(axes[0].kernel * axes[1].kernel) {}

  int64_t row_size(int64_t columns) const { return columns * strips * strip_width; }
  void run_data(bool scatter, const Source& source, const float* filters, const float* bias,
                float* out) const;
  bool run_weight(const Source& large, const Source& small, float* filters) const;
};

void Depthwise::run_data(bool scatter, const Source& source, const float* filters,
                         const float* bias, float* out) const {
  const Axis &down = axes[0], &right = axes[1];
  int64_t height = scatter ? down.large : down.small, width = scatter ? right.large : right.small;
  Range columns = columns_of(scatter, right);
  Weights weights(filters, channels, taps);
  Bands bands(batch, height, row_size(columns.size()) * (scatter ? 1 : down.stride));
  int64_t most_rows = source_of(scatter, down, {0, bands.rows}).size() + 1;
  int64_t together = std::max<int64_t>(
      1, (fast_size / (columns.size() * strip_width) - down.reach()) / (scatter ? 1 : down.stride));
  std::vector<Lattice> across = lattices_of(scatter, right, {0, width});
  Buffer<float> whole_bias(bias ? strips * strip_width : 0);
  if (bias) {
    std::fill_n(whole_bias.data(), strips * strip_width, 0.0f);
    bias = std::copy_n(bias, channels, whole_bias.data()) - channels;
  }
  parallel_for(0, batch * bands.count, 1, [&](int64_t begin, int64_t end) {
    Band band(strips, most_rows, columns);
    std::vector<TapProduct::Tap> used;
    for (int64_t i = begin; i < end; ++i) {
      int64_t image = i / bands.count;
      Range rows = bands.of(i % bands.count, height);
      band.load(source, image, source_of(scatter, down, rows));
      for (const Lattice& y : lattices_of(scatter, down, rows))
        for (const Lattice& x : across) {
          used.clear();
          for (const Lattice::Tap& v : y.taps)
            for (const Lattice::Tap& h : x.taps)
              used.push_back({v.offset * band.row() + h.offset * strip_width,
                              (v.index * right.kernel + h.index) * strip_width});
          float* to = out + ((image * height + y.first) * width + x.first) * channels;
          tap_product({band.at(0, y.source, x.source), y.source_step * band.row(),
                       x.source_step * strip_width, band.strip_step(), used.data(),
                       static_cast<int64_t>(used.size()), weights.strip(0), weights.strip_step(),
                       bias, to, y.step * width * channels, x.step * channels, y.count, x.count,
                       channels, together});
        }
    }
  });
}

// Sums of bands, joined in one order.
bool Depthwise::run_weight(const Source& large, const Source& small, float* filters) const {
  const Axis &down = axes[0], &right = axes[1];
  Range columns = columns_of(false, right), own{0, right.small};
  Bands bands(batch, down.small, row_size(columns.size()) * down.stride);
  int64_t most_rows = source_of(false, down, {0, bands.rows}).size();
  int64_t pieces = batch * bands.count, parts = std::min<int64_t>(pieces, 32);
  int64_t size = strips * taps * strip_width;
  Buffer<float> sums(parts * size);
  std::fill_n(sums.data(), parts * size, 0.0f);
  parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    Band seen(strips, most_rows, columns), gradient(strips, bands.rows, own);
    std::vector<TapProduct::Tap> used;
    for (int64_t v = 0; v < down.kernel; ++v)
      for (int64_t h = 0; h < right.kernel; ++h)
        used.push_back({v * down.dilation * seen.row() + h * right.dilation * strip_width, 0});
    for (int64_t part = begin; part < end; ++part)
      for (int64_t i = part * pieces / parts; i < (part + 1) * pieces / parts; ++i) {
        Range rows = bands.of(i % bands.count, down.small), from = source_of(false, down, rows);
        seen.load(large, i / bands.count, from);
        gradient.load(small, i / bands.count, rows);
        for (int64_t s = 0; s < strips; ++s)
          tap_gradient({seen.at(s, from.begin, -right.padding), down.stride * seen.row(),
                        right.stride * strip_width, used.data(), taps,
                        gradient.at(s, rows.begin, 0), rows.size(), right.small,
                        sums.data() + part * size + s * taps * strip_width});
      }
  });
  bool finite = true;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < taps; ++t) {
      float sum = 0;
      for (int64_t part = 0; part < parts; ++part)
        sum += sums[part * size + (c / strip_width * taps + t) * strip_width + c % strip_width];
      finite = finite && std::isfinite(sum);
      filters[c * taps + t] = sum;
    }
  return finite;
}

bool suits(const ConvProblem& p) {
  return p.dims <= 2 && p.groups == p.channels && p.groups == p.filters && p.groups >= strip_width;
}

}  // namespace

bool depthwise_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                    const View& weight, const float* bias, const StripFormula* formula) {
  if (!suits(p)) return false;
  if (formula && large.numel < least_formula) return false;
  Depthwise d(p);
  bool scatter = op == ConvOp::Scatter;
  for (const Axis& a : d.axes)
    if (a.padding > a.reach()) return false;
  int64_t columns = columns_of(scatter, d.axes[1]).size();
  int64_t rows = source_of(scatter, d.axes[0], {0, 1}).size() + 1;
  if (columns > largest_band / rows / (d.channels + strip_width)) return false;
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) {
    if (op == ConvOp::Weight) plain.emplace(weight.shape(), DType::Float32);
    else plain.emplace(RowMajor::copy_of(weight, DType::Float32));
  }
  float* filters = plain ? plain->ptr<float>() : weight.ptr<float>();
  const View &from = scatter ? small : large, &to = scatter ? large : small;
  std::optional<Source> source = source_of(from, d.axes.data(), scatter, formula);
  if (!source) return false;
  if (op == ConvOp::Weight) {
    std::optional<Source> gradient = source_of(small, d.axes.data(), true, nullptr);
    if (bias || !gradient || !d.run_weight(*source, *gradient, filters)) return false;
    if (plain) copy(plain->view(), weight);
    return true;
  }
  // Zeros around an image stand for nothing: an infinite tap must not meet them.
  bool finite =
      std::all_of(filters, filters + weight.numel, [](float w) { return std::isfinite(w); });
  if (!finite || !lies_channels_last(to)) return false;
  d.run_data(scatter, *source, filters, bias, to.ptr<float>());
  return true;
}

}  // namespace rl::kernels
