// Philox4x32 with ten rounds (Salmon et al., 2011): four random words of a key and a counter.
#pragma once
#include <cstdint>

namespace rl::math {

inline void philox(uint32_t (&words)[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53u) * words[0], b = uint64_t(0xCD9E8D57u) * words[2];
    words[0] = static_cast<uint32_t>(b >> 32) ^ words[1] ^ k0;
    words[1] = static_cast<uint32_t>(b);
    words[2] = static_cast<uint32_t>(a >> 32) ^ words[3] ^ k1;
    words[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Which weights of attention dropout keeps, of two random numbers of a call: those of the keys j,
// j + 16, j + 32, j + 48 of a query are words of one counter, as one thread of a device needs them
// together.
class KeptWeights {
 public:
  // A weight is kept with probability 1 / scale.
  KeptWeights(const int64_t* state, double scale)
      : key_{static_cast<uint32_t>(state[0]), static_cast<uint32_t>(state[0] >> 32)},
        offset_(static_cast<uint64_t>(state[1])),
        bound_(static_cast<uint64_t>(4294967296.0 / scale)) {}

  // `row` counts all queries of all heads and samples.
  bool operator()(uint64_t row, uint64_t column) {
    uint64_t place = column / 64 * 16 + column % 16;
    if (row != row_ || place != place_) {
      row_ = row;
      place_ = place;
      place += offset_;
      words_[0] = static_cast<uint32_t>(place);
      words_[1] = static_cast<uint32_t>(place >> 32);
      words_[2] = static_cast<uint32_t>(row);
      words_[3] = static_cast<uint32_t>(row >> 32);
      philox(words_, key_[0], key_[1]);
    }
    return words_[column / 16 % 4] < bound_;
  }

 private:
  uint32_t key_[2];
  uint64_t offset_, bound_, row_ = ~uint64_t(0), place_ = ~uint64_t(0);
  uint32_t words_[4] = {};
};

}  // namespace rl::math
