// Collective operations of GPUs by NCCL.
#pragma once
#include <string>
#include <vector>

#include "core/dtype.h"
#include "kernels/cuda/api.h"

namespace rl::cuda {

// What one process makes and all give to open_communicator.
std::string nccl_id();
int nccl_version();
// Of the device that is current. Neither waits for the others: the communicator can be used once
// is_ready() says so.
ncclComm_t open_communicator(const std::string& id, int size, int rank);
// A part of a communicator, all of whose members call: those that give the same `color`, in the
// order of their keys; null for a negative color. May wait for the others.
ncclComm_t split_communicator(ncclComm_t communicator, int color, int key);
// Has what was begun with a communicator come so far that it takes more? Raises if that failed.
bool is_ready(ncclComm_t communicator);
void close_communicator(ncclComm_t communicator);
// Ends what is under way, on the GPU too, where others will never come. Of any thread.
void abort_communicator(ncclComm_t communicator);

enum class Collective : int { AllReduce, Reduce, Broadcast, AllGather, ReduceScatter };

// As work of a stream. `count` is of the elements of one process's part; a type that NCCL does not
// know is an error, or, where nothing is computed, sent as bytes. With `factor`, a number of the
// tensors' type, each process's elements are multiplied by it and added.
struct CollectiveCall {
  Collective kind;
  const void* send;
  void* receive;
  int64_t count;
  DType dtype;
  int operation, root;
  void* factor = nullptr;
};
void run_collective(const CollectiveCall& call, ncclComm_t communicator, CUstream stream);

// Bytes to or from one member of a communicator.
struct Message {
  ncclComm_t communicator;
  bool is_sent;
  int peer;
  void* data;
  int64_t bytes;
};
// All at once: none waits for one that comes later in the list.
void exchange(const std::vector<Message>& messages, CUstream stream);

}  // namespace rl::cuda
