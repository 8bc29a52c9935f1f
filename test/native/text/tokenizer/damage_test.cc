// Runs the function of the tokenizer fuzz target on many files with random damage.
#include <string_view>

#include "check.h"
#include "text/tokenizer/fuzz_one.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

TEST(damaged_files_are_rejected_or_read_safely) {
  VocabularyFile bpe = VocabularyFile::byte_level({"a b", "ab c", "Ġ a"});
  bpe.add("<|im_end|>", TokenKind::kControl);
  bpe.add("\n\n", TokenKind::kUserDefined);
  VocabularyFile spm = VocabularyFile::sentencepiece();
  for (const char* piece : {"▁", "a", "b", "ab", "▁ab", "é"}) spm.add(piece, TokenKind::kNormal, -1);
  spm.add("<end_of_turn>", TokenKind::kUserDefined);
  using namespace std::string_view_literals;
  constexpr std::string_view kText = "\xFF\x00\xFF abcab<|im_end|>\n\n é\xFFx▁ab"sv;

  uint32_t random = 11;
  const auto next = [&] { return (random = random * 1664525 + 1013904223) >> 8; };
  for (const VocabularyFile& file : {bpe, spm}) {
    const Bytes image = file.builder().scalar<uint32_t>("tokenizer.ggml.bos_token_id", 1).build();
    for (int round = 0; round < 400; ++round) {
      std::vector<uint8_t> damaged;
      for (const std::byte byte : image) damaged.push_back(static_cast<uint8_t>(byte));
      for (uint32_t n = round == 0 ? 0 : 1 + next() % 6; n > 0; --n)
        damaged[next() % damaged.size()] = static_cast<uint8_t>(next());
      damaged.insert(damaged.end(), kText.begin(), kText.end());
      CHECK(tokenize_anything(damaged));
    }
  }
}
