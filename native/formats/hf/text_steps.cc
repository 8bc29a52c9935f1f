#include "formats/hf/text_steps.h"

#include "formats/gguf/parser.h"
#include "text/tokenizer/pretokenizer.h"

namespace monolith::hf {
namespace {

constexpr std::string_view kEscapedSpace = "▁";

// Collects the steps of a "Sequence", or the single step. Nested sequences are flattened.
void add_steps(const JsonValue& value, std::string_view list, int depth, std::vector<JsonValue>& steps) {
  constexpr int kMaxDepth = 8;
  if (!value.exists()) return;
  if (value["type"].text() != "Sequence" || depth == kMaxDepth) return steps.push_back(value);
  for (size_t i = 0; i < value[list].items().size(); ++i) add_steps(value[list].item(i), list, depth + 1, steps);
}

std::vector<JsonValue> steps_of(const JsonValue& value, std::string_view list) {
  std::vector<JsonValue> steps;
  add_steps(value, list, 0, steps);
  return steps;
}

// A pattern is an object, either {"Regex": "..."} or {"String": "..."}.
std::string_view literal(const JsonValue& pattern) { return pattern["String"].text(); }
std::string_view expression(const JsonValue& pattern) { return pattern["Regex"].text(); }

Error not_supported(const JsonValue& step) {
  return step["type"].unsupported("is " + in_quotes(step["type"].text()) + ", which is not supported here");
}

class Reader {
 public:
  explicit Reader(const JsonValue& tokenizer)
      : tokenizer_(tokenizer), unigram_(tokenizer["model"]["type"].text() == "Unigram") {}

  Result<TextSteps> read() {
    const auto splitting = steps_of(tokenizer_["pre_tokenizer"], "pretokenizers");
    for (const JsonValue& step : splitting) steps_.byte_level |= step["type"].text() == "ByteLevel";
    for (const JsonValue& step : steps_of(tokenizer_["normalizer"], "normalizers")) {
      if (Status status = normalize(step); !status) return status.error();
      steps_.normalizes = true;
    }
    for (const JsonValue& step : splitting) {
      Status status = steps_.byte_level ? split_bytes(step) : split_pieces(step);
      if (!status) return status.error();
    }
    for (const JsonValue& step : steps_of(tokenizer_["decoder"], "decoders"))
      if (Status status = decode(step); !status) return status.error();
    if (!steps_.byte_level && !replaces_spaces_)
      return tokenizer_["pre_tokenizer"].unsupported(
          "leaves spaces as they are: neither ByteLevel nor Metaspace, and no normalizer replaces them by '▁'");
    if (steps_.stages.size() > PreTokenizer::kMaxStages)
      return tokenizer_["pre_tokenizer"].unsupported("has more than " + std::to_string(PreTokenizer::kMaxStages) +
                                                     " steps");
    return steps_;
  }

 private:
  Status normalize(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    if (const auto form = normal_form_of_name(type)) return set_normal_form(step, *form);
    if (steps_.byte_level) return not_supported(step);
    if (type == "Prepend") {
      if (step["prepend"].text() != kEscapedSpace) return step["prepend"].unsupported("is not '▁'");
      steps_.space_prefix = true;
      return {};
    }
    if (type == "Replace") return replace(step);
    if (type == "Precompiled" && unigram_ && !steps_.normalizes) {
      steps_.charsmap = step["precompiled_charsmap"].text();
      return {};
    }
    return not_supported(step);
  }

  // Rejects the compatibility forms (NFKC, NFKD) after a replacement step, because they can produce new spaces that the
  // replacement step would have missed.
  Status set_normal_form(const JsonValue& step, NormalForm form) {
    const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
    if ((steps_.normalizes && compatible) || !steps_.charsmap.empty() || steps_.normal_form != NormalForm::kNone)
      return step["type"].unsupported("is " + in_quotes(step["type"].text()) +
                                      " after another step, which is not supported here");
    steps_.normal_form = form;
    return {};
  }

  Status replace(const JsonValue& step) {
    const std::string_view by = step["content"].text();
    if (literal(step["pattern"]) == " " && by == kEscapedSpace) {
      replaces_spaces_ = true;
      return {};
    }
    const std::string_view runs = expression(step["pattern"]);
    if (unigram_ && runs == " {2,}" && !replaces_spaces_ && (by == " " || by == kEscapedSpace)) {
      steps_.collapses_spaces = true;
      return {};
    }
    return step["pattern"].unsupported("replaces " + in_quotes(runs.empty() ? literal(step["pattern"]) : runs) +
                                       " by " + in_quotes(by) + ", which is not supported here");
  }

  Status split_bytes(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    if (type == "ByteLevel") {
      if (is_bytes_) return step["type"].unsupported("is 'ByteLevel' a second time");
      auto prefix = step["add_prefix_space"].boolean(), regex = step["use_regex"].boolean();
      if (!prefix) return prefix.error();
      if (!regex) return regex.error();
      if (prefix->value_or(true)) return step["add_prefix_space"].unsupported("is true, which is not supported here");
      if (regex->value_or(true)) push(SplitStage::kGpt2);
      is_bytes_ = true;
      return {};
    }
    if (type == "Digits") {
      auto single = step["individual_digits"].boolean();
      if (!single) return single.error();
      if (is_bytes_)
        push(single->value_or(false) ? SplitStage::kEachByteNumber : SplitStage::kByteNumberRuns);
      else
        push(single->value_or(false) ? SplitStage::kEachNumber : SplitStage::kNumberRuns);
      return {};
    }
    if (type == "Split") return split_by_expression(step);
    if (is_bytes_ || type != "Punctuation") return not_supported(step);
    if (const std::string_view how = step["behavior"].text(); how != "Contiguous")
      return step["behavior"].unsupported("is " + in_quotes(how) + ", which is not supported here");
    push(SplitStage::kPunctuation);
    return {};
  }

  Status split_by_expression(const JsonValue& step) {
    const std::string_view how = step["behavior"].text();
    auto invert = step["invert"].boolean();
    if (!invert) return invert.error();
    const std::string_view pattern = expression(step["pattern"]);
    const auto stage = find_split_stage(pattern);
    // After ByteLevel, the text consists of the characters that GPT-2 uses to represent bytes. In this alphabet, ASCII
    // digits represent themselves.
    if (!stage || (is_bytes_ && *stage != SplitStage::kThreeDigits))
      return step["pattern"].unsupported("splits by a regular expression that is not supported: " +
                                         in_quotes(pattern.empty() ? literal(step["pattern"]) : pattern, 500));
    // "Removed" with "invert" drops the text between two matches. It drops nothing if the expression matches every
    // character.
    const bool keeps_matches = how == "Removed" && invert->value_or(false) && matches_everything(*stage);
    if (how != "Isolated" && !keeps_matches)
      return step["behavior"].unsupported("is " + in_quotes(how) + ", which is not supported here");
    push(*stage);
    return {};
  }

  Status split_pieces(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    // Gemma's pre-tokenizer splits at spaces, but its normalizer has already replaced all spaces, so the step has no
    // effect.
    if (type == "Split" && literal(step["pattern"]) == " " && replaces_spaces_) return {};
    // The normalization table has replaced all white space by spaces.
    if (type == "WhitespaceSplit" && unigram_ && !replaces_spaces_ && !steps_.charsmap.empty()) {
      steps_.splits_whitespace = true;
      return {};
    }
    if (type != "Metaspace") return not_supported(step);
    const JsonValue replacement = step["replacement"];
    if (replacement.exists() && replacement.text() != kEscapedSpace) return replacement.unsupported("is not '▁'");
    auto split = step["split"].boolean();
    if (!split) return split.error();
    replaces_spaces_ = true;
    steps_.words_apart = split->value_or(true);
    auto scheme = prepend_scheme(step);
    if (!scheme) return scheme.error();
    if (*scheme == "never") return {};
    if (steps_.space_prefix) return step["type"].unsupported("is 'Metaspace' after the normalizer 'Prepend'");
    steps_.space_prefix = true;
    steps_.prefix_spared = true;
    steps_.prefix_once = *scheme == "first";
    return {};
  }

  // Returns the prepend scheme of a "Metaspace" step. Files from before 2024 have add_prefix_space instead.
  static Result<std::string> prepend_scheme(const JsonValue& step) {
    auto old_prefix = step["add_prefix_space"].boolean();
    if (!old_prefix) return old_prefix.error();
    const std::string_view scheme = step["prepend_scheme"].text();
    if (scheme.empty()) return std::string(old_prefix->value_or(true) ? "always" : "never");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return step["prepend_scheme"].unsupported("is " + in_quotes(scheme));
    return std::string(scheme);
  }

  Status decode(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    if (type == "Fuse") return {};
    if (steps_.byte_level) return type == "ByteLevel" ? Status() : not_supported(step);
    if (type == "ByteFallback") return {};
    if (type == "Replace" && literal(step["pattern"]) == kEscapedSpace && step["content"].text() == " ") return {};
    if (type == "Metaspace") {
      auto scheme = prepend_scheme(step);
      if (!scheme) return scheme.error();
      steps_.strips_first_space |= *scheme != "never";
      return {};
    }
    if (type != "Strip") return not_supported(step);
    auto start = step["start"].integer(), stop = step["stop"].integer();
    if (!start) return start.error();
    if (!stop) return stop.error();
    if (step["content"].text() != " " || start->value_or(0) > 1 || stop->value_or(0) != 0)
      return step["type"].unsupported("is 'Strip' of more than one space at the start");
    steps_.strips_first_space |= start->value_or(0) == 1;
    return {};
  }

  void push(SplitStage stage) { steps_.stages.emplace_back(split_stage_name(stage)); }

  JsonValue tokenizer_;
  bool unigram_;
  bool replaces_spaces_ = false;  // Whether a step replaces spaces with "▁".
  bool is_bytes_ = false;         // Whether a ByteLevel step has been read.
  TextSteps steps_;
};

}  // namespace

Result<TextSteps> read_text_steps(const JsonValue& tokenizer) { return Reader(tokenizer).read(); }

}  // namespace monolith::hf
