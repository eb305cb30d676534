// Arguments of scans, in both worlds.
#pragma once
#include <cstdint>

namespace rl::cuda {

enum ScanKind : int { ScanSum, ScanProd, ScanLogSumExp, ScanMax, ScanMin };

// A line is scanned at once, or in `parts`: first the total of each, then each from the totals of
// those before it on.
enum ScanPhase : int { ScanWhole, ScanTotals, ScanFromTotals };

struct ScanLine {
  int64_t count, in_step, out_step, second_step;
  int reverse, parts, phase;
  void* totals;
};

constexpr int scan_threads = 512;       // of a block that scans columns
constexpr int most_scan_parts = 256;    // of a line: one for each thread that reads their totals
constexpr int most_carried_bytes = 32;  // of a total

}  // namespace rl::cuda
