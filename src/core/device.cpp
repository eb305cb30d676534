#include "core/device.h"

#include <pthread.h>

#include "core/device_memory.h"
#include "core/device_placement.h"
#include "core/error.h"

namespace rl {

const char* name(DeviceType type) {
  static const char* const names[device_types] = {"cpu", "meta", "cuda", "privateuseone"};
  return names[static_cast<int>(type)];
}

std::string to_string(Device device) {
  std::string text = name(device.type);
  return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

void check_available(Device device) {
  if (device.is_cpu() || device.is_meta() || device_memory[static_cast<int>(device.type)]) return;
  check(device.type == DeviceType::CUDA, "no backend is registered for device ", device);
  fail(ErrorKind::Assertion,
       "Torch not compiled with CUDA enabled: rushlight was built without "
       "CUDA, asked for ",
       to_string(device), "; use device 'cpu'");
}

const BackendStart* backend_starts[device_types] = {};

Device placed_elsewhere(Device device) {
  const BackendStart* found = backend_starts[static_cast<int>(device.type)];
  if (!found) {
    check_available(device);
    return device;
  }
  found->start();
  if (device.index < 0) device.index = static_cast<int8_t>(found->current());
  check(device.index < found->count(), "CUDA error: invalid device ordinal: ", device,
        " was asked for, and there are ", found->count());
  return device;
}

namespace {
// A key, as bytes of the module's own thread storage are few.
pthread_key_t may_wait_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    check(!pthread_key_create(&made, nullptr), "no key for the state of a thread is left");
    return made;
  }();
  return key;
}
void set_may_wait(bool may) { pthread_setspecific(may_wait_key(), may ? "may" : nullptr); }
}  // namespace
bool copies_may_wait() { return pthread_getspecific(may_wait_key()); }
CopiesMayWait::CopiesMayWait(bool may) : before_(copies_may_wait()) {
  if (may != before_) set_may_wait(may);
}
CopiesMayWait::~CopiesMayWait() {
  if (copies_may_wait() != before_) set_may_wait(before_);
}

Device parse_device(const std::string& text) {
  size_t colon = text.find(':');
  std::string type = text.substr(0, colon);
  Device device;
  bool known = false;
  for (DeviceType t :
       {DeviceType::CPU, DeviceType::Meta, DeviceType::CUDA, DeviceType::PrivateUse1})
    if (type == name(t)) {
      device.type = t;
      known = true;
    }
  check(known,
        "Expected one of cpu, cuda, meta, privateuseone device type at start of device string: ",
        text);
  if (colon == std::string::npos) return device;
  std::string digits = text.substr(colon + 1);
  bool number = !digits.empty() && digits.size() <= 3 &&
                digits.find_first_not_of("0123456789") == std::string::npos &&
                (digits[0] != '0' || digits.size() == 1) && std::stoi(digits) <= 127;
  check(number, "Invalid device string: '", text, "'");
  device.index = static_cast<int8_t>(std::stoi(digits));
  return device;
}

}  // namespace rl
