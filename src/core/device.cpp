#include "core/device.h"

#include "core/error.h"

namespace rl {

const char* name(DeviceType type) {
  return type == DeviceType::CPU ? "cpu" : type == DeviceType::Meta ? "meta" : "cuda";
}

std::string to_string(Device device) {
  std::string text = name(device.type);
  return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

void check_available(Device device) {
  if (device.type != DeviceType::CUDA) return;
  fail(ErrorKind::Assertion,
       "Torch not compiled with CUDA enabled: rushlight was built without "
       "CUDA, asked for ",
       to_string(device), "; use device 'cpu'");
}

Device parse_device(const std::string& text) {
  size_t colon = text.find(':');
  std::string type = text.substr(0, colon);
  Device device;
  bool known = false;
  for (DeviceType t : {DeviceType::CPU, DeviceType::Meta, DeviceType::CUDA})
    if (type == name(t)) {
      device.type = t;
      known = true;
    }
  check(known, "Expected one of cpu, cuda, meta device type at start of device string: ", text);
  if (colon == std::string::npos) return device;
  std::string digits = text.substr(colon + 1);
  bool number = !digits.empty() && digits.size() <= 2 &&
                digits.find_first_not_of("0123456789") == std::string::npos;
  check(number, "Invalid device string: '", text, "'");
  device.index = static_cast<int8_t>(std::stoi(digits));
  return device;
}

}  // namespace rl
