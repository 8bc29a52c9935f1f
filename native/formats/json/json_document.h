// A JSON document as a tree that preserves the order of object members. The parser is not recursive, and both the
// nesting depth and the size of the text are limited. Existing values never change, but new values can be added. A
// document may be used by only one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace monolith::grammar {

using JsonId = uint32_t;
inline constexpr JsonId kNoJson = UINT32_MAX;

class JsonDocument {
 public:
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  static constexpr size_t kMaxBytes = 4 * 1024 * 1024;
  static constexpr size_t kDeepest = 512;
  using Member = std::pair<std::string, JsonId>;

  // Returns false and sets `error` if `text` is not valid JSON or exceeds a limit. On success, `root` is the parsed
  // value.
  bool parse(std::string_view text, JsonId& root, std::string& error, size_t most_bytes = kMaxBytes);

  // Reading a value as another kind, or passing kNoJson, yields an empty result. Documents come from untrusted clients,
  // so this spares callers from checking the kind first.
  Kind kind(JsonId id) const { return id == kNoJson ? Kind::kNull : nodes_[id].kind; }
  bool is(JsonId id, Kind kind) const { return id != kNoJson && nodes_[id].kind == kind; }
  // The decoded text of a string (UTF-8; lone surrogates become U+FFFD), or a number as written.
  const std::string& text(JsonId id) const {
    static const std::string kNone;
    return is(id, Kind::kString) || is(id, Kind::kNumber) ? strings_[nodes_[id].a] : kNone;
  }
  double number(JsonId id) const;  // 0 if the value is not a number.
  std::span<const JsonId> items(JsonId id) const {
    return is(id, Kind::kArray) ? std::span<const JsonId>(arrays_[nodes_[id].a]) : std::span<const JsonId>();
  }
  // Members in document order. If a name occurs more than once, its last value is used, at the position of its first
  // occurrence.
  std::span<const Member> members(JsonId id) const {
    return is(id, Kind::kObject) ? std::span<const Member>(objects_[nodes_[id].a]) : std::span<const Member>();
  }
  // Returns kNoJson if the member is absent or `object` is not an object.
  JsonId member(JsonId object, std::string_view name) const;

  JsonId add(Kind kind) { return push(kind, 0); }
  JsonId add_string(std::string text);
  JsonId add_number(std::string text);
  JsonId add_array(std::vector<JsonId> items);
  JsonId add_object(std::vector<Member> members);
  size_t size() const { return nodes_.size(); }
  // Compares two values as JSON: the order of members does not matter, and 1 equals 1.0.
  bool equal(JsonId a, JsonId b) const;
  // Serializes a value as compact JSON.
  std::string write(JsonId id) const;

 private:
  struct Node {
    Kind kind;
    uint32_t a;
  };
  JsonId push(Kind kind, size_t a);

  std::vector<Node> nodes_;
  std::vector<std::string> strings_;
  std::vector<std::vector<JsonId>> arrays_;
  std::vector<std::vector<Member>> objects_;
};

}  // namespace monolith::grammar
