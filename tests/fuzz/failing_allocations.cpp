// To be preloaded: lets an allocation fail that a module makes, of its own or by the C++ library.
//
//   g++ -std=c++17 -O1 -fPIC -shared failing_allocations.cpp -o failing_allocations.so -ldl
//
// `begin_failing(first, count)` begins to count allocations; the `first` one and those after it,
// `count` in all, fail. `end_failing()` ends that and gives how many there were. An allocation
// belongs to a watched module by the address that called malloc, mmap or operator new.
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

EXPORTED void* __libc_malloc(size_t);
EXPORTED void* __libc_calloc(size_t, size_t);
EXPORTED void* __libc_realloc(void*, size_t);
EXPORTED void* __libc_memalign(size_t, size_t);

namespace {

struct Range {
  uintptr_t begin, end;
};
Range watched[8];
int watched_count = 0;

std::atomic<bool> counts{false};
std::atomic<long> made{0};
long first_failing = 0, failing_count = 0;
constexpr int most_frames = 24;
void* frames[most_frames];  // of the first allocation that failed
int frame_count = 0;

// Whether this allocation fails.
bool fails(void* caller) {
  if (!counts.load(std::memory_order_relaxed)) return false;
  const auto address = reinterpret_cast<uintptr_t>(caller);
  bool is_watched = false;
  for (int i = 0; i < watched_count; ++i)
    is_watched = is_watched || (address >= watched[i].begin && address < watched[i].end);
  if (!is_watched) return false;
  const long number = made.fetch_add(1) + 1;
  if (number < first_failing || number - first_failing >= failing_count) return false;
  if (number == first_failing) {
    counts = false;  // backtrace() may allocate
    frame_count = backtrace(frames, most_frames);
    counts = true;
  }
  return true;
}

int add_range(dl_phdr_info* info, size_t, void* name) {
  if (!std::strstr(info->dlpi_name, static_cast<const char*>(name))) return 0;
  Range range{UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
    if (begin < range.begin) range.begin = begin;
    if (end > range.end) range.end = end;
  }
  watched[watched_count++] = range;
  return 1;
}

void* allocate_or_throw(size_t bytes, size_t alignment, void* caller) {
  void* p = fails(caller) ? nullptr : __libc_memalign(alignment, bytes);
  if (!p) throw std::bad_alloc();
  return p;
}
constexpr size_t usual_alignment = alignof(std::max_align_t);

}  // namespace

// Whether a loaded library is called so.
EXPORTED int watch_module(const char* name) { return dl_iterate_phdr(add_range, const_cast<char*>(name)); }
EXPORTED void begin_failing(long first, long count) {
  made = 0;
  first_failing = first;
  failing_count = count;
  frame_count = 0;
  counts = true;
}
EXPORTED long end_failing() {
  counts = false;
  return made;
}
// Who asked for the first allocation that failed: "file offset" in a line each.
EXPORTED int failed_at(char* text, int size) {
  int used = 0;
  for (int i = 0; i < frame_count; ++i) {
    Dl_info info;
    if (!dladdr(frames[i], &info) || !info.dli_fname) continue;
    const int length = snprintf(text + used, size - used, "%s %lx\n", info.dli_fname,
        static_cast<unsigned long>(static_cast<char*>(frames[i]) - static_cast<char*>(info.dli_fbase)));
    if (length >= size - used) break;
    used += length;
  }
  return used;
}

EXPORTED void* malloc(size_t bytes) { return fails(CALLER) ? nullptr : __libc_malloc(bytes); }
EXPORTED void* calloc(size_t n, size_t bytes) {
  return fails(CALLER) ? nullptr : __libc_calloc(n, bytes);
}
EXPORTED void* realloc(void* p, size_t bytes) {
  return fails(CALLER) ? nullptr : __libc_realloc(p, bytes);
}
EXPORTED int posix_memalign(void** p, size_t alignment, size_t bytes) {
  void* made = fails(CALLER) ? nullptr : __libc_memalign(alignment, bytes);
  if (!made) return ENOMEM;
  *p = made;
  return 0;
}
EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails(CALLER) ? nullptr : __libc_memalign(alignment, bytes);
}
EXPORTED void* mmap(void* p, size_t bytes, int protection, int flags, int file, off_t at) {
  static auto* system = reinterpret_cast<decltype(&mmap)>(dlsym(RTLD_NEXT, "mmap"));
  if (!fails(CALLER)) return system(p, bytes, protection, flags, file, at);
  errno = ENOMEM;
  return MAP_FAILED;
}

void* operator new(size_t bytes) { return allocate_or_throw(bytes, usual_alignment, CALLER); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes, usual_alignment, CALLER); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, size_t(alignment), CALLER);
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, size_t(alignment), CALLER);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return fails(CALLER) ? nullptr : __libc_malloc(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return fails(CALLER) ? nullptr : __libc_malloc(bytes);
}
