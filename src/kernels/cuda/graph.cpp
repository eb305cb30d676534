#include "kernels/cuda/graph.h"

#include <algorithm>
#include <mutex>

#include "kernels/cuda/allocator.h"
#include "kernels/cuda/timeline.h"

namespace rl::cuda {
namespace {

// The graphs that are being captured.
std::mutex captured_mutex;
std::vector<Graph*>& captured() {
  static auto* graphs = new std::vector<Graph*>;
  return *graphs;
}
void forget(Graph* graph) {
  std::lock_guard<std::mutex> lock(captured_mutex);
  captured().erase(std::remove(captured().begin(), captured().end(), graph), captured().end());
}

}  // namespace

Graph::~Graph() {
  forget(this);
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
  calls_.begin();
  capturing_ = true;
  std::lock_guard<std::mutex> lock(captured_mutex);
  captured().push_back(this);
}

void Graph::end() {
  check(capturing_, "CUDAGraph.capture_end: no capture was begun");
  capturing_ = false;
  forget(this);
  use(device_);
  CUgraph graph = nullptr;
  CUresult status = driver().cuStreamEndCapture(stream_, &graph);
  calls_.end();
  end_private_pool(device_, stream_);
  check_call(status, "cuStreamEndCapture");
  status = driver().cuGraphInstantiateWithFlags(&executable_, graph, 0);
  driver().cuGraphDestroy(graph);
  check_call(status, "cuGraphInstantiate");
}

void Graph::replay() {
  check(executable_, "CUDAGraph.replay: nothing was captured");
  use(device_);
  CUstream stream = current_stream(device_);
  timeline::Piece piece("CUDA graph", device_, stream);
  write_seeds(stream);
  RL_CUDA(cuGraphLaunch, executable_, stream);
}

void Graph::write_seeds(CUstream stream) {
  for (const Drawn& d : drawn_) {
    std::lock_guard<std::mutex> lock(d.state->mutex);
    uint64_t words[2] = {d.state->seed, d.state->offset};
    d.state->offset += d.used;
    for (unsigned i = 0; i < 4; ++i)  // as numbers of the calls, so that no memory has to stay
      RL_CUDA(cuMemsetD32Async, d.words + 4 * i,
              static_cast<unsigned>(words[i / 2] >> (i % 2 * 32)), 1, stream);
  }
}

PhiloxSeed Graph::draw(const std::shared_ptr<PhiloxState>& state, uint64_t count) {
  auto it =
      std::find_if(drawn_.begin(), drawn_.end(), [&](const Drawn& d) { return d.state == state; });
  if (it == drawn_.end()) {
    CUdeviceptr words = 0;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // allowed while a stream is captured
    RL_CUDA(cuThreadExchangeStreamCaptureMode, &mode);
    CUresult status = driver().cuMemAlloc_v2(&words, 16);
    RL_CUDA(cuThreadExchangeStreamCaptureMode, &mode);
    check_call(status, "cuMemAlloc_v2");
    it = drawn_.insert(drawn_.end(), {state, words, 0});
  }
  PhiloxSeed result{0, it->used, reinterpret_cast<const uint64_t*>(it->words)};
  it->used += count;
  return result;
}

PhiloxSeed draw_in_capture(int device, const std::shared_ptr<PhiloxState>& state, uint64_t count) {
  CUstream stream = current_stream(device);
  std::lock_guard<std::mutex> lock(captured_mutex);
  Graph* only = nullptr;  // the one that captures on the device, if there is one alone
  int graphs = 0;
  for (Graph* graph : captured()) {
    if (graph->captures(device, stream)) return graph->draw(state, count);
    if (graph->device() != device) continue;
    only = graph;
    ++graphs;
  }
  check(graphs == 1,
        "random numbers on a stream that one of two graphs captures at once are drawn on the "
        "streams whose captures were begun");
  return only->draw(state, count);
}

void Graph::reset() {
  if (executable_) {
    driver().cuGraphExecDestroy(executable_);
    executable_ = nullptr;
    release_private_pool(device_, pool_);
  }
  for (const Drawn& d : drawn_) driver().cuMemFree_v2(d.words);
  drawn_.clear();
  calls_.clear();
}

}  // namespace rl::cuda
