// Where a tensor lives. `meta` tensors have a shape and a dtype but no data; `privateuseone` is a
// backend from outside this repository.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>

namespace rl {

enum class DeviceType : int8_t { CPU, Meta, CUDA, PrivateUse1 };
inline constexpr int device_types = 4;

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;
  bool operator==(Device other) const { return type == other.type && index == other.index; }
  bool operator!=(Device other) const { return !(*this == other); }
  bool is_meta() const { return type == DeviceType::Meta; }
  bool is_cpu() const { return type == DeviceType::CPU; }
};
// The CPU is one device, whatever its index.
inline bool is_same_device(Device a, Device b) {
  return a.type == b.type && (a.index == b.index || a.is_cpu() || a.is_meta());
}

const char* name(DeviceType type);
Device parse_device(const std::string& text);  // "cpu", "cuda:1", "meta"; RuntimeError otherwise
std::string to_string(Device device);
void check_available(Device device);  // can tensors be made there?
inline std::ostream& operator<<(std::ostream& out, Device d) { return out << to_string(d); }

}  // namespace rl
