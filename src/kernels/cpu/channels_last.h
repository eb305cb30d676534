// The order of images in which convolutions work.
#pragma once
#include <optional>

#include "kernels/copy.h"
#include "kernels/cpu/workspace.h"

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
inline bool lies_without_gaps(const View& v) { return v.contiguous() || lies_channels_last(v); }

// A view of images, or a copy of it or for it, that lies channels_last.
class ChannelsLast {
 public:
  ChannelsLast(const View& v, bool read) : given_(v) {
    if (lies_channels_last(v)) return;
    strides_ = channels_last_strides(v.shape());
    copy_.emplace(v.numel * itemsize(v.dtype));
    if (read) copy(given_, view());
  }
  template <class T = float> T* data() const {
    return copy_ ? copy_->as<T>() : static_cast<T*>(given_.data);
  }
  void write_back() const {
    if (copy_) copy(view(), given_);
  }

 private:
  View view() const {
    return {data<void>(), given_.sizes, strides_.data(), given_.ndim, given_.numel, given_.dtype};
  }
  const View& given_;
  Dims strides_;
  std::optional<Workspace> copy_;
};

// A view of images with its channels last: in rows, a contiguous one.
class RowsView {
 public:
  explicit RowsView(const View& v) : view_(v) {
    for (int64_t i = 0; i < v.ndim; ++i) {
      if (i == 1) continue;
      sizes_.push_back(v.sizes[i]);
      strides_.push_back(v.strides[i]);
    }
    sizes_.push_back(v.sizes[1]);
    strides_.push_back(v.strides[1]);
    view_.sizes = sizes_.data(), view_.strides = strides_.data();
  }
  RowsView(const RowsView&) = delete;
  const View& view() const { return view_; }

 private:
  Dims sizes_, strides_;
  View view_;
};

}  // namespace rl::kernels
