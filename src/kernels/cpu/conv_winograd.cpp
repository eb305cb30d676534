// 3x3 convolutions of stride 1 by Winograd's filtering, in blocks of tiles.
#include <algorithm>
#include <atomic>
#include <optional>

#include "core/parallel.h"
#include "kernels/copy.h"
#include "kernels/cpu/conv_problem.h"
#include "kernels/winograd.h"
#include "kernels/workspace.h"

namespace rl::kernels {
namespace {

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// A float32 view of images, or a copy of it or for it, that lies channels_last.
class ChannelsLast {
 public:
  ChannelsLast(const View& v, bool read) : given_(v) {
    int64_t n = v.sizes[0], c = v.sizes[1], h = v.sizes[2], w = v.sizes[3];
    strides_ = {h * w * c, 1, w * c, c};
    bool same = true;
    for (int64_t i = 0; i < 4; ++i) same = same && (v.sizes[i] == 1 || v.strides[i] == strides_[i]);
    if (!same) copy_.emplace(n * c * h * w);
    if (!same && read) copy(given_, view());
  }
  float* data() const { return copy_ ? copy_->data() : given_.ptr<float>(); }
  void write_back() const {
    if (copy_) copy(view(), given_);
  }

 private:
  View view() const {
    return {data(), given_.sizes, strides_.data(), 4, given_.numel, DType::Float32};
  }
  const View& given_;
  Dims strides_;
  std::optional<Buffer<float>> copy_;
};

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

// Tiles in a block, whose planes stay in the second-level cache; more where filters are large,
// which each block reads once.
int64_t block_tiles(int64_t inputs, int64_t outputs, int64_t tiles) {
  int64_t wanted = std::max<int64_t>(64, inputs * outputs / 512);
  int64_t shared = round_up((tiles + num_threads() - 1) / num_threads(), winograd_strip);
  return std::min(wanted, shared);
}

// Gather, or Scatter with inputs and outputs exchanged and the taps in reverse.
bool run_data(bool scatter, const ConvProblem& p, const View& from, const View& to,
              const View& weight, const float* bias) {
  ChannelsLast input(from, true), output(to, false);
  int64_t inputs = from.sizes[1], outputs = to.sizes[1], batch = p.batch;
  int64_t padding[2];
  for (int i = 0; i < 2; ++i) padding[i] = scatter ? 2 - p.padding[i] : p.padding[i];
  WinogradImages in = images_of(from, input.data(), to.sizes + 2, padding[0], padding[1]);
  WinogradImages out = images_of(to, output.data(), to.sizes + 2, 0, 0);
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) plain.emplace(RowMajor::copy_of(weight, DType::Float32));
  const float* taps = plain ? plain->ptr<float>() : weight.ptr<float>();
  int64_t steps[2] = {9 * p.channels, 9};

  int64_t filter_plane = winograd_plane(inputs * winograd_panel);
  Buffer<float> filter(16 * outputs / winograd_panel * filter_plane);
  parallel_for(0, outputs / winograd_panel, 1, [&](int64_t begin, int64_t end) {
    for (int64_t f = begin * winograd_panel; f < end * winograd_panel; f += winograd_panel)
      winograd_filter(taps + f * steps[scatter], steps[scatter], steps[!scatter], scatter, inputs,
                      filter.data() + f / winograd_panel * 16 * filter_plane);
  });
  Buffer<float> nothing(inputs);
  std::fill_n(nothing.data(), inputs, 0.0f);
  int64_t tiles = batch * in.rows * in.columns, block = block_tiles(inputs, outputs, tiles);
  std::atomic<bool> finite{true};
  parallel_for(0, (tiles + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
    Buffer<float> planes(16 * winograd_plane(block * inputs));
    Buffer<float> products(16 * winograd_plane(block * outputs)), nowhere(outputs);
    bool all = true;
    for (int64_t b = begin; b < end; ++b) {
      int64_t first = b * block, last = std::min(tiles, first + block);
      int64_t whole = round_up(last - first, winograd_strip);
      winograd_input(in, first, last, nothing.data(), planes.data());
      for (int64_t plane = 0; plane < 16; ++plane)
        for (int64_t f = 0; f < outputs; f += winograd_panel)
          winograd_product(planes.data() + plane * winograd_plane(inputs * whole), whole, inputs,
                           filter.data() + (f / winograd_panel * 16 + plane) * filter_plane,
                           products.data() + plane * winograd_plane(outputs * whole) + f * whole);
      winograd_output(out, first, last, products.data(), bias, nowhere.data(), &all);
    }
    if (!all) finite = false;
  });
  if (finite) output.write_back();
  return finite;
}

// Tiles whose products one sum of the weight gradient takes up at a time.
constexpr int64_t sum_tiles = 64;

bool run_weight(const ConvProblem& p, const View& large, const View& small, const View& weight) {
  ChannelsLast input(large, true), gradient(small, true);
  WinogradImages in = images_of(large, input.data(), small.sizes + 2, p.padding[0], p.padding[1]);
  WinogradImages grad = images_of(small, gradient.data(), small.sizes + 2, 0, 0);
  int64_t c = p.channels, f = p.filters, tiles = p.batch * in.rows * in.columns;
  int64_t block = std::min(sum_tiles, round_up(tiles, winograd_strip));
  int64_t panels = f / winograd_panel, plane_step = winograd_plane(c * winograd_panel);
  Buffer<float> nothing(std::max(c, f)), sums(16 * panels * plane_step);
  Buffer<float> in_planes(16 * winograd_plane(c * block));
  Buffer<float> grad_planes(16 * winograd_plane(f * block));
  std::fill_n(nothing.data(), std::max(c, f), 0.0f);
  for (int64_t first = 0; first < tiles; first += block) {
    int64_t last = std::min(tiles, first + block);
    int64_t whole = round_up(last - first, winograd_strip);
    winograd_input(in, first, last, nothing.data(), in_planes.data());
    winograd_gradient(grad, first, last, nothing.data(), grad_planes.data());
    parallel_for(0, 16 * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t plane = i / panels, part = i % panels;
        winograd_accumulate(
            in_planes.data() + plane * winograd_plane(c * whole),
            grad_planes.data() + plane * winograd_plane(f * whole) + part * winograd_panel * whole,
            whole, c, first > 0, sums.data() + (part * 16 + plane) * plane_step);
      }
    });
  }
  std::optional<RowMajor> plain;
  if (!weight.contiguous()) plain.emplace(weight.shape(), DType::Float32);
  float* out = plain ? plain->ptr<float>() : weight.ptr<float>();
  std::atomic<bool> finite{true};
  parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
    bool all = true;
    for (int64_t i = begin; i < end; ++i)
      winograd_filter_gradient(sums.data() + i * 16 * plane_step, c,
                               out + i * winograd_panel * 9 * c, 9 * c, &all);
    if (!all) finite = false;
  });
  if (finite && plain) copy_strided(plain->view(), weight);
  return finite;
}

bool suits(ConvOp op, const ConvProblem& p) {
  if (p.dims != 2 || p.groups != 1 || p.channels % winograd_panel || p.filters % winograd_panel)
    return false;
  for (int i = 0; i < 2; ++i)
    if (p.kernel[i] != 3 || p.stride[i] != 1 || p.dilation[i] != 1 || p.padding[i] > 2)
      return false;
  // Below some number of tiles, the transforms of filters cost more than they save.
  const int64_t* tiled = op == ConvOp::Scatter ? p.large : p.small;
  int64_t tiles = p.batch * ((tiled[0] + 1) / 2) * ((tiled[1] + 1) / 2);
  return tiles >= (op == ConvOp::Weight ? 48 : 96);
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
