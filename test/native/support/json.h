// A small JSON parser for test data, only as strict as needed to detect a damaged file. For tests only.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace monolith::testing {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  // Returns nullopt if `text` is not a single JSON value.
  static std::optional<Json> parse(std::string_view text);

  // Missing members and members of the wrong type are read as empty values. A test that needs such a member then fails
  // because of its content.
  const Json& operator[](std::string_view key) const;
  const Array& array() const;
  const std::string& string() const;
  double number() const;
  int integer() const { return static_cast<int>(number()); }
  bool boolean() const;
  bool is_number() const { return std::holds_alternative<double>(value_); }
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }

  template <typename T>
  std::vector<T> numbers() const {
    std::vector<T> result;
    for (const Json& item : array()) result.push_back(static_cast<T>(item.number()));
    return result;
  }

 private:
  static constexpr int kMaxDepth = 32;

  struct Parser {
    std::string_view rest;

    void space();
    bool take(std::string_view word);
    bool value(Json& out, int depth);
    bool items(Json& out, int depth);
    bool object(Json& out, int depth);
    bool text(std::string& out);
    bool escape(std::string& out);
    bool hex(uint32_t& code);
    static void put_utf8(uint32_t code, std::string& out);
  };

  std::variant<std::monostate, bool, double, std::string, Array, Object> value_;
};

}  // namespace monolith::testing
