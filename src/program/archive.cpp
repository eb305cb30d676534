#include "program/archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/mapped_file.h"
#include "core/text_stream.h"
#include "ops_shape.h"

namespace rl::program {
namespace {

// A mapped file; `bytes` stay as long as a storage holds it.
struct Mapped {
  Ref<Storage> storage;
  const uint8_t* bytes = nullptr;
  uint64_t size = 0;
};

Mapped map(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  check_value(descriptor >= 0, "model: cannot open '", path, "': ", std::strerror(errno));
  struct stat status{};
  const bool known = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  Mapped found;
  try {
    check_value(known && status.st_size > 0, "model: '", path, "' is empty, or no file");
    found.size = status.st_size;
    found.storage = map_file(descriptor, status.st_size, false, path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
  found.bytes = static_cast<const uint8_t*>(found.storage->data);
  return found;
}

void need(bool condition, const char* what) {
  check_value(condition, "model: the file is damaged: ", what);
}

uint16_t read16(const uint8_t* p) { return p[0] | p[1] << 8; }
uint32_t read32(const uint8_t* p) { return read16(p) | uint32_t(read16(p + 2)) << 16; }
uint64_t read64(const uint8_t* p) { return read32(p) | uint64_t(read32(p + 4)) << 32; }

struct Entry {
  uint64_t offset, size;
};

// The entries of a zip archive: the list at its end, each checked against its header.
std::map<std::string, Entry> entries_of(const Mapped& file) {
  const uint8_t* bytes = file.bytes;
  need(file.size >= 22, "it is no zip archive");
  uint64_t end = file.size - 22;
  const uint64_t last = file.size > 22 + 65535 ? file.size - 22 - 65535 : 0;
  while (read32(bytes + end) != 0x06054b50) {
    need(end > last, "it is no zip archive");
    --end;
  }
  uint64_t count = read16(bytes + end + 10), at = read32(bytes + end + 16);
  if (end >= 20 && read32(bytes + end - 20) == 0x07064b50) {  // more than 4 GB
    const uint64_t record = read64(bytes + end - 20 + 8);
    need(record <= file.size - 56 && file.size >= 56 && read32(bytes + record) == 0x06064b50,
         "the end of its list");
    count = read64(bytes + record + 32);
    at = read64(bytes + record + 48);
  }
  std::map<std::string, Entry> found;
  for (uint64_t i = 0; i < count; ++i) {
    need(at <= file.size && file.size - at >= 46 && read32(bytes + at) == 0x02014b50, "its list");
    const uint8_t* p = bytes + at;
    const uint64_t name_length = read16(p + 28), extra = read16(p + 30), comment = read16(p + 32);
    need(file.size - at - 46 >= name_length + extra + comment, "its list");
    uint64_t stored = read32(p + 20), size = read32(p + 24), header = read32(p + 42);
    for (const uint8_t* q = p + 46 + name_length; q + 4 <= p + 46 + name_length + extra;) {
      const uint64_t length = read16(q + 2);
      need(q + 4 + length <= p + 46 + name_length + extra, "its list");
      if (read16(q) == 1) {  // sizes of 64 bits, of those alone that need them
        const uint8_t *r = q + 4, *stop = r + length;
        for (uint64_t* field : {&size, &stored, &header}) {
          if (*field != 0xffffffff) continue;
          need(r + 8 <= stop, "its list");
          *field = read64(r);
          r += 8;
        }
      }
      q += 4 + length;
    }
    need(read16(p + 10) == 0 && stored == size, "an entry is compressed");
    need(header <= file.size && file.size - header >= 30 && read32(bytes + header) == 0x04034b50,
         "an entry");
    const uint64_t begin = header + 30 + read16(bytes + header + 26) + read16(bytes + header + 28);
    need(begin <= file.size && size <= file.size - begin, "an entry is longer than the file");
    std::string name(reinterpret_cast<const char*>(p + 46), name_length);
    need(found.emplace(std::move(name), Entry{begin, size}).second, "two entries have one name");
    at += 46 + name_length + extra + comment;
  }
  return found;
}

struct TypeName {
  const char* name;
  DType dtype;
};
constexpr TypeName type_names[] = {
    {"BOOL", DType::Bool},   {"U8", DType::UInt8},      {"I8", DType::Int8},
    {"I16", DType::Int16},   {"I32", DType::Int32},     {"I64", DType::Int64},
    {"F16", DType::Float16}, {"BF16", DType::BFloat16}, {"F32", DType::Float32},
    {"F64", DType::Float64}, {"C64", DType::Complex64}, {"C128", DType::Complex128}};

void release_mapping(void* context) { delete static_cast<Ref<Storage>*>(context); }

// The tensor on bytes of the file.
Tensor tensor_on(const Mapped& file, uint64_t offset, DType dtype, const Dims& sizes) {
  Tensor t = empty(sizes, {dtype, Device{}});
  const int64_t nbytes = t.numel() * itemsize(dtype);
  if (nbytes == 0) return t;
  uint8_t* bytes = const_cast<uint8_t*>(file.bytes) + offset;
  if (reinterpret_cast<uintptr_t>(bytes) % itemsize(dtype)) {
    std::memcpy(t.view().data, bytes, nbytes);
    return t;
  }
  TensorImpl* impl = t.impl();
  impl->storage = Storage::borrow(bytes, nbytes, release_mapping, new Ref<Storage>(file.storage));
  impl->refresh();
  return t;
}

std::map<std::string, Tensor> tensors_of(const Mapped& file, Entry entry) {
  need(entry.size >= 8, "the header of its tensors");
  const uint64_t length = read64(file.bytes + entry.offset);
  need(length <= entry.size - 8, "the header of its tensors is longer than the file");
  const char* text = reinterpret_cast<const char*>(file.bytes + entry.offset + 8);
  const Json header = parse_json(text, text + length);
  const uint64_t begin = entry.offset + 8 + length, available = entry.size - 8 - length;
  std::map<std::string, Tensor> found;
  for (const auto& [name, item] : header.object("the header of its tensors")) {
    if (name == "__metadata__") continue;
    const std::string& type = item.at("dtype").text("dtype");
    const TypeName* known = std::find_if(std::begin(type_names), std::end(type_names),
                                         [&](const TypeName& t) { return type == t.name; });
    check_value(known != std::end(type_names), "model: dtype '", type, "' of ", name);
    Dims sizes;
    uint64_t bytes = itemsize(known->dtype);
    for (const Json& n : item.at("shape").list("shape")) {
      const int64_t size = n.integer("a size");
      need(size >= 0 && !__builtin_mul_overflow(bytes, uint64_t(size), &bytes), "a size");
      sizes.push_back(size);
    }
    const JsonList& span = item.at("data_offsets").list("data_offsets");
    need(span.size() == 2, "data_offsets");
    const int64_t from = span[0].integer("offset"), to = span[1].integer("offset");
    need(from >= 0 && from <= to && uint64_t(to) <= available && uint64_t(to - from) == bytes,
         "the bytes of a tensor");
    Tensor t = tensor_on(file, begin + from, known->dtype, sizes);
    found.emplace(name, std::move(t));
  }
  return found;
}

}  // namespace

Archive read_archive(const std::string& path) {
  const Mapped file = map(path);
  const auto entries = entries_of(file);
  auto program = entries.find("program.json"), weights = entries.find("weights.safetensors");
  need(program != entries.end() && weights != entries.end(),
       "it has no program.json or weights.safetensors");
  const char* text = reinterpret_cast<const char*>(file.bytes + program->second.offset);
  Archive archive{parse_json(text, text + program->second.size), tensors_of(file, weights->second)};
  return archive;
}

std::map<std::string, Tensor> read_safetensors(const std::string& path) {
  const Mapped file = map(path);
  return tensors_of(file, {0, file.size});
}

void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<std::pair<std::string, Tensor>> sorted(tensors.begin(), tensors.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return itemsize(a.second.dtype()) > itemsize(b.second.dtype());
  });
  TextStream header;
  header << '{';
  uint64_t at = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    auto& [name, t] = sorted[i];
    NoGradGuard guard;
    t = ops::contiguous(ops::detach(t));
    for (char c : name)
      check_value(c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20,
                  "write_safetensors: '", name, "' cannot be a name");
    const TypeName* type =
        std::find_if(std::begin(type_names), std::end(type_names),
                     [&t = t](const TypeName& n) { return n.dtype == t.dtype(); });
    header << (i ? "," : "") << '"' << name << "\":{\"dtype\":\"" << type->name << "\",\"shape\":[";
    for (int64_t d = 0; d < t.dim(); ++d) header << (d ? "," : "") << t.sizes()[d];
    const uint64_t nbytes = t.numel() * itemsize(t.dtype());
    header << "],\"data_offsets\":[" << at << ',' << at + nbytes << "]}";
    at += nbytes;
  }
  header << '}';
  std::string text = header.str();
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  const std::string temporary = path + ".part";
  std::FILE* out = std::fopen(temporary.c_str(), "wb");
  check_value(out, "write_safetensors: cannot write '", temporary, "': ", std::strerror(errno));
  const uint64_t length = text.size();
  bool written = std::fwrite(&length, 8, 1, out) == 1 &&
                 std::fwrite(text.data(), 1, text.size(), out) == text.size();
  for (const auto& [name, t] : sorted) {
    const size_t nbytes = t.numel() * itemsize(t.dtype());
    written = written && (nbytes == 0 || std::fwrite(t.view().data, 1, nbytes, out) == nbytes);
  }
  written = std::fclose(out) == 0 && written;
  written = written && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) std::remove(temporary.c_str());
  check_value(written, "write_safetensors: cannot write '", path, "'");
}

}  // namespace rl::program
