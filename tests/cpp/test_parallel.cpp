// parallel_for without Python: what it promises, and how many threads a container leaves it.
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/parallel.h"

namespace {

#define REQUIRE(condition)                                            \
  if (!(condition)) {                                                 \
    std::printf("line %d: %s does not hold\n", __LINE__, #condition); \
    std::exit(1);                                                     \
  }

// Each index once, in parts of at least a grain, however many threads call at once.
void every_index_once() {
  for (int threads : {1, 2, 3, 7, 300}) {
    rl::set_num_threads(threads);
    for (int64_t n : {0, 1, 2, 5, 31, 32, 1000, 100003}) {
      for (int64_t grain : {1, 4, 4096}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
        std::atomic<bool> too_short{false};
        rl::parallel_for(7, 7 + n, grain, [&](int64_t begin, int64_t end) {
          if (end - begin < grain && end < 7 + n) too_short = true;
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i - 7)];
        });
        for (auto& count : seen) REQUIRE(count == 1);
        REQUIRE(!too_short);
      }
    }
  }
}

void callers_at_once() {
  rl::set_num_threads(3);
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 5; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<int64_t> sum{0};
        rl::parallel_for(0, 1000, 10, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        if (sum != 499500) ++wrong;
      }
    });
  for (std::thread& caller : callers) caller.join();
  REQUIRE(wrong == 0);
}

void exceptions_and_nesting() {
  rl::set_num_threads(4);
  for (int round = 0; round < 100; ++round) {
    bool caught = false;
    try {
      rl::parallel_for(0, 64, 1, [&](int64_t begin, int64_t end) {
        if (begin <= 40 && 40 < end) throw std::runtime_error("forty");
      });
    } catch (const std::runtime_error& error) {
      caught = std::string(error.what()) == "forty";
    }
    REQUIRE(caught && !rl::in_parallel_region());
  }
  std::atomic<int> sum{0};
  rl::parallel_for(0, 8, 1, [&](int64_t begin, int64_t end) {
    REQUIRE(rl::in_parallel_region());
    for (int64_t i = begin; i < end; ++i)
      rl::parallel_for(0, 100, 1, [&](int64_t b, int64_t e) { sum += static_cast<int>(e - b); });
  });
  REQUIRE(sum == 800);
}

void write(const std::string& path, const std::string& text) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);
  std::ofstream(path) << text;
}

void quotas() {
  char place[] = "/tmp/quota-XXXXXX";
  std::string root = mkdtemp(place);
  auto root_of = [&](const char* name) { return root + "/" + name; };
  auto quota = [&](const char* name) { return rl::cpu_quota(root_of(name).c_str()); };
  REQUIRE(quota("nothing") == 0);

  std::string at = root_of("version2");
  write(at + "/proc/self/cgroup", "0::/pod/box\n");
  write(at + "/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  REQUIRE(quota("version2") == 0);
  write(at + "/sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  REQUIRE(quota("version2") == 3.5);
  write(at + "/sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n");
  REQUIRE(quota("version2") == 1.5);

  at = root_of("container");  // sees its own group as the mount
  write(at + "/proc/self/cgroup", "0::/\n");
  write(at + "/sys/fs/cgroup/cpu.max", "200000 100000\n");
  REQUIRE(quota("container") == 2);

  at = root_of("version1");  // whose mount is the group that the path names on the host
  write(at + "/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/123\n0::/\n");
  write(at + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write(at + "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  REQUIRE(quota("version1") == 0);
  write(at + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  REQUIRE(quota("version1") == 0.5);
  write(at + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "rubbish");
  REQUIRE(quota("version1") == 0);
  REQUIRE(std::system(("rm -r " + root).c_str()) == 0);
}

}  // namespace

int main() {
  every_index_once();
  callers_at_once();
  exceptions_and_nesting();
  quotas();
  std::puts("passed");
}
