// A non-JSON syntax for a value: the arguments of a tool call in a model's native format. Object members are enclosed
// in literals, and strings may appear without quotes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/code_points.h"

namespace monolith::grammar {

struct Spelling {
  // How a member's value is written: as any JSON, as an unquoted string, or as an unquoted string or null.
  enum class Kind : uint8_t { kJson, kText, kNullable };

  // A member is written as name_open NAME text_open|json_open VALUE value_close, and the separator is placed between
  // members. Text around the whole object is covered by the grammar's prefix and suffix.
  std::string name_open, text_open, json_open, value_close, separator;
  std::string text_end;  // Text that must not occur in unquoted strings. Not empty.
  // Delimiter around unquoted strings inside JSON values. If empty, such strings are written with quotation marks.
  std::string string_mark;
  // If string_mark is a special token, this is the token's spelling as text. Unquoted strings must not contain this
  // spelling either.
  std::string mark_text;
  bool nested = false;  // Nested objects use the same syntax, in braces.
  // If not empty, tag syntax is used: nested objects are written as members, and arrays as a series of members with
  // this name. There are no braces or brackets, and a member ends with value_close NAME json_open. If empty, nested
  // values are JSON. In tag syntax, `kinds` is ignored, because the schema determines how a value may be written.
  std::string item;
  bool python = false;                              // Write scalars as True, False and None.
  std::vector<std::pair<std::string, Kind>> kinds;  // How a member's value is written, by member name.
  Kind others = Kind::kText;

  bool in_tags() const { return !item.empty(); }
  bool operator==(const Spelling&) const = default;
  Kind kind_of(std::string_view name) const {
    for (const auto& [known, kind] : kinds)
      if (known == name) return kind;
    return others;
  }
  // Characters allowed in names that the schema does not declare: letters, digits and the punctuation that commonly
  // joins words, none of which occurs in a delimiter.
  static CodePointSet name_characters();
  // For tag syntax: the characters that an unquoted text must not start with, because JSON values start with them.
  // kWords are the literals of Python and JSON.
  static CodePointSet json_beginnings();
  static constexpr std::string_view kWords[] = {"true", "false", "null", "True", "False", "None"};
  // Adds the characters that the syntax distinguishes to the partition.
  void separate(CharPartition& partition) const;
};

// A prefix that the model generates before the value: between `least` and `most` characters, which are digits or, if
// letters are allowed, digits and letters, followed by a fixed text.
struct Lead {
  bool letters = false;
  uint32_t least = 0, most = 0;  // Minimum and maximum number of characters; `most` = 0 means no prefix.
  std::string close;
  bool operator==(const Lead&) const = default;
};

}  // namespace monolith::grammar
