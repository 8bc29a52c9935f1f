// Tables of the names and regular expressions that model files use to select a pre-tokenizer.
#include <algorithm>
#include <iterator>
#include <string>

#include "base/utf8.h"
#include "text/tokenizer/deepseek_letters.h"
#include "text/tokenizer/pretokenizer.h"

namespace monolith {
namespace {

using enum SplitStage;

constexpr PreTokenizer kDefault = {kMarks, kGpt2, kNumberRuns, kThreeDigits};
constexpr PreTokenizer kStarcoder = {kEachNumber, kGpt2};
constexpr PreTokenizer kDeepseekCoder = {kEachNewline, kSpacedLetters, kSpacedPunctuation, kDeepseekAsian, kEachNumber};
constexpr PreTokenizer kDeepseekLlm = {kEachNewline,   kDeepseekLetters, kDeepseekMarks,
                                       kTrailingSpace, kDeepseekAsian,   kNumberRuns};
constexpr PreTokenizer kDeepseekV3 = {kNumberTriples, kAsian, kDeepseek3};

// Values of tokenizer.ggml.pre and the settings that they imply.
constexpr PreTokenizerTraits kNames[] = {
    {"", kDefault},
    {"default", kDefault},
    {"gpt-2", {kGpt2}},
    {"phi-2", {kGpt2}},
    {"mpt", {kGpt2}},
    {"olmo", {kGpt2}},
    {"jais", {kGpt2}},
    {"gigachat", {kGpt2}},
    {"exaone4", {kGpt2}},
    {"mellum", {kGpt2}},
    {"a.x-4.0", {kGpt2}},
    {"modern-bert", {kGpt2}},
    {"jina-es", {kGpt2}},
    {"jina-de", {kGpt2}},
    {"jina-v2-es", {kGpt2}},
    {"jina-v2-de", {kGpt2}},
    {"jina-v1-en", {kGpt2}},
    {"jina-v2-code", {kGpt2}},
    {"roberta-bpe", {kGpt2}},
    {"trillion", {kGpt2}, false, false, false},
    {"granite-docling", {kGpt2}, false, false, false},
    {"llama-bpe", {kLlama3}, true, true},
    {"llama3", {kLlama3}, true, true},
    {"llama-v3", {kLlama3}, true, true},
    {"falcon3", {kLlama3}, true, true},
    {"falcon-h1", {kLlama3}, true, true},
    {"pixtral", {kLlama3}, true, true},
    {"midm-2.0", {kLlama3}, true, true},
    {"lfm2", {kLlama3}, true, true},
    {"jina-v5-nano", {kLlama3}, true, true},
    {"jais-2", {kJais2}},
    {"dbrx", {kLlama3}},
    {"smaug-bpe", {kLlama3}},
    {"glm4", {kLlama3}},
    {"chatglm-bpe", {kLlama3}},
    {"qwen2", {kQwen2}, false, false, false},
    {"qwen3", {kQwen2}, false, false, false},
    {"deepseek-r1-qwen", {kQwen2}, false, false, false},
    {"kormo", {kQwen2}, false, false, false},
    {"f2llmv2", {kQwen2}, false, false, false},
    {"hunyuan", {kQwen2}, false, false, false},
    {"solar-open", {kQwen2}, false, false, false},
    {"grok-2", {kQwen2}, false, false, false},
    {"bailingmoe", {kQwen2}, false, false, false},
    {"bailingmoe2", {kQwen2}, false, false, false},
    {"llada-moe", {kQwen2}, false, false, false},
    {"megrez", {kQwen2}},
    {"stablelm2", {kQwen2}},
    {"laguna", {kLines, kQwen2}, false, false, false},
    {"qwen35", {kQwen35}, false, false, false},
    {"seed-coder", {kSeedCoder}, false, false, false},
    {"minicpm5", {kNumberTriples, kNumberRunWords}, true},
    {"tekken", {kTekken}, true, true, false},
    {"gpt-4o", {kGpt4o}, false, false, false},
    {"llama4", {kGpt4o}, false, false, false},
    {"kanana2", {kGpt4o}, false, false, false},
    {"talkie", {kGpt4o}, false, false, false},
    {"kimi-k2", {kKimi}, false, false, false},
    {"tiny_aya", {kWholeNumberGroups, kGpt4o}, false, false, false},
    {"cohere2moe", {kWholeNumberGroups, kGpt4o}, false, false, false},
    {"youtu", {kYoutuScripts, kYoutu}, true, false, false},
    {"exaone-moe", {kPhrases}},
    {"superbpe", {kNumberRuns, kDigitGroups}, false, false, false},
    {"minimax-m2", {kGpt4o}, false, false, false},
    {"granite-embed-multi-97m", {kGpt4o}, true, false, false},
    {"deepseek-coder", kDeepseekCoder, false, false, false},
    {"deepseek-llm", kDeepseekLlm, false, false, false},
    {"deepseek-v3", kDeepseekV3, false, false, false},
    {"hunyuan-dense", kDeepseekV3, false, false, false},
    {"joyai-llm", kDeepseekV3, false, false, false},
    {"hy_v4", kDeepseekV3, false, false, false},
    {"afmoe", {kAfmoeDigits, kAfmoeScripts, kDeepseek3}, false, false, false},
    {"chameleon", {kSentinels, kImageCodes, kEvenSpaces, kEachNumber, kEachMark, kGpt2}, false, true, false},
    {"falcon", {kMarksAndBackticks, kGpt2, kThreeDigits}},
    {"starcoder", kStarcoder},
    {"refact", kStarcoder},
    {"codeshell", kStarcoder},
    {"exaone", kStarcoder},
    {"minerva-7b", kStarcoder},
    {"mellum2", kStarcoder},
    {"smollm", kStarcoder, false, false, false},
    {"command-r", kStarcoder, false, false, false},
    {"bloom", {kBloom}},
    {"gpt3-finnish", {kBloom}},
    {"poro-chat", {kBloom}, false, false, false},
    {"viking", {kBloom, kEachNumber}, false, false, false},
};

// Pre-tokenizer names whose models normalize to NFC: Qwen 2 to 3.5 and models with Qwen's vocabulary, models with
// GPT-NeoX's vocabulary (OLMo, MPT, ModernBERT), Cohere, StableLM 2 and Hunyuan.
constexpr std::string_view kComposed[] = {"qwen2", "qwen3",       "qwen35",    "deepseek-r1-qwen", "f2llmv2", "olmo",
                                          "mpt",   "modern-bert", "command-r", "stablelm2",        "hunyuan"};

struct Pattern {
  SplitStage stage;
  std::string_view expression;
};

// Patterns as written in tokenizer.json files, except for escapes. Equivalent patterns with different spellings are
// listed separately.
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPELLED_CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define HALVED_SPACES \
  R"(|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"
#define SIGNS R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define CASED(suffix)                                                                      \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" suffix \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" suffix
constexpr Pattern kPatterns[] = {
    {kGpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {kGpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {kLlama3, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})" SIGNS SPACES},
    {kLlama3, SPELLED_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})" SIGNS SPACES},
    {kLlama3,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {kJais2, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})" SIGNS HALVED_SPACES},
    {kJais2, SPELLED_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})" SIGNS HALVED_SPACES},
    {kQwen2, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" SIGNS SPACES},
    {kQwen2, SPELLED_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})" SIGNS SPACES},
    {kQwen2,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {kNumberRunWords, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)" SIGNS SPACES},
    {kSeedCoder, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" SPACES},
    {kSeedCoder, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" SPACES},
    {kQwen35, CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" SPACES},
    {kPhrases, CONTRACTIONS
     R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {kTekken, CASED("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES},
    {kGpt4o, CASED(CONTRACTIONS "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" SPACES},
    {kDeepseek3,
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" SPACES},
    {kBloom, " ?[^(\\s|.,!?…。，、।۔،)]+"},
    {kBloom, " ?[^(\\s|[.,!?…。，、।۔،])]+"},
    {kEachNumber, R"(\p{N})"},
    {kEachNumber, R"(\p{N}{1})"},
    {kNumberRuns, R"(\p{N}+)"},
    {kNumberTriples, R"(\p{N}{1,3})"},
    {kThreeDigits, "[0-9][0-9][0-9]"},
    {kDigitGroups, R"((?=(\d{3})+(?!\d)))"},
    {kWholeNumberGroups, R"(\d{1,3}(?=(?:\d{3})*\b))"},
    {kEachNewline, R"([\r\n])"},
    {kLines, R"([^\n]+|[\n]+)"},
    {kSpacedLetters, R"(\s?\p{L}+)"},
    {kSpacedPunctuation, R"(\s?\p{P}+)"},
    {kDeepseekLetters, R"(\s?[)" MONOLITH_DEEPSEEK_LETTERS "]+"},
    {kDeepseekMarks, "\\s?[!-/:-~！-／：-～‘-‟　-。]+"},
    {kTrailingSpace, R"(\s+$)"},
    {kDeepseekAsian, "[一-龥ࠀ-一가-퟿]+"},
    {kAsian, "[一-龥぀-ゟ゠-ヿ]+"},
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Returns the code point of a hexadecimal escape: \xHH, \x{H...} or \uHHHH. `at` is the position after the escape's
// letter and is advanced to the end of the escape. Returns nullopt if the escape is invalid.
std::optional<uint32_t> read_hex_escape(std::string_view pattern, char letter, size_t& at) {
  const bool braced = letter == 'x' && pattern.substr(at).starts_with('{');
  size_t i = at + braced;
  const size_t most = braced ? 8 : letter == 'x' ? 2 : 4;
  uint32_t value = 0;
  size_t digits = 0;
  for (; digits < most && i < pattern.size() && hex_digit(pattern[i]) >= 0; ++i, ++digits)
    value = value * 16 + static_cast<uint32_t>(hex_digit(pattern[i]));
  if (digits == 0 || (!braced && digits < most) || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    return std::nullopt;
  if (braced && (i == pattern.size() || pattern[i++] != '}')) return std::nullopt;
  at = i;
  return value;
}

// Replaces each escape that denotes a character with that character. Escapes of characters that have a special meaning
// in regular expressions are kept.
std::string without_escapes(std::string_view pattern) {
  constexpr std::string_view kLetters = "rntfve", kCharacters = "\r\n\t\f\v\x1b", kMeaning = "\\^$.|?*+()[]{}-&";
  std::string out;
  const auto put = [&](uint32_t character) {
    if (character < 0x80 && kMeaning.find(static_cast<char>(character)) != std::string_view::npos) out += '\\';
    append_utf8(character, out);
  };
  for (size_t i = 0; i < pattern.size();) {
    const char c = pattern[i++];
    if (c != '\\' || i == pattern.size()) {
      out += c;
      continue;
    }
    const char letter = pattern[i++];
    const bool is_name =
        (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
    if (const size_t known = kLetters.find(letter); known != std::string_view::npos) {
      out += kCharacters[known];
    } else if (const auto code = letter == 'x' || letter == 'u' ? read_hex_escape(pattern, letter, i) : std::nullopt) {
      put(*code);
    } else if (is_name || static_cast<unsigned char>(letter) >= 0x80) {
      (out += c) += letter;
    } else {
      put(static_cast<unsigned char>(letter));
    }
  }
  return out;
}
#undef CONTRACTIONS
#undef SPELLED_CONTRACTIONS
#undef SPACES
#undef HALVED_SPACES
#undef SIGNS
#undef CASED

struct StageName {
  SplitStage stage;
  std::string_view name;
};
constexpr StageName kStageNames[] = {
    {kGpt2, "gpt-2"},
    {kLlama3, "llama-bpe"},
    {kQwen2, "qwen2"},
    {kJais2, "jais-2"},
    {kNumberRunWords, "number-run-words"},
    {kSeedCoder, "seed-coder"},
    {kQwen35, "qwen35"},
    {kPhrases, "phrases"},
    {kTekken, "tekken"},
    {kGpt4o, "gpt-4o"},
    {kKimi, "kimi-k2"},
    {kYoutu, "youtu"},
    {kDeepseek3, "deepseek-words"},
    {kBloom, "bloom"},
    {kEachNumber, "each-number"},
    {kNumberRuns, "number-runs"},
    {kNumberTriples, "number-triples"},
    {kThreeDigits, "three-digits"},
    {kEachNewline, "each-newline"},
    {kLines, "lines"},
    {kSpacedLetters, "spaced-letters"},
    {kSpacedPunctuation, "spaced-punctuation"},
    {kDeepseekLetters, "deepseek-letters"},
    {kDeepseekMarks, "deepseek-marks"},
    {kTrailingSpace, "trailing-space"},
    {kDeepseekAsian, "deepseek-asian"},
    {kAsian, "asian"},
    {kMarks, "marks"},
    {kMarksAndBackticks, "marks-and-backticks"},
    {kDigitGroups, "digit-groups"},
    {kWholeNumberGroups, "whole-number-groups"},
    {kEachMark, "each-mark"},
    {kYoutuScripts, "youtu-scripts"},
    {kAfmoeDigits, "afmoe-digits"},
    {kAfmoeScripts, "afmoe-scripts"},
    {kSentinels, "sentinels"},
    {kImageCodes, "image-codes"},
    {kEvenSpaces, "even-spaces"},
    {kPunctuation, "punctuation"},
    {kEachByteNumber, "each-byte-number"},
    {kByteNumberRuns, "byte-number-runs"},
};

}  // namespace

const PreTokenizerTraits* find_pretokenizer(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, &PreTokenizerTraits::name);
  return found != std::end(kNames) ? found : nullptr;
}

NormalForm normal_form_of_pretokenizer(std::string_view name) {
  return std::ranges::find(kComposed, name) != std::end(kComposed) ? NormalForm::kNfc : NormalForm::kNone;
}

std::optional<SplitStage> find_split_stage(std::string_view pattern) {
  const std::string wanted = without_escapes(pattern);
  const auto found =
      std::ranges::find(kPatterns, wanted, [](const Pattern& one) { return without_escapes(one.expression); });
  if (found == std::end(kPatterns)) return std::nullopt;
  return found->stage;
}

bool matches_everything(SplitStage stage) { return stage <= kYoutu; }

std::string_view split_stage_name(SplitStage stage) {
  const auto found = std::ranges::find(kStageNames, stage, &StageName::stage);
  return found != std::end(kStageNames) ? found->name : std::string_view();
}

std::optional<SplitStage> split_stage_of_name(std::string_view name) {
  const auto found = std::ranges::find(kStageNames, name, &StageName::name);
  if (found == std::end(kStageNames)) return std::nullopt;
  return found->stage;
}

}  // namespace monolith
