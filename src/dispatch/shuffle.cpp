// Channels that become blocks of pixels, pixels that become channels, and channels that change
// places: each is one copy between two views of the same shape.
#include "dispatch/generated.h"
#include "dispatch/shape_rules.h"
#include "impl_resample.h"
#include "ops_resample.h"
#include "tensor/output_layout.h"

namespace rl {

namespace impl {
namespace {

Tensor blocks(const Tensor& t, IntSpan channel_height_width, IntSpan steps) {
  const int64_t images = t.dim() - 3;
  Dims sizes(IntSpan(t.sizes().data(), images)), strides(IntSpan(t.strides().data(), images));
  for (int64_t n : channel_height_width) sizes.push_back(n);
  for (int64_t n : steps) strides.push_back(n);
  return alias(t, sizes, strides, t.offset());
}

// An image whose channels hold blocks of r by r pixels, and that of the pixels, both as (*,
// channel, height, row in the block, width, column in the block).
Tensor blocks_of_channels(const Tensor& t, int64_t r) {
  const int64_t *n = t.sizes().data() + t.dim() - 3, *s = t.strides().data() + t.dim() - 3;
  return blocks(t, Dims{n[0] / r / r, n[1], r, n[2], r},
                Dims{s[0] * r * r, s[1], s[0] * r, s[2], s[0]});
}
Tensor blocks_of_pixels(const Tensor& t, int64_t r) {
  const int64_t *n = t.sizes().data() + t.dim() - 3, *s = t.strides().data() + t.dim() - 3;
  return blocks(t, Dims{n[0], n[1] / r, r, n[2] / r, r},
                Dims{s[0], s[1] * r, s[1], s[2] * r, s[2]});
}

// (N, C, *) as (N, place in a group, group, *); the channels of a group are neighbours, or those of
// a place are.
Tensor split_channels(const Tensor& t, int64_t groups, bool groups_are_neighbours) {
  Dims sizes = t.sizes(), strides = t.strides();
  const int64_t places = sizes[1] / groups, step = strides[1];
  sizes[1] = places;
  sizes.insert(2, groups);
  strides[1] = groups_are_neighbours ? step : step * groups;
  strides.insert(2, groups_are_neighbours ? step * places : step);
  return alias(t, sizes, strides, t.offset());
}

// In the input's suggested format.
Tensor image(const Tensor& input, const Dims& sizes) {
  Dims strides = strides_in_format(sizes, suggested_format(input));
  return make_output(OutputSpec{sizes, input.dtype(), strides}, input.device());
}

// The last three sizes, of an image whose blocks are r wide.
int64_t* image_sizes(const char* op, Dims& sizes, const char* factor, int64_t r) {
  check(sizes.size() >= 3, op, ": needs at least 3 dims but got ", sizes);
  check(r > 0, op, ": ", factor, " must be positive but is ", r);
  return sizes.data() + sizes.size() - 3;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& input, int64_t r) {
  Dims sizes = input.sizes();
  int64_t* last = image_sizes("pixel_shuffle", sizes, "upscale_factor", r);
  check(last[0] % r == 0 && last[0] / r % r == 0, "pixel_shuffle: ", last[0],
        " channels are not divisible by ", r, "^2");
  last[0] = last[0] / r / r;
  for (int d : {1, 2}) last[d] = product(Dims{last[d], r});
  Tensor out = image(input, sizes);
  if (out.numel())
    written_to(blocks_of_pixels(out, r), blocks_of_channels(input, r), "pixel_shuffle");
  return out;
}

Tensor pixel_unshuffle(const Tensor& input, int64_t r) {
  Dims sizes = input.sizes();
  int64_t* last = image_sizes("pixel_unshuffle", sizes, "downscale_factor", r);
  check(last[1] % r == 0 && last[2] % r == 0, "pixel_unshuffle: ", last[1], " by ", last[2],
        " is not divisible by ", r);
  last[0] = product(Dims{last[0], r, r});
  for (int d : {1, 2}) last[d] /= r;
  Tensor out = image(input, sizes);
  if (out.numel())
    written_to(blocks_of_channels(out, r), blocks_of_pixels(input, r), "pixel_unshuffle");
  return out;
}

Tensor channel_shuffle(const Tensor& input, int64_t groups) {
  check(input.dim() >= 3, "channel_shuffle: needs at least 3 dims but got ", input.sizes());
  int64_t channels = input.sizes()[1];
  check(groups > 0 && channels % groups == 0, "channel_shuffle: ", channels,
        " channels are not divisible by groups=", groups);
  Tensor out = image(input, input.sizes());
  if (out.numel())
    written_to(split_channels(out, groups, false), split_channels(input, groups, true),
               "channel_shuffle");
  return out;
}

}  // namespace impl

namespace grad {

Tensor channel_unshuffle(const Tensor& grad, int64_t groups) {
  const int64_t channels = grad.sizes()[1];
  return ops::channel_shuffle(grad, channels ? channels / groups : groups);
}

}  // namespace grad
}  // namespace rl
