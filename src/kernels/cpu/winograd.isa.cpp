#include "kernels/cpu/winograd.h"

#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/transpose.h"

namespace rl::kernels::RL_ISA {
namespace {

using V = vec<float>;
constexpr int64_t lanes = Vector<float>::lanes, panel = panel_width;
constexpr int64_t most_inputs = 16;  // whose taps are transposed together; divides a panel

// 1-D transforms. Each works on 4 vectors `step` apart, or on the 3 or 2 that it is for.
struct Input {  // B^T
  static constexpr int from = 4, to = 4;
  static void apply(const V* x, V* y, int step) {
    V a = x[step], b = x[2 * step];
    y[0] = x[0] - b;
    y[step] = a + b;
    y[2 * step] = b - a;
    y[3 * step] = a - x[3 * step];
  }
};
struct Filter {  // G
  static constexpr int from = 3, to = 4;
  static void apply(const V* x, V* y, int step) {
    V ends = (x[0] + x[2 * step]) * 0.5f, middle = x[step] * 0.5f, last = x[2 * step];
    y[0] = x[0];
    y[step] = ends + middle;
    y[2 * step] = ends - middle;
    y[3 * step] = last;
  }
};
struct Output {  // A^T
  static constexpr int from = 4, to = 2;
  static void apply(const V* x, V* y, int step) {
    V sum = x[step] + x[2 * step], difference = x[step] - x[2 * step];
    y[0] = x[0] + sum;
    y[step] = difference - x[3 * step];
  }
};
struct Gradient {  // A
  static constexpr int from = 2, to = 4;
  static void apply(const V* x, V* y, int step) {
    V a = x[0], b = x[step];
    y[0] = a;
    y[step] = a + b;
    y[2 * step] = a - b;
    y[3 * step] = -b;
  }
};
struct FilterGradient {  // G^T
  static constexpr int from = 4, to = 3;
  static void apply(const V* x, V* y, int step) {
    V sum = (x[step] + x[2 * step]) * 0.5f, difference = (x[step] - x[2 * step]) * 0.5f;
    y[0] = x[0] + sum;
    y[step] = difference;
    y[2 * step] = sum + x[3 * step];
  }
};

// The transform of a square of from x from vectors, both ways, in place: rows are 4 vectors apart.
template <class Transform> void transform(V (&square)[16]) {
#pragma GCC unroll 4
  for (int row = 0; row < Transform::from; ++row)
    Transform::apply(square + 4 * row, square + 4 * row, 1);
#pragma GCC unroll 4
  for (int column = 0; column < Transform::to; ++column)
    Transform::apply(square + column, square + column, 4);
}

// The pixels of tile `index`, n by n; what lies outside is `outside`.
template <int n>
void find_pixels(const WinogradImages& t, int64_t index, float* outside, float* (&pixels)[16]) {
  int64_t image = index / (t.rows * t.columns), tile = index % (t.rows * t.columns);
  int64_t top = tile / t.columns * 2 - t.padding[0], left = tile % t.columns * 2 - t.padding[1];
  float* data = t.data + image * t.height * t.width * t.channels;
  for (int64_t y = 0; y < n; ++y)
    for (int64_t x = 0; x < n; ++x) {
      bool inside = top + y >= 0 && top + y < t.height && left + x >= 0 && left + x < t.width;
      pixels[4 * y + x] = inside ? data + ((top + y) * t.width + left + x) * t.channels : outside;
    }
}

template <class Transform>
void to_planes(const WinogradImages& t, int64_t begin, int64_t end, const float* nothing,
               const WinogradPlanes& planes) {
  constexpr int n = Transform::from;
  float* pixels[16];
  for (int64_t i = begin; i < end; ++i) {
    find_pixels<n>(t, i, const_cast<float*>(nothing), pixels);
    for (int64_t c = 0; c < t.channels; c += lanes) {
      V square[16];
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k)
        if (k / 4 < n && k % 4 < n) square[k] = load(pixels[k] + c);
      transform<Transform>(square);
      float* out = planes.data + (i - begin) * planes.row + c;
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) store(out + k * planes.plane, square[k]);
    }
  }
}

bool all_zero(V v) {
  bool zero = true;
  for (int i = 0; i < lanes; ++i) zero = zero && v[i] == 0;
  return zero;
}

}  // namespace

void winograd_input(const WinogradImages& images, int64_t begin, int64_t end, const float* nothing,
                    const WinogradPlanes& planes) {
  to_planes<Input>(images, begin, end, nothing, planes);
}

void winograd_gradient(const WinogradImages& images, int64_t begin, int64_t end,
                       const float* nothing, const WinogradPlanes& planes) {
  to_planes<Gradient>(images, begin, end, nothing, planes);
}

void winograd_filter(const float* filter, int64_t output_step, int64_t input_step, bool flipped,
                     int64_t inputs, const WinogradPlanes& planes) {
  constexpr int64_t spare = 7;  // 9 taps are transposed as 16
  alignas(64) float taps[(most_inputs * 9 + spare) * panel];
  for (int64_t i = 0; i < inputs; i += most_inputs) {
    if (input_step == 9)
      transpose_floats(filter + i * 9, output_step, taps, panel, panel, most_inputs * 9);
    else
      for (int64_t k = 0; k < most_inputs; ++k) {
        float outputs[panel * 9 + spare];
        std::memcpy(outputs, filter + (i + k) * input_step, panel * 9 * sizeof(float));
        transpose_floats(outputs, 9, taps + k * 9 * panel, panel, panel, 9 + spare);
      }
    for (int64_t k = 0; k < most_inputs; ++k)
      for (int64_t w = 0; w < panel; w += lanes) {
        V square[16];
#pragma GCC unroll 9
        for (int tap = 0; tap < 9; ++tap)
          square[4 * (tap / 3) + tap % 3] =
              load(taps + (k * 9 + (flipped ? 8 - tap : tap)) * panel + w);
        transform<Filter>(square);
        float* out = planes.data + (i + k) * planes.row + w;
#pragma GCC unroll 16
        for (int p = 0; p < 16; ++p) store(out + p * planes.plane, square[p]);
      }
  }
}

void winograd_output(const WinogradImages& images, int64_t begin, int64_t end,
                     const WinogradPlanes& planes, const float* bias, float* nowhere,
                     bool* finite) {
  V zero = {};
  for (int64_t i = begin; i < end; ++i) {
    float* pixels[16];
    find_pixels<2>(images, i, nowhere, pixels);
    for (int64_t c = 0; c < images.channels; c += lanes) {
      const float* in = planes.data + (i - begin) * planes.row + c;
      V square[16];
#pragma GCC unroll 16
      for (int k = 0; k < 16; ++k) square[k] = load(in + k * planes.plane);
      transform<Output>(square);
      V base = bias ? load(bias + c) : V{};
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        V y = square[4 * (k / 2) + k % 2] + base;
        zero = mul_add(y, 0.0f, zero);
        store(pixels[4 * (k / 2) + k % 2] + c, y);
      }
    }
  }
  if (!all_zero(zero)) *finite = false;
}

void winograd_filter_gradient(const WinogradPlanes& planes, int64_t inputs, float* filter,
                              int64_t output_step, bool* finite) {
  alignas(64) float taps[most_inputs * 9 * panel];
  V zero = {};
  for (int64_t i = 0; i < inputs; i += most_inputs) {
    for (int64_t k = 0; k < most_inputs; ++k)
      for (int64_t w = 0; w < panel; w += lanes) {
        V square[16];
#pragma GCC unroll 16
        for (int p = 0; p < 16; ++p)
          square[p] = load(planes.data + p * planes.plane + (i + k) * planes.row + w);
        transform<FilterGradient>(square);
#pragma GCC unroll 9
        for (int tap = 0; tap < 9; ++tap) {
          V y = square[4 * (tap / 3) + tap % 3];
          zero = mul_add(y, 0.0f, zero);
          store(taps + (k * 9 + tap) * panel + w, y);
        }
      }
    transpose_floats(taps, panel, filter + i * 9, output_step, most_inputs * 9, panel);
  }
  if (!all_zero(zero)) *finite = false;
}

}  // namespace rl::kernels::RL_ISA
