// Compares BPE merging with a simple implementation, and measures its running time on adversarial texts.
#include "text/tokenizer/merge.h"

#include <chrono>

#include "check.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// Reference algorithm: for each merge, examines all pairs and merges the leftmost pair with the lowest rank.
std::vector<Symbol> merge_plainly(const MergeTable& table, std::vector<Symbol> symbols) {
  for (;;) {
    Merge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const Merge merge = table.find(symbols[i], symbols[i + 1]); merge.rank < best.rank) {
        best = merge;
        at = i;
      }
    if (best.rank == kNoRank) return symbols;
    symbols[at] = best.result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST(merging_equals_the_simple_implementation) {
  uint32_t random = 3;
  const auto below = [&](uint32_t n) {
    random = random * 1664525 + 1013904223;
    return static_cast<int32_t>((random >> 8) % n);
  };
  Merger merger;
  for (int round = 0; round < 300; ++round) {
    // A random merge table over 4 letters. Some ranks are equal, as may be the case for scores in SentencePiece files.
    MergeTable table(1);
    for (int32_t made = 4; made < 40; ++made)
      table.insert(below(made), below(made), {static_cast<uint32_t>(below(30)), made});
    for (const int length : {0, 1, 2, 7, 47, 48, 49, 300}) {
      std::vector<Symbol> symbols;
      for (int i = 0; i < length; ++i) symbols.push_back(below(40) == 0 ? -1 : below(4));
      const std::vector<Symbol> want = merge_plainly(table, symbols);
      merger.merge(table, symbols);
      if (symbols != want) check::fail(__FILE__, __LINE__, show(symbols) + ", want " + show(want));
    }
  }
}

// One megabyte of each text. The time limit is far above the actual time (at most 0.4 s without sanitizers) and far
// below the time that a quadratic algorithm would take.
TEST(a_megabyte_of_any_text_is_fast) {
  const auto bpe = load(VocabularyFile::byte_level(
      {"a a", "aa aa", "aaaa aaaa", "a b", "ab ab", "Ġ Ġ", "ĠĠ ĠĠ", "Ġ a", "Ċ Ċ", "' '", "1 2"}));
  VocabularyFile pieces = VocabularyFile::sentencepiece();
  for (const char* piece : {"▁", "a", "b", "▁▁", "aa", "aaaa", "▁a", "ab", "abab", "▁b", "b▁"})
    pieces.add(piece, TokenKind::kNormal, -static_cast<float>(pieces.tokens.size()));
  pieces.add("aaa", TokenKind::kUserDefined);
  pieces.add("\n", TokenKind::kUserDefined);
  pieces.add("\n\n\n", TokenKind::kUserDefined);
  const auto spm = load(pieces);
  REQUIRE(bpe.ok() && spm.ok());
  for (const char* part : {"a", "a b ", "ab", " ", "\n", "'", "12", "<0x41>", "\xFF", "\xE4\xB8\x80", "▁"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += part;
    for (const Tokenizer* tokenizer : {bpe->get(), spm->get()}) {
      const auto start = std::chrono::steady_clock::now();
      const std::vector<TokenId> ids = encode(*tokenizer, text, {.parse_special = true});
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      CHECK(!ids.empty());
      if (took.count() > 10)
        check::fail(__FILE__, __LINE__, show(part) + " took " + std::to_string(took.count()) + " s");
    }
  }
}
