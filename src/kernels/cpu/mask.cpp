#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/interpreter.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/strided_iterator.h"
#include "kernels/cpu/strip.h"
#include "kernels/index.h"
#include "kernels/reduce.h"

namespace rl::kernels {
namespace {

// Inline: where no instruction for it is taken for granted, the builtin is a call.
int64_t count_bits(uint64_t x) {
  constexpr uint64_t ones = ~uint64_t(0);
  x -= x >> 1 & ones / 3;
  x = (x & ones / 5) + (x >> 2 & ones / 5);
  x = (x + (x >> 4)) & ones / 17;
  return static_cast<int64_t>(x * (ones / 255) >> 56);
}

void check_mask(const char* op, const View& v, const View& mask) {
  check(mask.dtype == DType::Bool, op, ": expected a mask of dtype bool, got ", mask.dtype);
  check(mask.shape() == v.shape(), op, ": mask of sizes ", mask.shape(), " and self of sizes ",
        v.shape(), " do not match");
}

// Of 8 bytes one bit each: is it not zero?
uint64_t bits_of_bytes(const uint8_t* bytes) {
  constexpr uint64_t low = 0x7f7f7f7f7f7f7f7f;
  uint64_t eight;
  std::memcpy(&eight, bytes, 8);
  eight = (((eight & low) + low) | eight) & ~low;  // the highest bit of each byte
  return (eight >> 7) * 0x0102040810204080 >> 56;  // moved beside each other
}

// Which elements are not zero, in row-major order, a bit each: read once, so that what another
// thread changes meanwhile is seen by all that follows or by nothing.
class TrueBits {
 public:
  explicit TrueBits(const View& mask)
      : numel_(mask.numel),
        words_(static_cast<size_t>(numel_ / 64 + 2)),
        firsts_(static_cast<size_t>(parts() + 1)) {
    StridedIterator<1> walk({&mask}, false);
    words_[words_.size() - 1] = words_[words_.size() - 2] = 0;
    parallel_for(0, parts(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) firsts_[i + 1] = read(mask.dtype, walk, i * part);
    });
    firsts_[0] = 0;
    for (int64_t i = 0; i < parts(); ++i) firsts_[i + 1] += firsts_[i];
  }

  // Those of n (at most 64) elements from i on.
  uint64_t at(int64_t i, int64_t n) const {
    int64_t shift = i & 63;
    uint64_t bits = words_[i >> 6] >> shift;
    if (shift) bits |= words_[(i >> 6) + 1] << (64 - shift);
    return n < 64 ? bits & ((uint64_t(1) << n) - 1) : bits;
  }

  // f(begin, end, first, count) for parts of the elements: of all that are true `first` come before
  // them, and `count` are theirs, but for what is beyond `most`.
  template <class F> void each_part(int64_t most, F&& f) const {
    parallel_for(0, parts(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        f(i * part, std::min(numel_, (i + 1) * part), std::min(most, firsts_[i]),
          std::min(most, firsts_[i + 1]) - std::min(most, firsts_[i]));
    });
  }
  int64_t total() const { return firsts_.back(); }

 private:
  static constexpr int64_t part = 4096, grain = default_grain / part;
  int64_t parts() const { return (numel_ + part - 1) / part; }

  // The bits of a part, and how many of them there are.
  int64_t read(DType dtype, const StridedIterator<1>& walk, int64_t begin) {
    alignas(64) uint8_t hits[part + 64];
    int64_t n = std::min(part, numel_ - begin), used = 0, count = 0;
    walk.range(begin, begin + n, walk.base, [&](char* const* p, int64_t run) {
      load_strip(dtype, p[0], walk.strides[0][0], DType::Bool, hits + used, run);
      used += run;
    });
    std::memset(hits + n, 0, 64);
    for (int64_t i = 0; i < n; i += 64) {
      uint64_t word = 0;
      for (int k = 0; k < 8; ++k) word |= bits_of_bytes(hits + i + 8 * k) << 8 * k;
      words_[(begin + i) / 64] = word;
      count += count_bits(word);
    }
    return count;
  }

  int64_t numel_;
  Scratch<uint64_t> words_;
  Scratch<int64_t> firsts_;
};

// f(k) for each bit that is set, but for no more than are `left`, which counts down: if there are
// others, the mask has changed since it was counted.
template <class F> void each_bit(uint64_t bits, int64_t& left, F&& f) {
  int64_t n = std::min<int64_t>(count_bits(bits), left);
  left -= n;
  if (n == 64)
    for (int64_t k = 0; k < 64; ++k) f(k);
  else
    for (; n > 0; --n, bits &= bits - 1) f(static_cast<int64_t>(__builtin_ctzll(bits)));
}

}  // namespace

int64_t count_true(const View& mask) {
  int64_t count = 0;
  Dims ones(mask.ndim, 1), strides(mask.ndim, 1);
  count_nonzero(mask, {&count, ones.data(), strides.data(), mask.ndim, 1, DType::Int64});
  return count;
}

void masked_select(const View& input, const View& mask, const View& out) {
  check_mask("masked_select", input, mask);
  if (out.numel == 0) return;
  TrueBits bits(mask);
  StridedIterator<1> walk({&input}, false);
  visit_size(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    int64_t down = out.strides[0], step = walk.strides[0][0];
    T* all = out.ptr<T>();
    bits.each_part(out.numel, [&](int64_t begin, int64_t end, int64_t first, int64_t left) {
      T* to = all + first * down;
      walk.range(begin, end, walk.base, [&](char* const* p, int64_t n) {
        for (int64_t i = 0; i < n; i += 64) {
          const char* from = p[0] + i * step;
          each_bit(bits.at(begin + i, std::min<int64_t>(64, n - i)), left, [&](int64_t k) {
            *to = *reinterpret_cast<const T*>(from + k * step);
            to += down;
          });
        }
        begin += n;
      });
    });
    for (int64_t i = bits.total(); i < out.numel; ++i) all[i * down] = T();  // so it has
  });
}

void masked_scatter(const View& self, const View& mask, const View& src) {
  check_mask("masked_scatter", self, mask);
  TrueBits bits(mask);
  int64_t count = bits.total(), used = 0;
  check(src.numel >= count,
        "masked_scatter: expected self and source to have same number of elements, "
        "got ",
        count, " true places and ", src.numel, " values");
  StridedIterator<1> walk({&self}, false);
  visit_size(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Scratch<T> values(static_cast<size_t>(count));
    StridedIterator<1> from({&src}, false);
    from.range(0, count, from.base, [&](char* const* p, int64_t n) {
      copy_strided(sizeof(T), p[0], from.strides[0][0],
                   reinterpret_cast<char*>(values.data() + used), sizeof(T), n);
      used += n;
    });
    int64_t step = walk.strides[0][0];
    bits.each_part(count, [&](int64_t begin, int64_t end, int64_t first, int64_t left) {
      const T* next = values.data() + first;
      walk.range(begin, end, walk.base, [&](char* const* p, int64_t n) {
        for (int64_t i = 0; i < n; i += 64) {
          char* to = p[0] + i * step;
          each_bit(bits.at(begin + i, std::min<int64_t>(64, n - i)), left,
                   [&](int64_t k) { *reinterpret_cast<T*>(to + k * step) = *next++; });
        }
        begin += n;
      });
    });
  });
}

void nonzero(const View& input, const View& out) {
  int64_t count = out.numel ? out.sizes[0] : 0, last = input.ndim - 1;
  if (count == 0) return;
  TrueBits bits(input);
  int64_t *all = out.ptr<int64_t>(), down = out.strides[0], across = out.strides[1];
  int64_t width = input.ndim ? input.sizes[last] : 1;
  // To guess where the elements of a short row end costs more than a division.
  constexpr int64_t longest_divided = 32;
  bits.each_part(count, [&](int64_t begin, int64_t end, int64_t first, int64_t left) {
    int64_t* to = all + first * down;
    if (last == 1 && width <= longest_divided && end <= UINT32_MAX) {
      const uint32_t row_length = static_cast<uint32_t>(width);
      for (int64_t i = begin; i < end; i += 64)
        each_bit(bits.at(i, std::min<int64_t>(64, end - i)), left, [&](int64_t k) {
          const uint32_t place = static_cast<uint32_t>(i + k);
          to[0] = place / row_length;
          to[across] = place % row_length;
          to += down;
        });
      return;
    }
    int64_t at[max_dims + 1] = {}, row = begin / width;
    for (int64_t d = last - 1; d >= 0; row /= input.sizes[d--]) at[d] = row % input.sizes[d];
    for (int64_t column = begin % width; begin < end; column = 0) {
      int64_t n = std::min(width - column, end - begin);
      for (int64_t i = 0; i < n; i += 64)
        each_bit(bits.at(begin + i, std::min<int64_t>(64, n - i)), left, [&](int64_t k) {
          for (int64_t d = 0; d < last; ++d) to[d * across] = at[d];
          if (last >= 0) to[last * across] = column + i + k;
          to += down;
        });
      begin += n;
      for (int64_t d = last - 1; d >= 0 && ++at[d] == input.sizes[d]; --d) at[d] = 0;
    }
  });
  for (int64_t i = bits.total(); i < count; ++i)  // so it has
    for (int64_t d = 0; d <= last; ++d) all[i * down + d * across] = 0;
}

}  // namespace rl::kernels
