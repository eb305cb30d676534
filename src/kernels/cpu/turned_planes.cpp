#include <memory>

#include "kernels/cpu/pooling.h"
#include "kernels/cpu/transpose.h"
#include "kernels/cpu/workspace.h"

namespace rl::kernels {
namespace {

// Planes at a time: as many as stay in L2.
constexpr int64_t most_planes = 64;
int64_t planes_at_a_time(int64_t plane) {
  constexpr int64_t elements = 64 << 10;
  return std::clamp<int64_t>(elements / plane / 16 * 16, 16, most_planes);
}

// The planes of a view that lie in rows, and a copy of some of them, or for them, by pixels.
class TurnedPlanes {
 public:
  [[gnu::noinline]] TurnedPlanes(const View& v, int dims, int64_t most)
      : planes_(v, dims),
        data_(static_cast<char*>(v.data)),
        size_(itemsize(v.dtype)),
        pixels_(planes_.numel() * most * size_),
        sizes_(dims + 2, 1),
        strides_(dims + 2, 1) {
    for (int d = 0; d < dims; ++d) sizes_[2 + d] = planes_.size[3 - dims + d];
    view = {pixels_.data(), sizes_.data(), strides_.data(), dims + 2, 0, v.dtype};
  }
  TurnedPlanes(const TurnedPlanes&) = delete;
  View view;

  [[gnu::noinline]] void hold(int64_t count) {
    int64_t step = sizes_[1] = count;
    for (int64_t d = sizes_.size() - 1; d >= 2; --d) {
      strides_[d] = step;
      step *= sizes_[d];
    }
    view.numel = strides_[0] = step;
  }
  void load(int64_t first) const {
    transpose(size_, at(first), planes_.apart() * size_, size_, pixels_.data(), sizes_[1] * size_,
              size_, sizes_[1], planes_.numel(), false);
  }
  void store(int64_t first) const {
    transpose(size_, pixels_.data(), sizes_[1] * size_, size_, at(first), planes_.apart() * size_,
              size_, planes_.numel(), sizes_[1], false);
  }

 private:
  char* at(int64_t plane) const { return data_ + plane * planes_.apart() * size_; }
  Planes planes_;
  char* data_;
  int64_t size_;
  Buffer<char> pixels_;
  Dims sizes_, strides_;
};

}  // namespace

bool TurnedPool::pays(std::initializer_list<const View*> views, int dims) {
  constexpr int64_t least_planes = 16, largest_plane = 4096;
  for (const View* v : views) {
    Planes planes(*v, dims);
    if (!planes.in_rows() || planes.count() < least_planes || planes.numel() > largest_plane)
      return false;
  }
  return true;
}

void TurnedPool::run(std::initializer_list<const View*> views, int dims, int64_t work) const {
  const Planes first_planes(**views.begin(), dims);
  const int64_t planes = first_planes.count(), most = planes_at_a_time(first_planes.numel());
  const int64_t grain = default_grain / (work * most + 1) + 1;
  parallel_for(0, (planes + most - 1) / most, grain, [&](int64_t begin, int64_t end) {
    constexpr size_t most_views = 3;
    std::unique_ptr<TurnedPlanes> turned[most_views];
    View copies[most_views];
    size_t count = 0;
    for (const View* v : views) turned[count++] = std::make_unique<TurnedPlanes>(*v, dims, most);
    for (int64_t first = begin * most; first < std::min(planes, end * most); first += most) {
      for (size_t v = 0; v < count; ++v) {
        turned[v]->hold(std::min(most, planes - first));
        copies[v] = turned[v]->view;
      }
      turned[0]->load(first);
      call_(context_, copies);
      for (size_t v = 1; v < count; ++v) turned[v]->store(first);
    }
  });
}

}  // namespace rl::kernels
