#include "core/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace rl {

void (*on_lost_page)(const char* name) = nullptr;

namespace {

// The place of one mapping. Offsets are in a list that only grows, for the signal handler may walk
// along it at any time; those that are free are used again.
struct Mapping {
  std::atomic<bool> used{false};
  std::atomic<char*> begin{nullptr};  // null while the rest is not valid
  std::atomic<char*> end{nullptr};
  char name[256];
  Mapping* next;
};

std::atomic<Mapping*> mappings{nullptr};
struct sigaction previous_action;

Mapping* new_mapping() {
  for (Mapping* m = mappings.load(); m; m = m->next) {
    bool used = false;
    if (m->used.compare_exchange_strong(used, true)) return m;
  }
  auto* made = new Mapping;
  made->used = true;
  made->next = mappings.load();
  while (!mappings.compare_exchange_weak(made->next, made)) {}
  return made;
}

Mapping* mapping_of(const char* address) {
  for (Mapping* m = mappings.load(); m; m = m->next) {
    const char* begin = m->begin.load();
    if (begin && begin <= address && address < m->end.load()) return m;
  }
  return nullptr;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if (previous_action.sa_flags & SA_SIGINFO) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    sigaction(signal, &previous_action, nullptr);  // and the access that failed fails again
  } else {
    previous_action.sa_handler(signal);
  }
}

void replace_lost_page(int signal, siginfo_t* info, void* context) {
  int error = errno;
  auto* address = static_cast<char*>(info->si_addr);
  // Only the kernel sends these codes: the address is that of an access which failed.
  bool failed_access = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
  Mapping* mapping = failed_access ? mapping_of(address) : nullptr;
  if (!mapping) return pass_on(signal, info, context);
  auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* page = address - reinterpret_cast<uintptr_t>(address) % size;
  if (mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
      MAP_FAILED)
    return pass_on(signal, info, context);
  if (on_lost_page) on_lost_page(mapping->name);
  errno = error;
}

void install_handler() {
  static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = replace_lost_page;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    // The handler may run before the call that installs it has returned.
    sigaction(SIGBUS, nullptr, &previous_action);
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  check(installed, "map_file: no handler for lost pages can be installed");
}

void unmap(void* context) {
  auto* mapping = static_cast<Mapping*>(context);
  char* begin = mapping->begin.exchange(nullptr);  // first: another mapping may get the addresses
  munmap(begin, static_cast<size_t>(mapping->end.load() - begin));
  mapping->used = false;
}

}  // namespace

Ref<Storage> map_file(int descriptor, int64_t nbytes, bool shared, const std::string& name) {
  check(nbytes > 0, "map_file: cannot map ", nbytes, " bytes");
  install_handler();
  Mapping* mapping = new_mapping();
  void* data = mmap(nullptr, static_cast<size_t>(nbytes), PROT_READ | PROT_WRITE,
                    shared ? MAP_SHARED : MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    mapping->used = false;
    fail(reason == ENOMEM ? ErrorKind::OutOfMemory : ErrorKind::Runtime, "map_file: cannot map ",
         nbytes, " bytes of ", name, ": ", std::strerror(reason));
  }
  size_t length = std::min(name.size(), sizeof mapping->name - 1);
  std::memcpy(mapping->name, name.data(), length);
  mapping->name[length] = 0;
  mapping->end = static_cast<char*>(data) + nbytes;
  mapping->begin = static_cast<char*>(data);
  return Storage::borrow(data, nbytes, unmap, mapping);
}

}  // namespace rl
