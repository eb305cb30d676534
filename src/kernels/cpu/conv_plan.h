// How the results of a box are made by products of windows.
#pragma once
#include "kernels/cpu/conv_boxes.h"

namespace rl::kernels {

using Span = WindowProduct::Span;
using Lattices = const Lattice* const (&)[3];

// A tap of a lattice: where its terms begin, and where it looks.
struct Tap {
  int64_t row, offset[3];
};

// In the order of their terms.
inline std::vector<Tap> taps_of(const Windows& w, Lattices at) {
  std::vector<Tap> all;
  auto for_taps = [&](int d, auto f) {
    size_t n = at[d]->taps.size();
    for (size_t i = 0; i < n; ++i) f(at[d]->taps[w.scatter ? n - 1 - i : i]);
  };
  for_taps(0, [&](const Lattice::Tap& z) {
    for_taps(1, [&](const Lattice::Tap& y) {
      for_taps(2, [&](const Lattice::Tap& x) {
        int64_t index = (z.index * w.axes[1].kernel + y.index) * w.axes[2].kernel + x.index;
        all.push_back({w.place(index), {z.offset, y.offset, x.offset}});
      });
    });
  });
  return all;
}

// Some taps, and a range of the words of each.
struct Block {
  size_t begin, end;
  Range words;
};

// Equal blocks of at most so many terms: of whole lines of taps if those fit.
inline std::vector<Block> blocks_of(int64_t taps, int64_t line, int64_t words,
                                    int64_t block_terms) {
  std::vector<Block> blocks;
  auto divided = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  int64_t most = std::max<int64_t>(1, block_terms / words), unit = most >= line ? line : 1;
  int64_t units = divided(taps, std::max<int64_t>(1, unit));
  int64_t each = units ? divided(units, divided(units, most / unit)) * unit : 1;
  int64_t parts = divided(words, block_terms);
  for (int64_t first = 0; first < taps; first += each)
    for (int64_t i = 0; i < parts; ++i)
      blocks.push_back({static_cast<size_t>(first),
                        static_cast<size_t>(std::min(taps, first + each)),
                        {words * i / parts, words * (i + 1) / parts}});
  return blocks;
}

// Results that a product adds the same terms to: where each begins in the source, where it goes,
// from the box's first result on, and, if they are rounded, its number in the box, a panel apart.
struct Part {
  std::vector<int64_t> from, to, number;
  std::vector<Span> spans;
  bool first, last;
};

// How the results of a box are made, and of all boxes that are alike.
class Plan {
 public:
  Plan(const Windows& w, const Box& box, const Seen& seen) : w_(w), box_(box), seen_(seen) {
    for_lattices(w, box, [&](Lattices at) { add(at); });
  }
  // Where a box's first result lies, in elements.
  static int64_t first_result(const Windows& w, const Box& box) {
    int64_t place = box.first;
    for (int d = 0; d < 3; ++d) place = place * w.result_size(d) + box.of[d].begin;
    return place * w.outputs * w.groups;
  }
  bool fits(const Box& box) const { return box_.alike(box, w_.has_zeros); }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  using Ranges = Range[3];

  void add(Lattices at) {
    std::vector<Tap> taps = taps_of(w_, at);
    std::vector<Block> blocks =
        blocks_of(static_cast<int64_t>(taps.size()), static_cast<int64_t>(at[2]->taps.size()),
                  w_.words, w_.terms_together());
    bool one = blocks.size() <= 1;
    Range all[3] = {{0, at[0]->count}, {0, at[1]->count}, {0, at[2]->count}};
    if (!one || taps.empty()) add_part(at, all, {}, true, taps.empty());
    for (const Block& b : blocks) {
      std::vector<Range> cut[3];
      for (int d = 0; d < 3; ++d) cut[d] = cut_of(at, d, taps, b);
      for (Range z : cut[0])
        for (Range y : cut[1])
          for (Range x : cut[2]) {
            Range of[3] = {z, y, x};
            std::vector<Span> spans = spans_of(at, of, taps, b);
            if (one || !spans.empty()) add_part(at, of, std::move(spans), one, one);
          }
    }
    if (!one && w_.reduced) add_part(at, all, {}, false, true);
  }

  // A lattice's results in ranges that see the source by the same taps of a block.
  std::vector<Range> cut_of(Lattices at, int d, const std::vector<Tap>& taps,
                            const Block& b) const {
    std::vector<int64_t> ends{0, at[d]->count};
    for (size_t i = b.begin; w_.split[d] && i < b.end; ++i) {
      Range seeing = w_.seeing(d, *at[d], taps[i].offset[d]);
      ends.push_back(seeing.begin);
      ends.push_back(seeing.end);
    }
    std::sort(ends.begin(), ends.end());
    std::vector<Range> cut;
    for (size_t i = 1; i < ends.size(); ++i)
      if (ends[i] > ends[i - 1]) cut.push_back({ends[i - 1], ends[i]});
    return cut;
  }

  // The terms of a block that see something of the source; those beside each other are one span.
  std::vector<Span> spans_of(Lattices at, const Ranges& of, const std::vector<Tap>& taps,
                             const Block& b) const {
    std::vector<Span> spans;
    for (size_t i = b.begin; i < b.end; ++i) {
      int64_t offset = b.words.begin;
      bool sees = true;
      for (int d = 0; d < 3; ++d) {
        Range seeing = w_.seeing(d, *at[d], taps[i].offset[d]);
        sees = sees && seeing.begin < of[d].end && seeing.end > of[d].begin;
        offset += taps[i].offset[d] * seen_.step[d];
      }
      if (!sees) continue;
      Span span{offset, taps[i].row + b.words.begin, b.words.size()};
      Span* before = spans.empty() ? nullptr : &spans.back();
      if (before && before->offset + before->terms == span.offset &&
          before->row + before->terms == span.row)
        before->terms += span.terms;
      else spans.push_back(span);
    }
    return spans;
  }

  void add_part(Lattices at, const Ranges& of, std::vector<Span> spans, bool first, bool last) {
    Part part{{}, {}, {}, std::move(spans), first, last};
    auto source = [&](int d, int64_t i) {
      return (at[d]->source + i * at[d]->source_step - seen_.of[d].begin) * seen_.step[d];
    };
    auto result = [&](int d, int64_t i) {
      return at[d]->first + i * at[d]->step - box_.of[d].begin;
    };
    const int64_t pixel = w_.outputs * w_.groups;
    for (int64_t z = of[0].begin; z < of[0].end; ++z)
      for (int64_t y = of[1].begin; y < of[1].end; ++y) {
        int64_t line = result(0, z) * w_.result_size(1) + result(1, y);
        int64_t number = result(0, z) * box_.of[1].size() + result(1, y);
        for (int64_t x = of[2].begin; x < of[2].end; ++x) {
          part.from.push_back(source(0, z) + source(1, y) + source(2, x));
          part.to.push_back((line * w_.result_size(2) + result(2, x)) * pixel);
          if (!w_.reduced) continue;
          part.number.push_back((number * box_.of[2].size() + result(2, x)) * panel_width);
        }
      }
    int64_t results = w_.result_size(0) * w_.result_size(1) * w_.result_size(2);
    repeat(part.from, seen_.image);
    repeat(part.to, results * pixel);
    repeat(part.number, box_.pixels() / box_.images * panel_width);
    parts_.push_back(std::move(part));
  }

  // The places of the box's first image for all of its images, which lie `step` apart.
  void repeat(std::vector<int64_t>& places, int64_t step) const {
    const size_t count = places.size();
    places.resize(count * static_cast<size_t>(box_.images));
    for (size_t i = count; i < places.size(); ++i) places[i] = places[i - count] + step;
  }

  const Windows& w_;
  Box box_;
  Seen seen_;
  std::vector<Part> parts_;
};

}  // namespace rl::kernels
