// Winograd's minimal filtering F(2x2, 3x3): a 3x3 convolution of stride 1 as 16 matrix products
// over tiles, with 4/9 of the multiplications. The coefficients are 1 and 1/2, so that rounding
// errors are no larger than those of the direct sum. See Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015.
//
// Tiles are 4x4 pixels apart by 2, or 2x2; one at (y, x) of an image has its corner at
// (2 y - padding, 2 x - padding), and what it holds beyond the image is zero. Tiles in the
// transform lie in 16 planes, each in panels of channels: [16][channels / panel][tiles][panel]; a
// panel of filters in planes [16][inputs][panel]. Channels come in whole panels, tiles in whole
// strips, filled up with zeros.
#pragma once
#include <cstdint>

#include "kernels/isa.h"

namespace rl::kernels {

constexpr int64_t winograd_panel = 32, winograd_strip = 8;
// Elements from plane to plane: never a power of two, whose cache lines would displace each other.
constexpr int64_t winograd_plane(int64_t used) { return used + 16; }

// Float32 images that lie channels_last, and their tiles.
struct WinogradImages {
  float* data;
  int64_t height, width, channels;
  int64_t rows, columns;  // of tiles in an image
  int64_t padding[2];
};

// Tiles [begin, end) of 4x4 pixels. `nothing`: `channels` zeros.
RL_ISA_KERNEL(winograd_input, (const WinogradImages& images, int64_t begin, int64_t end,
                               const float* nothing, float* planes))
// Tiles [begin, end) of 2x2 pixels of a gradient by the output.
RL_ISA_KERNEL(winograd_gradient, (const WinogradImages& images, int64_t begin, int64_t end,
                                  const float* nothing, float* planes))
// A panel of outputs of filters whose 9 taps lie together, in reverse if `flipped`. Either inputs
// or outputs follow each other, 9 elements apart.
RL_ISA_KERNEL(winograd_filter, (const float* filter, int64_t output_step, int64_t input_step,
                                bool flipped, int64_t inputs, float* planes))
// For one plane: tiles of a panel of outputs = input tiles @ filters (inputs, panel of outputs).
RL_ISA_KERNEL(winograd_product, (const float* input, int64_t tiles, int64_t inputs,
                                 const float* filter, float* output))
// Writes tiles [begin, end) of 2x2 pixels from their planes, and adds a bias for each channel (may
// be null). `nowhere`: room for `channels` values. Clears `finite` if a value is not.
RL_ISA_KERNEL(winograd_output,
              (const WinogradImages& images, int64_t begin, int64_t end, const float* planes,
               const float* bias, float* nowhere, bool* finite))
// For one plane: filter gradients (inputs, panel of outputs) = or += input tiles' transpose @
// gradient tiles of that panel.
RL_ISA_KERNEL(winograd_accumulate, (const float* input, const float* gradient, int64_t tiles,
                                    int64_t inputs, bool add, float* filter))
// The gradient of a panel of filters, from planes to taps that lie together, as their inputs do.
RL_ISA_KERNEL(winograd_filter_gradient, (const float* planes, int64_t inputs, float* filter,
                                         int64_t output_step, bool* finite))

}  // namespace rl::kernels
