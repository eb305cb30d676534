// Parts of a node's name that depend on how its op was called.
#pragma once
#include <cctype>
#include <string>
#include <type_traits>

namespace rl {

template <class T, class = std::enable_if_t<std::is_integral_v<T>>> std::string name_part(
    T number) {
  return std::to_string(number);
}
inline std::string name_part(std::string text) { return text; }

// "nearest-exact" becomes "NearestExact".
inline std::string camel_case(const std::string& mode) {
  std::string out;
  bool starts = true;
  for (char c : mode) {
    if (c != '-')
      out += static_cast<char>(starts ? std::toupper(static_cast<unsigned char>(c)) : c);
    starts = c == '-';
  }
  return out;
}

inline std::string padding_name(const std::string& mode) {
  if (mode == "reflect") return "Reflection";
  return mode == "replicate" ? "Replication" : camel_case(mode);
}

// What puts the steps of a recurrent layer together: those of packed sequences, or all. A cell is
// one packed step.
inline std::string layer_name(const std::string& mode, int64_t packed_steps) {
  if (packed_steps == 1 && mode == "GRU") return "Add";
  if (packed_steps == 1 && mode == "LSTM") return "Mul";  // of the state; the cell is its too
  if (packed_steps == 0) return mode == "LSTM" ? "MkldnnRnnLayer" : "Stack";
  return "Cat";
}
// Whether a program may change the states that the layer returns: where torch's nodes do not keep
// them. Its one operation for a whole LSTM does.
inline bool may_change_states(const std::string& mode, int64_t packed_steps) {
  return mode != "LSTM" || packed_steps > 0;
}

}  // namespace rl
