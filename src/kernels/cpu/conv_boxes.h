// What convolutions by windows read: boxes of images, with zeros around.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/conv_axes.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/window_product.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {

constexpr int64_t box_elements = int64_t(1) << 16;   // which stay in the second-level cache
constexpr int64_t most_elements = int64_t(1) << 24;  // of the least box that there can be
constexpr double task_operations = 1e6;              // that pay for waking a thread

// Images of float32 or bfloat16 as three spatial dims, in plain order or channels_last; strides.
struct Images {
  const char* data;
  int64_t bytes;  // of an element
  int64_t size[3], step[3], image, channel;

  Images(const View& v, const void* at, bool last)
      : data(static_cast<const char*>(at)), bytes(itemsize(v.dtype)) {
    int64_t channels = v.sizes[1], missing = 5 - v.ndim, next = last ? channels : 1;
    for (int64_t d = 2; d >= 0; --d) {
      size[d] = d < missing ? 1 : v.sizes[2 + d - missing];
      step[d] = next;
      next *= size[d];
    }
    image = last ? next : next * channels;
    channel = last ? 1 : next;
  }
  const char* at(int64_t offset) const { return data + offset * bytes; }
  // The elements of some channels of `count` pixels, to pixels `step_bytes` apart.
  void copy_row(int64_t offset, int64_t count, int64_t channels, char* to,
                int64_t step_bytes) const {
    const char* from = at(offset);
    if (channel != 1)
      return transpose(bytes, from, channel * bytes, bytes, to, step_bytes, bytes, channels, count,
                       false);
    if (step[2] == channels && step_bytes == channels * bytes) {
      std::memcpy(to, from, static_cast<size_t>(count * step_bytes));
      return;
    }
    for (int64_t x = 0; x < count; ++x, from += step[2] * bytes, to += step_bytes)
      std::memcpy(to, from, static_cast<size_t>(channels * bytes));
  }
};

// Images where they lie, or a copy of them.
class ImagesOf {
 public:
  explicit ImagesOf(const View& v) {
    // Short lines of many channels are transposed more slowly than whole images.
    bool lines = v.sizes[1] < 16 || v.sizes[v.ndim - 1] >= 64;
    bool plain = v.contiguous() && !lies_channels_last(v) && lines;
    if (!plain) last_.emplace(v, true);
    images_.emplace(v, plain ? v.data : last_->data<void>(), !plain);
  }
  const Images& operator*() const { return *images_; }

 private:
  std::optional<ChannelsLast> last_;
  std::optional<Images> images_;
};

// Results [first, first + images) of a batch, and a range of each spatial dim.
struct Box {
  int64_t first, images;
  Range of[3];

  int64_t pixels() const { return images * of[0].size() * of[1].size() * of[2].size(); }
  // Whether boxes are as large, and in the same place of their images if asked.
  bool alike(const Box& b, bool place) const {
    bool same = images == b.images;
    for (int d = 0; d < 3; ++d)
      same = same && of[d].size() == b.of[d].size() && (!place || of[d].begin == b.of[d].begin);
    return same;
  }
};

struct Boxes {
  int64_t whole[4], size[4], parts[4], count = 1;

  void finish() {
    for (int d = 0; d < 4; ++d) {
      parts[d] = (whole[d] + size[d] - 1) / size[d];
      count *= parts[d];
    }
  }
  int64_t pixels() const { return size[0] * size[1] * size[2] * size[3]; }
  Box at(int64_t index) const {
    Range of[4];
    for (int d = 3; d >= 0; --d) {
      int64_t begin = index % parts[d] * size[d];
      of[d] = {begin, std::min(whole[d], begin + size[d])};
      index /= parts[d];
    }
    return {of[0].begin, of[0].size(), {of[1], of[2], of[3]}};
  }
};

// The source of a box in words of 4 bytes: a copy with zeros around, or where it lies, from the
// place on that the first results' first taps see. That may be outside of [begin, end), which is
// all that may be read, where there is no such tap.
struct Seen {
  const float *data, *begin, *end;
  int64_t image, step[3];
  Range of[3];
};

// What a problem is to a group of its channels: `outputs` made of `inputs` for each tap. Products
// are of words: of floats, or of pairs of bfloat16.
struct Windows {
  bool scatter, reduced, gradient;
  bool on_unit;  // whether the matrix unit multiplies, by finite weights
  std::array<Axis, 3> axes;
  int64_t batch, groups, inputs, outputs, taps = 1, words, pixel;
  // Whether zeros around an image may be multiplied: they stand for nothing, and an infinite tap
  // must not meet them. Else boxes are of one result.
  bool plain_boxes = true;
  // Dims in which results at the borders leave out the taps that see zeros; whether there are other
  // zeros, and whether there are any.
  bool split[3] = {false, false, false}, sees_zeros = false, has_zeros = false;

  // `gradient`: of the weight, whose words pair pixels of one channel, not channels of a pixel.
  Windows(ConvOp op, const ConvProblem& p, bool reduced_, bool on_unit_ = false)
      : scatter(op == ConvOp::Scatter),
        reduced(reduced_),
        gradient(op == ConvOp::Weight),
        on_unit(on_unit_),
        axes(axes_of<3>(p)),
        batch(p.batch),
        groups(p.groups),
        inputs((scatter ? p.filters : p.channels) / groups),
        outputs((scatter ? p.channels : p.filters) / groups) {
    for (const Axis& a : axes) taps *= a.kernel;
    words = reduced && !gradient ? (inputs + 1) / 2 : inputs;
    // A power of two from pixel to pixel would make cache lines displace each other; what is split
    // has an order of its own.
    bool splits = on_unit && !reduced && !gradient;
    pixel = words % 256 || splits ? words : words + 16;
    for (int d = 0; d < 3; ++d) {
      double share = zeros(d);
      // Beside few channels, zeros cost less than tiles that are not full; so do they on the unit.
      split[d] = !gradient && !on_unit && share > 0.02 && words >= 8;
      sees_zeros = sees_zeros || (share > 0 && !split[d]);
      has_zeros = has_zeros || share > 0;
    }
  }

  int64_t panels() const { return (outputs + panel_width - 1) / panel_width; }
  // Whether results are made by dot products, each of the taps that one result has.
  bool prefers_dots() const {
    int64_t seen = 1;
    for (const Axis& axis : axes)
      seen *= scatter ? (axis.kernel + axis.stride - 1) / axis.stride : axis.kernel;
    return kernels::prefers_dots(outputs, seen, words);
  }
  int64_t terms() const { return taps * words; }
  int64_t element_bytes() const { return reduced ? 2 : 4; }
  // Of a product: whose panel stays in the second-level cache. The matrix unit's sums are not put
  // down in between.
  int64_t terms_together() const { return on_unit ? max_numel : 2304; }
  int64_t result_size(int d) const {
    const Axis& a = axes[static_cast<size_t>(d)];
    return scatter ? a.large : a.small;
  }
  Range source(int d, Range of) const {
    return source_of(scatter, axes[static_cast<size_t>(d)], of);
  }
  int64_t elements(const int64_t* size) const {
    double n = static_cast<double>(pixel);
    for (int d = 0; d < 3; ++d) n *= static_cast<double>(source(d, {0, size[d]}).size());
    return static_cast<int64_t>(std::min(n, 1e18));
  }
  // Of all results: of as many elements and `more` for each, but no fewer than `least`.
  Boxes boxes(int64_t limit, int64_t more, int64_t least) const;
  Range whole_source(int d) const {
    const Axis& a = axes[static_cast<size_t>(d)];
    return {0, scatter ? a.small : a.large};
  }
  // The results of a lattice whose tap at `offset` sees something of the source.
  Range seeing(int d, const Lattice& l, int64_t offset) const {
    int64_t first = l.source + offset, size = whole_source(d).end;
    auto before = [&](int64_t place) {
      return std::clamp<int64_t>(-floor_divided(first - place, l.source_step), 0, l.count);
    };
    return {before(0), before(size)};
  }
  // Taps of a line that the matrix unit takes as one with more channels, beside each other as those
  // of pixels are: few would not fill its tiles.
  int64_t joined_taps() const {
    bool beside = axes[2].dilation == 1 && pixel == inputs;
    return on_unit && gradient && beside && inputs < panel_width ? axes[2].kernel : 1;
  }
  // Where tap `index` begins among the terms.
  int64_t place(int64_t index) const { return (scatter ? taps - 1 - index : index) * words; }

 private:
  // The share of what taps see along a dim that lies outside of the source.
  double zeros(int d) const {
    int64_t all = 0, seen = 0;
    for (const Lattice& l : lattices_of(scatter, axes[static_cast<size_t>(d)], {0, result_size(d)}))
      for (const Lattice::Tap& t : l.taps) all += l.count, seen += seeing(d, l, t.offset).size();
    return all ? 1 - static_cast<double>(seen) / static_cast<double>(all) : 0;
  }
};

inline Boxes Windows::boxes(int64_t limit, int64_t more, int64_t least) const {
  Boxes made;
  int64_t* size = made.size + 1;
  made.whole[0] = batch;
  made.size[0] = 1;
  for (int d = 0; d < 3; ++d) made.whole[1 + d] = size[d] = result_size(d);
  auto positions = [&] { return size[0] * size[1] * size[2]; };
  auto full = [&] { return elements(size) + more * positions() > limit; };
  if (!plain_boxes) size[0] = size[1] = size[2] = 1;
  for (int d = 0; d < 3; ++d) {
    int64_t unit = scatter ? axes[static_cast<size_t>(d)].stride : 1;
    while (size[d] > unit && full() && positions() >= 2 * least) size[d] = (size[d] + 1) / 2;
    int64_t parts = (made.whole[1 + d] + size[d] - 1) / size[d];
    size[d] = (made.whole[1 + d] + parts - 1) / parts;
    size[d] = std::min(made.whole[1 + d], (size[d] + unit - 1) / unit * unit);
  }
  bool all = true;
  for (int d = 0; d < 3; ++d) all = all && size[d] == made.whole[1 + d];
  if (all && plain_boxes) {
    int64_t fits = std::min(limit / (elements(size) + more * positions() + 1),
                            std::max<int64_t>(4 * least, 512) / positions());
    made.size[0] = std::clamp<int64_t>(fits, 1, batch);
    int64_t parts = (batch + made.size[0] - 1) / made.size[0];
    made.size[0] = (batch + parts - 1) / parts;
  }
  made.finish();
  return made;
}

// Buffers of a thread, and what is in them.
class Reader {
 public:
  Reader(const Windows& w, const Images& from, const Boxes& boxes)
      : w_(w), from_(from), here_(readable(w, from)) {
    int64_t size = boxes.size[0], line = 0;
    for (int d = 0; d < 3; ++d) {
      // Boxes of a transposed convolution may need one place more than the first.
      line = w.source(d, {0, boxes.size[1 + d]}).size() + w.scatter;
      size *= line;
    }
    if (!here_) memory_.emplace(size * w.pixel + panel_width);
    if (pairs_pixels()) line_.emplace((line + w.axes[2].stride) * w.inputs);
  }

  // Of the box of that number, which is read once if it is asked for again and again.
  const Seen& read(int64_t number, const Box& box, int64_t group) {
    int64_t key = number * w_.groups + group;
    if (key != held_) seen_ = read(box, group);
    held_ = key;
    return seen_;
  }

 private:
  Seen read(const Box& box, int64_t group) const {
    Seen seen;
    int64_t channel = group * w_.inputs;
    if (here_) {
      int64_t word = w_.reduced ? 2 : 1, first = box.first * from_.image + channel;
      for (int d = 0; d < 3; ++d) {
        seen.of[d] = w_.source(d, box.of[d]);
        seen.step[d] = from_.step[d] / word;
        first += seen.of[d].begin * from_.step[d];
      }
      seen.begin = reinterpret_cast<const float*>(from_.data);
      seen.data = seen.begin + first / word;
      seen.image = from_.image / word;
      seen.end = seen.begin + w_.batch * seen.image;
      return seen;
    }
    int64_t next = w_.pixel;
    for (int d = 2; d >= 0; --d) {
      seen.of[d] = w_.source(d, box.of[d]);
      seen.step[d] = next;
      next *= seen.of[d].size();
    }
    seen.data = seen.begin = memory_->data(), seen.image = next;
    seen.end = seen.begin + box.images * next;
    for (int64_t i = 0; i < box.images; ++i)
      fill(seen, (box.first + i) * from_.image + channel * from_.channel,
           memory_->data() + i * next);
    return seen;
  }
  bool pairs_pixels() const { return w_.reduced && w_.gradient; }
  // Whether the source may be read where it lies: pairs need whole words.
  static bool readable(const Windows& w, const Images& from) {
    bool words = !w.gradient && w.inputs % 2 == 0 && from.step[2] % 2 == 0 &&
                 reinterpret_cast<uintptr_t>(from.data) % 4 == 0;
    if (from.channel != 1 || w.sees_zeros || (w.reduced && !words)) return false;
    // A copy of many channels takes little time, and a power of two from pixel to pixel more.
    return !w.has_zeros || w.words <= 64 || from.step[2] % 256;
  }
  void fill(const Seen& seen, int64_t first, float* to) const {
    const Range* of = seen.of;
    for (int64_t z = of[0].begin; z < of[0].end; ++z)
      for (int64_t y = of[1].begin; y < of[1].end; ++y, to += seen.step[1]) {
        bool inside = z >= 0 && z < from_.size[0] && y >= 0 && y < from_.size[1];
        int64_t line = first + z * from_.step[0] + y * from_.step[1];
        if (!inside) std::fill_n(to, seen.step[1], 0.0f);
        else if (pairs_pixels()) fill_pairs(line, of[2], to);
        else fill_line(line, of[2], of[2], reinterpret_cast<char*>(to), w_.pixel * 4);
      }
  }
  // Pixels `of` of a line, of which those that the source has within `given` are not zeros.
  void fill_line(int64_t line, Range of, Range given, char* to, int64_t pixel) const {
    Range there{std::clamp<int64_t>(given.begin, 0, from_.size[2]),
                std::clamp<int64_t>(given.end, 0, from_.size[2])};
    bool part = w_.inputs * from_.bytes % 4 && !w_.gradient;  // half of the last word
    if (there.size() <= 0 || part) {
      std::memset(to, 0, static_cast<size_t>(of.size() * pixel));
      if (there.size() <= 0) return;
    }
    int64_t before = (there.begin - of.begin) * pixel, after = (there.end - of.begin) * pixel;
    std::memset(to, 0, static_cast<size_t>(before));
    from_.copy_row(line + there.begin * from_.step[2], there.size(), w_.inputs, to + before, pixel);
    std::memset(to + after, 0, static_cast<size_t>(of.size() * pixel - after));
  }
  // Each pixel with the one that the next result sees.
  void fill_pairs(int64_t line, Range of, float* to) const {
    int64_t next = w_.axes[2].stride, n = w_.inputs;
    fill_line(line, {of.begin, of.end + next}, of, reinterpret_cast<char*>(line_->data()), n * 2);
    group_up({DType::Int16, line_->data(), of.size(), n, n, 1, next * n, 2, 2, 0,
              reinterpret_cast<uint32_t*>(to), w_.pixel});
  }

  const Windows& w_;
  const Images& from_;
  bool here_;
  int64_t held_ = -1;
  Seen seen_{};
  std::optional<Buffer<float>> memory_;
  std::optional<Buffer<uint16_t>> line_;
};

// Calls f(lattices) for each combination of a box's lattices.
template <class F> void for_lattices(const Windows& w, const Box& box, F f) {
  std::vector<Lattice> of[3];
  for (size_t d = 0; d < 3; ++d) of[d] = lattices_of(w.scatter, w.axes[d], box.of[d]);
  for (const Lattice& z : of[0])
    for (const Lattice& y : of[1])
      for (const Lattice& x : of[2]) f({&z, &y, &x});
}

inline double operations_of(const ConvProblem& p) {
  double n =
      2.0 * static_cast<double>(p.batch * p.filters) * static_cast<double>(p.channels / p.groups);
  for (int i = 0; i < p.dims; ++i)
    n *= static_cast<double>(p.small[i]) * static_cast<double>(p.kernel[i]);
  return n;
}

// Into how many parts a group's panels are cut, where there are too few boxes for threads.
inline int64_t parts_of(int64_t tasks, int64_t panels, double operations) {
  int64_t wanted = std::min<int64_t>(8, static_cast<int64_t>(operations / task_operations));
  return std::clamp<int64_t>((wanted + tasks - 1) / tasks, 1, panels);
}

inline int64_t grain_of(int64_t tasks, double operations) {
  double each = operations / static_cast<double>(tasks);
  return std::max<int64_t>(1, static_cast<int64_t>(task_operations / std::max(each, 1.0)));
}

// The gradient of a weight, whose elements are floats and contiguous.
bool window_gradient(const Windows& w, const ConvProblem& p, const View& large, const View& small,
                     float* weight);

}  // namespace rl::kernels
