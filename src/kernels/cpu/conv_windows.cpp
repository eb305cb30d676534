// Convolutions of any geometry as matrix products that read windows of images where they lie, in
// boxes with zeros around them.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/conv_axes.h"
#include "kernels/cpu/magnitude_bits.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/window_product.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

using Span = WindowProduct::Span;

constexpr int64_t box_elements = int64_t(1) << 16;   // which stay in the second-level cache
constexpr int64_t most_elements = int64_t(1) << 24;  // of the least box that there can be
constexpr int64_t block_terms = 384;                 // whose panel stays in the first-level cache
constexpr int64_t gradient_terms = 128;              // the same of pixels of a gradient
constexpr int64_t part_rows = 256;                   // the same of sums of a gradient
constexpr double task_operations = 1e6;              // that pay for waking a thread

// Images as three spatial dims, in plain order or channels_last; strides.
struct Images {
  const float* data;
  int64_t size[3], step[3], image, channel;

  Images(const View& v, const float* at, bool last) : data(at) {
    int64_t channels = v.sizes[1], missing = 5 - v.ndim, next = last ? channels : 1;
    for (int64_t d = 2; d >= 0; --d) {
      size[d] = d < missing ? 1 : v.sizes[2 + d - missing];
      step[d] = next;
      next *= size[d];
    }
    image = last ? next : next * channels;
    channel = last ? 1 : next;
  }
};

// Results [first, first + images) of a batch, and a range of each spatial dim.
struct Box {
  int64_t first, images;
  Range of[3];
};

struct Boxes {
  int64_t whole[4], size[4], parts[4], count = 1;

  void finish() {
    for (int d = 0; d < 4; ++d) {
      parts[d] = (whole[d] + size[d] - 1) / size[d];
      count *= parts[d];
    }
  }
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

// The source of a box: a copy with zeros around, or where it lies.
struct Seen {
  const float* data;
  int64_t image, step[3];
  Range of[3];
};

// What a problem is to a group of its channels: `outputs` made of `inputs` for each tap.
struct Windows {
  bool scatter;
  std::array<Axis, 3> axes;
  int64_t batch, groups, inputs, outputs, taps = 1, pixel;
  // Whether zeros around an image may be multiplied: they stand for nothing, and an infinite tap
  // must not meet them. Else boxes are of one result.
  bool plain_boxes = true;

  Windows(bool scatter_, const ConvProblem& p)
      : scatter(scatter_),
        axes(axes_of<3>(p)),
        batch(p.batch),
        groups(p.groups),
        inputs((scatter ? p.filters : p.channels) / groups),
        outputs((scatter ? p.channels : p.filters) / groups) {
    for (const Axis& a : axes) taps *= a.kernel;
    // A power of two from pixel to pixel would make cache lines displace each other.
    pixel = inputs % 256 ? inputs : inputs + 16;
  }

  int64_t panels() const { return (outputs + panel_width - 1) / panel_width; }
  int64_t terms() const { return taps * inputs; }
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
  // Where tap `index` begins among the terms.
  int64_t place(int64_t index) const { return (scatter ? taps - 1 - index : index) * inputs; }
};

Boxes Windows::boxes(int64_t limit, int64_t more, int64_t least) const {
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

// A row of `count` pixels, some of whose channels are copied.
void copy_row(const Images& from, const float* data, int64_t count, int64_t channels, float* to,
              int64_t pixel) {
  if (from.channel != 1) return transpose_floats(data, from.channel, to, pixel, channels, count);
  if (from.step[2] == channels && pixel == channels) {
    std::memcpy(to, data, static_cast<size_t>(count * channels) * 4);
    return;
  }
  for (int64_t x = 0; x < count; ++x, data += from.step[2], to += pixel)
    std::memcpy(to, data, static_cast<size_t>(channels) * 4);
}

// Buffers of a thread, and what is in them.
class Reader {
 public:
  Reader(const Windows& w, const Images& from, const Boxes& boxes)
      : w_(w), from_(from), here_(from.channel == 1) {
    int64_t size = boxes.size[0];
    for (int d = 0; d < 3; ++d) {
      const Axis& a = w.axes[static_cast<size_t>(d)];
      Range all = w.source(d, {0, w.result_size(d)});
      here_ = here_ && a.padding == 0 && all.begin >= 0 && all.end <= w.whole_source(d).end;
      // Boxes of a transposed convolution may need one place more than the first.
      size *= w.source(d, {0, boxes.size[1 + d]}).size() + w.scatter;
    }
    if (!here_) memory_.emplace(size * w.pixel + panel_width);
  }

  Seen read(const Box& box, int64_t group) {
    Seen seen;
    int64_t channel = group * w_.inputs;
    if (here_) {
      seen = {from_.data + box.first * from_.image + channel, from_.image, {}, {}};
      for (int d = 0; d < 3; ++d) seen.step[d] = from_.step[d], seen.of[d] = w_.whole_source(d);
      return seen;
    }
    int64_t next = w_.pixel;
    for (int d = 2; d >= 0; --d) {
      seen.of[d] = w_.source(d, box.of[d]);
      seen.step[d] = next;
      next *= seen.of[d].size();
    }
    seen.data = memory_->data(), seen.image = next;
    for (int64_t i = 0; i < box.images; ++i)
      fill(seen, (box.first + i) * from_.image + channel * from_.channel,
           memory_->data() + i * next);
    return seen;
  }

 private:
  void fill(const Seen& seen, int64_t first, float* to) const {
    const Range *of = seen.of, there{std::clamp<int64_t>(of[2].begin, 0, from_.size[2]),
                                     std::clamp<int64_t>(of[2].end, 0, from_.size[2])};
    for (int64_t z = of[0].begin; z < of[0].end; ++z)
      for (int64_t y = of[1].begin; y < of[1].end; ++y, to += seen.step[1]) {
        if (z < 0 || z >= from_.size[0] || y < 0 || y >= from_.size[1] || there.size() <= 0) {
          std::fill_n(to, seen.step[1], 0.0f);
          continue;
        }
        std::fill_n(to, (there.begin - of[2].begin) * w_.pixel, 0.0f);
        copy_row(from_,
                 from_.data + first + z * from_.step[0] + y * from_.step[1] +
                     there.begin * from_.step[2],
                 there.size(), w_.inputs, to + (there.begin - of[2].begin) * w_.pixel, w_.pixel);
        std::fill_n(to + (there.end - of[2].begin) * w_.pixel, (of[2].end - there.end) * w_.pixel,
                    0.0f);
      }
  }

  const Windows& w_;
  const Images& from_;
  bool here_;
  std::optional<Buffer<float>> memory_;
};

// The taps that see something of the source, in spans; those beside each other are one.
void add_span(std::vector<Span>& spans, const Span& span) {
  if (!spans.empty()) {
    Span& last = spans.back();
    if (last.offset + last.terms == span.offset && last.row + last.terms == span.row) {
      last.terms += span.terms;
      return;
    }
  }
  spans.push_back(span);
}

std::vector<Span> spans_of(const Windows& w, const Seen& seen, const Lattice* const (&at)[3]) {
  std::vector<Span> spans;
  auto sees = [&](int d, const Lattice::Tap& tap) {
    int64_t first = at[d]->source + tap.offset;
    return first < w.whole_source(d).end && first + (at[d]->count - 1) * at[d]->source_step >= 0;
  };
  auto for_taps = [&](int d, auto f) {
    size_t n = at[d]->taps.size();
    for (size_t i = 0; i < n; ++i) {
      const Lattice::Tap& tap = at[d]->taps[w.scatter ? n - 1 - i : i];
      if (sees(d, tap)) f(tap);
    }
  };
  for_taps(0, [&](const Lattice::Tap& z) {
    for_taps(1, [&](const Lattice::Tap& y) {
      for_taps(2, [&](const Lattice::Tap& x) {
        int64_t index = (z.index * w.axes[1].kernel + y.index) * w.axes[2].kernel + x.index;
        int64_t offset =
            z.offset * seen.step[0] + y.offset * seen.step[1] + x.offset * seen.step[2];
        add_span(spans, {offset, w.place(index), w.inputs});
      });
    });
  });
  return spans;
}

// Spans cut into blocks of at most so many terms; `step` from term to term.
struct Blocks {
  std::vector<Span> spans;
  std::vector<int64_t> ends;

  Blocks(const std::vector<Span>& given, int64_t most, int64_t step) {
    int64_t used = 0;
    for (const Span& s : given) {
      int64_t parts = (s.terms + most - 1) / most;
      for (int64_t i = 0; i < parts; ++i) {
        int64_t begin = s.terms * i / parts, n = s.terms * (i + 1) / parts - begin;
        if (used + n > most) {
          ends.push_back(static_cast<int64_t>(spans.size()));
          used = 0;
        }
        spans.push_back({s.offset + begin * step, s.row + begin, n});
        used += n;
      }
    }
    ends.push_back(static_cast<int64_t>(spans.size()));
  }
};

// Where the results of a box's lattices begin in the source, and where they go.
struct Places {
  std::vector<int64_t> from, to;
};

// `channels` of all groups lie together in a pixel of the result.
Places places_of(const Windows& w, const Box& box, const Seen& seen, const Lattice* const (&at)[3],
                 int64_t channels) {
  Places places;
  auto source = [&](int d, int64_t i) {
    return (at[d]->source + i * at[d]->source_step - seen.of[d].begin) * seen.step[d];
  };
  auto result = [&](int d, int64_t i) { return at[d]->first + i * at[d]->step; };
  for (int64_t n = 0; n < box.images; ++n)
    for (int64_t z = 0; z < at[0]->count; ++z)
      for (int64_t y = 0; y < at[1]->count; ++y) {
        int64_t from = n * seen.image + source(0, z) + source(1, y);
        int64_t line = ((box.first + n) * w.result_size(0) + result(0, z)) * w.result_size(1);
        line = (line + result(1, y)) * w.result_size(2);
        for (int64_t x = 0; x < at[2]->count; ++x) {
          places.from.push_back(from + source(2, x));
          places.to.push_back((line + result(2, x)) * channels);
        }
      }
  return places;
}

// Filters as panels of outputs, each term a row.
class PackedFilters {
 public:
  PackedFilters(const Windows& w, const float* weight)
      : w_(w), panel_(w.terms() * panel_width), memory_(w.groups * w.panels() * panel_) {
    parallel_for(0, w.groups * w.panels(), 1 + default_grain / panel_,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     w.scatter ? pack_channels(weight, i) : pack_filters(weight, i);
                 });
  }
  const float* panel(int64_t group, int64_t i) const {
    return memory_.data() + (group * w_.panels() + i) * panel_;
  }

 private:
  float* row(int64_t panel, int64_t tap, int64_t input) const {
    return memory_.data() + panel * panel_ + (w_.place(tap) + input) * panel_width;
  }
  // Rows of 32 floats, one for each tap of each input.
  void put(const float* rows, int64_t panel, int64_t input, int64_t inputs) const {
    for (int64_t c = 0; c < inputs; ++c)
      for (int64_t t = 0; t < w_.taps; ++t, rows += panel_width)
        std::memcpy(row(panel, t, input + c), rows, panel_width * 4);
  }
  // A weight (outputs, inputs, taps).
  void pack_filters(const float* weight, int64_t panel) const {
    int64_t first = panel % w_.panels() * panel_width, terms = w_.terms();
    int64_t count = std::min(panel_width, w_.outputs - first);
    constexpr int64_t together = 16;  // inputs: whole squares of a transposition
    Buffer<float> rows(together * w_.taps * panel_width);
    if (count < panel_width) std::fill_n(rows.data(), together * w_.taps * panel_width, 0.0f);
    weight += (panel / w_.panels() * w_.outputs + first) * terms;
    for (int64_t c = 0; c < w_.inputs; c += together) {
      int64_t n = std::min(together, w_.inputs - c);
      transpose_floats(weight + c * w_.taps, terms, rows.data(), panel_width, count, n * w_.taps);
      put(rows.data(), panel, c, n);
    }
  }
  // A weight (inputs, outputs, taps).
  void pack_channels(const float* weight, int64_t panel) const {
    int64_t first = panel % w_.panels() * panel_width, filter = w_.outputs * w_.taps;
    int64_t count = std::min(panel_width, w_.outputs - first);
    // In whole squares of a transposition: some more taps than there are.
    int64_t columns = (w_.taps + 15) / 16 * 16;
    Buffer<float> near(panel_width * w_.taps + columns), rows(columns * panel_width);
    std::fill_n(near.data(), panel_width * w_.taps + columns, 0.0f);
    weight += panel / w_.panels() * w_.inputs * filter + first * w_.taps;
    for (int64_t i = 0; i < w_.inputs; ++i) {
      std::memcpy(near.data(), weight + i * filter, static_cast<size_t>(count * w_.taps) * 4);
      transpose_floats(near.data(), w_.taps, rows.data(), panel_width, panel_width, columns);
      put(rows.data(), panel, i, 1);
    }
  }

  const Windows& w_;
  int64_t panel_;
  Buffer<float> memory_;
};

// Calls f(lattices) for each combination of a box's lattices.
template <class F> void for_lattices(const Windows& w, const Box& box, F f) {
  std::vector<Lattice> of[3];
  for (size_t d = 0; d < 3; ++d) of[d] = lattices_of(w.scatter, w.axes[d], box.of[d]);
  for (const Lattice& z : of[0])
    for (const Lattice& y : of[1])
      for (const Lattice& x : of[2]) f({&z, &y, &x});
}

// The results of a box: panels [first, last) of a group.
void multiply_box(const Windows& w, const Box& box, const Seen& seen, const PackedFilters& filters,
                  int64_t group, Range panels, const float* bias, float* out) {
  for_lattices(w, box, [&](const Lattice* const(&at)[3]) {
    Places places = places_of(w, box, seen, at, w.outputs * w.groups);
    Blocks blocks(spans_of(w, seen, at), block_terms, 1);
    for (int64_t i = panels.begin; i < panels.end; ++i) {
      int64_t channel = group * w.outputs + i * panel_width, begin = 0;
      for (int64_t end : blocks.ends) {
        WindowProduct product{seen.data,
                              places.from.data(),
                              static_cast<int64_t>(places.from.size()),
                              1,
                              blocks.spans.data() + begin,
                              end - begin,
                              filters.panel(group, i),
                              out + channel,
                              places.to.data(),
                              std::min(panel_width, w.outputs - i * panel_width)};
        product.add = begin > 0;
        if (bias && !product.add) product.bias = bias + channel;
        window_product(product);
        begin = end;
      }
    }
  });
}

double operations_of(const ConvProblem& p) {
  double n =
      2.0 * static_cast<double>(p.batch * p.filters) * static_cast<double>(p.channels / p.groups);
  for (int i = 0; i < p.dims; ++i)
    n *= static_cast<double>(p.small[i]) * static_cast<double>(p.kernel[i]);
  return n;
}

// Into how many parts a group's panels are cut, where there are too few boxes for threads.
int64_t parts_of(int64_t tasks, int64_t panels, double operations) {
  int64_t wanted = std::min<int64_t>(8, static_cast<int64_t>(operations / task_operations));
  return std::clamp<int64_t>((wanted + tasks - 1) / tasks, 1, panels);
}

int64_t grain_of(int64_t tasks, double operations) {
  double each = operations / static_cast<double>(tasks);
  return std::max<int64_t>(1, static_cast<int64_t>(task_operations / std::max(each, 1.0)));
}

bool all_finite(const float* x, int64_t n) {
  uint32_t largest = 0;
  largest_bits_of_32(reinterpret_cast<const uint32_t*>(x), n, &largest);
  return largest < 0x7f800000;
}

bool run_data(Windows w, const ConvProblem& p, const View& from, const View& to,
              const float* weight, const float* bias) {
  w.plain_boxes = all_finite(weight, w.groups * w.terms() * w.outputs);
  // Each box reads all filters: more pixels where those are many.
  int64_t many = std::min(w.terms() * w.outputs / 8, 4 * box_elements);
  Boxes boxes = w.boxes(std::max(box_elements, many), 0, 64);
  if (w.elements(boxes.size + 1) > most_elements) return false;
  bool plain = from.contiguous() && !lies_channels_last(from);
  std::optional<ChannelsLast> last;
  if (!plain) last.emplace(from, true);
  Images images(from, plain ? from.ptr<float>() : last->data(), !plain);
  ChannelsLast out(to, false);
  PackedFilters filters(w, weight);
  double operations = operations_of(p);
  int64_t parts = parts_of(boxes.count * w.groups, w.panels(), operations);
  int64_t tasks = boxes.count * w.groups * parts;
  parallel_for(0, tasks, grain_of(tasks, operations), [&](int64_t begin, int64_t end) {
    Reader reader(w, images, boxes);
    for (int64_t i = begin; i < end; ++i) {
      int64_t part = i % parts, group = i / parts % w.groups;
      Box box = boxes.at(i / parts / w.groups);
      Seen seen = reader.read(box, group);
      multiply_box(w, box, seen, filters, group,
                   {w.panels() * part / parts, w.panels() * (part + 1) / parts}, bias, out.data());
    }
  });
  out.write_back();
  return true;
}

// Gradients of some panels of filters at the pixels of a box.
void pack_gradient(const Windows& w, const Images& small, const Box& box, int64_t group,
                   Range panels, int64_t pixels, float* packed) {
  int64_t line = box.of[2].size();
  for (int64_t i = panels.begin; i < panels.end; ++i) {
    int64_t filter = i * panel_width, count = std::min(panel_width, w.outputs - filter);
    if (count < panel_width) std::fill_n(packed, pixels * panel_width, 0.0f);
    for (int64_t n = 0; n < box.images; ++n)
      for (int64_t z = box.of[0].begin; z < box.of[0].end; ++z)
        for (int64_t y = box.of[1].begin; y < box.of[1].end; ++y, packed += line * panel_width)
          copy_row(small,
                   small.data + (box.first + n) * small.image + z * small.step[0] +
                       y * small.step[1] + box.of[2].begin * small.step[2] +
                       (group * w.outputs + filter) * small.channel,
                   line, count, packed, panel_width);
  }
}

// Sums of a weight gradient (panels, terms, panel) over the pixels of a box.
struct GradientTask {
  const Windows& w;
  const Box& box;
  const Seen& seen;
  const float* gradient;
  Range panels;
  float* sums;
  bool add;

  std::vector<Span> lines(const Lattice* const (&at)[3]) const {
    std::vector<Span> spans;
    int64_t row = 0, line = box.of[2].size();
    for (int64_t n = 0; n < box.images; ++n)
      for (int64_t z = 0; z < box.of[0].size(); ++z)
        for (int64_t y = 0; y < box.of[1].size(); ++y, row += line)
          spans.push_back({n * seen.image + place(at, seen, 0, z) + place(at, seen, 1, y) +
                               place(at, seen, 2, 0),
                           row, line});
    return spans;
  }
  // Of a panel's columns, those of the widest vectors that hold results.
  static int64_t whole_vectors(int64_t columns) {
    return std::min(panel_width, (columns + 15) / 16 * 16);
  }
  static int64_t place(const Lattice* const (&at)[3], const Seen& seen, int d, int64_t i) {
    return (at[d]->source + i * at[d]->source_step - seen.of[d].begin) * seen.step[d];
  }

  void run() const {
    for_lattices(w, box, [&](const Lattice* const(&at)[3]) {
      std::vector<int64_t> from, to;
      for (const Lattice::Tap& z : at[0]->taps)
        for (const Lattice::Tap& y : at[1]->taps)
          for (const Lattice::Tap& x : at[2]->taps)
            for (int64_t c = 0; c < w.inputs; ++c) {
              from.push_back(z.offset * seen.step[0] + y.offset * seen.step[1] +
                             x.offset * seen.step[2] + c);
              to.push_back(static_cast<int64_t>(to.size()) * panel_width);
            }
      int64_t step = w.axes[2].stride * seen.step[2];
      Blocks blocks(lines(at), gradient_terms, step);
      multiply(from, to, blocks, step);
    });
  }
  void multiply(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                const Blocks& blocks, int64_t step) const {
    int64_t terms = static_cast<int64_t>(from.size());
    int64_t pixels = box.images * box.of[0].size() * box.of[1].size() * box.of[2].size();
    for (int64_t i = panels.begin; i < panels.end; ++i)
      for (int64_t first = 0; first < terms; first += part_rows) {
        int64_t begin = 0;
        for (int64_t end : blocks.ends) {
          WindowProduct product{seen.data,
                                from.data() + first,
                                std::min(part_rows, terms - first),
                                step,
                                blocks.spans.data() + begin,
                                end - begin,
                                gradient + (i - panels.begin) * pixels * panel_width,
                                sums + i * terms * panel_width,
                                to.data() + first,
                                whole_vectors(w.outputs - i * panel_width)};
          product.add = add || begin > 0;
          window_product(product);
          begin = end;
        }
      }
  }
};

// A panel's sums (terms, panel) to a weight (filters, channels, taps).
void write_filters(const Windows& w, const float* sums, int64_t panel, float* weight) {
  int64_t first = panel % w.panels() * panel_width, terms = w.terms();
  int64_t count = std::min(panel_width, w.outputs - first);
  constexpr int64_t together = 16;  // inputs: whole squares of a transposition
  Buffer<float> rows(together * w.taps * panel_width);
  weight += (panel / w.panels() * w.outputs + first) * terms;
  for (int64_t c = 0; c < w.inputs; c += together) {
    int64_t n = std::min(together, w.inputs - c);
    for (int64_t k = 0; k < n; ++k)
      for (int64_t t = 0; t < w.taps; ++t)
        std::memcpy(rows.data() + (k * w.taps + t) * panel_width,
                    sums + (t * w.inputs + c + k) * panel_width, panel_width * 4);
    transpose_floats(rows.data(), panel_width, weight + c * w.taps, terms, n * w.taps, count);
  }
}

bool run_weight(const Windows& w, const ConvProblem& p, const View& large, const View& small,
                float* weight) {
  constexpr int64_t most_sums = int64_t(1) << 21;
  Boxes boxes = w.boxes(2 * box_elements, w.outputs, 128);
  if (w.elements(boxes.size + 1) > most_elements) return false;
  auto is_plain = [](const View& v) { return v.contiguous() && !lies_channels_last(v); };
  bool plain_large = is_plain(large), plain_small = is_plain(small);
  std::optional<ChannelsLast> last_large, last_small;
  if (!plain_large) last_large.emplace(large, true);
  if (!plain_small) last_small.emplace(small, true);
  Images seen_in(large, plain_large ? large.ptr<float>() : last_large->data(), !plain_large);
  Images gradient_in(small, plain_small ? small.ptr<float>() : last_small->data(), !plain_small);
  int64_t panel = w.terms() * panel_width, size = w.groups * w.panels() * panel;
  // Sums of runs of boxes, joined in one order: both follow from the sizes alone.
  double operations = operations_of(p);
  int64_t wanted = std::min<int64_t>(8, static_cast<int64_t>(operations / task_operations));
  int64_t runs = std::clamp<int64_t>(std::min(wanted, most_sums / size), 1, boxes.count);
  int64_t parts = parts_of(runs * w.groups, w.panels(), operations);
  int64_t tasks = runs * w.groups * parts;
  Buffer<float> sums(runs * size);
  int64_t pixels = boxes.size[0] * boxes.size[1] * boxes.size[2] * boxes.size[3];
  parallel_for(0, tasks, grain_of(tasks, operations), [&](int64_t begin, int64_t end) {
    Reader reader(w, seen_in, boxes);
    Buffer<float> gradient((w.panels() + parts - 1) / parts * panel_width * pixels);
    for (int64_t i = begin; i < end; ++i) {
      int64_t part = i % parts, group = i / parts % w.groups, run = i / parts / w.groups;
      Range panels{w.panels() * part / parts, w.panels() * (part + 1) / parts};
      int64_t first = boxes.count * run / runs, last = boxes.count * (run + 1) / runs;
      for (int64_t b = first; b < last; ++b) {
        Box box = boxes.at(b);
        Seen seen = reader.read(box, group);
        int64_t used = box.images * box.of[0].size() * box.of[1].size() * box.of[2].size();
        pack_gradient(w, gradient_in, box, group, panels, used, gradient.data());
        GradientTask{w,        box,
                     seen,     gradient.data(),
                     panels,   sums.data() + run * size + group * w.panels() * panel,
                     b > first}
            .run();
      }
    }
  });
  parallel_for(0, w.groups * w.panels(), 1 + default_grain / (runs * panel),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   float* sum = sums.data() + i * panel;
                   for (int64_t r = 1; r < runs; ++r)
                     for (int64_t k = 0; k < panel; ++k) sum[k] += sum[r * size + k];
                   write_filters(w, sum, i, weight);
                 }
               });
  return true;
}

// Where this is as quick as oneDNN or quicker, as measured: that skips the zeros around images, and
// has kernels for few channels.
bool suits(ConvOp op, const ConvProblem& p) {
  bool strided = false, taps = false;
  for (int i = 0; i < p.dims; ++i) {
    strided = strided || p.stride[i] > 1;
    taps = taps || p.kernel[i] > 1;
  }
  int64_t outputs = op == ConvOp::Scatter ? p.channels : p.filters;
  if (p.groups > 1 || outputs < panel_width || operations_of(p) < 4e7) return false;
  if (op == ConvOp::Weight) return taps && (strided || p.dims < 3);
  return strided && !(op == ConvOp::Gather && isa() == Isa::avx2);
}

}  // namespace

bool window_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                 const View& weight, const float* bias) {
  if (!suits(op, p)) return false;
  ScopedGilRelease work(operations_of(p) > long_operations);
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) {
    if (op == ConvOp::Weight) plain.emplace(weight.shape(), DType::Float32);
    else plain.emplace(RowMajor::copy_of(weight, DType::Float32));
  }
  float* filters = plain ? plain->ptr<float>() : weight.ptr<float>();
  Windows w(op == ConvOp::Scatter, p);
  switch (op) {
    case ConvOp::Gather: return run_data(w, p, large, small, filters, bias);
    case ConvOp::Scatter: return run_data(w, p, small, large, filters, bias);
    case ConvOp::Weight: break;
  }
  if (!run_weight(w, p, large, small, filters)) return false;
  if (plain) copy(plain->view(), weight);
  return true;
}

}  // namespace rl::kernels
