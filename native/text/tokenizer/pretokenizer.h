// Splits text into the words within which BPE merges, as the regular expressions do that a model's
// pre-tokenizer consists of. Hand-written: linear time, no backtracking, no allocation, constant
// stack. Pure functions: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "text/tokenizer/normalization.h"

namespace monolith {

// One regular expression. Its matches become pieces of their own, and so does what lies between two
// of them. The expressions stand in split_words.h and split_parts.h beside the code.
enum class SplitStage : uint8_t {
  // Whole words. Expressions up to kYoutu match every character of a text.
  kGpt2,
  kLlama3,
  kQwen2,
  kJais2,
  kNumberRunWords,
  kSeedCoder,
  kQwen35,
  kPhrases,
  kTekken,
  kGpt4o,
  kKimi,
  kYoutu,
  kDeepseek3,
  kBloom,
  // Parts.
  kEachNumber,
  kNumberRuns,
  kNumberTriples,
  kThreeDigits,
  kEachNewline,
  kLines,
  kSpacedLetters,
  kSpacedPunctuation,
  kDeepseekLetters,
  kDeepseekMarks,
  kTrailingSpace,
  kDeepseekAsian,
  kAsian,
  kMarks,
  kMarksAndBackticks,
  kEachMark,
  kDigitGroups,
  kWholeNumberGroups,
  kYoutuScripts,
  kAfmoeDigits,
  kAfmoeScripts,
  kSentinels,
  kImageCodes,
  kEvenSpaces,
  // Steps of tokenizer.json files that are no regular expressions.
  kPunctuation,
  kEachByteNumber,
  kByteNumberRuns,
};

// Stages applied one after the other: each splits further what those before it have left.
class PreTokenizer {
 public:
  static constexpr size_t kMaxStages = 8;

  constexpr PreTokenizer() = default;
  constexpr PreTokenizer(std::initializer_list<SplitStage> stages) {
    for (const SplitStage stage : stages) stages_[size_++] = stage;
  }
  // False if there are kMaxStages already.
  bool push(SplitStage stage) {
    if (size_ == kMaxStages) return false;
    stages_[size_++] = stage;
    return true;
  }
  constexpr size_t size() const { return size_; }
  constexpr SplitStage operator[](size_t i) const { return stages_[i]; }

 private:
  std::array<SplitStage, kMaxStages> stages_{};
  uint8_t size_ = 0;
};

// What a name in tokenizer.ggml.pre stands for: its way of splitting, and what llama.cpp ties to
// it.
struct PreTokenizerTraits {
  std::string_view name;
  PreTokenizer splitter;
  bool whole_words_first = false;  // a word that is a token is not merged ("ignore_merges")
  bool adds_bos = false;           // unless the file says otherwise
  bool cleans_up_spaces = true;    // when decoding
};

// Null if the name is unknown.
const PreTokenizerTraits* find_pretokenizer(std::string_view name);

// How the published tokenizer.json of the models that use pre-tokenizer `name` normalizes text. llama.cpp leaves this
// step out, and GGUF has no key for it.
NormalForm normal_form_of_pretokenizer(std::string_view name);

// The stage that splits as the regular expression `pattern` of a tokenizer.json does with the behaviour "Isolated";
// nothing if it is not a known one. Escapes count as the characters that they stand for.
std::optional<SplitStage> find_split_stage(std::string_view pattern);
// Whether the stage's expression matches every character of any text.
bool matches_everything(SplitStage stage);

// Names of stages, for metadata. Empty view, or nothing, if there is no such stage.
std::string_view split_stage_name(SplitStage stage);
std::optional<SplitStage> split_stage_of_name(std::string_view name);

// Calls emit(context, word) for each word, in order; the words joined are `text`.
using EmitWord = void (*)(void* context, std::string_view word);
void pretokenize(const PreTokenizer& splitter, std::string_view text, EmitWord emit, void* context);

}  // namespace monolith
