// Tests that looking up a whole word as a token, without merging, never changes the token IDs.
#include <thread>

#include "check.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// "abc" is a token, but b and c are merged before ab and c can be merged, so the result is a, bc.
VocabularyFile unreachable_word() { return VocabularyFile::byte_level({"b c", "a b", "ab c", "Ġ a"}); }

}  // namespace

TEST(a_word_that_merging_cannot_produce_is_not_matched_whole) {
  VocabularyFile file = unreachable_word();
  const auto gpt2 = load(file);
  file.pre = "llama-bpe";
  const auto llama = load(file);
  REQUIRE(gpt2.ok() && llama.ok());
  const TokenId bc = (*gpt2)->find("bc"), abc = (*gpt2)->find("abc"), ab = (*gpt2)->find("ab");
  for (int again = 0; again < 3; ++again) {  // The first call examines the word; later calls use the cached result.
    CHECK_EQ(show(encode(**gpt2, "abc")), show({'a', bc}));
    CHECK_EQ(show(encode(**gpt2, "ab")), show({ab}));
    CHECK_EQ(show(encode(**llama, "abc")), show({abc}));  // This pre-tokenizer's files match whole words first.
  }
}

TEST(a_sentencepiece_token_that_merging_cannot_produce_is_not_matched_whole) {
  VocabularyFile file = VocabularyFile::sentencepiece();
  for (const char* piece : {"a", "b", "c"}) file.add(piece, TokenKind::kNormal, -9);
  const TokenId a = (file.add("abc"), 259), b = 260, c = 261;
  const TokenId xy = file.add("xy", TokenKind::kNormal, -5);  // The characters of "xy" are not tokens themselves.
  const auto loaded = load(file.builder().scalar("tokenizer.ggml.add_space_prefix", false));
  REQUIRE(loaded.ok());
  for (int again = 0; again < 3; ++again) {
    CHECK_EQ(show(encode(**loaded, "abc")), show({a, b, c}));
    CHECK_EQ(show(encode(**loaded, "xyx")), show({xy, 3 + 'x'}));
  }
}

TEST(threads_get_the_same_ids_from_one_tokenizer) {
  const auto loaded = load(unreachable_word());
  REQUIRE(loaded.ok());
  std::string text;
  for (int i = 0; i < 400; ++i) text += i % 3 ? " abc" : i % 2 ? "ab c" : " a";
  std::vector<std::vector<TokenId>> ids(4);
  {
    std::vector<std::jthread> threads;
    for (auto& own : ids) threads.emplace_back([&] { own = encode(**loaded, text); });
  }
  for (const auto& own : ids) CHECK_EQ(show(own), show(encode(**loaded, text)));
}
