// Tests Unicode normalization: the result of each form, and its use in tokenizers. `npm run test:tokenizers` compares
// more texts with Hugging Face's library.
#include "formats/gguf/tokenizer.h"
#include "text/tokenizer/normalization.h"

#include <string>

#include "check.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

std::string in(NormalForm form, std::string_view text) {
  std::string out;
  return normalize(text, form, out) ? out : std::string(text);
}

}  // namespace

TEST(text_in_each_normal_form) {
  struct Case {
    std::string_view text, nfc, nfd, nfkc, nfkd;
  };
  constexpr Case kCases[] = {
      {"plain \t\n", "plain \t\n", "plain \t\n", "plain \t\n", "plain \t\n"},
      {"u\u0308ber", "\u00FCber", "u\u0308ber", "\u00FCber", "u\u0308ber"},
      {"\u00C5\u212B", "\u00C5\u00C5", "A\u030AA\u030A", "\u00C5\u00C5", "A\u030AA\u030A"},
      // Hangul: leading consonant, vowel, trailing consonant. A syllable combines with a trailing consonant.
      {"\u1112\u1161\u11AB", "\uD55C", "\u1112\u1161\u11AB", "\uD55C", "\u1112\u1161\u11AB"},
      {"\uD558\u11AB\u11AB", "\uD55C\u11AB", "\u1112\u1161\u11AB\u11AB", "\uD55C\u11AB", "\u1112\u1161\u11AB\u11AB"},
      // Bengali, Kannada (three parts), Tamil and Burmese vowels.
      {"\u0995\u09C7\u09BE", "\u0995\u09CB", "\u0995\u09C7\u09BE", "\u0995\u09CB", "\u0995\u09C7\u09BE"},
      {"\u0CC6\u0CC2\u0CD5", "\u0CCB", "\u0CC6\u0CC2\u0CD5", "\u0CCB", "\u0CC6\u0CC2\u0CD5"},
      {"\u0BCC", "\u0BCC", "\u0BC6\u0BD7", "\u0BCC", "\u0BC6\u0BD7"},
      {"\u1025\u102E", "\u1026", "\u1025\u102E", "\u1026", "\u1025\u102E"},
      // Marks are sorted by combining class. A mark of a lower class does not block composition, but a mark of the same
      // class does.
      {"e\u0301\u0323", "\u1EB9\u0301", "e\u0323\u0301", "\u1EB9\u0301", "e\u0323\u0301"},
      {"\u00E9\u0323", "\u1EB9\u0301", "e\u0323\u0301", "\u1EB9\u0301", "e\u0323\u0301"},
      {"a\u0316\u0301", "\u00E1\u0316", "a\u0316\u0301", "\u00E1\u0316", "a\u0316\u0301"},
      {"a\u0305\u0301", "a\u0305\u0301", "a\u0305\u0301", "a\u0305\u0301", "a\u0305\u0301"},
      // Composites that Unicode excludes from composition.
      {"\u0958\u095F", "\u0915\u093C\u092F\u093C", "\u0915\u093C\u092F\u093C", "\u0915\u093C\u092F\u093C",
       "\u0915\u093C\u092F\u093C"},
      {"\uFB01 \u00BD\u2075", "\uFB01 \u00BD\u2075", "\uFB01 \u00BD\u2075",
       "fi 1\u20442"
       "5",
       "fi 1\u20442"
       "5"},
      {"\uFF76\uFF9E", "\uFF76\uFF9E", "\uFF76\uFF9E", "\u30AC", "\u30AB\u3099"},
      {"\u314E\u314F\u3134", "\u314E\u314F\u3134", "\u314E\u314F\u3134", "\uD558\u1102", "\u1112\u1161\u1102"},
      {"\uFDFA", "\uFDFA", "\uFDFA",
       "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064A\u0647 \u0648\u0633\u0644\u0645",
       "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064A\u0647 \u0648\u0633\u0644\u0645"},
      // Tests a mark at the start of the text, and two consecutive marks.
      {"\u0301\u0308e", "\u0301\u0308e", "\u0301\u0308e", "\u0301\u0308e", "\u0301\u0308e"},
  };
  for (const Case& one : kCases) {
    CHECK_EQ(show(in(NormalForm::kNfc, one.text)), show(one.nfc));
    CHECK_EQ(show(in(NormalForm::kNfd, one.text)), show(one.nfd));
    CHECK_EQ(show(in(NormalForm::kNfkc, one.text)), show(one.nfkc));
    CHECK_EQ(show(in(NormalForm::kNfkd, one.text)), show(one.nfkd));
    // The text before and after the part that is normalized stays the same.
    CHECK_EQ(show(in(NormalForm::kNfc, "x\u0430" + std::string(one.text) + "\u4E00y")),
             show("x\u0430" + std::string(one.nfc) + "\u4E00y"));
  }
}

TEST(normalized_text_is_unchanged) {
  std::string out = "before";
  for (const std::string_view text : {"", "The quick brown fox\n", "\u00FCber", "\u0995\u09CB \u1026", "\uD55C\uAD6D",
                                      "\u0628\u0650\u0633\u0652\u0645\u0650", "\u4E2D\u6587"}) {
    CHECK(!normalize(text, NormalForm::kNfc, out));
    CHECK(!normalize(text, NormalForm::kNone, out));
  }
}

TEST(invalid_utf8_is_unchanged) {
  for (const NormalForm form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
    CHECK_EQ(show(in(form, "\xFF\xCC e\xCC")), show("\xFF\xCC e\xCC"));
    CHECK_EQ(show(in(form, "\xED\xA0\x80\xC0\x80")), show("\xED\xA0\x80\xC0\x80"));
  }
  CHECK_EQ(show(in(NormalForm::kNfc, "e\xFF\xCC\x81 e\xCC\x81")), show("e\xFF\xCC\x81 \xC3\xA9"));
}

TEST(normalization_is_idempotent) {
  // Normalizing twice has the same result as normalizing once, and composition and decomposition are inverses.
  uint32_t random = 5;
  const auto next = [&](uint32_t n) { return (random = random * 1664525 + 1013904223) / 65536 % n; };
  constexpr uint32_t kBases[] = {0x41,   0x61,   0xC0,   0x300,  0x316,  0x323,   0x345,  0x591,  0x9C7,
                                 0x9BE,  0xCC6,  0xCD5,  0x1100, 0x1161, 0x11A8,  0xAC00, 0x1E00, 0x1F00,
                                 0x2126, 0x304B, 0x3099, 0xFB00, 0xFF76, 0x1D15E, 0x2F800};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint32_t n = 1 + next(8); n > 0; --n) append_utf8(kBases[next(std::size(kBases))] + next(24), text);
    for (const NormalForm form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
      const std::string once = in(form, text);
      CHECK_EQ(show(in(form, once)), show(once));
    }
    CHECK_EQ(show(in(NormalForm::kNfd, in(NormalForm::kNfc, text))), show(in(NormalForm::kNfd, text)));
    CHECK_EQ(show(in(NormalForm::kNfc, in(NormalForm::kNfd, text))), show(in(NormalForm::kNfc, text)));
    CHECK_EQ(show(in(NormalForm::kNfkc, in(NormalForm::kNfd, text))), show(in(NormalForm::kNfkc, text)));
  }
}

TEST(a_long_run_of_marks_is_normalized) {
  std::string text = "a", sorted = "\u1EA1";
  for (int i = 0; i < 50000; ++i) text += i % 2 ? "\u0323" : "\u0305";
  for (int i = 1; i < 25000; ++i) sorted += "\u0323";
  for (int i = 0; i < 25000; ++i) sorted += "\u0305";
  CHECK(in(NormalForm::kNfc, text) == sorted);
}

TEST(byte_level_vocabularies_compose_text_like_the_originals) {
  VocabularyFile file = VocabularyFile::byte_level();
  const std::string decomposed = "e\u0301", composed = "\u00E9";
  const auto bytes_of = [](std::string_view text) {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  };
  struct Case {
    std::string_view pre;
    bool composes;
  };
  constexpr Case kCases[] = {{"qwen2", true},      {"qwen35", true}, {"olmo", true},        {"command-r", true},
                             {"llama-bpe", false}, {"gpt-2", false}, {"deepseek-v3", false}};
  for (const auto& [pre, composes] : kCases) {
    file.pre = pre;
    const auto loaded = load(file);
    REQUIRE(loaded.ok());
    CHECK_EQ(show(encode(**loaded, decomposed)), show(bytes_of(composes ? composed : decomposed)));
    // Text generated by the model is encoded without normalization.
    CHECK_EQ(show(encode(**loaded, decomposed, {.verbatim = true})), show(bytes_of(decomposed)));
  }
  // The normalization form specified in the file takes precedence.
  for (const auto& [form, want] : {std::pair{"NFD", decomposed}, std::pair{"NFC", composed}}) {
    file.pre = "qwen2";
    const auto loaded = load(file.builder().string(std::string(kNormalFormKey), form));
    REQUIRE(loaded.ok());
    CHECK_EQ(show(encode(**loaded, composed)), show(bytes_of(want)));
  }
  const auto unknown = load(file.builder().string(std::string(kNormalFormKey), "NFX"));
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().message.find("normal_form is 'NFX' (known: NFC, NFD, NFKC, NFKD)") != std::string::npos);
}

TEST(special_tokens_split_text_before_normalization) {
  VocabularyFile file = VocabularyFile::byte_level();
  file.pre = "qwen2";
  const TokenId mark = file.add("<e>", TokenKind::kControl), word = file.add("nai\u0308ve", TokenKind::kUserDefined);
  const auto loaded = load(file);
  REQUIRE(loaded.ok());
  // The accent after the special token must not combine with the letter before the token. Tokens are matched in the
  // original text.
  CHECK_EQ(show(encode(**loaded, "e<e>\u0301", {.parse_special = true})), show({'e', mark, 0xCC, 0x81}));
  CHECK_EQ(show(encode(**loaded, "nai\u0308ve")), show({word}));
  CHECK_EQ(encode(**loaded, "na\u00EFve").size(), size_t{6});
  // Tokens with "normalized": true are matched in the normalized text, so both spellings of the text match.
  const auto normalized = load(file.builder().array<int32_t>(std::string(kNormalizedTokensKey), {word}));
  REQUIRE(normalized.ok());
  for (const char* text : {"nai\u0308ve", "na\u00EFve"}) CHECK_EQ(show(encode(**normalized, text)), show({word}));
  // Even if a control token is in one of these lists, ordinary text is not turned into control tokens.
  for (const std::string_view key : {kNormalizedTokensKey, kRawTokensKey}) {
    const auto listed = load(file.builder().array<int32_t>(std::string(key), {mark}));
    REQUIRE(listed.ok());
    CHECK_EQ(encode(**listed, "<e>").size(), size_t{3});
    CHECK_EQ(show(encode(**listed, "<e>", {.parse_special = true})), show({mark}));
  }
}

TEST(runs_of_the_space_marker_match_the_original_text) {
  VocabularyFile file = VocabularyFile::sentencepiece();
  for (const char* piece : {"\u2581", "b"}) file.add(piece, TokenKind::kNormal, -9);
  const TokenId two = file.add("\u2581\u2581", TokenKind::kNormal, -1),
                four = file.add("\u2581\u2581\u2581\u2581", TokenKind::kNormal, -2);
  auto builder = file.builder().scalar("tokenizer.ggml.add_space_prefix", false);
  const auto merged = load(builder);
  const auto raw = load(builder.array<int32_t>(std::string(kRawTokensKey), {two}));
  REQUIRE(merged.ok() && raw.ok());
  const TokenId b = two - 1;
  CHECK_EQ(show(encode(**merged, "\u2581\u2581\u2581 b")), show({four, b}));
  CHECK_EQ(show(encode(**raw, "\u2581\u2581\u2581 b")), show({two, two, b}));
  CHECK_EQ(show(encode(**raw, "    b")), show({four, b}));  // Spaces are not the space marker.
  CHECK_EQ((*raw)->decode(std::vector<TokenId>{two}), std::string("  "));
}
