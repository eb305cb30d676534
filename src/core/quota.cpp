// What the control groups of Linux, old and new, say of this process.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/parallel.h"

namespace rl {
namespace {

// Processors' time that one folder grants: "max 100000" or "150000 100000" in cpu.max (version 2),
// -1 or 150000 in cpu.cfs_quota_us (version 1).
double granted_by(const std::string& folder) {
  std::string quota;
  double period = 0;
  std::ifstream(folder + "/cpu.max") >> quota >> period;
  if (quota.empty()) {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  double micros = std::atof(quota.c_str());  // 0 for "max"
  return micros > 0 && period > 0 ? micros / period : 0;
}

}  // namespace

double cpu_quota(const char* root) {
  double least = 0;
  std::ifstream groups(std::string(root) + "/proc/self/cgroup");
  // "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1.
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string mount = std::string(root) + "/sys/fs/cgroup", path = line.substr(second + 1);
    if (names != ",," && names.find(",cpu,") == std::string::npos) continue;
    if (names != ",,") mount += "/cpu";
    // The limits of all groups above hold too. In a container its own group may be the mount.
    for (;;) {
      double granted = granted_by(mount + path);
      if (granted > 0) least = least > 0 ? std::min(least, granted) : granted;
      if (path.empty()) break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least;
}

}  // namespace rl
