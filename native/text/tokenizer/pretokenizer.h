// Splits text into the words within which BPE merges, following the regular expressions of a model's pre-tokenizer. The
// matchers are hand-written: they take linear time, do not backtrack or allocate, and use constant stack space. Pure
// functions that may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "text/tokenizer/normalization.h"

namespace monolith {

// A split stage implements one regular expression. Each match becomes a separate word, and so does the text between two
// matches. The expressions are documented in split_words.h and split_parts.h, next to their code.
enum class SplitStage : uint8_t {
  // Stages that split text into words. The expressions up to kYoutu match every character of any text.
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
  // Stages that isolate parts of a text.
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
  // Steps of a tokenizer.json that are not regular expressions.
  kPunctuation,
  kEachByteNumber,
  kByteNumberRuns,
};

// A sequence of stages, each of which further splits the output of the previous stage.
class PreTokenizer {
 public:
  static constexpr size_t kMaxStages = 8;

  constexpr PreTokenizer() = default;
  constexpr PreTokenizer(std::initializer_list<SplitStage> stages) {
    for (const SplitStage stage : stages) stages_[size_++] = stage;
  }
  // Returns false if there are already kMaxStages stages.
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

// The meaning of a value of tokenizer.ggml.pre: how text is split, and the options that llama.cpp associates with that
// value.
struct PreTokenizerTraits {
  std::string_view name;
  PreTokenizer splitter;
  bool whole_words_first = false;  // Words that are tokens are not merged ("ignore_merges").
  bool adds_bos = false;           // Default; the description overrides it.
  bool cleans_up_spaces = true;    // Used in decoding.
};

// Returns null if the name is unknown.
const PreTokenizerTraits* find_pretokenizer(std::string_view name);

// Returns the Unicode normalization for pre-tokenizer `name`, as specified in the published tokenizer.json files of
// models that use it. llama.cpp does not normalize, and GGUF has no key for the normalization.
NormalForm normal_form_of_pretokenizer(std::string_view name);

// Returns the stage that implements the regular expression `pattern` of a "Split" step with behavior "Isolated" in a
// tokenizer.json, or nullopt if the pattern is unknown. In patterns, an escape is equivalent to the character that it
// denotes.
std::optional<SplitStage> find_split_stage(std::string_view pattern);
// Returns whether every character of any text belongs to a match of the stage's expression.
bool matches_everything(SplitStage stage);

// Conversion between stages and their names in metadata. For an unknown stage or name, these functions return an empty
// view or nullopt.
std::string_view split_stage_name(SplitStage stage);
std::optional<SplitStage> split_stage_of_name(std::string_view name);

// Calls emit(context, word) for each word, in order. The concatenation of all words is equal to `text`.
using EmitWord = void (*)(void* context, std::string_view word);
void pretokenize(const PreTokenizer& splitter, std::string_view text, EmitWord emit, void* context);

}  // namespace monolith
