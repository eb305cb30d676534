// Convolutions of single planes, or of a few at a time: blurs, edges, structural similarity.
// Vectors go along the rows of a band of padded planes, which all taps see in place.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/plane_product.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/strip.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

constexpr int64_t least_width = 16;     // of the result's rows
constexpr int64_t band_floats = 16384;  // of a padded band, which stays in the second-level cache
constexpr int64_t band_width = 8192;    // of its rows, at most, without what surrounds them
constexpr int64_t most_parts = 32;      // of the sums for filters
constexpr int64_t size = sizeof(float);

// Some planes of an image, of up to two dims.
struct Planes {
  char* data;
  int64_t height, width, plane_step, row_step, column_step;  // steps in bytes

  Planes(const View& v, int64_t image, int64_t first)
      : height(v.ndim > 3 ? v.sizes[2] : 1),
        width(v.sizes[v.ndim - 1]),
        plane_step(v.strides[1] * size),
        row_step(v.ndim > 3 ? v.strides[2] * size : 0),
        column_step(v.strides[v.ndim - 1] * size) {
    data = v.ptr<char>() + image * v.strides[0] * size + first * plane_step;
  }
  char* at(int64_t plane, int64_t row, int64_t column) const {
    return data + plane * plane_step + row * row_step + column * column_step;
  }
};

// The planes that are read by the taps of a group's filters, and those that lie beside the result
// of each: Gather reads the large tensor, Scatter the small one with the filters turned round.
class PlaneConv {
 public:
  PlaneConv(ConvOp op, const ConvProblem& p, const View& large, const View& small)
      : scatter_(op == ConvOp::Scatter),
        p_(p),
        source_(scatter_ ? small : large),
        other_(scatter_ ? large : small),
        sources_((scatter_ ? p.filters : p.channels) / p.groups),
        others_((scatter_ ? p.channels : p.filters) / p.groups) {
    for (int axis : {0, 1}) {  // rows and columns
      const int d = p.dims - 2 + axis;
      kernel_[axis] = d < 0 ? 1 : p.kernel[d];
      dilation_[axis] = d < 0 ? 1 : p.dilation[d];
      reach_[axis] = (kernel_[axis] - 1) * dilation_[axis];
      const int64_t padding = d < 0 ? 0 : p.padding[d];
      before_[axis] = scatter_ ? reach_[axis] - padding : padding;
    }
    const Planes result(other_, 0, 0);
    height_ = result.height;
    width_ = result.width;
    columns_ = std::min(width_, band_width);
    pitch_ = columns_ + reach_[1] + plane_slack;
    rows_ = std::min(height_, std::max<int64_t>(8, band_floats / (pitch_ * sources_) - reach_[0]));
    plane_ = (rows_ + reach_[0]) * pitch_;
    bands_ = (height_ + rows_ - 1) / rows_;
    pieces_ = (width_ + columns_ - 1) / columns_;
    for (int64_t s = 0; s < sources_; ++s)
      for (int64_t y = 0; y < kernel_[0]; ++y)
        for (int64_t k = 0; k < kernel_[1]; ++k)
          offsets_.push_back(s * plane_ + y * dilation_[0] * pitch_ + k * dilation_[1]);
  }

  // False if a tap is not finite, which must not meet the zeros around a plane.
  bool run_data(const View& weight, const float* bias) {
    const Scratch<float> weights = ordered(weight);
    if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); }))
      return false;
    parallel_for(0, units(), grain(), [&](int64_t begin, int64_t end) {
      Scratch<float> band = empty_band(), rows(static_cast<size_t>(rows_ * columns_));
      for (int64_t u = begin; u < end; ++u) {
        const Unit unit(*this, u);
        fill(unit, band.data());
        const Planes to(other_, unit.image, unit.group * others_);
        const bool dense = to.column_step == size;
        for (int64_t r = 0; r < others_; ++r) {
          const int64_t at = unit.group * others_ + r;
          char* first = to.at(r, unit.row, unit.column);
          plane_product(rows_of(unit, band.data(), dense ? to.row_step / size : columns_),
                        weights.data() + at * taps(), bias ? bias[at] : 0,
                        dense ? reinterpret_cast<float*>(first) : rows.data());
          if (!dense)
            copy_panel(size, reinterpret_cast<char*>(rows.data()), columns_ * size, size, first,
                       to.row_step, to.column_step, unit.rows, unit.columns);
        }
      }
    });
    return true;
  }

  // False if a sum is not finite: zeros around a plane may have met an infinity.
  bool run_weight(const View& weight) {
    const int64_t all = p_.filters * taps(), parts = std::min(units(), most_parts);
    Scratch<double> sums(static_cast<size_t>(parts * all), 0.0);
    parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      const int64_t pitch = columns_ + plane_slack;
      Scratch<float> band = empty_band(), grad(static_cast<size_t>(rows_ * pitch));
      for (int64_t part = begin; part < end; ++part)
        for (int64_t u = part; u < units(); u += parts) {
          const Unit unit(*this, u);
          fill(unit, band.data());
          const Planes from(other_, unit.image, unit.group * others_);
          for (int64_t r = 0; r < others_; ++r) {
            copy_panel(size, from.at(r, unit.row, unit.column), from.row_step, from.column_step,
                       reinterpret_cast<char*>(grad.data()), pitch * size, size, unit.rows,
                       unit.columns);
            for (int64_t y = 0; y < unit.rows; ++y)
              std::fill_n(grad.data() + y * pitch + unit.columns, plane_slack, 0.0f);
            plane_dots(rows_of(unit, band.data(), pitch), grad.data(),
                       sums.data() + part * all + (unit.group * others_ + r) * taps());
          }
        }
    });
    RowMajor total(weight.shape(), DType::Float32);
    for (int64_t i = 0; i < all; ++i) {
      double sum = 0;
      for (int64_t part = 0; part < parts; ++part) sum += sums[static_cast<size_t>(part * all + i)];
      total.ptr<float>()[i] = static_cast<float>(sum);
      if (!std::isfinite(sum)) return false;
    }
    copy(total.view(), weight);
    return true;
  }

 private:
  // A band of rows, or a piece of it, of the planes of one group of one image.
  struct Unit {
    int64_t image, group, row, column, rows, columns;
    Unit(const PlaneConv& c, int64_t u)
        : image(u / (c.pieces_ * c.bands_ * c.p_.groups)),
          group(u / (c.pieces_ * c.bands_) % c.p_.groups),
          row(u / c.pieces_ % c.bands_ * c.rows_),
          column(u % c.pieces_ * c.columns_),
          rows(std::min(c.rows_, c.height_ - row)),
          columns(std::min(c.columns_, c.width_ - column)) {}
  };

  int64_t taps() const { return static_cast<int64_t>(offsets_.size()); }
  int64_t units() const { return p_.batch * p_.groups * bands_ * pieces_; }
  int64_t grain() const { return 1 + default_grain / (rows_ * columns_ * taps()); }
  Scratch<float> empty_band() const {
    return Scratch<float>(static_cast<size_t>(sources_ * plane_ + plane_slack), 0.0f);
  }
  PlaneRows rows_of(const Unit& unit, const float* band, int64_t step) const {
    return {band, pitch_, offsets_.data(), taps(), unit.rows, unit.columns, step};
  }

  // The band's rows, with zeros for what surrounds the planes.
  void fill(const Unit& unit, float* band) const {
    const Planes from(source_, unit.image, unit.group * sources_);
    const int64_t rows = unit.rows + reach_[0], columns = unit.columns + reach_[1];
    const int64_t top = unit.row - before_[0], first = unit.column - before_[1];
    const int64_t begin = std::clamp<int64_t>(-top, 0, rows);
    const int64_t end = std::clamp<int64_t>(from.height - top, begin, rows);
    const int64_t left = std::clamp<int64_t>(-first, 0, columns);
    const int64_t right = std::clamp<int64_t>(from.width - first, left, columns);
    for (int64_t s = 0; s < sources_; ++s) {
      float* to = band + s * plane_;
      for (int64_t y = 0; y < rows; ++y) {
        float* row = to + y * pitch_;
        const bool inside = y >= begin && y < end;
        std::fill(row, row + (inside ? left : pitch_), 0.0f);
        std::fill(row + (inside ? right : pitch_), row + pitch_, 0.0f);
      }
      if (right > left)
        copy_panel(size, from.at(s, top + begin, first + left), from.row_step, from.column_step,
                   reinterpret_cast<char*>(to + begin * pitch_ + left), pitch_ * size, size,
                   end - begin, right - left);
    }
  }

  // The filters in the order of the taps, of each plane of the result one after the other.
  Scratch<float> ordered(const View& weight) const {
    Scratch<float> weights(static_cast<size_t>(p_.groups * others_ * taps()));
    const float* w = weight.ptr<float>();
    const int64_t *step = weight.strides, x = weight.ndim - 1;
    float* to = weights.data();
    for (int64_t g = 0; g < p_.groups; ++g)
      for (int64_t r = 0; r < others_; ++r)
        for (int64_t s = 0; s < sources_; ++s) {
          const int64_t filter = scatter_ ? g * sources_ + s : g * others_ + r;
          const float* plane = w + filter * step[0] + (scatter_ ? r : s) * step[1];
          for (int64_t y = 0; y < kernel_[0]; ++y)
            for (int64_t k = 0; k < kernel_[1]; ++k) {
              const int64_t row = scatter_ ? kernel_[0] - 1 - y : y;
              const int64_t column = scatter_ ? kernel_[1] - 1 - k : k;
              *to++ = plane[(weight.ndim > 3 ? row * step[2] : 0) + column * step[x]];
            }
        }
    return weights;
  }

  bool scatter_;
  const ConvProblem& p_;
  const View &source_, &other_;
  int64_t sources_, others_;  // planes of a group
  int64_t kernel_[2], dilation_[2], before_[2], reach_[2];
  int64_t height_, width_, rows_, columns_, pitch_, plane_, bands_, pieces_;
  std::vector<int64_t> offsets_;
};

}  // namespace

bool suits_planes(ConvOp op, const ConvProblem& p) {
  constexpr int64_t few = 4;
  if (p.dims > 2 || p.channels > few * p.groups || p.filters > few * p.groups) return false;
  const bool scatter = op == ConvOp::Scatter;
  for (int d = 0; d < p.dims; ++d)
    if (p.stride[d] != 1 || (scatter && p.padding[d] > (p.kernel[d] - 1) * p.dilation[d]))
      return false;
  return (scatter ? p.large : p.small)[p.dims - 1] >= least_width;
}

bool plane_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                const View& weight, const float* bias) {
  if (!suits_planes(op, p)) return false;
  PlaneConv conv(op, p, large, small);
  return op == ConvOp::Weight ? conv.run_weight(weight) : conv.run_data(weight, bias);
}

}  // namespace rl::kernels
