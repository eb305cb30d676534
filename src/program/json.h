// JSON (RFC 8259), as the files of programs have it: read from text that nobody has checked.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace rl::program {

struct Json;
using JsonList = std::vector<Json>;
// Objects keep the order of the file.
using JsonObject = std::vector<std::pair<std::string, Json>>;

struct Json {
  std::variant<std::monostate, bool, int64_t, double, std::string, JsonList, JsonObject> v;

  bool is_null() const { return v.index() == 0; }
  template <class T> const T* get() const { return std::get_if<T>(&v); }
  // What must be there, or a ValueError that names `what`.
  const std::string& text(const char* what) const;
  int64_t integer(const char* what) const;
  bool boolean(const char* what) const;
  const JsonList& list(const char* what) const;
  const JsonObject& object(const char* what) const;
  const Json* find(const char* key) const;  // of an object; nullptr for none
  const Json& at(const char* key) const;
};

// ValueError where the text is none. Arrays and objects nest at most 200 deep.
Json parse_json(const char* begin, const char* end);

}  // namespace rl::program
