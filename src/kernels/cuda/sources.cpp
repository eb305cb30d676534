#include "kernels/cuda/sources.h"

#include <cstring>
#include <string>

namespace rl::cuda {
namespace {

// Each token of the block has two counts, of the literals behind it and of the bytes that then
// repeat what came some way before.
std::string unpack(const char* block, size_t size) {
  auto* in = reinterpret_cast<const unsigned char*>(block);
  auto* end = in + size;
  std::string text;
  auto whole = [&in](size_t count) {
    for (unsigned char more = count == 15 ? 255 : 0; more == 255; count += more) more = *in++;
    return count;
  };
  while (true) {
    unsigned char token = *in++;
    size_t literals = whole(token >> 4);
    text.append(reinterpret_cast<const char*>(in), literals);
    in += literals;
    if (in == end) return text;
    size_t distance = in[0] | in[1] << 8;
    in += 2;
    for (size_t left = whole(token & 15) + 4; left > 0; --left)
      text.push_back(text[text.size() - distance]);
  }
}

}  // namespace

const DeviceSources& device_sources() {
  static const auto* found = [] {
    const PackedSources& p = packed_sources;
    const char* at = (new std::string(unpack(p.block, p.size)))->c_str();
    auto* made = new DeviceSources;
    auto take = [&at](int count, std::vector<const char*>& parts) {
      for (; count > 0; --count, at += std::strlen(at) + 1) parts.push_back(at);
    };
    take(p.headers, made->names);
    take(p.headers, made->texts);
    take(p.formulas, made->formulas);
    return made;
  }();
  return *found;
}

}  // namespace rl::cuda
