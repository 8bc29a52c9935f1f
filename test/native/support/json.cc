#include "support/json.h"

namespace monolith::testing {

std::optional<Json> Json::parse(std::string_view text) {
  Parser parser{text};
  Json value;
  if (!parser.value(value, 0)) return std::nullopt;
  parser.space();
  if (!parser.rest.empty()) return std::nullopt;
  return value;
}

const Json& Json::operator[](std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&value_)) {
    for (const auto& [name, member] : *object) {
      if (name == key) return member;
    }
  }
  static const Json none;
  return none;
}

const Json::Array& Json::array() const {
  static const Array none;
  const auto* items = std::get_if<Array>(&value_);
  return items != nullptr ? *items : none;
}

const std::string& Json::string() const {
  static const std::string none;
  const auto* text = std::get_if<std::string>(&value_);
  return text != nullptr ? *text : none;
}

double Json::number() const {
  const auto* number = std::get_if<double>(&value_);
  return number != nullptr ? *number : 0;
}

bool Json::boolean() const {
  const auto* flag = std::get_if<bool>(&value_);
  return flag != nullptr && *flag;
}

void Json::Parser::space() {
  const size_t n = rest.find_first_not_of(" \t\r\n");
  rest.remove_prefix(n == std::string_view::npos ? rest.size() : n);
}

bool Json::Parser::take(std::string_view word) {
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  return true;
}

bool Json::Parser::value(Json& out, int depth) {
  space();
  if (rest.empty() || depth > kMaxDepth) return false;
  if (rest[0] == '{') return object(out, depth);
  if (rest[0] == '[') return items(out, depth);
  if (rest[0] == '"') return text(out.value_.emplace<std::string>());
  if (take("null")) return true;
  if (take("true")) return out.value_ = true, true;
  if (take("false")) return out.value_ = false, true;
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  out.value_ = number;
  return true;
}

bool Json::Parser::items(Json& out, int depth) {
  auto& list = out.value_.emplace<Array>();
  take("[");
  space();
  if (take("]")) return true;
  do {
    if (!value(list.emplace_back(), depth + 1)) return false;
    space();
  } while (take(","));
  return take("]");
}

bool Json::Parser::object(Json& out, int depth) {
  auto& members = out.value_.emplace<Object>();
  take("{");
  space();
  if (take("}")) return true;
  do {
    auto& [key, member] = members.emplace_back();
    space();
    if (!text(key)) return false;
    space();
    if (!take(":") || !value(member, depth + 1)) return false;
    space();
  } while (take(","));
  return take("}");
}

bool Json::Parser::text(std::string& out) {
  if (!take("\"")) return false;
  for (;;) {
    const size_t n = rest.find_first_of("\"\\");
    if (n == std::string_view::npos) return false;
    out += rest.substr(0, n);
    rest.remove_prefix(n);
    if (take("\"")) return true;
    if (!escape(out)) return false;
  }
}

bool Json::Parser::escape(std::string& out) {
  if (rest.size() < 2) return false;
  const char kind = rest[1];
  rest.remove_prefix(2);
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t at = kNames.find(kind); at != std::string_view::npos) return out += kMeanings[at], true;
  uint32_t code = 0;
  if (kind != 'u' || !hex(code)) return false;
  if (code >= 0xd800 && code < 0xdc00) {
    uint32_t low = 0;
    if (!take("\\u") || !hex(low) || low < 0xdc00 || low > 0xdfff) return false;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  put_utf8(code, out);
  return true;
}

bool Json::Parser::hex(uint32_t& code) {
  if (rest.size() < 4) return false;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + 4, code, 16);
  if (error != std::errc() || end != rest.data() + 4) return false;
  rest.remove_prefix(4);
  return true;
}

void Json::Parser::put_utf8(uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}

}  // namespace monolith::testing
