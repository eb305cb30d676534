// Functions that a newer glibc and libstdc++ than a wheel may need would be asked for, in terms of
// what glibc 2.28 and gcc 8's library have. A module that is linked with this file, on any Linux,
// is loaded by all systems since 2018: manylinux_2_28. RUSHLIGHT_OLDER_SYSTEMS turns it on.
//
// Three kinds: functions whose version changed while what they do did not, which go to the old
// version; functions that libc had under another name; parts of libstdc++ that are new in it but
// small. tools/wheels.sh checks the result with auditwheel, which names what is still too new.

#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <new>
#include <sstream>
#include <string>

#if defined(__x86_64__)
#define RL_OLD "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define RL_OLD "GLIBC_2.17"
#else
#error "The oldest version of glibc on this processor is to be added here."
#endif

#define RL_OLD_VERSION(name) __asm__(".symver old_" #name "," #name "@" RL_OLD)

extern "C" {

// ---- another version of the same function ----------------------------------------------------

double old_exp(double);
double old_log(double);
double old_pow(double, double);
void* old_dlopen(const char*, int);
void* old_dlsym(void*, const char*);
char* old_dlerror();
int old_pthread_key_create(pthread_key_t*, void (*)(void*));
int old_pthread_setspecific(pthread_key_t, const void*) __attr_access_none(2);
void* old_pthread_getspecific(pthread_key_t);
int old_pthread_sigmask(int, const sigset_t*, sigset_t*);
RL_OLD_VERSION(exp);
RL_OLD_VERSION(log);
RL_OLD_VERSION(pow);
RL_OLD_VERSION(dlopen);
RL_OLD_VERSION(dlsym);
RL_OLD_VERSION(dlerror);
RL_OLD_VERSION(pthread_key_create);
RL_OLD_VERSION(pthread_setspecific);
RL_OLD_VERSION(pthread_getspecific);
RL_OLD_VERSION(pthread_sigmask);

double exp(double x) { return old_exp(x); }
double log(double x) { return old_log(x); }
double pow(double x, double y) { return old_pow(x, y); }
void* dlopen(const char* file, int mode) noexcept(false) { return old_dlopen(file, mode); }
void* dlsym(void* __restrict handle, const char* __restrict name) noexcept {
  return old_dlsym(handle, name);
}
char* dlerror() noexcept { return old_dlerror(); }
int pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) noexcept {
  return old_pthread_key_create(key, destroy);
}
int pthread_setspecific(pthread_key_t key, const void* value) noexcept {
  return old_pthread_setspecific(key, value);
}
void* pthread_getspecific(pthread_key_t key) noexcept { return old_pthread_getspecific(key); }

int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  return old_pthread_sigmask(how, set, before);
}

// ---- other names -----------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr int kStatVersion = 1;
#else
constexpr int kStatVersion = 0;
#endif
int old_fxstat(int, int, struct stat*);
int old_xstat(int, const char*, struct stat*);
__asm__(".symver old_fxstat,__fxstat@" RL_OLD);
__asm__(".symver old_xstat,__xstat@" RL_OLD);

int fstat(int descriptor, struct stat* about) noexcept {
  return old_fxstat(kStatVersion, descriptor, about);
}
int stat(const char* __restrict path, struct stat* __restrict about) noexcept {
  return old_xstat(kStatVersion, path, about);
}
pid_t gettid() noexcept { return static_cast<pid_t>(syscall(SYS_gettid)); }

// Waits by the clock of the day until what is left by `clock` is over. Who waits looks at `clock`
// again, so that setting the day's clock meanwhile makes a wait shorter or longer, not wrong.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  constexpr long kSecond = 1000000000;
  timespec now, end;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += until->tv_sec - now.tv_sec;
  end.tv_nsec += until->tv_nsec - now.tv_nsec;
  end.tv_sec += end.tv_nsec < 0 ? -1 : end.tv_nsec >= kSecond ? 1 : 0;
  end.tv_nsec += end.tv_nsec < 0 ? kSecond : end.tv_nsec >= kSecond ? -kSecond : 0;
  return pthread_cond_timedwait(condition, mutex, &end);
}

// Which tells shared_ptr that it may count without atomic instructions: never.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

}  // extern "C"

// ---- parts of libstdc++ ------------------------------------------------------------------------

extern "C" {
void old_copy_exception(void* copy,
                        const void* of) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void old_destroy_exception(void*) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}

namespace std {

template class basic_ostringstream<char>;
template class basic_stringstream<char>;

void __throw_bad_array_new_length() { throw bad_array_new_length(); }

void condition_variable::wait(unique_lock<mutex>& lock) {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}

// Of JSON's numbers, which have neither a sign + nor spaces in front and are of one format. C's
// function is told the locale, as the program's may have another decimal point.
from_chars_result from_chars(const char* first, const char* last, double& value,
                             chars_format) noexcept {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const string text(first, last);
  char* stop = nullptr;
  errno = 0;
  const double found = strtod_l(text.c_str(), &stop, plain);
  if (stop == text.c_str()) return {first, errc::invalid_argument};
  const char* end = first + (stop - text.c_str());
  if (errno == ERANGE && isinf(found)) return {end, errc::result_out_of_range};
  value = found;
  return {end, errc{}};
}

namespace __exception_ptr {

// A copy that is never destroyed counts as one more owner.
void exception_ptr::_M_addref() noexcept {
  alignas(exception_ptr) unsigned char copy[sizeof(exception_ptr)];
  old_copy_exception(copy, this);
}

void exception_ptr::_M_release() noexcept {
  alignas(exception_ptr) unsigned char copy[sizeof(exception_ptr)];
  __builtin_memcpy(copy, this, sizeof copy);
  _M_exception_object = nullptr;
  old_destroy_exception(copy);
}

}  // namespace __exception_ptr
}  // namespace std
