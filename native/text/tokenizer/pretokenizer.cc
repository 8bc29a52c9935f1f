#include "text/tokenizer/pretokenizer.h"

#include "text/tokenizer/split_parts.h"
#include "text/tokenizer/split_words.h"

namespace monolith {
namespace {

using namespace pretokenizing;

template <typename Emit>
void split_stage(SplitStage stage, std::string_view text, Emit emit) {
  switch (stage) {
    case SplitStage::kGpt2: return split_gpt2(text, emit);
    case SplitStage::kLlama3: return split_words<WordRules{.max_digits = 3}>(text, emit);
    case SplitStage::kJais2: return split_words<WordRules{.halved_spaces = true, .max_digits = 3}>(text, emit);
    case SplitStage::kQwen2: return split_words<WordRules{}>(text, emit);
    case SplitStage::kNumberRunWords: return split_words<WordRules{.max_digits = 0}>(text, emit);
    case SplitStage::kSeedCoder: return split_words<WordRules{.signs_take_newlines = false}>(text, emit);
    case SplitStage::kQwen35: return split_words<WordRules{.marks_are_letters = true}>(text, emit);
    case SplitStage::kPhrases: return split_words<WordRules{.phrases = true}>(text, emit);
    case SplitStage::kTekken: return split_by_case<1, false, false>(text, emit);
    case SplitStage::kGpt4o: return split_by_case<3, true, false>(text, emit);
    case SplitStage::kKimi: return split_by_case<3, true, true>(text, emit);
    case SplitStage::kYoutu: return split_by_case<1, true, false>(text, emit);
    case SplitStage::kDeepseek3: return split_deepseek3(text, emit);
    case SplitStage::kBloom: {  // ?[^(\s|.,!?…。，、।۔،)]+
      static const CodePoints ends("(|.,!?…。，、।۔،)");
      return isolate_runs<Before::kSpace>(
          text, [](const Char& c) { return !c.is(CharClass::kSpace) && !ends.has(c.code_point); }, emit);
    }
    case SplitStage::kEachNumber: return isolate_each(text, is_number, emit);
    case SplitStage::kNumberRuns: return isolate_runs<Before::kNothing>(text, is_number, emit);
    case SplitStage::kNumberTriples: return isolate_number_triples(text, emit);
    case SplitStage::kThreeDigits: return isolate_three_digits(text, emit);
    case SplitStage::kDigitGroups: return group_digits<false>(text, emit);
    case SplitStage::kWholeNumberGroups: return group_digits<true>(text, emit);
    case SplitStage::kYoutuScripts: return isolate_scripts(text, emit);
    case SplitStage::kEachNewline: return isolate_each(text, is_newline, emit);
    case SplitStage::kLines: return split_lines(text, emit);
    case SplitStage::kSpacedLetters:  // \s?\p{L}+
      return isolate_runs<Before::kWhiteSpace>(text, is_letter, emit);
    case SplitStage::kSpacedPunctuation:  // \s?\p{P}+
      return isolate_runs<Before::kWhiteSpace>(
          text, [](const Char& c) { return c.is(CharClass::kPunctuation); }, emit);
    case SplitStage::kDeepseekLetters:  // \s?[A-Za-zµÀ-Ö...]+
      return isolate_runs<Before::kWhiteSpace>(
          text, [](const Char& c) { return deepseek_letters().has(c.code_point); }, emit);
    case SplitStage::kDeepseekMarks: {  // \s?[!-/:-~！-／：-～‘-‟　-。]+
      static const CodePoints marks("!-/:-~！-／：-～‘-‟　-。");
      return isolate_runs<Before::kWhiteSpace>(
          text, [](const Char& c) { return marks.has(c.code_point); }, emit);
    }
    case SplitStage::kTrailingSpace: return isolate_trailing_space(text, emit);
    case SplitStage::kDeepseekAsian:  // [一-龥ࠀ-一가-퟿]+
      return isolate_runs<Before::kNothing>(
          text,
          [](const Char& c) {
            return (c.code_point >= 0x0800 && c.code_point <= 0x9FA5) ||
                   (c.code_point >= 0xAC00 && c.code_point <= 0xD7FF);
          },
          emit);
    case SplitStage::kAsian:  // [一-龥぀-ゟ゠-ヿ]+
      return isolate_runs<Before::kNothing>(
          text,
          [](const Char& c) {
            return (c.code_point >= 0x4E00 && c.code_point <= 0x9FA5) ||
                   (c.code_point >= 0x3040 && c.code_point <= 0x30FF);
          },
          emit);
    case SplitStage::kAfmoeDigits: return group_numbers(text, emit);
    case SplitStage::kAfmoeScripts: {  // [一-鿿㐀-䶿...]+: scripts written without spaces.
      static const CodePoints scripts(
          "一-鿿㐀-䶿豈-\uFAFF぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-\u0E7F\u0E80-\u0EFFក-\u17FFက-႟ꩠ-ꩿ\uA9E0-"
          "\uA9FF가-"
          "\uD7AFᄀ-"
          "ᇿ");
      return isolate_runs<Before::kNothing>(
          text, [](const Char& c) { return c.code_point >= 0x0E00 && scripts.has(c.code_point); }, emit);
    }
    case SplitStage::kSentinels:  // <sentinel:[0-9]+>
      return isolate_matches(
          text, [](std::string_view at) { return framed(at, "<sentinel:", '0', '9', SIZE_MAX, '>'); }, emit);
    case SplitStage::kImageCodes:  // IMGIMG[A-I]{1,4}Z
      return isolate_matches(
          text, [](std::string_view at) { return framed(at, "IMGIMG", 'A', 'I', 4, 'Z'); }, emit);
    case SplitStage::kEvenSpaces: return isolate_matches(text, even_spaces, emit);
    case SplitStage::kEachMark: return isolate_each(text, is_mark<true>, emit);  // [\p{P}!-/:-@\[-`{-~]
    case SplitStage::kMarks: return isolate_runs<Before::kNothing>(text, is_mark<false>, emit);
    case SplitStage::kPunctuation: return isolate_runs<Before::kNothing>(text, is_library_punctuation, emit);
    case SplitStage::kEachByteNumber: return isolate_byte_numbers<false>(text, emit);
    case SplitStage::kByteNumberRuns: return isolate_byte_numbers<true>(text, emit);
    case SplitStage::kMarksAndBackticks: return isolate_runs<Before::kNothing>(text, is_mark<true>, emit);
  }
}

// The recursion depth is the number of stages, which is at most kMaxStages.
void split_from(const PreTokenizer& splitter, size_t stage, std::string_view text, EmitWord emit, void* context) {
  if (stage + 1 >= splitter.size()) {
    if (splitter.size() == 0) return text.empty() ? void() : emit(context, text);
    return split_stage(splitter[stage], text, [=](std::string_view word) { emit(context, word); });
  }
  split_stage(splitter[stage], text, [&splitter, stage, emit, context](std::string_view piece) {
    split_from(splitter, stage + 1, piece, emit, context);
  });
}

}  // namespace

void pretokenize(const PreTokenizer& splitter, std::string_view text, EmitWord emit, void* context) {
  split_from(splitter, 0, text, emit, context);
}

}  // namespace monolith
