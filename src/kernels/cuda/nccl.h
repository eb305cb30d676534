// Collective operations of GPUs by NCCL.
#pragma once
#include <string>

#include "core/dtype.h"
#include "kernels/cuda/api.h"

namespace rl::cuda {

// What one process makes and all give to open_communicator.
std::string nccl_id();
// Waits for the others. Of the device that is current.
ncclComm_t open_communicator(const std::string& id, int size, int rank);
void close_communicator(ncclComm_t communicator);

enum class Collective : int { AllReduce, Reduce, Broadcast, AllGather, ReduceScatter };

// As work of a stream. `count` is of the elements of one process's part; a type that NCCL does not
// know is an error, or, where nothing is computed, sent as bytes.
struct CollectiveCall {
  Collective kind;
  const void* send;
  void* receive;
  int64_t count;
  DType dtype;
  int operation, root;
};
void run_collective(const CollectiveCall& call, ncclComm_t communicator, CUstream stream);

}  // namespace rl::cuda
