// Every convolution and its gradients, transposed or not, as three operations between a large
// tensor (the input of a convolution, the output of a transposed one) and a small one.
#pragma once
#include "kernels/conv.h"

namespace rl::kernels {

enum class ConvOp {
  Gather,   // large, weight -> small: convolution; gradient of a transposed one
  Scatter,  // small, weight -> large: its transpose
  Weight    // large, small -> weight
};

struct ConvProblem {
  int dims;
  int64_t batch, channels, filters,
      groups;  // channels of the large tensor, filters of the small one
  int64_t large[3], small[3], kernel[3], stride[3], padding[3], dilation[3];

  ConvProblem(const View& large, const View& small, const View& weight,
              const ConvGeometry& geometry);
};

// Whether each pixel of the result sees one, its own.
inline bool is_pointwise(const ConvProblem& p) {
  for (int i = 0; i < p.dims; ++i)
    if (p.kernel[i] != 1 || p.stride[i] != 1 || p.padding[i] != 0) return false;
  return true;
}

// Whether no element of a view is seen twice.
bool separate(const View& v);

// One pixel on the matrix unit, of float32 and 16-bit floats; false where it does not
// apply or is no quicker. `bias`, of the same dtype, is read by Gather and Scatter; `formula` as in
// panel_conv.
bool pointwise_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                    const View& weight, const View* bias, const StripFormula* formula);

// float32 views without empty dims or overlapping elements; `weight` is (filters, channels /
// groups,
// *). `bias` (contiguous, per filter) may be nullptr: it is read by Gather.
//
// By Winograd's filtering; false where that does not apply or is no quicker, and where
// the result is not finite: the transforms would spread an infinity over neighbouring pixels.
bool winograd_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                   const View& weight, const float* bias);

// The same, as matrix products without a change of layout; false where that does not apply or is no
// quicker. `formula`, or null, describes the elements of `large`, which Gather and Weight read,
// where they are not in memory.
bool panel_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                const View& weight, const float* bias, const StripFormula* formula);

// The same, where each channel has a filter of its own; false where that is not so, or where
// the result might spread an infinity.
bool depthwise_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                    const View& weight, const float* bias, const StripFormula* formula);

// The same, where a few planes make a few planes; false where suits_planes() says that it is not
// so, or where the result might spread an infinity. Without a bias for Weight.
bool suits_planes(ConvOp op, const ConvProblem& problem);
bool plane_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                const View& weight, const float* bias);

// The same, of small groups of channels, channels_last inside; false where they are not small.
// `bias` is read by Scatter too.
bool group_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                const View& weight, const float* bias);

// The same in any geometry, as matrix products of windows, and of bfloat16 too where
// has_bfloat16_products(); `bias` is read by Scatter too. False where panels are quicker, unless it
// is asked for `anyway`, and where the zeros between and around pixels would be most of what is
// read.
bool window_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                 const View& weight, const float* bias, bool anyway = false);

// Any dtype but the 16-bit floats, without bias.
void generic_conv(ConvOp op, const ConvProblem& problem, const View& large, const View& small,
                  const View& weight);

}  // namespace rl::kernels
