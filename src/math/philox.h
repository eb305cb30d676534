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

// Which weights of attention dropout keeps, of two random numbers of a call: those of the queries i
// and i + 8 for the keys j and j + 8 are words of one counter, as the threads of a device need them
// together, whichever of the two lie in its rows. `line` is the number of queries before the
// head's.
class KeptWeights {
 public:
  // A weight is kept with probability 1 / scale.
  KeptWeights(int64_t key, int64_t offset, double scale)
      : key_{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
        last_(static_cast<uint32_t>(static_cast<uint64_t>(4294967296.0 / scale) - 1)),
        offset_(static_cast<uint64_t>(offset)) {}

  // Of (i, j), (i, j + 8), (i + 8, j) and (i + 8, j + 8), where i and j are of the first 8 of 16.
  void draw(uint32_t (&words)[4], uint64_t line, uint64_t i, uint64_t j) const {
    uint64_t row = line + i / 16 * 8 + i % 8, place = offset_ + j / 16 * 8 + j % 8;
    words[0] = static_cast<uint32_t>(place);
    words[1] = static_cast<uint32_t>(place >> 32);
    words[2] = static_cast<uint32_t>(row);
    words[3] = static_cast<uint32_t>(row >> 32);
    philox(words, key_[0], key_[1]);
  }
  bool keeps(uint32_t word) const { return word <= last_; }

  bool operator()(uint64_t line, uint64_t i, uint64_t j) const {
    uint32_t words[4];
    draw(words, line, i, j);
    uint32_t near = i / 8 % 2 ? words[2] : words[0], far = i / 8 % 2 ? words[3] : words[1];
    return keeps(j / 8 % 2 ? far : near);
  }

 private:
  uint32_t key_[2], last_;
  uint64_t offset_;
};

}  // namespace rl::math
