// The DLPack 1.0 structures, as https://dmlc.github.io/dlpack fixes their layout.
#pragma once
#include <cstdint>

namespace rl::bind::dlpack {

enum DeviceCode : int32_t { cpu = 1, cuda = 2, cuda_host = 3 };
enum TypeCode : uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,  // with the other floats of 8 bits up to
  float8_e8m0fnu = 14
};
enum Flag : uint64_t { read_only = 1, copied = 2 };

struct Device {
  int32_t type;
  int32_t index;
};
struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct Array {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null for contiguous
  uint64_t byte_offset;
};
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct Versioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Array array;
};

}  // namespace rl::bind::dlpack
