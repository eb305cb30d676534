#include "kernels/cuda/nccl.h"

#include <cstring>
#include <thread>

#include "kernels/cuda/runtime.h"

namespace rl::cuda {
namespace {

const Nccl& library() {
  require();
  check(nccl(),
        "NCCL was not found: pip install nvidia-nccl-cu13, which carries tensors between "
        "GPUs of several processes");
  return *nccl();
}
void check_result(ncclResult_t result, const char* call) {
  if (result && result != ncclInProgress)
    fail(ErrorKind::Runtime, call, ": NCCL says: ", nccl()->ncclGetErrorString(result));
}

bool computes(Collective kind) {
  return kind == Collective::AllReduce || kind == Collective::Reduce ||
         kind == Collective::ReduceScatter;
}

int type_of(DType t) {
  switch (t) {
    case DType::UInt8: return ncclUint8;
    case DType::Int8: return ncclInt8;
    case DType::Int32: return ncclInt32;
    case DType::Int64: return ncclInt64;
    case DType::Float16: return ncclFloat16;
    case DType::BFloat16: return ncclBfloat16;
    case DType::Float32: return ncclFloat32;
    case DType::Float64: return ncclFloat64;
    default: return -1;
  }
}

// The operation "multiply by a factor and add", which lives as long as one call needs it.
class Factor {
 public:
  Factor(void* factor, int type, ncclComm_t communicator) : communicator_(communicator) {
    if (factor)
      check_result(library().ncclRedOpCreatePreMulSum(&operation_, factor, type,
                                                      ncclScalarHostImmediate, communicator),
                   "ncclRedOpCreatePreMulSum");
  }
  ~Factor() {
    if (operation_ >= 0) nccl()->ncclRedOpDestroy(operation_, communicator_);
  }
  Factor(const Factor&) = delete;
  Factor& operator=(const Factor&) = delete;
  int or_else(int operation) const { return operation_ >= 0 ? operation_ : operation; }

 private:
  int operation_ = -1;
  ncclComm_t communicator_;
};

ncclResult_t launch(const CollectiveCall& c, size_t count, int type, int operation,
                    ncclComm_t communicator, CUstream stream) {
  const Nccl& n = library();
  switch (c.kind) {
    case Collective::AllReduce:
      return n.ncclAllReduce(c.send, c.receive, count, type, operation, communicator, stream);
    case Collective::Reduce:
      return n.ncclReduce(c.send, c.receive, count, type, operation, c.root, communicator, stream);
    case Collective::Broadcast:
      return n.ncclBroadcast(c.send, c.receive, count, type, c.root, communicator, stream);
    case Collective::AllGather:
      return n.ncclAllGather(c.send, c.receive, count, type, communicator, stream);
    case Collective::ReduceScatter: break;
  }
  return n.ncclReduceScatter(c.send, c.receive, count, type, operation, communicator, stream);
}

const char* name_of(Collective kind) {
  constexpr const char* names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclAllGather",
                                   "ncclReduceScatter"};
  return names[static_cast<int>(kind)];
}

}  // namespace

std::string nccl_id() {
  ncclUniqueId id;
  check_result(library().ncclGetUniqueId(&id), "ncclGetUniqueId");
  return std::string(id.internal, sizeof id.internal);
}

int nccl_version() {
  int version = 0;
  check_result(library().ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

ncclComm_t open_communicator(const std::string& text, int size, int rank) {
  ncclUniqueId id;
  check(text.size() == sizeof id.internal, "open_communicator: expected an id of ",
        sizeof id.internal, " bytes, got ", text.size());
  std::memcpy(id.internal, text.data(), sizeof id.internal);
  use(current_device());
  ncclComm_t made = nullptr;
  ncclConfig_t config;
  check_result(library().ncclCommInitRankConfig(&made, size, id, rank, &config),
               "ncclCommInitRankConfig");
  return made;
}

ncclComm_t split_communicator(ncclComm_t communicator, int color, int key) {
  use(current_device());
  ncclComm_t made = nullptr;
  ncclConfig_t config;
  check_result(library().ncclCommSplit(communicator, color < 0 ? -1 : color, key, &made, &config),
               "ncclCommSplit");
  while (!is_ready(communicator)) std::this_thread::yield();
  return color < 0 ? nullptr : made;
}

bool is_ready(ncclComm_t communicator) {
  ncclResult_t state = 0;
  check_result(library().ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
  check_result(state, "an earlier call");
  return state != ncclInProgress;
}

void close_communicator(ncclComm_t communicator) {
  check_result(library().ncclCommDestroy(communicator), "ncclCommDestroy");
}

void abort_communicator(ncclComm_t communicator) {
  check_result(library().ncclCommAbort(communicator), "ncclCommAbort");
}

void run_collective(const CollectiveCall& c, ncclComm_t communicator, CUstream stream) {
  int type = type_of(c.dtype);
  size_t count = static_cast<size_t>(c.count);
  if (type < 0) {
    check_type(!computes(c.kind),
               "Input tensor data type is not supported for NCCL process group: ", c.dtype);
    type = ncclUint8;
    count *= static_cast<size_t>(itemsize(c.dtype));
  }
  while (!is_ready(communicator)) std::this_thread::yield();
  note_launch("nccl");
  Factor factor(c.factor, type, communicator);
  check_result(launch(c, count, type, factor.or_else(c.operation), communicator, stream),
               name_of(c.kind));
}

void exchange(const std::vector<Message>& messages, CUstream stream) {
  const Nccl& n = library();
  note_launch("nccl");
  check_result(n.ncclGroupStart(), "ncclGroupStart");
  ncclResult_t failed = 0;
  for (const Message& m : messages) {
    size_t bytes = static_cast<size_t>(m.bytes);
    ncclResult_t result =
        m.is_sent ? n.ncclSend(m.data, bytes, ncclUint8, m.peer, m.communicator, stream)
                  : n.ncclRecv(m.data, bytes, ncclUint8, m.peer, m.communicator, stream);
    if (result && result != ncclInProgress && !failed) failed = result;
  }
  ncclResult_t ended = n.ncclGroupEnd();  // also after a failure: threads count their groups
  check_result(failed, "ncclSend or ncclRecv");
  check_result(ended, "ncclGroupEnd");
}

}  // namespace rl::cuda
