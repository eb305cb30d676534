// The order of images in which convolutions work.
#pragma once
#include <optional>

#include "kernels/copy.h"
#include "kernels/workspace.h"

namespace rl::kernels {

// Strides of dims of size 1 are arbitrary.
inline bool same_layout(IntSpan sizes, IntSpan a, IntSpan b) {
  for (int64_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && a[i] != b[i]) return false;
  return true;
}

inline bool lies_channels_last(const View& v) {
  return same_layout(v.shape(), v.stride(), channels_last_strides(v.shape()));
}

// A float32 view of images, or a copy of it or for it, that lies channels_last.
class ChannelsLast {
 public:
  ChannelsLast(const View& v, bool read) : given_(v) {
    if (lies_channels_last(v)) return;
    strides_ = channels_last_strides(v.shape());
    copy_.emplace(v.numel);
    if (read) copy(given_, view());
  }
  float* data() const { return copy_ ? copy_->data() : given_.ptr<float>(); }
  void write_back() const {
    if (copy_) copy(view(), given_);
  }

 private:
  View view() const {
    return {data(), given_.sizes, strides_.data(), given_.ndim, given_.numel, DType::Float32};
  }
  const View& given_;
  Dims strides_;
  std::optional<Buffer<float>> copy_;
};

}  // namespace rl::kernels
