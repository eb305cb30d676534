// Arguments of scans, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

struct ScanLine {
  int64_t count, in_step, out_step, second_step;
};

enum ScanKind : int { ScanSum, ScanProd, ScanLogSumExp, ScanMax, ScanMin };

}  // namespace rl::cuda
