// Intrusive reference counts: Ref<T> owns one count of a T that has `refs` and `destroy()`.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace rl {

// Whether several threads may touch counts at the same time. Under Python that is so only while one
// of them has given up the GIL, and then bind/ says so before it does (WithoutGil). Else a plain
// addition serves: a locked one costs 7 ns, and a small op that is recorded makes a dozen of them.
extern bool threads_share;

template <class N>
inline N count_up(std::atomic<N>& counter, N by,
                  std::memory_order order = std::memory_order_relaxed) {
  if (threads_share) return counter.fetch_add(by, order);
  N old = counter.load(std::memory_order_relaxed);
  counter.store(old + by, std::memory_order_relaxed);
  return old;
}
template <class P>
inline bool replace_if_equal(std::atomic<P>& slot, P& expected, P desired) {
  if (threads_share)
    return slot.compare_exchange_strong(expected, desired, std::memory_order_acquire);
  P found = slot.load(std::memory_order_relaxed);
  if (found == expected) slot.store(desired, std::memory_order_relaxed);
  bool equal = found == expected;
  expected = found;
  return equal;
}

// Gives a count up. A type may have a drop_count of its own.
template <class T>
inline void drop_count(T* p) {
  if (count_up(p->refs, -1, std::memory_order_acq_rel) == 1) p->destroy();
}

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  Ref(const Ref& other) : p_(other.p_) { retain(p_); }
  Ref(Ref&& other) noexcept : p_(other.p_) { other.p_ = nullptr; }
  template <class U> Ref(Ref<U>&& other) noexcept : p_(other.release()) {}
  template <class U> Ref(const Ref<U>& other) : p_(other.get()) { retain(p_); }
  Ref& operator=(const Ref& other) {
    Ref(other).swap(*this);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref(std::move(other)).swap(*this);
    return *this;
  }
  ~Ref() { drop(p_); }

  static Ref adopt(T* p) {  // takes over a count
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref share(T* p) {  // adds a count
    retain(p);
    return adopt(p);
  }
  T* release() {
    T* p = p_;
    p_ = nullptr;
    return p;
  }
  void swap(Ref& other) noexcept { std::swap(p_, other.p_); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const Ref& other) const { return p_ == other.p_; }
  bool operator!=(const Ref& other) const { return p_ != other.p_; }

 private:
  static void retain(T* p) {
    if (p) count_up(p->refs, 1);
  }
  static void drop(T* p) {
    if (p) drop_count(p);
  }
  T* p_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {  // T starts with refs == 1
  return Ref<T>::adopt(new T(std::forward<Args>(args)...));
}

}  // namespace rl
