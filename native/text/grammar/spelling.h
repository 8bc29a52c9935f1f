// How a value is written where that is no JSON text: the arguments of a tool call in a model's own syntax. An object's
// members then stand between texts of their own, and strings among them as they are. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/code_points.h"

namespace monolith::grammar {

struct Spelling {
  // What a member's value is: any JSON, a string as it stands, or that or null.
  enum class Kind : uint8_t { kJson, kText, kNullable };

  // name_open NAME text_open|json_open VALUE value_close, the next one behind a separator. Nothing stands around all of
  // them: that is for what the value follows, and for the suffix.
  std::string name_open, text_open, json_open, value_close, separator;
  std::string text_end;  // in no string that stands as it is; not empty
  // around strings within JSON, which then stand as they are; empty: quotation marks
  std::string string_mark;
  std::string mark_text;  // its spelling, where the mark itself is a token: in no such string either
  bool nested = false;    // objects within are written so too, in braces
  // Objects within are members too, and arrays are members of this name: neither has braces or brackets, and a member ends with
  // value_close NAME json_open. '': they are JSON. Kinds are of no matter then: a value's schema says what it may be.
  std::string item;
  bool python = false;                              // members that are True, False, None
  std::vector<std::pair<std::string, Kind>> kinds;  // of members, by name
  Kind others = Kind::kText;

  bool in_tags() const { return !item.empty(); }
  bool operator==(const Spelling&) const = default;
  Kind kind_of(std::string_view name) const {
    for (const auto& [known, kind] : kinds)
      if (known == name) return kind;
    return others;
  }
  // Names that the schema does not know have letters and digits and what stands between such: none ends in its midst.
  static CodePointSet name_characters();
  // With in_tags(): what begins texts that JSON values begin with too, and the words of Python and JSON.
  static CodePointSet json_beginnings();
  static constexpr std::string_view kWords[] = {"true", "false", "null", "True", "False", "None"};
  // Tells the partition which characters it treats differently.
  void separate(CharPartition& partition) const;
};

// What stands before a value that the model makes up: so many digits, or digits and letters, and a text behind them.
struct Lead {
  bool letters = false;
  uint32_t least = 0, most = 0;  // 0: there is none
  std::string close;
  bool operator==(const Lead&) const = default;
};

}  // namespace monolith::grammar
