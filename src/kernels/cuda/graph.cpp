#include "kernels/cuda/graph.h"

#include "kernels/cuda/allocator.h"

namespace rl::cuda {

Graph::~Graph() {
  if (was_initialized()) reset();
}

void Graph::begin(uint64_t pool, int mode) {
  check(!executable_ && !capturing_, "CUDAGraph.capture_begin: this graph was captured already");
  device_ = current_device();
  use(device_);
  stream_ = current_stream(device_);
  check(stream_,
        "CUDAGraph.capture_begin: the default stream cannot be captured; make another stream the "
        "current one, as rushlight.cuda.graph does");
  pool_ = pool ? pool : new_private_pool();
  begin_private_pool(device_, stream_, pool_);
  CUresult status = driver().cuStreamBeginCapture_v2(stream_, mode);
  if (status) {
    end_private_pool(device_, stream_);
    release_private_pool(device_, pool_);
    fail_call(status, "cuStreamBeginCapture");
  }
  capturing_ = true;
}

void Graph::end() {
  check(capturing_, "CUDAGraph.capture_end: no capture was begun");
  capturing_ = false;
  use(device_);
  CUgraph graph = nullptr;
  CUresult status = driver().cuStreamEndCapture(stream_, &graph);
  end_private_pool(device_, stream_);
  check_call(status, "cuStreamEndCapture");
  status = driver().cuGraphInstantiateWithFlags(&executable_, graph, 0);
  driver().cuGraphDestroy(graph);
  check_call(status, "cuGraphInstantiate");
}

void Graph::replay() {
  check(executable_, "CUDAGraph.replay: nothing was captured");
  use(device_);
  RL_CUDA(cuGraphLaunch, executable_, current_stream(device_));
}

void Graph::reset() {
  if (executable_) {
    driver().cuGraphExecDestroy(executable_);
    executable_ = nullptr;
    release_private_pool(device_, pool_);
  }
}

}  // namespace rl::cuda
