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

void Spelling::separate(CharPartition& partition) const {
  partition.separate(name_characters());
  for (const std::string* text : {&text_end, &mark_text}) {
    for (std::string_view left = *text; !left.empty();) {
      const Utf8Char c = decode_utf8(left);
      if (c.code_point != kInvalidByte) partition.separate(c.code_point);
      left.remove_prefix(c.size);
    }
  }
  if (python)
    for (const char c : std::string_view("TFN")) partition.separate(static_cast<uint32_t>(c));
}

}  // namespace monolith::grammar
