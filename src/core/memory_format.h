// How the dims of a tensor lie in memory.
#pragma once
#include <cstdint>

namespace rl {
enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
}
