// Compares the unigram tokenizer with a search over all segmentations of a text, and tests its normalization.
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "formats/gguf/tokenizer.h"
#include "check.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// <pad>, </s> and <unk>, followed by tokens with scores.
VocabularyFile unigram(std::initializer_list<std::pair<const char*, float>> pieces) {
  VocabularyFile file;
  file.model = "t5";
  file.pre = "default";
  file.add("<pad>", TokenKind::kControl);
  file.add("</s>", TokenKind::kControl);
  file.add("<unk>", TokenKind::kUnknown);
  for (const auto& [text, score] : pieces) file.add(text, TokenKind::kNormal, score);
  return file;
}

// Returns the best total score of all segmentations of `text`, found by enumeration.
double best_of_all(const std::map<std::string, double>& scores, double unknown, const std::string& text) {
  if (text.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (size_t n = 1; n <= text.size(); ++n) {
    const auto piece = scores.find(text.substr(0, n));
    if (piece == scores.end() && n > 1) continue;
    const double score = piece == scores.end() ? unknown : piece->second;
    best = std::max(best, score + best_of_all(scores, unknown, text.substr(n)));
  }
  return best;
}

using Units = std::vector<uint32_t>;

// Builds a double-array trie for a few short keys. Each node's children are placed in the next free units.
std::vector<std::byte> charsmap_of(const std::map<std::string, std::string>& replacements) {
  std::string texts;
  std::map<std::string, uint32_t> places;
  for (const auto& [key, text] : replacements) {
    places[key] = static_cast<uint32_t>(texts.size());
    texts += text + '\0';
  }
  Units units(4096, 0);
  std::vector<bool> used(units.size());
  used[0] = true;
  const std::function<void(uint32_t, const std::string&)> place = [&](uint32_t node, const std::string& prefix) {
    std::map<unsigned char, std::string> children;
    for (const auto& [key, text] : replacements)
      if (key.size() > prefix.size() && key.starts_with(prefix))
        children[static_cast<unsigned char>(key[prefix.size()])] = key.substr(0, prefix.size() + 1);
    const bool leaf = places.contains(prefix);
    uint32_t offset = 1;
    for (;; ++offset) {
      const uint32_t base = node ^ offset;
      bool free = base + 256 < units.size() && (!leaf || !used[base]);
      for (const auto& [byte, child] : children) free = free && (base ^ byte) < units.size() && !used[base ^ byte];
      if (free) break;
    }
    const uint32_t base = node ^ offset;
    units[node] |= offset << 10 | static_cast<uint32_t>(leaf) << 8;
    if (leaf) {
      used[base] = true;
      units[base] = places[prefix] | 1u << 31;
    }
    for (const auto& [byte, child] : children) {
      used[base ^ byte] = true;
      units[base ^ byte] = byte;
    }
    for (const auto& [byte, child] : children) place(base ^ byte, child);
  };
  place(0, "");
  const uint32_t size = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::vector<std::byte> out(sizeof size + size + texts.size());
  std::memcpy(out.data(), &size, sizeof size);
  std::memcpy(out.data() + sizeof size, units.data(), size);
  std::memcpy(out.data() + sizeof size + size, texts.data(), texts.size());
  return out;
}

}  // namespace

TEST(unigram_finds_the_best_segmentation) {
  const std::map<std::string, double> scores = {{"a", -2},  {"b", -2.5}, {"ab", -3},  {"ba", -3.25}, {"aba", -4.5},
                                                {"bb", -6}, {"bab", -5}, {"aab", -7}, {"c", -9},     {"abab", -5.75}};
  VocabularyFile file = unigram({});
  for (const auto& [text, score] : scores) file.add(text, TokenKind::kNormal, static_cast<float>(score));
  const auto loaded = load(file.builder().scalar<bool>("tokenizer.ggml.add_space_prefix", false));
  REQUIRE(loaded.ok());
  uint32_t random = 5;
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (int i = 0; i < 1 + round % 12; ++i) {
      random = random * 1664525 + 1013904223;
      text += "abcd"[random >> 30];
    }
    double sum = 0;
    std::string joined;
    bool unknown = false;
    for (const TokenId id : encode(**loaded, text)) {
      const std::string piece((*loaded)->bytes(id));
      unknown |= id == 2;
      joined += piece;
      sum += id == 2 ? -19 : scores.at(piece);
    }
    if (unknown) continue;  // Consecutive unknown characters become one token; a later check counts them.
    CHECK_EQ(joined, text);
    CHECK_EQ(sum, best_of_all(scores, -19, text));
  }
  CHECK_EQ(show(encode(**loaded, "dda")), show({2, (*loaded)->find("a")}));
  CHECK_EQ(show(encode(**loaded, "dad")), show({2, (*loaded)->find("a"), 2}));
}

TEST(unigram_handles_spaces_as_the_file_specifies) {
  const VocabularyFile file = unigram({{"▁", -3}, {"▁a", -1}, {"a", -2}, {"▁b", -1}, {"b", -2}});
  const auto plain = load(file);
  REQUIRE(plain.ok());
  CHECK_EQ(show(encode(**plain, "a b")), show({4, 6}));
  CHECK_EQ(show(encode(**plain, "a  b")), show({4, 3, 6}));
  CHECK_EQ(show(encode(**plain, " a")), show({3, 4}));
  CHECK_EQ(show(encode(**plain, "a", {.add_special = true})), show({4, 1}));
  CHECK_EQ((*plain)->decode(std::vector<TokenId>{4, 6}), std::string("a b"));

  const auto merged = load(file.builder().scalar<bool>("tokenizer.ggml.remove_extra_whitespaces", true));
  REQUIRE(merged.ok());
  CHECK_EQ(show(encode(**merged, "  a   b  ")), show({4, 6}));

  const auto bare = load(file.builder().scalar<bool>("tokenizer.ggml.add_space_prefix", false));
  REQUIRE(bare.ok());
  CHECK_EQ(show(encode(**bare, "a▁b")), show({5, 6}));

  const auto spared = load(file.builder().scalar<bool>(kSpacePrefixSparedKey, true));
  REQUIRE(spared.ok());
  CHECK_EQ(show(encode(**spared, " a")), show({4}));
  CHECK_EQ(show(encode(**spared, "a")), show({4}));
}

TEST(unigram_encodes_unknown_characters_as_bytes_if_available) {
  VocabularyFile file = unigram({{"▁", -1}, {"a", -1}});
  const TokenId c3 = file.add("<0xC3>", TokenKind::kByte), a9 = file.add("<0xA9>", TokenKind::kByte);
  const auto loaded = load(file);
  REQUIRE(loaded.ok());
  CHECK_EQ(show(encode(**loaded, "aé")), show({3, 4, c3, a9}));
  CHECK_EQ(show(encode(**loaded, "ü")), show({3, 2}));
}

TEST(unigram_normalizes_by_the_files_map) {
  const auto bytes = charsmap_of({{"ﬁ", "fi"}, {"Å", "Å"}, {"\t", " "}, {"\t\t", "  "}, {"\x01", ""}});
  const auto map = Charsmap::parse(bytes);
  REQUIRE(map.ok());
  std::string out;
  (*map)->normalize("a\tﬁ\t\t\tx\x01y\xFFÅ", out);
  CHECK_EQ(out, std::string("a fi   xy\uFFFDÅ"));

  const VocabularyFile file = unigram({{"▁fi", -1}, {"▁", -1}});
  std::vector<uint8_t> array(bytes.size());
  std::memcpy(array.data(), bytes.data(), bytes.size());
  const auto loaded = load(file.builder().array<uint8_t>("tokenizer.ggml.precompiled_charsmap", array));
  REQUIRE(loaded.ok());
  CHECK_EQ(show(encode(**loaded, "ﬁ\t\t")), show({3, 4, 4}));
}

TEST(damaged_charsmaps_are_rejected_or_harmless) {
  const auto whole = charsmap_of({{"ﬁ", "fi"}, {"ab", "c"}});
  CHECK(!Charsmap::parse(std::span(whole).first(3)).ok());
  CHECK(!Charsmap::parse(std::span(whole).first(100)).ok());
  uint32_t random = 3;
  for (int round = 0; round < 3000; ++round) {
    auto broken = whole;
    for (int i = 0; i < 6; ++i) {
      random = random * 1664525 + 1013904223;
      broken[4 + (random >> 8) % (broken.size() - 4)] = static_cast<std::byte>(random);
    }
    const auto map = Charsmap::parse(broken);
    REQUIRE(map.ok());
    std::string out;
    (*map)->normalize("abﬁ ab\xEF\xAC \x81zz\xE3\x81\x82", out);
  }
}

TEST(unigram_is_linear_in_long_words) {
  const auto loaded = load(unigram({{"a", -1}, {"aa", -1.5}, {"aaaa", -2}}));
  REQUIRE(loaded.ok());
  CHECK_EQ(encode(**loaded, std::string(400000, 'a')).size(), size_t{100001});
}

TEST(inconsistent_unigram_files_are_rejected) {
  VocabularyFile file = unigram({{"a", -1}});
  file.scores[3] = std::numeric_limits<float>::infinity();
  auto loaded = load(file);
  REQUIRE(!loaded.ok());
  CHECK(loaded.error().message.find("tokenizer.ggml.scores[3]") != std::string::npos);
  file = unigram({{"a", -1}});
  file.scores.pop_back();
  CHECK(!load(file).ok());
  CHECK(!load(unigram({{"a", -1}}).builder().string("tokenizer.ggml.precompiled_charsmap", "x")).ok());
}
