#include "kernels/cuda/timeline.h"

#include <unistd.h>

#include <deque>
#include <mutex>

#include "core/observer.h"

namespace rl::cuda::timeline {

struct Record {
  const char* name;
  int64_t launched, thread;
  int device;
  CUstream stream;
  CUevent before, after;
  bool ended;
};

std::atomic<bool> active{false};

namespace {

// An event, and when the device reached it.
struct Reference {
  CUevent event = nullptr;
  int64_t time = 0;
};

struct State {
  std::mutex mutex;
  std::deque<Record> records;  // a deque, as pieces point to them
  Reference references[max_devices];
  std::vector<CUevent> spare[max_devices];
};
State& state() {
  static auto* made = new State;
  return *made;
}

CUevent timed_event(State& s, int device) {
  if (!s.spare[device].empty()) {
    CUevent event = s.spare[device].back();
    s.spare[device].pop_back();
    return event;
  }
  CUevent event = nullptr;
  RL_CUDA(cuEventCreate, &event, CU_EVENT_DEFAULT);
  return event;
}

// The host's clock is read before and after: the event lies between.
void set_reference(State& s, int device, CUstream stream) {
  Reference& r = s.references[device];
  r.event = timed_event(s, device);
  RL_CUDA(cuStreamSynchronize, stream);
  int64_t before = observer::now();
  RL_CUDA(cuEventRecord, r.event, stream);
  RL_CUDA(cuEventSynchronize, r.event);
  r.time = before + (observer::now() - before) / 2;
}

int64_t time_of(const Reference& r, CUevent event) {
  float milliseconds = 0;
  RL_CUDA(cuEventElapsedTime, &milliseconds, r.event, event);
  return r.time + static_cast<int64_t>(double(milliseconds) * 1e6);
}

}  // namespace

void start() { active = true; }

Record* begin(const char* name, int device, CUstream stream) {
  if (is_capturing(device)) return nullptr;  // its events would be the graph's
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.references[device].event) set_reference(s, device, stream);
  Record record{name,
                observer::now(),
                gettid(),
                device,
                stream,
                timed_event(s, device),
                timed_event(s, device),
                false};
  RL_CUDA(cuEventRecord, record.before, stream);
  s.records.push_back(record);
  return &s.records.back();
}

void end(Record* record) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (!active) return;  // stop() has forgotten it
  // No error is raised on the way out of a launch: one that fails leaves its piece without an end.
  record->ended = !driver().cuEventRecord(record->after, record->stream);
}

std::vector<Entry> stop() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  active = false;
  for (int d = 0; d < max_devices; ++d)
    if (s.references[d].event) {
      use(d);
      RL_CUDA(cuCtxSynchronize);
    }
  std::vector<Entry> entries;
  for (const Record& r : s.records) {
    use(r.device);
    if (r.ended)
      entries.push_back({r.name, time_of(s.references[r.device], r.before),
                         time_of(s.references[r.device], r.after), r.launched, r.thread, r.device,
                         reinterpret_cast<uint64_t>(r.stream)});
    s.spare[r.device].insert(s.spare[r.device].end(), {r.before, r.after});
  }
  s.records.clear();
  for (int d = 0; d < max_devices; ++d)
    if (s.references[d].event) {
      s.spare[d].push_back(s.references[d].event);
      s.references[d] = {};
    }
  return entries;
}

}  // namespace rl::cuda::timeline
