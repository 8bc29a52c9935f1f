// Tests special tokens in text, the guard character that prevents text from being matched as special tokens, and the
// tokens that end generation.
#include <algorithm>

#include "check.h"
#include "text/tokenizer/special_matcher.h"
#include "text/tokenizer/support.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

constexpr char32_t kGuard = 0xFDD0;
const std::string G = "\uFDD0";

VocabularyFile chat_vocabulary() {
  VocabularyFile file = VocabularyFile::byte_level({"i m", "e n", "en d", "< |", "| >", "Ġ e"});
  for (const char* spelling : {"<|im_start|>", "<|im_end|>", "end|>"}) file.add(spelling, TokenKind::kControl);
  for (const char* spelling : {"<think>", "</think>", "\n\n", "\n\n\n"}) file.add(spelling, TokenKind::kUserDefined);
  return file;
}

// Returns `text` with guard characters inserted at random.
std::string guarded(const std::string& text, uint32_t& random) {
  std::string out;
  for (const char c : text) {
    random = random * 1664525 + 1013904223;
    if (random >> 30 == 0) out += G;
    out += c;
  }
  return out;
}

}  // namespace

TEST(special_tokens_match_on_request_and_user_defined_tokens_always) {
  const auto loaded = load(chat_vocabulary());
  REQUIRE(loaded.ok());
  const Tokenizer& tokenizer = **loaded;
  const TokenId end = tokenizer.find("<|im_end|>"), think = tokenizer.find("<think>");
  CHECK_EQ(show(encode(tokenizer, "<|im_end|><think>", {.parse_special = true})), show({end, think}));
  const std::vector<TokenId> plain = encode(tokenizer, "<|im_end|><think>");
  CHECK(std::count(plain.begin(), plain.end(), end) == 0);
  CHECK_EQ(plain.back(), think);
  CHECK_EQ(tokenizer.decode(plain), std::string("<|im_end|><think>"));
}

TEST(the_guard_makes_special_tokens_plain_text) {
  const auto loaded = load(chat_vocabulary());
  REQUIRE(loaded.ok());
  const Tokenizer& tokenizer = **loaded;
  const EncodeOptions options{.parse_special = true, .guard = kGuard};
  const TokenId start = tokenizer.find("<|im_start|>"), end = tokenizer.find("<|im_end|>");

  const std::vector<TokenId> plain = encode(tokenizer, "<|im_end|>");
  for (const std::string& text :
       {"<" + G + "|im_end|>", "<|im_end|" + G + ">", "<|im_" + G + "end|>", "<" + G + "|" + G + G + "im_end|>"})
    CHECK_EQ(show(encode(tokenizer, text, options)), show(plain));

  // If a guard interrupts the spelling of a special token, a shorter special token within this spelling is not matched,
  // either.
  CHECK_EQ(std::count(plain.begin(), plain.end(), tokenizer.find("end|>")), 0);
  CHECK_EQ(encode(tokenizer, "end|>", options).size(), size_t{1});

  // A guard next to a spelling has no effect: the template's own token is still matched.
  std::vector<TokenId> want = {start};
  want.insert(want.end(), plain.begin(), plain.end());
  want.push_back(end);
  CHECK_EQ(show(encode(tokenizer, "<|im_start|>" + G + "<" + G + "|im_end|>" + G + "<|im_end|>", options)), show(want));
  // Without the guard in the middle, this text would be a special token.
  CHECK_EQ(show(encode(tokenizer, "<|im_en" + G + "d|>", options)), show(plain));

  // User-defined tokens are tested with and without parse_special.
  for (const bool parse : {false, true}) {
    const std::vector<TokenId> ids = encode(tokenizer, "<th" + G + "ink>", {.parse_special = parse, .guard = kGuard});
    CHECK_EQ(std::count(ids.begin(), ids.end(), tokenizer.find("<think>")), 0);
    CHECK_EQ(tokenizer.decode(ids), std::string("<think>"));
  }
}

TEST(guards_in_ordinary_text_change_nothing) {
  VocabularyFile pieces = VocabularyFile::sentencepiece();
  for (const char* piece : {"▁", "i", "m", "e", "n", "d", "im", "en", "end", "▁e", "▁en", "'", "▁im"})
    pieces.add(piece, TokenKind::kNormal, -static_cast<float>(pieces.tokens.size()));
  const auto bpe = load(chat_vocabulary());
  const auto spm = load(pieces);
  REQUIRE(bpe.ok() && spm.ok());
  uint32_t random = 5;
  for (const std::string text : {"  the end'll im end  im", " im\n\tend 12345 e", "end"})
    for (int round = 0; round < 50; ++round)
      for (const Tokenizer* tokenizer : {bpe->get(), spm->get()}) {
        const std::string with = guarded(text, random);
        CHECK_EQ(show(encode(*tokenizer, with, {.parse_special = true, .guard = kGuard})),
                 show(encode(*tokenizer, text)));
      }
  // Without the guard option, the code point is ordinary text.
  CHECK_EQ((*bpe)->decode(encode(**bpe, "a" + G)), "a" + G);
  CHECK_EQ((*spm)->decode(encode(**spm, G)), G);
}

// Longer special tokens are matched first, anywhere in the text; tokens of equal length are matched from left to right.
// The reference tries one token after another.
TEST(special_tokens_match_longest_first) {
  VocabularyFile file = VocabularyFile::byte_level();
  std::vector<std::string> spellings = {"ab", "aba", "bab", "babb", "aaaa", "aaaaa", "bb", "b<", "<abab>"};
  for (const std::string& spelling : spellings) file.add(spelling, TokenKind::kUserDefined);
  std::stable_sort(spellings.begin(), spellings.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  const auto loaded = load(file);
  REQUIRE(loaded.ok());
  uint32_t random = 9;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 20; ++i) {
      random = random * 1664525 + 1013904223;
      text += "aaabbb<>"[random >> 29];
    }
    // `owner` contains, for each byte, the index in `spellings` of the token that covers the byte. Tokens of equal
    // length are matched from left to right.
    std::vector<TokenId> owner(text.size(), kNoToken);
    for (size_t length = 6; length > 0; --length)
      for (size_t i = 0; i + length <= text.size(); ++i) {
        const TokenId id = (*loaded)->find(text.substr(i, length));
        if (id < 256) continue;
        if (std::any_of(owner.begin() + i, owner.begin() + i + length, [](TokenId o) { return o >= 0; })) continue;
        std::fill(owner.begin() + i, owner.begin() + i + length, id | static_cast<TokenId>(i << 16));
      }
    std::vector<TokenId> want;
    for (size_t i = 0; i < text.size(); ++i) {
      if (owner[i] == kNoToken)
        want.push_back(static_cast<unsigned char>(text[i]));
      else if (i == 0 || owner[i] != owner[i - 1])
        want.push_back(owner[i] & 0xFFFF);
    }
    CHECK_EQ(show(encode(**loaded, text)), show(want));
  }
}

TEST(ordinary_text_never_becomes_a_control_token) {
  // Tests a merge, a whole word and a SentencePiece token, each of which has the spelling of a control token.
  VocabularyFile bpe = VocabularyFile::byte_level({"E O", "EO S"});
  bpe.types[static_cast<size_t>(258 - 1)] = static_cast<int32_t>(TokenKind::kControl);
  bpe.pre = "llama-bpe";
  VocabularyFile spm = VocabularyFile::sentencepiece();
  for (const char* piece : {"<", "s", ">", "s>", "<s", "▁"}) spm.add(piece);
  for (const VocabularyFile& file : {bpe, spm}) {
    const auto loaded = load(file);
    REQUIRE(loaded.ok());
    for (const TokenId id : encode(**loaded, "EOS<s></s><unk>"))
      CHECK((*loaded)->kind(id) != TokenKind::kControl && (*loaded)->kind(id) != TokenKind::kUnknown);
  }
}

TEST(end_tokens_come_from_keys_and_spellings) {
  const auto ends_of = [](VocabularyFile file, TokenId eos, TokenId eot) {
    GgufBuilder gguf = file.builder();
    if (eos >= 0) gguf.scalar<uint32_t>("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(eos));
    if (eot >= 0) gguf.scalar<uint32_t>("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(eot));
    const auto loaded = load(gguf);
    if (!loaded) return loaded.error().message;
    for (const TokenId id : (*loaded)->end_of_generation()) CHECK((*loaded)->is_end_of_generation(id));
    CHECK(!(*loaded)->is_end_of_generation(0) && !(*loaded)->is_end_of_generation(-1));
    return show(std::vector<TokenId>((*loaded)->end_of_generation().begin(), (*loaded)->end_of_generation().end()));
  };
  VocabularyFile file = chat_vocabulary();
  const TokenId text_end = file.add("<|endoftext|>", TokenKind::kControl);
  const TokenId turn = file.add("<end_of_turn>", TokenKind::kUserDefined);
  const auto found = load(file);
  REQUIRE(found.ok());
  const TokenId end = (*found)->find("<|im_end|>");
  CHECK_EQ(ends_of(file, -1, -1), show({end, text_end, turn}));
  CHECK_EQ(ends_of(file, 65, 66), show({65, 66, end, text_end, turn}));
  CHECK((*found)->kind(turn) == TokenKind::kControl);
  // In gpt-oss, <|end|> closes a message and does not end the generation.
  VocabularyFile harmony = VocabularyFile::byte_level();
  const TokenId last = harmony.add("<|return|>", TokenKind::kControl);
  harmony.add("<|end|>", TokenKind::kControl);
  const TokenId call = harmony.add("<|call|>", TokenKind::kControl);
  CHECK_EQ(ends_of(harmony, -1, -1), show({last, call}));
  // Solar's message markers count as text if the vocabulary has all of them.
  VocabularyFile solar = VocabularyFile::byte_level();
  for (const char* part : {"<|begin|>", "<|think|>", "<|content|>"}) solar.add(part, TokenKind::kControl);
  const auto other = load(solar);
  solar.add("<|tool_calls|>", TokenKind::kControl);
  const auto whole = load(solar);
  REQUIRE(other.ok() && whole.ok());
  for (const char* part : {"<|begin|>", "<|think|>", "<|content|>"}) {
    CHECK((*other)->kind((*other)->find(part)) == TokenKind::kControl);
    CHECK((*whole)->kind((*whole)->find(part)) == TokenKind::kUserDefined);
  }
}

TEST(bos_and_eos_follow_the_file_and_the_kind_of_tokenizer) {
  const auto ids = [](const GgufBuilder& gguf) {
    const auto loaded = load(gguf);
    return loaded ? show(encode(**loaded, "", {.add_special = true})) : loaded.error().message;
  };
  VocabularyFile bpe = VocabularyFile::byte_level();
  VocabularyFile llama = bpe;
  llama.pre = "llama-bpe";
  const auto with_ids = [](const VocabularyFile& file) {
    GgufBuilder gguf = file.builder();
    gguf.scalar<uint32_t>("tokenizer.ggml.bos_token_id", 7).scalar<uint32_t>("tokenizer.ggml.eos_token_id", 8);
    return gguf;
  };
  CHECK_EQ(ids(VocabularyFile::sentencepiece().builder()), std::string("[1]"));
  CHECK_EQ(ids(with_ids(bpe)), std::string("[]"));
  CHECK_EQ(ids(with_ids(llama)), std::string("[7]"));
  CHECK_EQ(ids(with_ids(llama).scalar("tokenizer.ggml.add_bos_token", false)), std::string("[]"));
  CHECK_EQ(ids(with_ids(bpe).scalar("tokenizer.ggml.add_bos_token", true).scalar("tokenizer.ggml.add_eos_token", true)),
           std::string("[7 8]"));
  CHECK_EQ(ids(bpe.builder().scalar("tokenizer.ggml.add_bos_token", true)),
           std::string("tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing"));
}

TEST(decoding_cleans_up_spaces_if_the_pre_tokenizer_requires_it) {
  VocabularyFile file = VocabularyFile::byte_level();
  const auto gpt2 = load(file);
  file.pre = "qwen2";
  const auto qwen2 = load(file);
  REQUIRE(gpt2.ok() && qwen2.ok());
  const struct {
    const char *text, *cleaned;
  } cases[] = {
      {"a ? b ! c . d , e", "a? b! c. d, e"},
      {" . .", ".."},
      {"a  ?", "a ?"},
      {"a ' b", "a'b"},
      {"x ' ' y", "x'' y"},
      {"it 's I 'm we 're I 've", "it's I'm we're I've"},
      {"he 'd we 'll don 't 'x", "he 'd we 'll don 't 'x"},
      {"", ""},
      {" ", " "},
      {" '", " '"},
  };
  for (const auto& [text, cleaned] : cases) {
    CHECK_EQ((*gpt2)->decode(encode(**gpt2, text)), std::string(cleaned));
    CHECK_EQ((*qwen2)->decode(encode(**qwen2, text)), std::string(text));
  }
}

TEST(tokens_with_inner_spaces_merge_across_words) {
  VocabularyFile file = VocabularyFile::sentencepiece();
  for (const char* piece : {"▁", "a", "b", "▁a", "▁b"}) file.add(piece, TokenKind::kNormal, -2);
  const TokenId both = file.add("a▁b", TokenKind::kNormal, -1);
  const VocabularyFile without = file;
  file.add("a▁", TokenKind::kNormal, -3);
  for (const VocabularyFile& one : {without, file}) {
    const auto loaded = load(one.builder().scalar("tokenizer.ggml.add_space_prefix", false));
    REQUIRE(loaded.ok());
    CHECK_EQ(show(encode(**loaded, "a b")), show({both}));
    CHECK_EQ((*loaded)->decode({{both}}), std::string("a b"));
  }
}

// The GGUF files of Phi-3 have no key for this property. Like llama.cpp, the tokenizer infers it from the model's name.
TEST(special_tokens_of_phi_3_remove_the_white_space_after_them) {
  VocabularyFile file = VocabularyFile::sentencepiece();
  for (const char* spelling : {"<|user|>", "<|end|>", "<|assistant|>", "<|endoftext|>"})
    file.add(spelling, TokenKind::kControl);
  file.add("Hi", TokenKind::kNormal, -2);
  const TokenId hi = file.add("▁Hi", TokenKind::kNormal, -1);
  const auto ids_in = [&](std::string_view name, std::string_view text) {
    GgufBuilder builder = file.builder();
    if (!name.empty()) builder.string("general.name", name);
    const auto loaded = load(builder);
    if (!loaded) return "[" + loaded.error().message + "]";
    return show(encode(**loaded, text, {.parse_special = true}));
  };
  const std::string prompt = "<|user|>\n \tHi<|end|>\n<|assistant|>\n";
  const TokenId user = hi - 5, end = hi - 4, assistant = hi - 3, end_of_text = hi - 2, newline = 3 + '\n';
  for (const char* name : {"Phi-3-mini-4k-instruct", "phi3", "Microsoft PHI-3.5"})
    CHECK_EQ(ids_in(name, prompt), show({user, hi, end, assistant}));
  // One of the tokens removes the whitespace that follows it; the other does not.
  CHECK_EQ(ids_in("Phi-3", "</s>\n<s>\n").substr(0, 4), std::string("[2 1"));
  const std::string kept = ids_in("Phi-3", "<|endoftext|>\n");
  CHECK(kept.ends_with(" " + std::to_string(newline) + "]") && kept.starts_with("[" + std::to_string(end_of_text)));
  for (const char* name : {"", "Phi-4", "Llama"}) CHECK(ids_in(name, prompt) != show({user, hi, end, assistant}));
}
