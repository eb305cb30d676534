#include "program/json.h"

#include <charconv>
#include <cstring>

#include "core/error.h"

namespace rl::program {
namespace {

constexpr int max_depth = 200;

class Parser {
 public:
  Parser(const char* begin, const char* end) : begin_(begin), at_(begin), end_(end) {}

  Json document() {
    Json value = parse(0);
    skip_space();
    need(at_ == end_, "text after the document");
    return value;
  }

 private:
  void need(bool condition, const char* what) const {
    check_value(condition, "JSON: ", what, " at byte ", at_ - begin_);
  }
  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take_word(const char* word) {
    const size_t length = std::strlen(word);
    if (static_cast<size_t>(end_ - at_) < length || std::memcmp(at_, word, length)) return false;
    at_ += length;
    return true;
  }

  Json parse(int depth) {
    need(depth < max_depth, "nested too deeply");
    skip_space();
    need(at_ < end_, "the text ends");
    switch (*at_) {
      case '{': return parse_object(depth);
      case '[': return parse_list(depth);
      case '"': return Json{parse_string()};
      case 't': need(take_word("true"), "an unknown word"); return Json{true};
      case 'f': need(take_word("false"), "an unknown word"); return Json{false};
      case 'n': need(take_word("null"), "an unknown word"); return Json{};
      default: return parse_number();
    }
  }

  Json parse_object(int depth) {
    ++at_;
    JsonObject object;
    if (take('}')) return Json{std::move(object)};
    do {
      skip_space();
      need(at_ < end_ && *at_ == '"', "expected a key");
      std::string key = parse_string();
      need(take(':'), "expected ':'");
      object.emplace_back(std::move(key), parse(depth + 1));
    } while (take(','));
    need(take('}'), "expected '}'");
    return Json{std::move(object)};
  }

  Json parse_list(int depth) {
    ++at_;
    JsonList list;
    if (take(']')) return Json{std::move(list)};
    do list.push_back(parse(depth + 1));
    while (take(','));
    need(take(']'), "expected ']'");
    return Json{std::move(list)};
  }

  Json parse_number() {
    const char* from = at_;
    bool whole = true;
    while (at_ < end_ && (std::strchr("+-.eE", *at_) || (*at_ >= '0' && *at_ <= '9'))) {
      whole = whole && *at_ != '.' && *at_ != 'e' && *at_ != 'E';
      ++at_;
    }
    if (whole) {
      int64_t value = 0;
      auto [stop, error] = std::from_chars(from, at_, value);
      need(error == std::errc() && stop == at_, "no number, or one that does not fit 64 bits");
      return Json{value};
    }
    double value = 0;
    auto [stop, error] = std::from_chars(from, at_, value);
    need(error == std::errc() && stop == at_, "no number");
    return Json{value};
  }

  uint32_t hex4() {
    need(end_ - at_ >= 4, "the text ends");
    uint32_t value = 0;
    auto [stop, error] = std::from_chars(at_, at_ + 4, value, 16);
    need(error == std::errc() && stop == at_ + 4, "expected four hexadecimal digits");
    at_ += 4;
    return value;
  }

  static void append_utf8(std::string& text, uint32_t c) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xc0 | c >> 6);
      text += static_cast<char>(0x80 | (c & 63));
    } else if (c < 0x10000) {
      text += static_cast<char>(0xe0 | c >> 12);
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    } else {
      text += static_cast<char>(0xf0 | c >> 18);
      text += static_cast<char>(0x80 | (c >> 12 & 63));
      text += static_cast<char>(0x80 | (c >> 6 & 63));
      text += static_cast<char>(0x80 | (c & 63));
    }
  }

  std::string parse_string() {
    ++at_;
    std::string text;
    while (true) {
      need(at_ < end_, "the text ends in a string");
      char c = *at_++;
      if (c == '"') return text;
      need(static_cast<unsigned char>(c) >= 0x20, "a control character in a string");
      if (c != '\\') {
        text += c;
        continue;
      }
      need(at_ < end_, "the text ends in a string");
      switch (*at_++) {
        case '"': text += '"'; break;
        case '\\': text += '\\'; break;
        case '/': text += '/'; break;
        case 'b': text += '\b'; break;
        case 'f': text += '\f'; break;
        case 'n': text += '\n'; break;
        case 'r': text += '\r'; break;
        case 't': text += '\t'; break;
        case 'u': {
          uint32_t code = hex4();
          if (code >= 0xd800 && code < 0xdc00 && take_word("\\u")) {
            const uint32_t low = hex4();
            need(low >= 0xdc00 && low < 0xe000, "half of a surrogate pair");
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
          }
          append_utf8(text, code);
          break;
        }
        default: need(false, "an unknown escape");
      }
    }
  }

  const char* begin_;
  const char* at_;
  const char* end_;
};

}  // namespace

Json parse_json(const char* begin, const char* end) { return Parser(begin, end).document(); }

const std::string& Json::text(const char* what) const {
  const auto* found = get<std::string>();
  check_value(found, "model: ", what, " must be a string");
  return *found;
}
int64_t Json::integer(const char* what) const {
  const auto* found = get<int64_t>();
  check_value(found, "model: ", what, " must be an integer");
  return *found;
}
bool Json::boolean(const char* what) const {
  const auto* found = get<bool>();
  check_value(found, "model: ", what, " must be true or false");
  return *found;
}
const JsonList& Json::list(const char* what) const {
  const auto* found = get<JsonList>();
  check_value(found, "model: ", what, " must be a list");
  return *found;
}
const JsonObject& Json::object(const char* what) const {
  const auto* found = get<JsonObject>();
  check_value(found, "model: ", what, " must be an object");
  return *found;
}
const Json* Json::find(const char* key) const {
  for (const auto& [name, value] : object(key))
    if (name == key) return &value;
  return nullptr;
}
const Json& Json::at(const char* key) const {
  const Json* found = find(key);
  check_value(found, "model: '", key, "' is missing");
  return *found;
}

}  // namespace rl::program
