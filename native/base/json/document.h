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

namespace monolith::json {

using Id = uint32_t;
inline constexpr Id kAbsent = UINT32_MAX;

class Document {
 public:
  enum class Kind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  static constexpr size_t kMaxBytes = 4 * 1024 * 1024;
  static constexpr size_t kDeepest = 512;
  using Member = std::pair<std::string, Id>;

  // Returns false and sets `error` if `text` is not valid JSON or exceeds a limit. On success, `root` is the parsed
  // value.
  bool parse(std::string_view text, Id& root, std::string& error, size_t most_bytes = kMaxBytes);

  // Reading a value as a kind that it does not have, or passing kAbsent, returns an empty result. Documents come from
  // untrusted clients, so this spares callers from checking the kind first.
  Kind kind(Id id) const { return id == kAbsent ? Kind::kNull : nodes_[id].kind; }
  bool is(Id id, Kind kind) const { return id != kAbsent && nodes_[id].kind == kind; }
  // The decoded text of a string (UTF-8; lone surrogates become U+FFFD), or a number as written.
  const std::string& text(Id id) const {
    static const std::string kNone;
    return is(id, Kind::kString) || is(id, Kind::kNumber) ? strings_[nodes_[id].a] : kNone;
  }
  double number(Id id) const;  // 0 if the value is not a number.
  std::span<const Id> items(Id id) const {
    return is(id, Kind::kArray) ? std::span<const Id>(arrays_[nodes_[id].a]) : std::span<const Id>();
  }
  // Members in document order. If a name occurs more than once, its last value is used, at the position of its first
  // occurrence.
  std::span<const Member> members(Id id) const {
    return is(id, Kind::kObject) ? std::span<const Member>(objects_[nodes_[id].a]) : std::span<const Member>();
  }
  // Returns kAbsent if the member is absent or `object` is not an object.
  Id member(Id object, std::string_view name) const;

  Id add(Kind kind) { return push(kind, 0); }
  Id add_string(std::string text);
  Id add_number(std::string text);
  Id add_array(std::vector<Id> items);
  Id add_object(std::vector<Member> members);
  size_t size() const { return nodes_.size(); }
  // Compares two values as JSON: the order of members does not matter, and 1 equals 1.0.
  bool equal(Id a, Id b) const;
  // Serializes a value as compact JSON.
  std::string write(Id id) const;

 private:
  struct Node {
    Kind kind;
    uint32_t a;
  };
  Id push(Kind kind, size_t a);

  std::vector<Node> nodes_;
  std::vector<std::string> strings_;
  std::vector<std::vector<Id>> arrays_;
  std::vector<std::vector<Member>> objects_;
};

}  // namespace monolith::json
