// Convolutions of any geometry as matrix products that read windows of images where they lie.
#include "core/parallel.h"
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/magnitude_bits.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/units.h"

namespace rl::kernels {
namespace {

// What is read next: a fifth of the time of one small image's product, where it comes late.
void bring_near(const char* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

// Filters as panels of outputs, each term a row.
class PackedFilters {
 public:
  PackedFilters(const Windows& w, const View& weight)
      : w_(w),
        bytes_(w.element_bytes()),
        panel_(w.terms() * panel_width),
        memory_(w.groups * w.panels() * panel_ + behind) {
    std::fill_n(memory_.data() + w.groups * w.panels() * panel_, behind, 0.0f);
    const char* data = weight.ptr<const char>();
    parallel_for(0, w.groups * w.panels(), 1 + default_grain / panel_,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     w.scatter ? pack_channels(data, i) : pack_filters(data, i);
                 });
  }
  int64_t panel_size() const { return panel_; }
  const float* panel(int64_t group, int64_t i) const {
    return memory_.data() + (group * w_.panels() + i) * panel_;
  }
  // As the matrix unit reads floats.
  void split() {
    int64_t count = w_.groups * w_.panels(), bytes = w_.terms() / split_terms * split_bytes;
    split_.emplace(count * bytes);
    can_be_split_.emplace(count);
    parallel_for(0, count, 1 + default_grain / panel_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        split_panel(memory_.data() + i * panel_, w_.terms(), split_->data() + i * bytes,
                    can_be_split_->data() + i);
    });
  }
  void find_split(int64_t group, int64_t i, WindowProduct& product) const {
    if (!split_) return;
    int64_t panel = group * w_.panels() + i;
    product.split = split_->data() + panel * (w_.terms() / split_terms) * split_bytes;
    product.can_be_split = can_be_split_->data() + panel;
  }
  // The first panels with the terms of each output in a row.
  void turn() {
    Buffer<float> rows(w_.outputs * w_.terms());
    for (int64_t g = 0; g < w_.groups; ++g) {
      float* first = memory_.data() + g * w_.panels() * panel_;
      transpose_floats(first, panel_width, rows.data(), w_.terms(), w_.terms(), w_.outputs);
      std::copy_n(rows.data(), w_.outputs * w_.terms(), first);
    }
  }

 private:
  static constexpr int64_t behind = 16 * panel_width;  // what the matrix unit may read

  float* row(int64_t panel, int64_t tap, int64_t word) const {
    return memory_.data() + panel * panel_ + (w_.place(tap) + word) * panel_width;
  }
  // A weight (outputs, inputs, taps).
  void pack_filters(const char* weight, int64_t panel) const {
    int64_t first = panel % w_.panels() * panel_width, filter = w_.inputs * w_.taps * bytes_;
    int64_t count = std::min(panel_width, w_.outputs - first), together = w_.reduced ? 2 : 1;
    constexpr int64_t some = 16;  // inputs: whole squares of a transposition
    int64_t input = w_.taps * panel_width;
    Buffer<char> rows(some * input * bytes_);
    if (count < panel_width)
      std::memset(rows.data(), 0, static_cast<size_t>(some * input * bytes_));
    weight += (panel / w_.panels() * w_.outputs + first) * filter;
    for (int64_t c = 0; c < w_.inputs; c += some) {
      int64_t n = std::min(some, w_.inputs - c), next = some * w_.taps * bytes_;
      for (int64_t f = 0; f < count; ++f)
        bring_near(weight + c * w_.taps * bytes_ + f * filter + next, next);
      transpose(bytes_, weight + c * w_.taps * bytes_, filter, bytes_, rows.data(),
                panel_width * bytes_, bytes_, count, n * w_.taps, false);
      for (int64_t i = 0; i < n; i += together)
        put(rows.data() + i * input * bytes_, input, panel, (c + i) / together,
            static_cast<int>(std::min(together, n - i)));
    }
  }
  // A weight (inputs, outputs, taps).
  void pack_channels(const char* weight, int64_t panel) const {
    int64_t first = panel % w_.panels() * panel_width, filter = w_.outputs * w_.taps;
    int64_t count = std::min(panel_width, w_.outputs - first), together = w_.reduced ? 2 : 1;
    // In whole squares of a transposition: some more taps than there are.
    int64_t columns = (w_.taps + 15) / 16 * 16, near_size = panel_width * w_.taps + columns;
    Buffer<char> near(near_size * bytes_), rows(together * columns * panel_width * bytes_);
    std::memset(near.data(), 0, static_cast<size_t>(near_size * bytes_));
    weight += (panel / w_.panels() * w_.inputs * filter + first * w_.taps) * bytes_;
    for (int64_t i = 0; i < w_.inputs; i += together) {
      int64_t members = std::min(together, w_.inputs - i);
      for (int64_t m = 0; m < members; ++m) {
        const char* from = weight + (i + m) * filter * bytes_;
        bring_near(from + filter * bytes_, count * w_.taps * bytes_);
        std::memcpy(near.data(), from, static_cast<size_t>(count * w_.taps * bytes_));
        transpose(bytes_, near.data(), w_.taps * bytes_, bytes_,
                  rows.data() + m * columns * panel_width * bytes_, panel_width * bytes_, bytes_,
                  panel_width, columns, false);
      }
      put(rows.data(), columns * panel_width, panel, i / together, static_cast<int>(members));
    }
  }
  // A row for each tap, in pairs of rows that stand `between` apart.
  void put(const char* rows, int64_t between, int64_t panel, int64_t word, int members) const {
    int64_t tap = w_.words * panel_width;
    if (w_.reduced)
      return group_up({DType::Int16, rows, w_.taps, panel_width, panel_width, 1, between, 2,
                       members, 0, reinterpret_cast<uint32_t*>(row(panel, 0, word)),
                       w_.place(1) > w_.place(0) ? tap : -tap});
    for (int64_t t = 0; t < w_.taps; ++t)
      std::memcpy(row(panel, t, word), rows + t * panel_width * 4, panel_width * 4);
  }

  const Windows& w_;
  int64_t bytes_, panel_;
  Buffer<float> memory_;
  std::optional<Buffer<char>> split_;
  std::optional<Buffer<bool>> can_be_split_;
};

bool all_finite(const View& v) {
  if (v.dtype == DType::BFloat16) {
    uint16_t largest = 0;
    largest_bits_of_16(v.ptr<uint16_t>(), v.numel, &largest);
    return largest < 0x7f80;
  }
  uint32_t largest = 0;
  largest_bits_of_32(v.ptr<uint32_t>(), v.numel, &largest);
  return largest < 0x7f800000;
}

// The source of a box, split for the matrix unit once for all that see it.
class SplitSource {
 public:
  explicit SplitSource(const Windows& w)
      : words_(w.words), bytes_(w.words / split_terms * split_row_bytes) {}

  void read(const Seen& seen, int64_t images) {
    int64_t last = (images - 1) * seen.image;
    for (int d = 0; d < 3; ++d) last += (seen.of[d].size() - 1) * seen.step[d];
    pixel_ = seen.step[2];
    const int64_t count = last / pixel_ + 1;
    if (count > room_) {
      room_ = count;
      memory_.emplace((count + pixels_behind) * bytes_);
      largest_.emplace(count);
    }
    const int64_t first = std::max<int64_t>(0, (seen.begin - seen.data + pixel_ - 1) / pixel_);
    const int64_t end = std::min(count, (seen.end - seen.data - words_) / pixel_ + 1);
    split_pixels({seen.data + first * pixel_, end - first, pixel_, words_,
                  memory_->data() + first * bytes_, largest_->data() + first});
  }
  void show(WindowProduct& product) const {
    product.pixels = memory_->data();
    product.largest = largest_->data();
    product.pixel = pixel_;
    product.pixel_bytes = bytes_;
  }

 private:
  int64_t words_, bytes_, pixel_ = 0, room_ = 0;
  std::optional<Buffer<char>> memory_;
  std::optional<Buffer<uint32_t>> largest_;
};

// What a thread needs to make boxes of results.
class Worker {
 public:
  Worker(const Windows& w, const Images& from, const Boxes& boxes, const PackedFilters& filters,
         const float* bias, char* out)
      : w_(w),
        reader_(w, from, boxes),
        filters_(filters),
        bias_(bias),
        out_(out),
        panel_sums_(boxes.pixels() * panel_width),
        sums_(w.reduced ? panel_sums_ * (w.on_unit ? w.panels() : 1) : 0) {
    if (w.on_unit && !w.reduced) split_.emplace(w);
  }

  // Panels of a group.
  void run(int64_t number, const Box& box, int64_t group, Range panels) {
    const Seen& seen = reader_.read(number, box, group);
    const int64_t key = number * w_.groups + group;
    if (split_ && key != held_) split_->read(seen, box.images);
    held_ = key;
    if (!plan_ || !plan_->fits(box)) plan_.emplace(w_, box, seen);
    int64_t first = Plan::first_result(w_, box);
    int64_t together = w_.on_unit ? panels.size() : 1;
    for (int64_t i = panels.begin; i < panels.end; i += together) {
      int64_t channel = group * w_.outputs + i * panel_width;
      char* out = out_ + (first + channel) * w_.element_bytes();
      for (const Part& part : plan_->parts())
        multiply(part, seen, group, {i, i + together}, channel, out);
    }
  }

 private:
  void multiply(const Part& part, const Seen& seen, int64_t group, Range panels, int64_t channel,
                char* out) const {
    WindowProduct product{
        seen.data,
        part.from.data(),
        static_cast<int64_t>(part.from.size()),
        1,
        part.spans.data(),
        static_cast<int64_t>(part.spans.size()),
        filters_.panel(group, panels.begin),
        w_.reduced ? sums_.data() : reinterpret_cast<float*>(out),
        w_.reduced ? part.number.data() : part.to.data(),
        std::min(panels.size() * panel_width, w_.outputs - panels.begin * panel_width)};
    product.add = !part.first;
    product.pairs = w_.reduced;
    if (part.first && bias_) product.bias = bias_ + channel;
    if (part.last && w_.reduced) {
      product.rounded = reinterpret_cast<uint16_t*>(out);
      product.rounded_rows = part.to.data();
    }
    product.b_row = w_.terms();
    product.b_panel = filters_.panel_size();
    product.out_panel = w_.reduced ? panel_sums_ : panel_width;
    filters_.find_split(group, panels.begin, product);
    if (split_) split_->show(product);
    if (w_.on_unit) return window_unit(product);
    dots_ ? window_dots(product) : window_product(product);
  }

  const Windows& w_;
  bool dots_ = w_.prefers_dots();
  Reader reader_;
  const PackedFilters& filters_;
  const float* bias_;
  char* out_;
  int64_t panel_sums_;
  Buffer<float> sums_;
  std::optional<Plan> plan_;
  std::optional<SplitSource> split_;
  int64_t held_ = -1;  // what is split, as the reader counts
};

bool run_data(Windows w, const ConvProblem& p, const View& from, const View& to, const View& weight,
              const float* bias) {
  w.plain_boxes = !w.sees_zeros || w.on_unit || all_finite(weight);
  // Each box reads all filters: more pixels where those are many.
  int64_t many = std::min(w.terms() * w.outputs / 8, 4 * box_elements);
  Boxes boxes = w.boxes(std::max(box_elements, many), 0, 64);
  if (w.elements(boxes.size + 1) > most_elements) return false;
  ImagesOf images(from);
  ChannelsLast out(to, false);
  PackedFilters filters(w, weight);
  if (w.on_unit && !w.reduced) filters.split();
  else if (w.prefers_dots()) filters.turn();
  double operations = operations_of(p);
  int64_t parts = parts_of(boxes.count * w.groups, w.panels(), operations);
  int64_t tasks = boxes.count * w.groups * parts;
  parallel_for(0, tasks, grain_of(tasks, operations), [&](int64_t begin, int64_t end) {
    Worker worker(w, *images, boxes, filters, bias, out.data<char>());
    for (int64_t i = begin; i < end; ++i) {
      int64_t part = i % parts, box = i / parts / w.groups;
      worker.run(box, boxes.at(box), i / parts % w.groups,
                 {w.panels() * part / parts, w.panels() * (part + 1) / parts});
    }
  });
  out.write_back();
  return true;
}

// Where this is quicker than panels, as measured.
bool suits(ConvOp op, const ConvProblem& p) {
  bool strided = false, taps = false;
  for (int i = 0; i < p.dims; ++i) {
    strided = strided || p.stride[i] > 1;
    taps = taps || p.kernel[i] > 1;
  }
  return p.groups > 1 || (op == ConvOp::Weight ? taps : taps || strided);
}

bool suits_unit(ConvOp op, const ConvProblem& p, bool reduced) {
  bool scatter = op == ConvOp::Scatter;
  int64_t inputs = (scatter ? p.filters : p.channels) / p.groups;
  int64_t outputs = (scatter ? p.channels : p.filters) / p.groups;
  if (reduced) return has_matrix_unit() && outputs > most_dots && inputs > 1;
  int64_t pixels = p.batch, terms = inputs;
  for (int i = 0; i < p.dims; ++i) {
    pixels *= scatter ? p.large[i] : p.small[i];
    terms *= scatter ? (p.kernel[i] + p.stride[i] - 1) / p.stride[i] : p.kernel[i];
  }
  // Filters are packed and split, which takes longer than to split a matrix.
  return op != ConvOp::Weight && inputs % split_terms == 0 && pixels >= 2 * outputs &&
         is_for_unit(DType::Float32, pixels, outputs, terms);
}

// Images whose pixels are one line.
struct OneLine {
  int64_t sizes[3], strides[3];
  View view;

  explicit OneLine(const View& v)
      : sizes{v.sizes[0], v.sizes[1], v.numel / (v.sizes[0] * v.sizes[1])}, view(v) {
    bool last = lies_channels_last(v);
    strides[0] = sizes[1] * sizes[2];
    strides[1] = last ? 1 : sizes[2], strides[2] = last ? sizes[1] : 1;
    view.sizes = sizes, view.strides = strides, view.ndim = 3;
  }
  OneLine(const OneLine&) = delete;
};

}  // namespace

bool window_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                 const View& weight, const float* bias, bool anyway) {
  bool reduced = large.dtype == DType::BFloat16;
  if (!anyway && !suits(op, p)) return false;
  // Long lines are read where they lie, where short ones would be brought into another order first.
  if (p.dims > 1 && is_pointwise(p) && lies_without_gaps(large) && lies_without_gaps(small) &&
      lies_without_gaps(weight)) {
    OneLine l(large), s(small), w(weight);
    ConvProblem line = p;
    line.dims = 1, line.large[0] = line.small[0] = l.sizes[2];
    return window_conv(op, line, l.view, s.view, w.view, bias, anyway);
  }
  ScopedGilRelease work(operations_of(p) > long_operations);
  std::optional<RowMajor> plain;
  if (op == ConvOp::Weight && (reduced || !weight.contiguous()))
    plain.emplace(weight.shape(), DType::Float32);
  else if (!weight.contiguous()) plain.emplace(RowMajor::copy_of(weight, weight.dtype));
  View filters = plain ? plain->view() : weight;
  bool unit = suits_unit(op, p, reduced) && (op == ConvOp::Weight || all_finite(filters));
  Windows w(op, p, reduced, unit);
  switch (op) {
    case ConvOp::Gather: return run_data(w, p, large, small, filters, bias);
    case ConvOp::Scatter: return run_data(w, p, small, large, filters, bias);
    case ConvOp::Weight: break;
  }
  if (!window_gradient(w, p, large, small, filters.ptr<float>())) return false;
  if (plain) copy(plain->view(), weight);
  return true;
}

}  // namespace rl::kernels
