// unfold (im2col) and fold (col2im): sliding blocks of images as columns, and their sum back.
#pragma once
#include "core/view.h"

namespace rl::kernels {

struct WindowGeometry {
  int dims = 2;  // spatial dims; the arrays below are valid up to here
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t padding[3] = {0, 0, 0};
  int64_t dilation[3] = {1, 1, 1};
  int64_t count[3] = {0, 0, 0};  // window positions; 0: as many as fit
};

// RuntimeError unless each number that a window is given by fits into 32 bits: sums and products of
// them then fit into 64.
void check_window(const char* op, const char* what, IntSpan numbers);

// Number of window positions along a dim of the given size; 0 when the window does not fit.
int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     int64_t dilation);

// images (N, C, *) -> columns (N, C * kernel, positions); every dtype.
void unfold(const View& images, const View& columns, const WindowGeometry& geometry);
// columns (N, C * kernel, positions) -> images (N, C, *), overwritten; every dtype but bool.
void fold(const View& columns, const View& images, const WindowGeometry& geometry);

}  // namespace rl::kernels
