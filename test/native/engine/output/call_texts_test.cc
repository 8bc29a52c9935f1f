#include "engine/output/call_texts.h"

#include "check.h"
#include "text/tokenizer/support.h"

namespace monolith {
namespace {

using testing::VocabularyFile;

std::vector<TokenId> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};  // In VocabularyFile::byte_level(), a byte's token ID is its value.
}

}  // namespace

TEST(calls_after_a_marker_token_are_tokenized_without_it) {
  VocabularyFile file = VocabularyFile::byte_level();
  const TokenId open = file.add("<call>", TokenKind::kControl), close = file.add("</call>", TokenKind::kUserDefined);
  const auto tokenizer = testing::load(file);
  REQUIRE(tokenizer.ok());
  CallTexts texts;
  texts.open = "<call>";
  texts.close = "</call>";
  texts.prefixes = {"a(", "b("};
  texts.answer = "say:";
  texts.required = true;
  const CallParams params = tokenize_calls(texts, **tokenizer);
  CHECK_EQ(params.open.token, open);
  CHECK_EQ(params.close.token, close);
  CHECK((params.prefixes == std::vector{bytes_of("a("), bytes_of("b(")}));
  CHECK(params.starts.empty());  // The marker's token is the only beginning.
  CHECK((params.required == std::vector<std::vector<TokenId>>{{open, 'a', '('}, {open, 'b', '('}}));
  CHECK(params.answer == bytes_of("say:"));
  CHECK((params.answer_start == std::vector<TokenId>{open, 's', 'a', 'y', ':'}));

  SamplingParams sampling;
  forbid_calls(texts, **tokenizer, sampling);
  CHECK((sampling.banned == std::vector{open, close}));
}

TEST(calls_after_ordinary_text_may_begin_with_a_token_across_its_end) {
  VocabularyFile file = VocabularyFile::byte_level({"> >"});
  file.add("<f>", TokenKind::kNormal);  // The spelling of an ordinary token is not a marker.
  const TokenId joined = 256;           // ">>", the result of the merge.
  const auto tokenizer = testing::load(file);
  REQUIRE(tokenizer.ok());
  CallTexts texts;
  texts.open = "<f>";
  texts.prefixes = {">(", "b("};
  const CallParams params = tokenize_calls(texts, **tokenizer);
  CHECK_EQ(params.open.token, kNoToken);
  CHECK((params.prefixes == std::vector{bytes_of(">("), bytes_of("b(")}));
  CHECK((params.starts == std::vector<std::vector<TokenId>>{{'<', 'f', joined, '('}, bytes_of("<f>b(")}));
  CHECK(params.required.empty());

  SamplingParams sampling;
  forbid_calls(texts, **tokenizer, sampling);
  CHECK(sampling.banned.empty());
}

TEST(required_calls_without_prefixes_begin_with_the_marker) {
  const auto tokenizer = testing::load(VocabularyFile::byte_level());
  REQUIRE(tokenizer.ok());
  CallTexts texts;
  texts.open = "[";
  texts.required = true;
  const CallParams params = tokenize_calls(texts, **tokenizer);
  const std::vector<std::vector<TokenId>> marker = {bytes_of("[")};
  CHECK(params.required == marker);
  CHECK(params.starts == marker);
}

}  // namespace monolith
