#include "program/npy.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/text_stream.h"
#include "core/thread_state.h"
#include "ops_create.h"
#include "ops_shape.h"

namespace rl::program {
namespace {

struct TypeName {
  const char* name;  // as NumPy has it on a little-endian machine
  DType dtype;
};
constexpr TypeName type_names[] = {
    {"|b1", DType::Bool},      {"|u1", DType::UInt8},      {"|i1", DType::Int8},
    {"<i2", DType::Int16},     {"<i4", DType::Int32},      {"<i8", DType::Int64},
    {"<f2", DType::Float16},   {"<f4", DType::Float32},    {"<f8", DType::Float64},
    {"<c8", DType::Complex64}, {"<c16", DType::Complex128}};

struct Closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Closer>;

// What follows 'key': in the header, without spaces.
std::string field(const std::string& header, const std::string& key, const std::string& path) {
  const size_t at = header.find("'" + key + "'");
  const size_t colon = at == std::string::npos ? at : header.find(':', at);
  check_value(colon != std::string::npos, "npy: '", path, "': the header has no ", key);
  size_t from = colon + 1;
  while (from < header.size() && header[from] == ' ') ++from;
  return header.substr(from);
}

void read(std::FILE* file, void* to, size_t bytes, const std::string& path) {
  check_value(bytes == 0 || std::fread(to, 1, bytes, file) == bytes, "npy: '", path,
              "' is shorter than its header says");
}

}  // namespace

Tensor read_npy(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  check_value(file != nullptr, "npy: cannot open '", path, "': ", std::strerror(errno));
  unsigned char start[8];
  read(file.get(), start, 8, path);
  check_value(std::memcmp(start, "\x93NUMPY", 6) == 0, "npy: '", path, "' is no .npy file");
  unsigned char sizes[4] = {};
  read(file.get(), sizes, start[6] == 1 ? 2 : 4, path);
  const uint32_t length = sizes[0] | sizes[1] << 8 | sizes[2] << 16 | uint32_t(sizes[3]) << 24;
  check_value(length < (1 << 20), "npy: '", path, "': a header of ", length, " bytes");
  std::string header(length, ' ');
  read(file.get(), &header[0], length, path);
  const std::string descr = field(header, "descr", path);
  check_value(!descr.empty(), "npy: '", path, "': the header has no dtype");
  const TypeName* type = std::find_if(
      std::begin(type_names), std::end(type_names),
      [&](const TypeName& t) { return descr.compare(1, std::strlen(t.name), t.name) == 0; });
  check_value(type != std::end(type_names), "npy: '", path, "': dtype ", descr.substr(0, 8));
  check_value(field(header, "fortran_order", path).compare(0, 5, "False") == 0, "npy: '", path,
              "' is in Fortran order; save numpy.ascontiguousarray of it");
  const std::string shape = field(header, "shape", path);
  check_value(!shape.empty() && shape[0] == '(', "npy: '", path, "': the shape");
  Dims dims;
  int64_t bytes = itemsize(type->dtype);
  for (const char* at = shape.c_str() + 1; *at && *at != ')';) {
    char* end = nullptr;
    const int64_t n = std::strtoll(at, &end, 10);
    check_value(end != at && n >= 0 && !__builtin_mul_overflow(bytes, n, &bytes), "npy: '", path,
                "': the shape");
    dims.push_back(n);
    at = end;
    while (*at == ',' || *at == ' ') ++at;
  }
  const long here = std::ftell(file.get());
  std::fseek(file.get(), 0, SEEK_END);
  check_value(here >= 0 && std::ftell(file.get()) - here >= bytes, "npy: '", path,
              "' is shorter than its header says");
  std::fseek(file.get(), here, SEEK_SET);
  Tensor t = empty(dims, {type->dtype, Device{}});
  if (t.numel()) read(file.get(), t.view().data, bytes, path);
  return t;
}

void write_npy(const std::string& path, const Tensor& given) {
  NoGradGuard guard;
  Tensor t = ops::contiguous(ops::detach(given));
  // NumPy has no bfloat16.
  if (t.dtype() == DType::BFloat16) t = ops::to(t, DType::Float32);
  const TypeName* type = std::find_if(std::begin(type_names), std::end(type_names),
                                      [&](const TypeName& n) { return n.dtype == t.dtype(); });
  TextStream header;
  header << "{'descr': '" << type->name << "', 'fortran_order': False, 'shape': (";
  for (int64_t n : t.sizes()) header << n << ", ";
  header << "), }";
  std::string text = header.str();
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  File file(std::fopen(path.c_str(), "wb"));
  check_value(file != nullptr, "npy: cannot write '", path, "': ", std::strerror(errno));
  const unsigned char start[10] = {0x93,
                                   'N',
                                   'U',
                                   'M',
                                   'P',
                                   'Y',
                                   1,
                                   0,
                                   static_cast<unsigned char>(text.size() & 255),
                                   static_cast<unsigned char>(text.size() >> 8)};
  const size_t bytes = t.numel() * itemsize(t.dtype());
  const bool written = std::fwrite(start, 1, 10, file.get()) == 10 &&
                       std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                       (bytes == 0 || std::fwrite(t.view().data, 1, bytes, file.get()) == bytes) &&
                       std::fflush(file.get()) == 0;
  check_value(written, "npy: cannot write '", path, "'");
}

}  // namespace rl::program
