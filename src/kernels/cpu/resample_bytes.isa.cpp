#include "kernels/cpu/resample_bytes.h"

#include <cstring>
#include <utility>

#include "kernels/cpu/simd.h"

namespace rl::kernels::RL_ISA {

namespace {

constexpr int most_channels = ByteTaps::most_channels, lanes = Vector<int32_t>::lanes;
using Sums = vec<int32_t>;
using Bytes = vec<uint8_t, lanes>;

int32_t half_of(const ByteTaps& taps) { return taps.bits ? 1 << (taps.bits - 1) : 0; }

int32_t weight_of(const ByteTaps& taps, int64_t k, int64_t o) {
  return taps.weight[k * taps.stride + o];
}

RL_INLINE uint8_t rounded(int32_t sum, int bits) {
  int32_t value = sum >> bits;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}
RL_INLINE Sums rounded(Sums sums, int bits) {
  Sums value = sums >> bits, most = Sums{} + 255;
  value &= ~(value >> 31);
  return value > most ? most : value;
}

// Words of 32 bits at first[i] * step.
template <size_t... i> RL_INLINE auto words_at(const uint8_t* line, const int32_t* first,
                                               int64_t step, std::index_sequence<i...>) {
  auto word = [&](size_t k) {
    uint32_t w;
    std::memcpy(&w, line + first[k] * step, sizeof w);
    return w;
  };
  using Words = vec<uint32_t, 4 * sizeof...(i)>;
  return Words{word(i)...};
}

// Outputs from o on of a line of single bytes. A word has the inputs of four taps.
void resample_line(const ByteTaps& taps, const uint8_t* line, uint8_t* to, int64_t o) {
  Sums sums = Sums{} + half_of(taps);
  for (int64_t k = 0; k < taps.width; k += 4) {
    auto words = words_at(line + k, taps.first + o, 1, std::make_index_sequence<lanes>());
    for (int64_t j = k; j < k + 4 && j < taps.width; ++j, words >>= 8)
      sums += load(taps.weight + j * taps.stride + o) * (Sums)(words & 255);
  }
  store(to + o, __builtin_convertvector(rounded(sums, taps.bits), Bytes));
}

// The same of pixels of up to four channels. A word is a pixel.
template <int channels>
void resample_pixels(const ByteTaps& taps, const uint8_t* line, uint8_t* to, int64_t o) {
  Sums sums[channels];
  for (int c = 0; c < channels; ++c) sums[c] = Sums{} + half_of(taps);
  for (int64_t k = 0; k < taps.width; ++k) {
    auto words =
        words_at(line + k * channels, taps.first + o, channels, std::make_index_sequence<lanes>());
    Sums weight = load(taps.weight + k * taps.stride + o);
    for (int c = 0; c < channels; ++c, words >>= 8) sums[c] += weight * (Sums)(words & 255);
  }
  Sums pixels{};
  for (int c = 0; c < channels; ++c) pixels |= rounded(sums[c], taps.bits) << (8 * c);
  // In order: the bytes past each pixel are overwritten by the next.
  for (int i = 0; i < lanes; ++i) {
    int32_t pixel = pixels[i];
    std::memcpy(to + (o + i) * channels, &pixel, sizeof pixel);
  }
}

void resample_whole_line(const ByteTaps& taps, const uint8_t* line, uint8_t* to, int64_t channels) {
  for (int64_t o = 0; o < taps.stride; o += lanes) switch (channels) {
      case 1: resample_line(taps, line, to, o); break;
      case 2: resample_pixels<2>(taps, line, to, o); break;
      case 3: resample_pixels<3>(taps, line, to, o); break;
      default: resample_pixels<4>(taps, line, to, o);
    }
}

// Lines of pixels: read and written in buffers, past whose ends whole blocks may go.
void resample_lines(const ByteTaps& taps, const uint8_t* from, uint8_t* to, int64_t outer,
                    int64_t channels, uint8_t* scratch) {
  int64_t read = taps.in * channels, written = taps.out * channels;
  uint8_t* made = scratch + read + (taps.width + 1) * most_channels;
  std::memset(scratch + read, 0, static_cast<size_t>(made - scratch - read));
  for (int64_t n = 0; n < outer; ++n) {
    std::memcpy(scratch, from + n * read, static_cast<size_t>(read));
    resample_whole_line(taps, scratch, made, channels);
    std::memcpy(to + n * written, made, static_cast<size_t>(written));
  }
}

// One line of output, of the rows that it takes.
template <int width> void resample_row(const ByteTaps& taps, int64_t o, const uint8_t* rows,
                                       uint8_t* __restrict to, int64_t inner) {
  int32_t weight[width], half = half_of(taps);
  for (int k = 0; k < width; ++k) weight[k] = weight_of(taps, k, o);
  for (int64_t i = 0; i < inner; ++i) {
    int32_t sum = half;
    for (int k = 0; k < width; ++k) sum += weight[k] * rows[k * inner + i];
    to[i] = rounded(sum, taps.bits);
  }
}

void resample_wide_row(const ByteTaps& taps, int64_t o, const uint8_t* rows, uint8_t* __restrict to,
                       int64_t inner) {
  constexpr int64_t most = 512;
  int32_t sums[most];
  int64_t left = taps.in - taps.first[o], count = left < taps.width ? left : taps.width;
  for (int64_t begin = 0; begin < inner; begin += most) {
    int64_t n = inner - begin < most ? inner - begin : most;
    for (int64_t i = 0; i < n; ++i) sums[i] = half_of(taps);
    for (int64_t k = 0; k < count; ++k) {
      int32_t weight = weight_of(taps, k, o);
      const uint8_t* __restrict row = rows + k * inner + begin;
      for (int64_t i = 0; i < n; ++i) sums[i] += weight * row[i];
    }
    for (int64_t i = 0; i < n; ++i) to[begin + i] = rounded(sums[i], taps.bits);
  }
}

}  // namespace

void resample_bytes(const ByteTaps& taps, const uint8_t* from, uint8_t* to, int64_t outer,
                    int64_t inner, uint8_t* scratch) {
  if (inner <= most_channels) return resample_lines(taps, from, to, outer, inner, scratch);
  for (int64_t n = 0; n < outer; ++n)
    for (int64_t o = 0; o < taps.out; ++o) {
      const uint8_t* rows = from + (n * taps.in + taps.first[o]) * inner;
      uint8_t* row = to + (n * taps.out + o) * inner;
      bool inside = taps.first[o] + taps.width <= taps.in;
      if (inside && taps.width == 2) resample_row<2>(taps, o, rows, row, inner);
      else if (inside && taps.width == 4) resample_row<4>(taps, o, rows, row, inner);
      else resample_wide_row(taps, o, rows, row, inner);
    }
}

}  // namespace rl::kernels::RL_ISA
