// A JSON text as a tree that keeps the order of members. Built without recursion, bounded in depth and
// size. Immutable but for values that are added to it; owned by one thread at a time.
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
  static constexpr size_t kMostBytes = 4 * 1024 * 1024;
  static constexpr size_t kDeepest = 512;
  using Member = std::pair<std::string, JsonId>;

  // False with `error` set if `text` is no JSON or beyond a bound. The root is the value returned in `root`.
  bool parse(std::string_view text, JsonId& root, std::string& error, size_t most_bytes = kMostBytes);

  // What is asked of a value of another kind, or of none, is empty: strangers write these texts, and no caller is trusted to have looked.
  Kind kind(JsonId id) const { return id == kNoJson ? Kind::kNull : nodes_[id].kind; }
  bool is(JsonId id, Kind kind) const { return id != kNoJson && nodes_[id].kind == kind; }
  // Of a string, decoded (UTF-8; lone surrogates become U+FFFD); of a number, as written.
  const std::string& text(JsonId id) const {
    static const std::string kNone;
    return is(id, Kind::kString) || is(id, Kind::kNumber) ? strings_[nodes_[id].a] : kNone;
  }
  double number(JsonId id) const;  // 0 of what is none
  std::span<const JsonId> items(JsonId id) const {
    return is(id, Kind::kArray) ? std::span<const JsonId>(arrays_[nodes_[id].a]) : std::span<const JsonId>();
  }
  // In the order written; of members of one name the last counts and stands where the first stood.
  std::span<const Member> members(JsonId id) const {
    return is(id, Kind::kObject) ? std::span<const Member>(objects_[nodes_[id].a]) : std::span<const Member>();
  }
  JsonId member(JsonId object, std::string_view name) const;  // kNoJson if absent, or `object` is none

  JsonId add(Kind kind) { return push(kind, 0); }
  JsonId add_string(std::string text);
  JsonId add_number(std::string text);
  JsonId add_array(std::vector<JsonId> items);
  JsonId add_object(std::vector<Member> members);
  size_t size() const { return nodes_.size(); }
  // Equal as JSON values: order of members aside, 1 and 1.0 alike.
  bool equal(JsonId a, JsonId b) const;
  // Compact JSON.
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
