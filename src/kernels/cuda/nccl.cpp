#include "kernels/cuda/nccl.h"

#include <cstring>

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
  if (result) fail(ErrorKind::Runtime, call, ": NCCL says: ", nccl()->ncclGetErrorString(result));
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

}  // namespace

std::string nccl_id() {
  ncclUniqueId id;
  check_result(library().ncclGetUniqueId(&id), "ncclGetUniqueId");
  return std::string(id.internal, sizeof id.internal);
}

ncclComm_t open_communicator(const std::string& text, int size, int rank) {
  ncclUniqueId id;
  check(text.size() == sizeof id.internal, "open_communicator: expected an id of ",
        sizeof id.internal, " bytes, got ", text.size());
  std::memcpy(id.internal, text.data(), sizeof id.internal);
  use(current_device());
  ncclComm_t made = nullptr;
  check_result(library().ncclCommInitRank(&made, size, id, rank), "ncclCommInitRank");
  return made;
}

void close_communicator(ncclComm_t communicator) {
  check_result(library().ncclCommDestroy(communicator), "ncclCommDestroy");
}

void run_collective(const CollectiveCall& c, ncclComm_t communicator, CUstream stream) {
  const Nccl& n = library();
  int type = type_of(c.dtype);
  size_t count = static_cast<size_t>(c.count);
  if (type < 0) {
    check_implemented(!computes(c.kind), "NCCL: no reductions of dtype ", c.dtype);
    type = ncclUint8;
    count *= static_cast<size_t>(itemsize(c.dtype));
  }
  ncclResult_t failed = 0;
  check_result(n.ncclCommGetAsyncError(communicator, &failed), "ncclCommGetAsyncError");
  check_result(failed, "an earlier collective");
  note_launch("nccl");
  switch (c.kind) {
    case Collective::AllReduce:
      return check_result(
          n.ncclAllReduce(c.send, c.receive, count, type, c.operation, communicator, stream),
          "ncclAllReduce");
    case Collective::Reduce:
      return check_result(
          n.ncclReduce(c.send, c.receive, count, type, c.operation, c.root, communicator, stream),
          "ncclReduce");
    case Collective::Broadcast:
      return check_result(
          n.ncclBroadcast(c.send, c.receive, count, type, c.root, communicator, stream),
          "ncclBroadcast");
    case Collective::AllGather:
      return check_result(n.ncclAllGather(c.send, c.receive, count, type, communicator, stream),
                          "ncclAllGather");
    case Collective::ReduceScatter:
      return check_result(
          n.ncclReduceScatter(c.send, c.receive, count, type, c.operation, communicator, stream),
          "ncclReduceScatter");
  }
}

}  // namespace rl::cuda
