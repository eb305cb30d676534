// libnccl.so.2 of the simulator: collectives between processes, as work of the simulated streams.
//
// Each process has a slot in a file that all have mapped; a collective goes through it in chunks,
// with a barrier after what is written and one after what is read. A message is a file of its own.
// Signatures are NCCL's.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

extern "C" int cuLaunchHostFunc(void*, void (*)(void*), void*);
extern "C" int cuStreamSynchronize(void*);

namespace {

enum Status {
  Success = 0,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7
};
enum Type { Int8, Uint8, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64, Bfloat16 };
enum Op { Sum, Prod, Max, Min, Avg, FirstOfProgram };
enum Kind { AllReduce, Broadcast, Reduce, AllGather, ReduceScatter, Send, Receive };

constexpr size_t slot_bytes = 1 << 20, header_bytes = 4096;
constexpr double patience = 60;  // seconds

struct Header {
  std::atomic<int> arrived, generation;
};

struct UniqueId {
  char name[128];
};

struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct Factor {
  int type;
  double value;
};

struct Communicator {
  int rank, size;
  char* memory;
  std::string name;
  std::atomic<int> failure{0};
  bool is_open = false;
  int generation_of_opening = 0, splits = 0;
  std::map<int, long> sent, received;  // messages, by peer
  std::vector<std::string> files;      // of messages that nobody may have taken
  std::vector<Factor> factors;

  Header& header() { return *reinterpret_cast<Header*>(memory); }
  char* slot(int rank) { return memory + header_bytes + rank * slot_bytes; }

  // This process has come; the number by which it sees that all have.
  int arrive() {
    Header& h = header();
    int now = h.generation.load();
    if (h.arrived.fetch_add(1) + 1 == size) {
      h.arrived.store(0);
      h.generation.fetch_add(1);
    }
    return now;
  }
  template <class F> bool wait_for(F&& condition) {
    auto began = std::chrono::steady_clock::now();
    while (!condition()) {
      std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
      if (waited.count() > patience) failure = SystemError;
      if (failure) return false;
      sched_yield();
    }
    return true;
  }
  bool barrier() {
    int now = arrive();
    return wait_for([&] { return header().generation.load() != now; });
  }
  std::string file_of(int from, int to, long number) const {
    return name + "-" + std::to_string(from) + "-" + std::to_string(to) + "-" +
           std::to_string(number);
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

// Multiply elements by what the operation asks for before they are added.
template <class T> void scale(void* data, size_t count, double factor) {
  T* a = static_cast<T*>(data);
  for (size_t i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] * static_cast<T>(factor));
}
template <class T> void divide(void* data, size_t count, int size) {
  T* a = static_cast<T*>(data);
  for (size_t i = 0; i < count; ++i) a[i] = static_cast<T>(a[i] / static_cast<T>(size));
}
void scale(void* data, size_t count, int type, double factor) {
  switch (type) {
    case Int8: return scale<int8_t>(data, count, factor);
    case Uint8: return scale<uint8_t>(data, count, factor);
    case Int32: return scale<int32_t>(data, count, factor);
    case Uint32: return scale<uint32_t>(data, count, factor);
    case Int64: return scale<int64_t>(data, count, factor);
    case Uint64: return scale<uint64_t>(data, count, factor);
    case Float32: return scale<float>(data, count, factor);
    case Float64: return scale<double>(data, count, factor);
  }
  uint16_t* a = static_cast<uint16_t*>(data);
  for (size_t i = 0; i < count; ++i)
    a[i] = narrow(widen(a[i], type) * static_cast<float>(factor), type);
}
void divide(void* data, size_t count, int type, int size) {
  switch (type) {
    case Int8: return divide<int8_t>(data, count, size);
    case Uint8: return divide<uint8_t>(data, count, size);
    case Int32: return divide<int32_t>(data, count, size);
    case Uint32: return divide<uint32_t>(data, count, size);
    case Int64: return divide<int64_t>(data, count, size);
    case Uint64: return divide<uint64_t>(data, count, size);
  }
}
bool is_float(int type) { return type >= Float16; }

struct Task {
  Communicator* comm;
  Kind kind;
  const char* send;
  char* receive;
  size_t count;  // of elements of one process's part
  int type, op, root;

  // By how much elements are multiplied before they are added; 1: not at all.
  double factor() const {
    if (op == Avg && is_float(type)) return 1.0 / comm->size;
    return op >= FirstOfProgram ? comm->factors[static_cast<size_t>(op - FirstOfProgram)].value : 1;
  }

  // Parts of all processes' slots, from `offset` on, as one.
  void reduce(char* into, size_t offset, size_t elements) {
    size_t bytes = elements * bytes_of(type);
    std::vector<char> other(bytes);
    double by = factor();
    std::memcpy(into, comm->slot(0) + offset, bytes);
    if (by != 1) scale(into, elements, type, by);
    for (int rank = 1; rank < comm->size; ++rank) {
      std::memcpy(other.data(), comm->slot(rank) + offset, bytes);
      if (by != 1) scale(other.data(), elements, type, by);
      combine(into, other.data(), elements, type, op);
    }
    if (op == Avg && !is_float(type)) divide(into, elements, type, comm->size);
  }

  // Sends do not wait for who receives, as those of NCCL's that are large do: hosts here run what
  // GPUs would do side by side.
  void send_message() {
    std::string file = comm->file_of(comm->rank, root, comm->sent[root]++);
    std::string unfinished = file + ".part";
    FILE* out = std::fopen(unfinished.c_str(), "wb");
    size_t bytes = count * bytes_of(type);
    bool written = out && std::fwrite(send, 1, bytes, out) == bytes;
    if (out && std::fclose(out)) written = false;
    if (!written || std::rename(unfinished.c_str(), file.c_str())) comm->failure = SystemError;
    comm->files.push_back(file);
  }
  void receive_message() {
    std::string file = comm->file_of(root, comm->rank, comm->received[root]++);
    struct stat about;
    if (!comm->wait_for([&] { return !stat(file.c_str(), &about); })) return;
    size_t bytes = count * bytes_of(type);
    FILE* in = std::fopen(file.c_str(), "rb");
    if (!in || static_cast<size_t>(about.st_size) != bytes ||
        std::fread(receive, 1, bytes, in) != bytes)
      comm->failure = InvalidUsage;  // not what was sent: undefined in NCCL
    if (in) std::fclose(in);
    unlink(file.c_str());
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
    if (kind == Send) return send_message();
    if (kind == Receive) return receive_message();
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

// RUSHLIGHT_SIMULATOR_NCCL_DIES=rank:number: the process of that rank is lost at its call of that
// number, when the others wait for it in theirs.
void die_where_told(int rank) {
  static std::atomic<int> calls{0};
  const char* told = std::getenv("RUSHLIGHT_SIMULATOR_NCCL_DIES");
  int who = -1, when = -1;
  if (!told || std::sscanf(told, "%d:%d", &who, &when) != 2) return;
  if (rank == who && ++calls == when) _exit(9);
}

int launch(const Task& task, void* stream) {
  if (cuLaunchHostFunc(stream, run_task, new Task(task))) return InternalError;
  // Here and now: work that waits for other processes while it is put off, or runs at some other
  // call of the host, would make hosts wait for each other in a circle, as no GPU does.
  return cuStreamSynchronize(stream) ? InternalError : Success;
}

thread_local int open_groups = 0;
thread_local std::vector<std::pair<Task, void*>> grouped;

int enqueue(const Task& task, void* stream) {
  int last_op = FirstOfProgram + static_cast<int>(task.comm->factors.size()) - 1;
  if (task.type < Int8 || task.type > Bfloat16 || task.op < Sum || task.op > last_op)
    return InvalidArgument;
  if (task.op >= FirstOfProgram &&
      task.comm->factors[static_cast<size_t>(task.op - FirstOfProgram)].type != task.type)
    return InvalidArgument;
  bool is_message = task.kind == Send || task.kind == Receive;
  if (is_message && (task.root < 0 || task.root >= task.comm->size)) return InvalidArgument;
  if (!task.comm->is_open) return InvalidUsage;
  if (task.comm->failure) return task.comm->failure;
  if (is_message && task.root == task.comm->rank && !open_groups) return InvalidUsage;
  die_where_told(task.comm->rank);
  if (open_groups) {
    grouped.emplace_back(task, stream);
    return Success;
  }
  return launch(task, stream);
}

Communicator* opened(const std::string& name, int size, int rank) {
  int file = open(name.c_str(), O_RDWR | O_CREAT, 0600);
  size_t length = header_bytes + static_cast<size_t>(size) * slot_bytes;
  if (file < 0 || ftruncate(file, static_cast<off_t>(length))) return nullptr;
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  Communicator* comm = new Communicator;
  comm->rank = rank, comm->size = size, comm->memory = static_cast<char*>(memory);
  comm->name = name;
  comm->generation_of_opening = comm->arrive();
  // The last to come: all have the memory, and nobody needs its name any more.
  if (comm->header().generation.load() != comm->generation_of_opening) unlink(name.c_str());
  return comm;
}

// Has the opening come to its end?
bool finish_opening(Communicator* comm) {
  if (comm->is_open) return true;
  if (comm->header().generation.load() == comm->generation_of_opening) return false;
  return comm->is_open = true;
}

void forget_messages(Communicator* comm) {
  for (const std::string& file : comm->files) unlink(file.c_str());
  comm->files.clear();
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
    case InvalidUsage: return "invalid usage";
    case RemoteError: return "remote process exited or there was a network error";
    case InProgress: return "NCCL operation in progress";
  }
  return "internal error";
}
API int ncclGetUniqueId(UniqueId* id) {
  static std::atomic<int> number{0};
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->name, sizeof id->name, "/dev/shm/rushlight-nccl-%d-%d", getpid(), number++);
  return Success;
}
API int ncclCommInitRankConfig(Communicator** made, int size, UniqueId id, int rank,
                               const Config* config) {
  if (size < 1 || rank < 0 || rank >= size || config->magic != 0xcafebeef) return InvalidArgument;
  *made = opened(id.name, size, rank);
  if (!*made) return SystemError;
  if (!config->blocking) return InProgress;
  return (*made)->wait_for([&] { return finish_opening(*made); }) ? Success : SystemError;
}
API int ncclCommSplit(Communicator* comm, int color, int key, Communicator** made,
                      const Config* config) {
  struct Choice {
    int color, key;
  } mine{color, key};
  if (config->magic != 0xcafebeef || color < -1) return InvalidArgument;
  std::memcpy(comm->slot(comm->rank), &mine, sizeof mine);
  if (!comm->barrier()) return SystemError;
  int size = 0, rank = 0;
  for (int other = 0; other < comm->size; ++other) {
    Choice theirs;
    std::memcpy(&theirs, comm->slot(other), sizeof theirs);
    if (theirs.color != color) continue;
    ++size;
    if (theirs.key < key || (theirs.key == key && other < comm->rank)) ++rank;
  }
  if (!comm->barrier()) return SystemError;
  std::string name =
      comm->name + "s" + std::to_string(comm->splits++) + "c" + std::to_string(color);
  *made = nullptr;
  if (color < 0) return Success;
  *made = opened(name, size, rank);
  return *made ? InProgress : SystemError;
}
API int ncclCommGetAsyncError(Communicator* comm, int* status) {
  *status = comm->failure.load();
  if (!*status && !finish_opening(comm)) *status = InProgress;
  return Success;
}
API int ncclCommDestroy(Communicator* comm) {
  // Messages on their way stay: NCCL's own arrive before.
  munmap(comm->memory, header_bytes + static_cast<size_t>(comm->size) * slot_bytes);
  delete comm;
  return Success;
}
// Memory stays: another thread may be in a call that now ends.
API int ncclCommAbort(Communicator* comm) {
  comm->failure = RemoteError;
  if (!comm->is_open) unlink(comm->name.c_str());  // some may never come
  forget_messages(comm);
  return Success;
}
API int ncclGroupStart() {
  ++open_groups;
  return Success;
}
API int ncclGroupEnd() {
  if (open_groups == 0) return InvalidUsage;
  if (--open_groups) return Success;
  std::vector<std::pair<Task, void*>> tasks;
  tasks.swap(grouped);
  int status = Success;
  for (bool receives : {false, true})
    for (const auto& [task, stream] : tasks)
      if ((task.kind == Receive) == receives && !status) status = launch(task, stream);
  return status;
}
API int ncclRedOpCreatePreMulSum(int* op, const void* scalar, int type, int residence,
                                 Communicator* comm) {
  if (residence != 1 || type < Int8 || type > Bfloat16) return InvalidArgument;
  double value = 0;
  switch (type) {
    case Float32: value = *static_cast<const float*>(scalar); break;
    case Float64: value = *static_cast<const double*>(scalar); break;
    case Float16:
    case Bfloat16: value = widen(*static_cast<const uint16_t*>(scalar), type); break;
    default: return InvalidArgument;  // of ours only floating-point tensors have factors
  }
  comm->factors.push_back({type, value});
  *op = FirstOfProgram + static_cast<int>(comm->factors.size()) - 1;
  return Success;
}
API int ncclRedOpDestroy(int op, Communicator* comm) {
  int last_op = FirstOfProgram + static_cast<int>(comm->factors.size()) - 1;
  if (op < FirstOfProgram || op > last_op) return InvalidArgument;
  comm->factors[static_cast<size_t>(op - FirstOfProgram)].type = -1;  // graphs may use its value
  return Success;
}
API int ncclSend(const char* send, size_t count, int type, int peer, Communicator* comm,
                 void* stream) {
  return enqueue({comm, Send, send, nullptr, count, type, Sum, peer}, stream);
}
API int ncclRecv(char* receive, size_t count, int type, int peer, Communicator* comm,
                 void* stream) {
  return enqueue({comm, Receive, nullptr, receive, count, type, Sum, peer}, stream);
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
