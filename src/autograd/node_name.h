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

// What puts the steps of a recurrent layer together: those of packed sequences, or all.
inline std::string steps_name(int64_t packed_steps) { return packed_steps ? "Cat" : "Stack"; }
// A cell is one packed step.
inline std::string gru_name(int64_t packed_steps) {
  return packed_steps == 1 ? "Add" : steps_name(packed_steps);
}

inline std::string lstm_name(int64_t packed_steps) {
  if (packed_steps == 0) return "MkldnnRnnLayer";
  return packed_steps == 1 ? "Mul" : "Cat";  // Mul makes the state; the cell comes of the same node
}
inline std::string layer_name(const std::string& mode, int64_t packed_steps) {
  if (mode == "LSTM") return lstm_name(packed_steps);
  return mode == "GRU" ? gru_name(packed_steps) : steps_name(packed_steps);
}

}  // namespace rl
