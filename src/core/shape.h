// Dims: a short list of sizes or strides, kept inline up to six entries.
#pragma once
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "core/bounds.h"
#include "core/error.h"

namespace rl {

inline constexpr int max_dims = 64;

// A borrowed list of integers; a literal list becomes a Dims.
struct IntSpan {
  const int64_t* data_ = nullptr;
  int64_t size_ = 0;
  IntSpan() = default;
  IntSpan(const int64_t* data, int64_t size) : data_(data), size_(size) {}
  IntSpan(const std::vector<int64_t>& v) : data_(v.data()), size_(static_cast<int64_t>(v.size())) {}
  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* data() const { return data_; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  int64_t operator[](int64_t i) const {
    require_index(static_cast<size_t>(i), static_cast<size_t>(size_));
    return data_[i];
  }
  bool operator==(IntSpan other) const {
    if (size_ != other.size_) return false;
    for (int64_t i = 0; i < size_; ++i)  // shapes are short: a call of memcmp costs more
      if (data_[i] != other.data_[i]) return false;
    return true;
  }
  bool operator!=(IntSpan other) const { return !(*this == other); }
};

class Dims {
 public:
  static constexpr int inline_capacity = 6;
  static constexpr int64_t max_length = int64_t(1) << 29;
  Dims() { end_change(); }
  explicit Dims(int64_t size, int64_t fill = 0) { resize(size, fill); }
  Dims(std::initializer_list<int64_t> v) { assign(v.begin(), static_cast<int64_t>(v.size())); }
  Dims(IntSpan v) { assign(v.data(), v.size()); }
  Dims(const std::vector<int64_t>& v) { assign(v.data(), static_cast<int64_t>(v.size())); }
  Dims(const Dims& other) { *this = other; }
  Dims(Dims&& other) noexcept { steal(other); }
  Dims& operator=(const Dims& other) {
    if (this == &other) return *this;
    if (heap_ || other.heap_ || marks_unused) {
      assign(other.data(), other.size_);
    } else {  // all six entries: three moves, where a copy of the used ones is a call
      std::memcpy(inline_, other.inline_, sizeof inline_);
      size_ = other.size_;
    }
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      release();
      steal(other);
    }
    return *this;
  }
  ~Dims() { release(); }

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return heap_ ? heap_ : inline_; }
  const int64_t* data() const { return heap_ ? heap_ : inline_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& operator[](int64_t i) {
    require_index(static_cast<size_t>(i), static_cast<size_t>(size_));
    return data()[i];
  }
  int64_t operator[](int64_t i) const { return IntSpan(*this)[i]; }
  int64_t& back() { return (*this)[size_ - 1]; }
  int64_t back() const { return (*this)[size_ - 1]; }
  operator IntSpan() const { return {data(), size_}; }
  bool operator==(const Dims& other) const { return IntSpan(*this) == IntSpan(other); }
  bool operator!=(const Dims& other) const { return !(*this == other); }

  void assign(const int64_t* from, int64_t n) {
    begin_change();
    reserve(n);
    int64_t* to = data();
    if (n <= 2 && !marks_unused) {  // a call of memmove costs more
      int64_t first = n > 0 ? from[0] : 0, second = n > 1 ? from[1] : 0;
      to[0] = first;
      to[1] = second;
    } else if (n > 0) {  // `from` of none may be null, which memmove must not be given
      std::memmove(to, from, 8 * static_cast<size_t>(n));
    }
    size_ = static_cast<int32_t>(n);
    end_change();
  }
  void resize(int64_t n, int64_t fill = 0) {
    begin_change();
    reserve(n);
    for (int64_t i = size_; i < n; ++i) data()[i] = fill;
    size_ = static_cast<int32_t>(n);
    end_change();
  }
  void push_back(int64_t value) {
    begin_change();
    reserve(size_ + 1);
    data()[size_++] = value;
    end_change();
  }
  void insert(int64_t at, int64_t value) {
    push_back(value);
    for (int64_t i = size_ - 1; i > at; --i) data()[i] = data()[i - 1];
    data()[at] = value;
  }
  void erase(int64_t at) {
    for (int64_t i = at; i + 1 < size_; ++i) data()[i] = data()[i + 1];
    --size_;
    end_change();
  }

 private:
  void reserve(int64_t n) {
    if (n <= inline_capacity || n <= capacity_) return;
    check(n <= max_length, "a list of ", n, " numbers is too long");
    int64_t bigger = n < 16 ? 16 : 2 * n;
    int64_t* fresh = new int64_t[static_cast<size_t>(bigger)];
    if (size_) std::memcpy(fresh, data(), 8 * static_cast<size_t>(size_));
    delete[] heap_;
    heap_ = fresh;
    capacity_ = static_cast<int32_t>(bigger);
  }
  void steal(Dims& other) {
    begin_change();
    other.begin_change();
    size_ = other.size_;
    capacity_ = other.capacity_;
    heap_ = other.heap_;
    if (!heap_) std::memcpy(inline_, other.inline_, sizeof inline_);
    other.heap_ = nullptr;
    other.size_ = other.capacity_ = 0;
    end_change();
    other.end_change();
  }
  void release() {
    mark_used(inline_, sizeof inline_);
    delete[] heap_;
    heap_ = nullptr;
    capacity_ = 0;
  }
  // Between these, entries past the size may be written.
  void begin_change() {
    mark_used(inline_, sizeof inline_);
    if (heap_) mark_used(heap_, 8 * static_cast<size_t>(capacity_));
  }
  void end_change() {
    size_t used = static_cast<size_t>(size_);
    if (heap_) {
      mark_unused(heap_ + used, 8 * (static_cast<size_t>(capacity_) - used));
    } else {
      mark_unused(inline_ + used, 8 * (inline_capacity - used));
    }
  }
  int32_t size_ = 0;
  int32_t capacity_ = 0;
  int64_t* heap_ = nullptr;
  int64_t inline_[inline_capacity];
};

inline std::ostream& operator<<(std::ostream& out, IntSpan dims) {
  out << '[';
  for (int64_t i = 0; i < dims.size(); ++i) out << (i ? ", " : "") << dims[i];
  return out << ']';
}
inline std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  return out << IntSpan(dims);
}

inline constexpr int64_t max_numel = int64_t(1)
                                     << 58;  // so that counts of bytes fit into 64 bits too

// RuntimeError where there would be more elements than that.
[[noreturn]] void fail_product(IntSpan dims);
// The stride of a dim of size 1 may be any number, and so may be the offset of an empty tensor:
// products with them wrap, and are not used.
inline int64_t wrapping_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

inline int64_t product(IntSpan dims) {
  int64_t n = 1;
  bool overflow = false;
  for (int64_t d : dims) {
    if (d == 0) return 0;
    overflow |= __builtin_mul_overflow(n, d, &n);
  }
  if (__builtin_expect(overflow || n > max_numel, 0)) fail_product(dims);
  return n;
}
Dims contiguous_strides(IntSpan sizes);
Dims channels_last_strides(IntSpan sizes);  // of images (N, C, *): channels side by side
bool is_contiguous(IntSpan sizes, IntSpan strides);
bool has_standard_strides(IntSpan sizes, IntSpan strides);   // those of contiguous_strides()
Dims broadcast_sizes(IntSpan a, IntSpan b, const char* op);  // RuntimeError where they do not agree

// A dim in [-ndim, ndim) as one in [0, ndim); IndexError otherwise. A 0-d tensor takes 0 and -1.
inline int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  int64_t range = ndim ? ndim : 1;
  if (__builtin_expect(dim < -range || dim >= range, 0))
    fail(ErrorKind::Index, op, ": Dimension out of range (expected to be in range of [", -range,
         ", ", range - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + range : dim;
}

// The same where a size or stride is read, of which a 0-d tensor has none: IndexError for it too.
inline int64_t existing_dim(int64_t dim, int64_t ndim, const char* op) {
  if (__builtin_expect(ndim == 0, 0))
    fail(ErrorKind::Index, op, ": Dimension specified as ", dim, " but tensor has no dimensions");
  return wrap_dim(dim, ndim, op);
}

}  // namespace rl
