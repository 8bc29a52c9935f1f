// Tests SentencePiece vocabularies with a list of merges. The result must be the same as if one pair were merged at a
// time, which is how tokenizer.json defines it.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "formats/gguf/tokenizer.h"
#include "check.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

const std::vector<std::string> kMerges = {"▁ ▁",  "▁▁ ▁▁", "a b",  "▁ a",   "▁a b",  "b a",
                                          "ab a", "b b",   "▁ ab", "aba b", "\n \n", "é é"};

VocabularyFile with_merges() {
  VocabularyFile file = VocabularyFile::sentencepiece();
  for (const char* piece : {"▁", "a", "b", "\n", "é"}) file.add(piece);
  for (std::string merge : kMerges) {
    file.merges.push_back(merge);
    merge.erase(merge.find(' ', 1), 1);
    if (std::ranges::find(file.tokens, merge) == file.tokens.end()) file.add(merge);
  }
  file.scores.clear();
  return file;
}

// Repeatedly merges the pair that comes first in the list (the leftmost occurrence first) until no pair is in the list.
// Returns the spellings of the tokens.
std::vector<std::string> slow(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < text.size();) {
    const size_t size = decode_utf8(std::string_view(text).substr(i)).size;
    parts.push_back(text[i] == ' ' ? "▁" : text.substr(i, size));
    i += size;
  }
  for (;;) {
    size_t best = kMerges.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      for (size_t m = 0; m < best; ++m)
        if (kMerges[m] == parts[i] + " " + parts[i + 1]) best = m, at = i;
    if (best == kMerges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

TEST(listed_merges_apply_in_order) {
  const auto loaded = load(with_merges().builder().scalar<bool>("tokenizer.ggml.add_space_prefix", false));
  REQUIRE(loaded.ok());
  uint32_t random = 11;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 1 + round % 70; ++i) {
      random = random * 1664525 + 1013904223;
      text += std::array{"a", "b", " ", "a", "b", "é", "\n", " "}[random >> 29];
    }
    std::vector<TokenId> want;
    for (const std::string& part : slow(text)) want.push_back((*loaded)->find(part));
    const auto got = encode(**loaded, text);
    if (got != want) check::fail(__FILE__, __LINE__, show(text) + ": got " + show(got) + ", want " + show(want));
  }
  // Characters without a token become byte tokens.
  CHECK_EQ(show(encode(**loaded, "ü")), show({3 + 0xC3, 3 + 0xBC}));
}

TEST(the_leading_space_follows_the_files_scheme) {
  const VocabularyFile file = with_merges();
  const auto ids = [](const Tokenizer& tokenizer, std::string_view text) {
    return show(encode(tokenizer, text, {.parse_special = true}));
  };
  const auto always = load(file);
  REQUIRE(always.ok());
  const TokenId space = (*always)->find("▁"), spaces = (*always)->find("▁▁"), a = (*always)->find("a"),
                space_a = (*always)->find("▁a");
  CHECK_EQ(ids(**always, "a</s>a"), show({space_a, 2, space_a}));
  CHECK_EQ(ids(**always, " a"), show({spaces, a}));
  const auto once =
      load(file.builder().scalar<bool>(kSpacePrefixOnceKey, true).scalar<bool>(kSpacePrefixSparedKey, true));
  REQUIRE(once.ok());
  CHECK_EQ(ids(**once, "a</s>a"), show({space_a, 2, a}));
  CHECK_EQ(ids(**once, "</s>a"), show({2, a}));
  CHECK_EQ(ids(**once, " a"), show({space_a}));
  CHECK_EQ(ids(**once, "</s> "), show({2, space}));
}

TEST(gemma4_files_merge_line_breaks_separately) {
  VocabularyFile file = with_merges();
  file.model = "gemma4";
  file.add("a\n");
  file.merges.insert(file.merges.begin(), "a \n");
  const auto loaded = load(file);
  REQUIRE(loaded.ok());
  CHECK_EQ(show(encode(**loaded, "a\n\nb")),
           show({(*loaded)->find("a"), (*loaded)->find("\n\n"), (*loaded)->find("b")}));
}

TEST(sarvam_files_use_a_different_model_name) {
  VocabularyFile file = with_merges();
  file.model = "gpt2";
  file.pre = "sarvam-moe";
  const auto loaded = load(file);
  REQUIRE(loaded.ok());
  const auto id = [&](const char* piece) { return (*loaded)->find(piece); };
  // There is no leading space and no BOS.
  CHECK_EQ(show(encode(**loaded, "ab a", {.add_special = true})), show({id("ab"), id("▁a")}));
  CHECK_EQ(show(encode(**loaded, "a\n\nb")), show({id("a"), id("\n\n"), id("b")}));
  CHECK_EQ((*loaded)->decode(encode(**loaded, "a b ?")), std::string("a b ?"));
}

TEST(embedding_models_of_granite_merge_like_gemma_4) {
  VocabularyFile file = with_merges();
  file.model = "gpt2";
  file.pre = "granite-embed-multi-311m";
  file.add("\n\n\n");  // No merge produces this token: a run of line breaks that is a token becomes that token.
  // BOS is added even though the file says otherwise.
  const auto loaded = load(file.builder().scalar<bool>("tokenizer.ggml.add_bos_token", false));
  REQUIRE(loaded.ok());
  const auto id = [&](const char* piece) { return (*loaded)->find(piece); };
  CHECK_EQ(show(encode(**loaded, "ab a", {.add_special = true})), show({(*loaded)->bos(), id("ab"), id("▁a")}));
  CHECK_EQ(show(encode(**loaded, "a\n\n\nb")), show({id("a"), id("\n\n\n"), id("b")}));
  CHECK_EQ(show(encode(**loaded, "a\n\n\n\nb")), show({id("a"), id("\n\n"), id("\n\n"), id("b")}));
  file.merges.clear();
  CHECK(!load(file).ok());
}

TEST(words_between_white_space_merge_separately) {
  VocabularyFile file = with_merges();
  file.pre = "whitespace";
  file.add("a▁");
  file.merges.push_back("a ▁");
  std::erase_if(file.merges, [](const std::string& merge) { return merge == "\n \n"; });
  // A byte without a token is dropped.
  file.tokens[3 + 0xC3] = "<gone>";
  file.types[3 + 0xC3] = static_cast<int32_t>(TokenKind::kUnused);
  for (const char* model : {"gpt2", "whitespace"}) {
    file.model = model;
    const auto loaded = load(file);
    REQUIRE(loaded.ok());
    const auto id = [&](const char* piece) { return (*loaded)->find(piece); };
    const bool drops = file.model == "whitespace";
    std::vector<TokenId> want = {id("ab"), id("aba")};
    if (!drops) want = {id("ab"), 3 + ' ', id("\n"), id("aba")};
    CHECK_EQ(show(encode(**loaded, "ab \naba", {.add_special = true})), show(want));
    CHECK_EQ(show(encode(**loaded, "ba\u3000")),
             drops ? show({id("ba")}) : show({id("ba"), 3 + 0xE3, 3 + 0x80, 3 + 0x80}));
    CHECK_EQ(show(encode(**loaded, "a▁ü")), show({id("a▁"), 3 + 0xBC}));  // "▁" is not a space in this model.
    const auto lower = load(file.builder().scalar<bool>("tokenizer.ggml.normalizer.lowercase", true));
    CHECK(!lower.ok() && lower.error().message.find("normalizer.lowercase") != std::string::npos);
  }
}

TEST(missing_special_ids_have_no_default_if_the_file_disables_it) {
  const auto usual = load(with_merges());
  REQUIRE(usual.ok());
  CHECK_EQ((*usual)->bos(), 1);
  const auto explicit_ids = load(with_merges().builder().scalar<bool>(kExplicitIdsKey, true));
  REQUIRE(explicit_ids.ok());
  CHECK_EQ((*explicit_ids)->bos(), kNoToken);
}
