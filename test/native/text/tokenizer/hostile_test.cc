// Tests that an inconsistent vocabulary causes one clear error or a reasonable result, but never a crash.
#include <cmath>
#include <functional>
#include <limits>

#include "check.h"
#include "text/tokenizer/support.h"
#include "text/tokenizer/vocabulary.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

void expect_error(const GgufBuilder& gguf, ErrorCode code, const std::string& part) {
  const auto loaded = load(gguf);
  if (loaded) return check::fail(__FILE__, __LINE__, "accepted, expected: " + part);
  CHECK(loaded.error().code == code);
  if (loaded.error().message.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "'" + loaded.error().message + "' does not contain '" + part + "'");
}

// Checks that a file that is valid except for one change is rejected with an error.
void expect_invalid(const std::function<void(VocabularyFile&)>& change, const std::string& part,
                    VocabularyFile file = VocabularyFile::byte_level()) {
  change(file);
  expect_error(file.builder(), ErrorCode::kInvalidFile, part);
}

}  // namespace

TEST(unknown_tokenizers_are_named) {
  VocabularyFile file = VocabularyFile::byte_level();
  file.model = "unheard-of";
  expect_error(file.builder(), ErrorCode::kUnsupported, "'unheard-of'");
  file = VocabularyFile::byte_level();
  file.pre = "qwen9";
  expect_error(file.builder(), ErrorCode::kUnsupported, "'qwen9'");
  expect_invalid([](VocabularyFile& f) { f.model = ""; }, "tokenizer.ggml.model is missing");
}

TEST(missing_and_unequal_arrays_are_named) {
  expect_invalid([](VocabularyFile& f) { f.tokens.clear(); }, "tokenizer.ggml.tokens is missing");
  expect_invalid([](VocabularyFile& f) { f.merges.clear(); }, "tokenizer.ggml.merges is missing");
  expect_invalid([](VocabularyFile& f) { f.types.pop_back(); },
                 "tokenizer.ggml.token_type has 255 entries for 256 tokens");
  const VocabularyFile spm = VocabularyFile::sentencepiece();
  expect_invalid([](VocabularyFile& f) { f.scores.clear(); }, "tokenizer.ggml.scores is missing", spm);
  expect_invalid([](VocabularyFile& f) { f.scores.pop_back(); }, "tokenizer.ggml.scores has 258 entries for 259 tokens",
                 spm);
  expect_error(GgufBuilder()
                   .string("tokenizer.ggml.model", "gpt2")
                   .strings("tokenizer.ggml.merges", {})
                   .strings("tokenizer.ggml.tokens", {}),
               ErrorCode::kInvalidFile, "tokenizer.ggml.tokens is empty");
  // The GGUF parser rejects a value of the wrong type.
  CHECK(!load(GgufBuilder().scalar<uint32_t>("tokenizer.ggml.model", 1)).ok());
}

TEST(bad_tokens_are_named) {
  expect_invalid([](VocabularyFile& f) { f.add("!"); }, "token 256 ('!') is spelled like token 33");
  expect_invalid([](VocabularyFile& f) { f.add(std::string(kMaxTokenBytes + 1, 'x')); }, "has 2049 bytes");
  for (const char* spelling : {"<0x-1>", "<0xG0>", "<0x1>", "", "<0x000>", "abcdef"})
    expect_invalid([&](VocabularyFile& f) { f.add("x" + std::string(spelling), TokenKind::kByte); },
                   "is not of the form <0x41>", VocabularyFile::sentencepiece());
  expect_invalid([](VocabularyFile& f) { f.scores[4] = std::nanf(""); }, "tokenizer.ggml.scores[4] is not a number",
                 VocabularyFile::sentencepiece());
}

TEST(special_ids_out_of_range_are_named) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.fim_pad_token_id"})
    expect_error(VocabularyFile::byte_level().builder().scalar<uint32_t>(key, 256), ErrorCode::kInvalidFile, key);
}

TEST(odd_vocabularies_still_work) {
  // Empty tokens keep their ID, tokens of unknown kinds count as unused, merges of unknown tokens are skipped, and
  // infinite scores are ordered like other scores.
  VocabularyFile file = VocabularyFile::byte_level({"a b"});
  file.add("");
  file.add("");
  file.types[static_cast<size_t>(file.add("odd"))] = 77;
  for (const char* merge : {"", " ", "  ", "x", "x ", "q zz", "zz q", "ab c", "a  b"}) file.merges.push_back(merge);
  const auto bpe = load(file);
  REQUIRE(bpe.ok());
  CHECK_EQ(show(encode(**bpe, "abc")), show({256, 'c'}));
  CHECK_EQ((*bpe)->decode(std::vector<TokenId>{257, 259, 'x', -5, 100000, 'y'}), std::string("xy"));
  CHECK_EQ((*bpe)->find(""), kNoToken);

  VocabularyFile spm = VocabularyFile::sentencepiece();
  const float infinity = std::numeric_limits<float>::infinity();
  spm.add("a", TokenKind::kNormal, -infinity);
  spm.add("b", TokenKind::kNormal, infinity);
  const TokenId ab = spm.add("ab", TokenKind::kNormal, -infinity);
  const auto loaded = load(spm);
  REQUIRE(loaded.ok());
  CHECK_EQ(encode(**loaded, "ab").back(), ab);

  // Without byte tokens, each unknown character becomes the unknown token. If there is no unknown token either, the
  // character is dropped.
  VocabularyFile bare;
  bare.model = "llama";
  bare.add("<unk>", TokenKind::kUnknown);
  bare.add("a");
  const auto with_unknown = load(bare);
  REQUIRE(with_unknown.ok());
  CHECK_EQ(show(encode(**with_unknown, "aé")), show({0, 1, 0}));
}

TEST(bytes_without_a_token_become_replacement_characters) {
  VocabularyFile file = VocabularyFile::byte_level();
  file.tokens[0xFF] = "[FF]";
  const auto loaded = load(file);
  REQUIRE(loaded.ok());
  CHECK_EQ(show(encode(**loaded, "a\xFF")), show({'a', 0xEF, 0xBF, 0xBD}));
  CHECK_EQ(show(encode(**loaded, "a\xFE\x80")), show({'a', 0xFE, 0x80}));
}
