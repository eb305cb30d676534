// Gradients of convolutions by their weights, as matrix products of windows.
#include "core/parallel.h"
#include "kernels/cpu/conv_boxes.h"

namespace rl::kernels {
namespace {

using Span = WindowProduct::Span;
using Lattices = const Lattice* const (&)[3];

constexpr int64_t gradient_terms = 128;  // whose panel stays in the first-level cache
constexpr int64_t part_rows = 256;       // the same of sums

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

// Pixels of a line of results as terms: pairs of bfloat16 are one.
int64_t line_terms(const Windows& w, const Box& box) {
  int64_t line = box.of[2].size();
  return w.reduced ? (line + 1) / 2 : line;
}

// Gradients of some panels of filters at the pixels of a box.
class GradientReader {
 public:
  GradientReader(const Windows& w, const Images& small, int64_t panels, const Boxes& boxes)
      : w_(w),
        small_(small),
        memory_(panels * panel_width * (boxes.pixels() / boxes.size[3]) * (boxes.size[3] + 1)),
        line_(w.reduced ? (boxes.size[3] + 1) * panel_width : 0) {}

  const float* read(const Box& box, int64_t group, Range panels) const {
    float* to = memory_.data();
    int64_t step = line_terms(w_, box) * panel_width;
    for (int64_t i = panels.begin; i < panels.end; ++i) {
      int64_t filter = i * panel_width, count = std::min(panel_width, w_.outputs - filter);
      int64_t channel = (group * w_.outputs + filter) * small_.channel;
      for (int64_t n = 0; n < box.images; ++n)
        for (int64_t z = box.of[0].begin; z < box.of[0].end; ++z)
          for (int64_t y = box.of[1].begin; y < box.of[1].end; ++y, to += step)
            read_line((box.first + n) * small_.image + z * small_.step[0] + y * small_.step[1] +
                          box.of[2].begin * small_.step[2] + channel,
                      box.of[2].size(), count, to);
    }
    return memory_.data();
  }

 private:
  void read_line(int64_t offset, int64_t line, int64_t count, float* to) const {
    constexpr int64_t width = panel_width;
    char* rows = w_.reduced ? reinterpret_cast<char*>(line_.data()) : reinterpret_cast<char*>(to);
    int64_t bytes = w_.element_bytes(), pixels = w_.reduced ? (line + 1) / 2 * 2 : line;
    if (count < width || pixels > line)
      std::memset(rows, 0, static_cast<size_t>(pixels * width * bytes));
    small_.copy_row(offset, line, count, rows, width * bytes);
    if (w_.reduced)
      group_up({DType::Int16, rows, pixels / 2, width, 2 * width, 1, width, 2, 2, 0,
                reinterpret_cast<uint32_t*>(to), width});
  }

  const Windows& w_;
  const Images& small_;
  Buffer<float> memory_;
  Buffer<uint16_t> line_;
};

// Sums of a weight gradient (panels, terms, panel) over the pixels of a box.
struct GradientTask {
  const Windows& w;
  const Box& box;
  const Seen& seen;
  const float* gradient;
  Range panels;
  float* sums;
  bool add;

  std::vector<Span> lines(Lattices at) const {
    std::vector<Span> spans;
    int64_t row = 0, terms = line_terms(w, box);
    for (int64_t n = 0; n < box.images; ++n)
      for (int64_t z = 0; z < box.of[0].size(); ++z)
        for (int64_t y = 0; y < box.of[1].size(); ++y, row += terms)
          spans.push_back(
              {n * seen.image + place(at, 0, z) + place(at, 1, y) + place(at, 2, 0), row, terms});
    return spans;
  }
  // Of a panel's columns, those of the widest vectors that hold results.
  static int64_t whole_vectors(int64_t columns) {
    return std::min(panel_width, (columns + 15) / 16 * 16);
  }
  int64_t place(Lattices at, int d, int64_t i) const {
    return (at[d]->source + i * at[d]->source_step - seen.of[d].begin) * seen.step[d];
  }

  void run() const {
    if (w.on_unit) return run_on_unit();
    for_lattices(w, box, [&](Lattices at) {
      std::vector<int64_t> from, to;
      for (const Lattice::Tap& z : at[0]->taps)
        for (const Lattice::Tap& y : at[1]->taps)
          for (const Lattice::Tap& x : at[2]->taps)
            for (int64_t c = 0; c < w.inputs; ++c) {
              from.push_back(z.offset * seen.step[0] + y.offset * seen.step[1] +
                             x.offset * seen.step[2] + c);
              to.push_back(static_cast<int64_t>(to.size()) * panel_width);
            }
      int64_t step = w.axes[2].stride * seen.step[2] * (w.reduced ? 2 : 1);
      multiply(from, to, Blocks(lines(at), gradient_terms, step), step);
    });
  }
  void run_on_unit() const {
    for_lattices(w, box, [&](Lattices at) {
      std::vector<int64_t> taps, begins;
      for (const Lattice::Tap& z : at[0]->taps)
        for (const Lattice::Tap& y : at[1]->taps)
          for (size_t x = 0; x < at[2]->taps.size(); x += static_cast<size_t>(w.joined_taps()))
            taps.push_back(z.offset * seen.step[0] + y.offset * seen.step[1] +
                           at[2]->taps[x].offset * seen.step[2]);
      for (const Span& line : lines(at)) begins.push_back(line.offset);
      GradientOnUnit product{
          seen.data,
          begins.data(),
          static_cast<int64_t>(begins.size()),
          line_terms(w, box),
          w.axes[2].stride * seen.step[2] * 2,
          taps.data(),
          static_cast<int64_t>(taps.size()),
          w.inputs * w.joined_taps(),
          gradient,
          std::min(panels.size() * panel_width, w.outputs - panels.begin * panel_width),
          nullptr,
          add};
      product.sums = sums + panels.begin * panel_width * product.row();
      gradient_on_unit(product);
    });
  }
  void multiply(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                const Blocks& blocks, int64_t step) const {
    int64_t terms = static_cast<int64_t>(from.size());
    int64_t panel = box.pixels() / box.of[2].size() * line_terms(w, box) * panel_width;
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
                                gradient + (i - panels.begin) * panel,
                                sums + i * terms * panel_width,
                                to.data() + first,
                                whole_vectors(w.outputs - i * panel_width)};
          product.add = add || begin > 0;
          product.pairs = w.reduced;
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
  weight += (panel / w.panels() * w.outputs + first) * terms;
  if (w.on_unit) {  // (panel, taps, joined taps and channels)
    int64_t joined = w.joined_taps(), columns = GradientOnUnit::whole(joined * w.inputs);
    for (int64_t f = 0; f < count; ++f, weight += terms)
      for (int64_t t = 0; t < w.taps; t += joined, sums += columns)
        for (int64_t x = 0; x < joined; ++x)
          for (int64_t c = 0; c < w.inputs; ++c)
            weight[c * w.taps + t + x] = sums[x * w.inputs + c];
    return;
  }
  constexpr int64_t together = 16;  // inputs: whole squares of a transposition
  Buffer<float> rows(together * w.taps * panel_width);
  for (int64_t c = 0; c < w.inputs; c += together) {
    int64_t n = std::min(together, w.inputs - c);
    for (int64_t k = 0; k < n; ++k)
      for (int64_t t = 0; t < w.taps; ++t)
        std::memcpy(rows.data() + (k * w.taps + t) * panel_width,
                    sums + (t * w.inputs + c + k) * panel_width, panel_width * 4);
    transpose_floats(rows.data(), panel_width, weight + c * w.taps, terms, n * w.taps, count);
  }
}

}  // namespace

bool window_gradient(const Windows& w, const ConvProblem& p, const View& large, const View& small,
                     float* weight) {
  constexpr int64_t most_sums = int64_t(1) << 21;
  // Each box reads and writes all sums: more pixels where the unit soon has those of a few.
  int64_t many = w.on_unit ? std::min(w.terms() * w.outputs / 4, 16 * box_elements) : 0;
  Boxes boxes = w.boxes(std::max(2 * box_elements, many), w.outputs, 128);
  if (w.elements(boxes.size + 1) > most_elements) return false;
  ImagesOf seen_in(large), gradient_in(small);
  int64_t joined = w.joined_taps(), inputs = joined * w.inputs;
  if (w.on_unit) inputs = GradientOnUnit::whole(inputs);
  int64_t panel = w.taps / joined * inputs * panel_width, size = w.groups * w.panels() * panel;
  // Sums of runs of boxes, joined in one order: both follow from the sizes alone.
  double operations = operations_of(p);
  int64_t wanted = std::min<int64_t>(8, static_cast<int64_t>(operations / task_operations));
  int64_t runs = std::clamp<int64_t>(std::min(wanted, most_sums / size), 1, boxes.count);
  int64_t parts = parts_of(runs * w.groups, w.panels(), operations);
  int64_t tasks = runs * w.groups * parts;
  Buffer<float> sums(runs * size);
  parallel_for(0, tasks, grain_of(tasks, operations), [&](int64_t begin, int64_t end) {
    Reader reader(w, *seen_in, boxes);
    GradientReader gradients(w, *gradient_in, (w.panels() + parts - 1) / parts, boxes);
    for (int64_t i = begin; i < end; ++i) {
      int64_t part = i % parts, group = i / parts % w.groups, run = i / parts / w.groups;
      Range panels{w.panels() * part / parts, w.panels() * (part + 1) / parts};
      int64_t first = boxes.count * run / runs, last = boxes.count * (run + 1) / runs;
      for (int64_t b = first; b < last; ++b) {
        Box box = boxes.at(b);
        const Seen& seen = reader.read(b, box, group);
        GradientTask{w,        box,
                     seen,     gradients.read(box, group, panels),
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

}  // namespace rl::kernels
