// Tests RWKV's tokenizer.
#include <string>

#include "check.h"
#include "text/tokenizer/support.h"

namespace monolith::testing {
namespace {

VocabularyFile vocabulary() {
  VocabularyFile file;
  file.model = "rwkv";
  file.pre = "";
  for (const char* token : {"a", "b", "ab", "abcd", "\\n", "\\xe2\\x82", "\\xAC", "\\\\", "\\'", "\\x4", "\\"})
    file.add(token);
  return file;
}

}  // namespace

TEST(the_longest_matching_token_is_taken_and_escapes_are_bytes) {
  const auto loaded = load(vocabulary().builder());
  REQUIRE(loaded.ok());
  const Tokenizer& tokenizer = **loaded;
  // "abc" is only the start of a token.
  CHECK_EQ(show(encode(tokenizer, "abababcd")), "[2 2 3]");
  CHECK_EQ(show(encode(tokenizer, "aab\nb")), "[0 2 4 1]");
  CHECK_EQ(show(encode(tokenizer, "€")), "[5 6]");
  CHECK_EQ(show(encode(tokenizer, "\\'")), "[7 8]");
  CHECK_EQ(show(encode(tokenizer, "x4")), "[9]");  // An incomplete escape is the character after the backslash.
  CHECK_EQ(std::string(tokenizer.bytes(10)), "\\");
  const TokenId ids[] = {2, 4, 5, 6, 8};
  CHECK_EQ(tokenizer.decode(ids), "ab\n€'");
}

TEST(bytes_without_a_token_are_dropped_or_become_the_unknown_token) {
  const auto dropped = load(vocabulary().builder());
  REQUIRE(dropped.ok());
  CHECK_EQ(show(encode(**dropped, "a?b")), "[0 1]");
  const auto unknown = load(vocabulary().builder().scalar<uint32_t>("tokenizer.ggml.unknown_token_id", 3));
  REQUIRE(unknown.ok());
  CHECK_EQ(show(encode(**unknown, "a?b")), "[0 3 1]");
}

TEST(text_never_becomes_the_end_token) {
  VocabularyFile file = vocabulary();
  file.add("<s>", TokenKind::kControl);
  for (const char* token : {"<", "s", ">"}) file.add(token);
  const auto loaded = load(file.builder());
  REQUIRE(loaded.ok());
  CHECK_EQ(show(encode(**loaded, "<s>")), "[12 13 14]");
  CHECK_EQ(show(encode(**loaded, "<s>", {.parse_special = true})), "[11]");
}

}  // namespace monolith::testing
