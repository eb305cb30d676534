// libnccl.so.2 of the simulator: collectives between processes, as work of the simulated streams.
//
// Each process has a slot in a file that all have mapped; a collective goes through it in chunks,
// with a barrier after what is written and one after what is read. Signatures are NCCL's.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

extern "C" int cuLaunchHostFunc(void*, void (*)(void*), void*);
extern "C" int cuStreamSynchronize(void*);

namespace {

enum Status { Success = 0, SystemError = 2, InternalError = 3, InvalidArgument = 4 };
enum Type { Int8, Uint8, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64, Bfloat16 };
enum Op { Sum, Prod, Max, Min, Avg };
enum Kind { AllReduce, Broadcast, Reduce, AllGather, ReduceScatter };

constexpr size_t slot_bytes = 1 << 20, header_bytes = 4096;
constexpr double patience = 60;  // seconds

struct Header {
  std::atomic<int> arrived, generation;
};

struct UniqueId {
  char name[128];
};

struct Communicator {
  int rank, size;
  char* memory;
  std::atomic<int> failure{0};

  Header& header() { return *reinterpret_cast<Header*>(memory); }
  char* slot(int rank) { return memory + header_bytes + rank * slot_bytes; }

  bool barrier() {
    Header& h = header();
    int now = h.generation.load();
    if (h.arrived.fetch_add(1) + 1 == size) {
      h.arrived.store(0);
      h.generation.fetch_add(1);
      return true;
    }
    auto began = std::chrono::steady_clock::now();
    while (h.generation.load() == now) {
      std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
      if (waited.count() > patience) {
        failure = SystemError;
        return false;
      }
      sched_yield();
    }
    return true;
  }
};

size_t bytes_of(int type) {
  constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

float widen(uint16_t bits, int type) {
  if (type == Float16) {
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return static_cast<float>(value);
  }
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t narrow(float value, int type) {
  uint16_t bits;
  if (type == Float16) {
    _Float16 half = static_cast<_Float16>(value);
    std::memcpy(&bits, &half, 2);
    return bits;
  }
  uint32_t wide;
  std::memcpy(&wide, &value, 4);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

template <class T> T combined(T a, T b, int op) {
  switch (op) {
    case Prod: return a * b;
    case Max: return std::max(a, b);
    case Min: return std::min(a, b);
    default: return a + b;
  }
}

template <class T> void combine(void* into, const void* other, size_t count, int op) {
  T* a = static_cast<T*>(into);
  const T* b = static_cast<const T*>(other);
  for (size_t i = 0; i < count; ++i) a[i] = combined(a[i], b[i], op);
}

void combine(void* into, const void* other, size_t count, int type, int op) {
  switch (type) {
    case Int8: return combine<int8_t>(into, other, count, op);
    case Uint8: return combine<uint8_t>(into, other, count, op);
    case Int32: return combine<int32_t>(into, other, count, op);
    case Uint32: return combine<uint32_t>(into, other, count, op);
    case Int64: return combine<int64_t>(into, other, count, op);
    case Uint64: return combine<uint64_t>(into, other, count, op);
    case Float32: return combine<float>(into, other, count, op);
    case Float64: return combine<double>(into, other, count, op);
  }
  uint16_t* a = static_cast<uint16_t*>(into);
  const uint16_t* b = static_cast<const uint16_t*>(other);
  for (size_t i = 0; i < count; ++i)
    a[i] = narrow(combined(widen(a[i], type), widen(b[i], type), op), type);
}

struct Task {
  Communicator* comm;
  Kind kind;
  const char* send;
  char* receive;
  size_t count;  // of elements of one process's part
  int type, op, root;

  // Parts of all processes' slots, from `offset` on, as one.
  void reduce(char* into, size_t offset, size_t elements) {
    std::memcpy(into, comm->slot(0) + offset, elements * bytes_of(type));
    for (int rank = 1; rank < comm->size; ++rank)
      combine(into, comm->slot(rank) + offset, elements, type, op);
  }

  void write(size_t at, size_t elements) {
    size_t item = bytes_of(type), n = elements * item;
    char* mine = comm->slot(comm->rank);
    if (kind == ReduceScatter) {
      for (int rank = 0; rank < comm->size; ++rank)
        std::memcpy(mine + rank * n, send + (rank * count + at) * item, n);
    } else if (kind != Broadcast || comm->rank == root) {
      std::memcpy(mine, send + at * item, n);
    }
  }

  void read(size_t at, size_t elements) {
    size_t item = bytes_of(type), n = elements * item;
    if (kind == AllReduce || (kind == Reduce && comm->rank == root)) {
      reduce(receive + at * item, 0, elements);
    } else if (kind == ReduceScatter) {
      reduce(receive + at * item, comm->rank * n, elements);
    } else if (kind == Broadcast) {
      std::memcpy(receive + at * item, comm->slot(root), n);
    } else if (kind == AllGather) {
      for (int rank = 0; rank < comm->size; ++rank)
        std::memcpy(receive + (rank * count + at) * item, comm->slot(rank), n);
    }
  }

  void run() {
    size_t parts = kind == ReduceScatter ? comm->size : 1;
    size_t step = slot_bytes / parts / bytes_of(type);
    for (size_t at = 0; at < count; at += step) {
      size_t elements = std::min(step, count - at);
      write(at, elements);
      if (!comm->barrier()) return;
      read(at, elements);
      if (!comm->barrier()) return;
    }
  }
};

void run_task(void* data) {
  static_cast<Task*>(data)->run();  // which stays: a graph may run it again
}

int enqueue(const Task& task, void* stream) {
  if (task.type < Int8 || task.type > Bfloat16 || task.op < Sum || task.op >= Avg)
    return InvalidArgument;
  if (cuLaunchHostFunc(stream, run_task, new Task(task))) return InternalError;
  // Here and now: work that waits for other processes while it is put off, or runs at some other
  // call of the host, would make hosts wait for each other in a circle, as no GPU does.
  return cuStreamSynchronize(stream) ? InternalError : Success;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int ncclGetVersion(int* version) {
  *version = 22800;
  return Success;
}
API const char* ncclGetErrorString(int status) {
  switch (status) {
    case Success: return "no error";
    case SystemError: return "unhandled system error";
    case InvalidArgument: return "invalid argument";
  }
  return "internal error";
}
API int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number{0};
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->name, sizeof id->name, "/dev/shm/rushlight-nccl-%d-%d", getpid(), number++);
  return Success;
}
API int ncclCommInitRank(Communicator** made, int size, UniqueId id, int rank) {
  if (size < 1 || rank < 0 || rank >= size) return InvalidArgument;
  int file = open(id.name, O_RDWR | O_CREAT, 0600);
  size_t length = header_bytes + size * slot_bytes;
  if (file < 0 || ftruncate(file, static_cast<off_t>(length))) return SystemError;
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return SystemError;
  Communicator* comm = new Communicator;
  comm->rank = rank, comm->size = size, comm->memory = static_cast<char*>(memory);
  bool all = comm->barrier();
  if (rank == 0) unlink(id.name);
  *made = comm;
  return all ? Success : SystemError;
}
API int ncclCommGetAsyncError(Communicator* comm, int* status) {
  *status = comm->failure.load();
  return Success;
}
API int ncclCommDestroy(Communicator* comm) {
  munmap(comm->memory, header_bytes + comm->size * slot_bytes);
  delete comm;
  return Success;
}
API int ncclAllReduce(const char* send, char* receive, size_t count, int type, int op,
                      Communicator* comm, void* stream) {
  return enqueue({comm, AllReduce, send, receive, count, type, op, 0}, stream);
}
API int ncclReduce(const char* send, char* receive, size_t count, int type, int op, int root,
                   Communicator* comm, void* stream) {
  return enqueue({comm, Reduce, send, receive, count, type, op, root}, stream);
}
API int ncclBroadcast(const char* send, char* receive, size_t count, int type, int root,
                      Communicator* comm, void* stream) {
  return enqueue({comm, Broadcast, send, receive, count, type, Sum, root}, stream);
}
API int ncclAllGather(const char* send, char* receive, size_t count, int type, Communicator* comm,
                      void* stream) {
  return enqueue({comm, AllGather, send, receive, count, type, Sum, 0}, stream);
}
API int ncclReduceScatter(const char* send, char* receive, size_t count, int type, int op,
                          Communicator* comm, void* stream) {
  return enqueue({comm, ReduceScatter, send, receive, count, type, op, 0}, stream);
}
