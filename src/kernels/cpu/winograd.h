// Winograd's minimal filtering F(2x2, 3x3): a 3x3 convolution of stride 1 as 16 matrix products
// over tiles, with 4/9 of the multiplications. The coefficients are 1 and 1/2, so that rounding
// errors are no larger than those of the direct sum. See Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015.
//
// Tiles are 4x4 pixels apart by 2, or 2x2; one at (y, x) of an image has its corner at
// (2 y - padding, 2 x - padding), and what it holds beyond the image is zero. Channels come in
// whole panels (kernels/cpu/panel_product.h).
#pragma once
#include <cstdint>

#include "kernels/cpu/isa.h"

namespace rl::kernels {

// Float32 images that lie channels_last, and their tiles.
struct WinogradImages {
  float* data;
  int64_t height, width, channels;
  int64_t rows, columns;  // of tiles in an image
  int64_t padding[2];
};

// What is transformed, in 16 planes. Strides: of a plane, and of its rows. A power of two makes
// cache lines displace each other.
struct WinogradPlanes {
  float* data;
  int64_t plane, row;
};

// Tiles [begin, end) of 4x4 pixels, each a row of channels. `nothing`: `channels` zeros.
RL_ISA_KERNEL(winograd_input, (const WinogradImages& images, int64_t begin, int64_t end,
                               const float* nothing, const WinogradPlanes& planes))
// Tiles [begin, end) of 2x2 pixels of a gradient by the output.
RL_ISA_KERNEL(winograd_gradient, (const WinogradImages& images, int64_t begin, int64_t end,
                                  const float* nothing, const WinogradPlanes& planes))
// A panel of outputs of filters whose 9 taps lie together, in reverse if `flipped`; each input is a
// row. Either inputs or outputs follow each other, 9 elements apart.
RL_ISA_KERNEL(winograd_filter, (const float* filter, int64_t output_step, int64_t input_step,
                                bool flipped, int64_t inputs, const WinogradPlanes& planes))
// Writes tiles [begin, end) of 2x2 pixels from their planes, and adds a bias for each channel (may
// be null). `nowhere`: room for `channels` values. Clears `finite` if a value is not.
RL_ISA_KERNEL(winograd_output,
              (const WinogradImages& images, int64_t begin, int64_t end,
               const WinogradPlanes& planes, const float* bias, float* nowhere, bool* finite))
// The gradient of a panel of filters, from planes to taps that lie together, as their inputs do.
RL_ISA_KERNEL(winograd_filter_gradient, (const WinogradPlanes& planes, int64_t inputs,
                                         float* filter, int64_t output_step, bool* finite))

}  // namespace rl::kernels
