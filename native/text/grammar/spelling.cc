#include "text/grammar/spelling.h"

#include "text/tokenizer/unicode.h"

namespace monolith::grammar {

CodePointSet Spelling::name_characters() {
  CodePointSet set;
  set.add('-', '.');
  set.add('0', '9');
  set.add('A', 'Z');
  set.add('_', '_');
  set.add('a', 'z');
  return set;
}

CodePointSet Spelling::json_beginnings() {
  CodePointSet set;
  for (const char c : std::string_view("\"[{")) set.add(static_cast<uint32_t>(c), static_cast<uint32_t>(c));
  return set;
}

void Spelling::separate(CharPartition& partition) const {
  partition.separate(name_characters());
  for (const std::string* text : {&text_end, &mark_text}) {
    for (std::string_view left = *text; !left.empty();) {
      const Utf8Char c = decode_utf8(left);
      if (c.code_point != kInvalidByte) partition.separate(c.code_point);
      left.remove_prefix(c.size);
    }
  }
  if (in_tags()) {
    partition.separate(json_beginnings());
    for (const std::string_view word : kWords)
      for (const char c : word) partition.separate(static_cast<uint32_t>(c));
    for (const char c : std::string_view("\t\n\r +-.0123456789eE")) partition.separate(static_cast<uint32_t>(c));
  }
  if (python)
    for (const char c : std::string_view("TFN")) partition.separate(static_cast<uint32_t>(c));
}

}  // namespace monolith::grammar
