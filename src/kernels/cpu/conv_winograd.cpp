// 3x3 convolutions of stride 1 by Winograd's filtering, in blocks of tiles.
#include <algorithm>
#include <atomic>
#include <optional>

#include "core/parallel.h"
#include "kernels/cpu/channels_last.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

WinogradImages images_of(const View& v, float* data, const int64_t* tiled, int64_t padding_y,
                         int64_t padding_x) {
  return {data,
          v.sizes[2],
          v.sizes[3],
          v.sizes[1],
          (tiled[0] + 1) / 2,
          (tiled[1] + 1) / 2,
          {padding_y, padding_x}};
}

// Groups of 16 planes of rows.
class Planes {
 public:
  Planes(int64_t groups, int64_t rows, int64_t row)
      : row_(row), plane_(rows * row + 16), memory_(groups * 16 * plane_) {}
  WinogradPlanes from(int64_t group, int64_t row) const {
    return {at(group, 0) + row * row_, plane_, row_};
  }
  float* at(int64_t group, int64_t plane) const {
    return memory_.data() + (group * 16 + plane) * plane_;
  }
  int64_t row() const { return row_; }

 private:
  int64_t row_, plane_;
  Buffer<float> memory_;
};

// Tiles of a batch of images of these sizes.
int64_t tiles_of(int64_t batch, const int64_t* sizes) {
  return batch * ((sizes[0] + 1) / 2) * ((sizes[1] + 1) / 2);
}

Planes planes_of_tiles(int64_t tiles, int64_t channels) { return {1, tiles, channels + 16}; }

// Inputs whose filters to a panel of outputs stay in the second-level cache, in all planes.
constexpr int64_t part_inputs = 128;

// So few tiles that filters, or sums of their gradients, are better made part by part for all. The
// number of threads has no say: sums of other parts are rounded elsewhere.
constexpr int64_t few_tiles = 128;

// Filters, or sums of their gradients: in panels, or as whole rows of outputs, from which the
// matrix unit packs panels of its own.
class FilterPlanes {
 public:
  FilterPlanes(int64_t inputs, int64_t outputs, bool on_unit)
      : on_unit_(on_unit),
        planes_(on_unit ? Planes(1, inputs, outputs + 16)
                        : Planes(outputs / panel_width, inputs, panel_width)) {}
  WinogradPlanes panel(int64_t i) const {
    WinogradPlanes planes = planes_.from(on_unit_ ? 0 : i, 0);
    if (on_unit_) planes.data += i * panel_width;
    return planes;
  }
  float* at(int64_t panel, int64_t plane) const { return planes_.at(panel, plane); }
  float* rows(int64_t plane) const { return planes_.at(0, plane); }
  int64_t row() const { return planes_.row(); }

 private:
  bool on_unit_;
  Planes planes_;
};

// c (m, n) = a (m, k) @ b (k, n), or added to it, of floats; c and b lie in rows.
GemmProblem unit_product_of(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row,
                            int64_t a_col, const float* b, int64_t b_row, float* c, int64_t c_row,
                            bool add) {
  GemmProblem p{DType::Float32, m, n, k, a, b, c, a_row, a_col, b_row, 1, c_row, 1, 1, add ? 1 : 0};
  p.on_unit = true;
  p.factors = DType::Float32;
  return p;
}
// Tiles in a block, whose planes stay in the second-level cache; more where filters are large,
// which each block reads once. As many equal blocks for each thread, of whole groups of rows that
// products take together.
int64_t block_tiles(int64_t inputs, int64_t outputs, int64_t tiles, int64_t unit) {
  int64_t wanted = std::max<int64_t>(64, inputs * outputs / 512) * num_threads();
  int64_t blocks = std::max<int64_t>(1, (tiles + wanted / 2) / wanted) * num_threads();
  return ((tiles + blocks - 1) / blocks + unit - 1) / unit * unit;
}

// Filters in their planes, and products of tiles with them: panel by panel, or on the matrix unit.
class FilterProducts {
 public:
  FilterProducts(int64_t inputs, int64_t outputs, int64_t tiles)
      : inputs_(inputs),
        outputs_(outputs),
        on_unit_(suits_unit(tiles)),
        filters_(inputs, outputs, on_unit_),
        packed_bytes_(on_unit_ ? gemm_packed_bytes(whole(), outputs) : 0),
        packed_(16 * packed_bytes_) {}

  int64_t rows_together() const { return on_unit_ ? 32 : 8; }
  WinogradPlanes panel(int64_t i) const { return filters_.panel(i); }
  // When all panels are written.
  void pack() const {
    if (!on_unit_) return;
    parallel_for(0, 16, 1, [this](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        GemmProblem product = whole();
        product.b = filters_.rows(plane);
        gemm_pack(product, packed(plane), 0, inputs_);
      }
    });
  }
  void multiply(const Planes& factors, int64_t count, const Planes& products) const {
    for (int64_t plane = 0; plane < 16; ++plane) {
      const float* from = factors.at(0, plane);
      float* to = products.at(0, plane);
      if (!on_unit_) {
        for (int64_t i = 0; i < outputs_ / panel_width; ++i)
          panel_product({from, factors.row(), 1, count, inputs_, filters_.at(i, plane), panel_width,
                         to + i * panel_width, products.row()});
        continue;
      }
      GemmProblem product =
          unit_product_of(count, outputs_, inputs_, from, factors.row(), 1, filters_.rows(plane),
                          filters_.row(), to, products.row(), false);
      product.packed = packed(plane);
      gemm_tiles(product);
    }
  }

 private:
  GemmProblem whole() const {
    return unit_product_of(1, outputs_, inputs_, nullptr, 0, 1, nullptr, outputs_ + 16, nullptr, 0,
                           false);
  }
  // As measured: else the transforms take most of the time, or the filters' packing.
  bool suits_unit(int64_t tiles) const {
    UnitBlocks blocks = unit_blocks(whole(), outputs_);
    return inputs_ * outputs_ >= 256 * 256 && tiles >= 384 && blocks.depth >= inputs_ &&
           blocks.columns >= outputs_ && is_for_unit(DType::Float32, 256, outputs_, inputs_);
  }
  char* packed(int64_t plane) const { return packed_.data() + plane * packed_bytes_; }

  int64_t inputs_, outputs_;
  bool on_unit_;
  FilterPlanes filters_;
  int64_t packed_bytes_;
  Buffer<char> packed_;
};

// The filters of a convolution, or of its gradient: inputs and outputs are exchanged there, and the
// taps in reverse.
struct Taps {
  const float* data;
  int64_t output_step, input_step;
  bool reversed;

  // Those of `some` inputs and a panel of outputs, in their planes.
  void transform(int64_t panel, int64_t input, int64_t some, const WinogradPlanes& planes) const {
    winograd_filter(data + panel * panel_width * output_step + input * input_step, output_step,
                    input_step, reversed, some, planes);
  }
};

// What a convolution reads and writes by tiles.
struct TiledConv {
  WinogradImages in, out;
  const float* bias;
  int64_t tiles;
  const float* nothing;  // zeros for each input

  void read(int64_t begin, int64_t end, const WinogradPlanes& factors) const {
    winograd_input(in, begin, end, nothing, factors);
  }
  // Returns whether all is finite.
  bool write(int64_t begin, int64_t end, const WinogradPlanes& products) const {
    Buffer<float> nowhere(out.channels);
    bool finite = true;
    winograd_output(out, begin, end, products, bias, nowhere.data(), &finite);
    return finite;
  }
};

// Of many tiles: filters are transformed once, and block after block is multiplied by all of them.
bool run_blocks(const TiledConv& conv, const Taps& taps) {
  int64_t inputs = conv.in.channels, outputs = conv.out.channels, tiles = conv.tiles;
  FilterProducts filters(inputs, outputs, tiles);
  parallel_for(0, outputs / panel_width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) taps.transform(i, 0, inputs, filters.panel(i));
  });
  filters.pack();
  int64_t block = block_tiles(inputs, outputs, tiles, filters.rows_together());
  std::atomic<bool> finite{true};
  parallel_for(0, (tiles + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    Planes factors = planes_of_tiles(block, inputs), products = planes_of_tiles(block, outputs);
    for (int64_t first = begin * block; first < std::min(tiles, end * block); first += block) {
      int64_t last = std::min(tiles, first + block);
      conv.read(first, last, factors.from(0, 0));
      filters.multiply(factors, last - first, products);
      if (!conv.write(first, last, products.from(0, 0))) finite = false;
    }
  });
  return finite;
}

// Of few tiles: their planes are made once, and filters part by part, where they are multiplied.
bool run_parts(const TiledConv& conv, const Taps& taps) {
  int64_t inputs = conv.in.channels, outputs = conv.out.channels, tiles = conv.tiles;
  Planes factors = planes_of_tiles(tiles, inputs), products = planes_of_tiles(tiles, outputs);
  parallel_for(0, tiles, 16,
               [&](int64_t begin, int64_t end) { conv.read(begin, end, factors.from(0, begin)); });
  parallel_for(0, outputs / panel_width, 1, [&](int64_t begin, int64_t end) {
    Planes part(1, part_inputs, panel_width);
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < inputs; c += part_inputs) {
        int64_t some = std::min(part_inputs, inputs - c);
        taps.transform(i, c, some, part.from(0, 0));
        for (int64_t plane = 0; plane < 16; ++plane)
          panel_product({factors.at(0, plane) + c, factors.row(), 1, tiles, some, part.at(0, plane),
                         panel_width, products.at(0, plane) + i * panel_width, products.row(),
                         nullptr, c > 0});
      }
  });
  std::atomic<bool> finite{true};
  parallel_for(0, tiles, 16, [&](int64_t begin, int64_t end) {
    if (!conv.write(begin, end, products.from(0, begin))) finite = false;
  });
  return finite;
}

// Gather, or Scatter with inputs and outputs exchanged.
bool run_data(bool scatter, const ConvProblem& p, const View& from, const View& to,
              const View& weight, const float* bias) {
  ChannelsLast input(from, true), output(to, false);
  int64_t padding[2];
  for (int i = 0; i < 2; ++i) padding[i] = scatter ? 2 - p.padding[i] : p.padding[i];
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) plain.emplace(RowMajor::copy_of(weight, DType::Float32));
  int64_t filter_step = 9 * p.channels;
  Taps taps{plain ? plain->ptr<float>() : weight.ptr<float>(), scatter ? 9 : filter_step,
            scatter ? filter_step : 9, scatter};
  Buffer<float> nothing(from.sizes[1]);
  std::fill_n(nothing.data(), from.sizes[1], 0.0f);
  TiledConv conv{images_of(from, input.data(), to.sizes + 2, padding[0], padding[1]),
                 images_of(to, output.data(), to.sizes + 2, 0, 0), bias,
                 tiles_of(p.batch, to.sizes + 2), nothing.data()};
  bool finite = conv.tiles <= few_tiles ? run_parts(conv, taps) : run_blocks(conv, taps);
  if (finite) output.write_back();
  return finite;
}

// The gradient of a panel of filters by `some` inputs, where they go, and whether all is finite.
struct FilterGradient {
  float* out;
  int64_t channels;

  bool write(const WinogradPlanes& sums, int64_t panel, int64_t input, int64_t some) const {
    bool finite = true;
    winograd_filter_gradient(sums, some, out + (panel * panel_width * channels + input) * 9,
                             9 * channels, &finite);
    return finite;
  }
};

// The images whose tiles' products are the gradient, and zeros for each of their channels.
struct TiledGradient {
  WinogradImages in, grad;
  int64_t tiles;
  const float* nothing;
};

// Planes of up to so many of their tiles.
class GradientPlanes {
 public:
  GradientPlanes(const TiledGradient& from, int64_t tiles)
      : from_(from),
        in_(planes_of_tiles(tiles, from.in.channels)),
        grad_(planes_of_tiles(tiles, from.grad.channels)) {}

  // Tiles [begin, end), the first of which becomes row `row`.
  void read(int64_t begin, int64_t end, int64_t row) {
    winograd_input(from_.in, begin, end, from_.nothing, in_.from(0, row));
    winograd_gradient(from_.grad, begin, end, from_.nothing, grad_.from(0, row));
  }
  // sums (some, panel) = or += channels of the input from `first` on by a panel of the gradient's,
  // of `tiles` tiles.
  void multiply(int64_t plane, int64_t panel, int64_t first, int64_t some, int64_t tiles,
                float* sums, bool add) const {
    panel_product({in(plane) + first, 1, in_.row(), some, tiles, grad(plane) + panel * panel_width,
                   grad_.row(), sums, panel_width, nullptr, add});
  }
  GemmProblem product_on_unit(int64_t plane, int64_t tiles, float* sums, int64_t sums_row,
                              bool add) const {
    return unit_product_of(from_.in.channels, from_.grad.channels, tiles, in(plane), 1, in_.row(),
                           grad(plane), grad_.row(), sums, sums_row, add);
  }

 private:
  const float* in(int64_t plane) const { return in_.at(0, plane); }
  const float* grad(int64_t plane) const { return grad_.at(0, plane); }

  const TiledGradient& from_;
  Planes in_, grad_;
};

// Of few tiles: sums of a part are complete at once, and still near.
bool weight_by_parts(const TiledGradient& from, const FilterGradient& to) {
  int64_t c = from.in.channels, panels = from.grad.channels / panel_width, tiles = from.tiles;
  GradientPlanes planes(from, tiles);
  parallel_for(0, tiles, 16, [&](int64_t begin, int64_t end) { planes.read(begin, end, begin); });
  std::atomic<bool> finite{true};
  int64_t parts = (c + part_inputs - 1) / part_inputs;
  parallel_for(0, panels * parts, 1, [&](int64_t begin, int64_t end) {
    Planes sums(1, part_inputs, panel_width);
    for (int64_t i = begin; i < end; ++i) {
      int64_t panel = i / parts, input = i % parts * part_inputs;
      int64_t some = std::min(part_inputs, c - input);
      for (int64_t plane = 0; plane < 16; ++plane)
        planes.multiply(plane, panel, input, some, tiles, sums.at(0, plane), false);
      if (!to.write(sums.from(0, 0), panel, input, some)) finite = false;
    }
  });
  return finite;
}

// Of many tiles: block after block is added to the sums of all filters.
bool weight_by_blocks(const TiledGradient& from, const FilterGradient& to) {
  int64_t c = from.in.channels, f = from.grad.channels, panels = f / panel_width;
  int64_t tiles = from.tiles;
  bool on_unit = is_for_unit(DType::Float32, c, f, tiles);
  // Tiles whose products stay in the first-level cache; the unit soon has those of a few.
  int64_t block = on_unit ? 256 : 64;
  GradientPlanes planes(from, block);
  FilterPlanes sums(c, f, on_unit);
  for (int64_t first = 0; first < tiles; first += block) {
    int64_t last = std::min(tiles, first + block);
    parallel_for(first, last, 16,
                 [&](int64_t begin, int64_t end) { planes.read(begin, end, begin - first); });
    if (on_unit) {
      parallel_for(0, 16, 1, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane)
          gemm_tiles(
              planes.product_on_unit(plane, last - first, sums.rows(plane), sums.row(), first > 0));
      });
      continue;
    }
    parallel_for(0, 16 * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        planes.multiply(i / panels, i % panels, 0, c, last - first, sums.at(i % panels, i / panels),
                        first > 0);
    });
  }
  std::atomic<bool> finite{true};
  parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (!to.write(sums.panel(i), i, 0, c)) finite = false;
  });
  return finite;
}

bool run_weight(const ConvProblem& p, const View& large, const View& small, const View& weight) {
  ChannelsLast input(large, true), gradient(small, true);
  Buffer<float> nothing(std::max(p.channels, p.filters));
  std::fill_n(nothing.data(), std::max(p.channels, p.filters), 0.0f);
  TiledGradient from{images_of(large, input.data(), small.sizes + 2, p.padding[0], p.padding[1]),
                     images_of(small, gradient.data(), small.sizes + 2, 0, 0),
                     tiles_of(p.batch, small.sizes + 2), nothing.data()};
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) plain.emplace(weight.shape(), DType::Float32);
  FilterGradient to{plain ? plain->ptr<float>() : weight.ptr<float>(), p.channels};
  bool finite = from.tiles <= few_tiles ? weight_by_parts(from, to) : weight_by_blocks(from, to);
  if (finite && plain) copy(plain->view(), weight);
  return finite;
}

bool suits(ConvOp op, const ConvProblem& p) {
  if (p.dims != 2 || p.groups != 1 || p.channels % panel_width || p.filters % panel_width)
    return false;
  for (int i = 0; i < 2; ++i)
    if (p.kernel[i] != 3 || p.stride[i] != 1 || p.dilation[i] != 1 || p.padding[i] > 2)
      return false;
  // Small layers gain little, and equal windows of an image should give equal bits there: a tile's
  // places round differently, and max pooling over a flat background would choose among them.
  if (std::min(p.channels, p.filters) < 64) return false;
  // Of fewer tiles, the transforms of filters cost more than they save.
  return tiles_of(p.batch, op == ConvOp::Scatter ? p.large : p.small) >= 8;
}

}  // namespace

bool winograd_conv(ConvOp op, const ConvProblem& p, const View& large, const View& small,
                   const View& weight, const float* bias) {
  if (!suits(op, p)) return false;
  if (op == ConvOp::Weight) return !bias && run_weight(p, large, small, weight);
  return op == ConvOp::Gather ? run_data(false, p, large, small, weight, bias)
                              : run_data(true, p, small, large, weight, nullptr);
}

}  // namespace rl::kernels
