#include "formats/hf/text_steps.h"

#include "formats/gguf/parser.h"
#include "text/tokenizer/pretokenizer.h"

namespace monolith::hf {
namespace {

constexpr std::string_view kEscapedSpace = "▁";

// The steps of a "Sequence", or the one that stands alone; nested sequences are not in use.
std::vector<JsonValue> steps_of(const JsonValue& value, std::string_view list) {
  std::vector<JsonValue> steps;
  if (!value.exists()) return steps;
  if (value["type"].text() != "Sequence") return {value};
  for (size_t i = 0; i < value[list].items().size(); ++i) steps.push_back(value[list].item(i));
  return steps;
}

// A pattern is {"Regex": "..."} or {"String": "..."}.
std::string_view literal(const JsonValue& pattern) { return pattern["String"].text(); }
std::string_view expression(const JsonValue& pattern) { return pattern["Regex"].text(); }

Error not_translated(const JsonValue& step) {
  return step["type"].unsupported("is " + quoted(step["type"].text()) + ", which is not translated");
}

class Reader {
 public:
  explicit Reader(const JsonValue& tokenizer) : tokenizer_(tokenizer) {}

  Result<TextSteps> read() {
    const auto splitting = steps_of(tokenizer_["pre_tokenizer"], "pretokenizers");
    for (const JsonValue& step : splitting) steps_.byte_level |= step["type"].text() == "ByteLevel";
    for (const JsonValue& step : steps_of(tokenizer_["decoder"], "decoders"))
      steps_.byte_level |= step["type"].text() == "ByteLevel";
    for (const JsonValue& step : steps_of(tokenizer_["normalizer"], "normalizers"))
      if (Status status = normalize(step); !status) return status.error();
    for (const JsonValue& step : splitting) {
      Status status = steps_.byte_level ? split_bytes(step) : split_pieces(step);
      if (!status) return status.error();
    }
    if (steps_.stages.size() > PreTokenizer::kMaxStages)
      return tokenizer_["pre_tokenizer"].unsupported("has more than " + std::to_string(PreTokenizer::kMaxStages) +
                                                     " steps");
    return steps_;
  }

 private:
  Status normalize(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    // Text comes composed nearly always; GGUF's converters and engines leave this step out as well.
    if (type == "NFC") return {};
    if (steps_.byte_level) return not_translated(step);
    if (type == "Prepend" && step["prepend"].text() == kEscapedSpace) {
      steps_.space_prefix = true;
      return {};
    }
    if (type == "Replace") {
      const std::string_view by = step["content"].text();
      if (literal(step["pattern"]) == " " && by == kEscapedSpace) return {};
      const std::string_view runs = expression(step["pattern"]);
      if ((runs == " {2,}" || runs == "\\s{2,}") && (by == " " || by == kEscapedSpace)) {
        steps_.merges_spaces = true;
        return {};
      }
      return step["pattern"].unsupported("replaces " + quoted(runs.empty() ? literal(step["pattern"]) : runs) +
                                         ", which is not translated");
    }
    if (type == "Precompiled") {
      steps_.charsmap = step["precompiled_charsmap"].text();
      return {};
    }
    if (type == "Strip") {
      steps_.merges_spaces = true;
      return {};
    }
    return not_translated(step);
  }

  Status split_bytes(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    if (type == "ByteLevel") {
      auto prefix = step["add_prefix_space"].boolean(), regex = step["use_regex"].boolean();
      if (!prefix) return prefix.error();
      if (!regex) return regex.error();
      if (prefix->value_or(true)) return step["add_prefix_space"].unsupported("is true, which is not translated");
      if (regex->value_or(true)) push(SplitStage::kGpt2);
      return {};
    }
    if (type == "Digits") {
      auto single = step["individual_digits"].boolean();
      if (!single) return single.error();
      push(single->value_or(false) ? SplitStage::kEachNumber : SplitStage::kNumberRuns);
      return {};
    }
    if (type == "Punctuation") {
      if (const std::string_view how = step["behavior"].text(); how != "Contiguous")
        return step["behavior"].unsupported("is " + quoted(how) + ", which is not translated");
      push(SplitStage::kMarksAndBackticks);
      return {};
    }
    if (type != "Split") return not_translated(step);
    return split_by_expression(step);
  }

  Status split_by_expression(const JsonValue& step) {
    const std::string_view how = step["behavior"].text();
    auto invert = step["invert"].boolean();
    if (!invert) return invert.error();
    const std::string_view pattern = expression(step["pattern"]);
    const auto stage = find_split_stage(pattern);
    if (!stage)
      return step["pattern"].unsupported("splits by an expression that this build does not have: " +
                                         quoted(pattern.empty() ? literal(step["pattern"]) : pattern, 500));
    // "Removed" inverted keeps the matches, and the expressions of whole words leave nothing else.
    const bool keeps_matches = how == "Removed" && invert->value_or(false);
    if (how != "Isolated" && !keeps_matches)
      return step["behavior"].unsupported("is " + quoted(how) + ", which is not translated");
    push(*stage);
    return {};
  }

  Status split_pieces(const JsonValue& step) {
    const std::string_view type = step["type"].text();
    if (type == "WhitespaceSplit") {
      steps_.merges_spaces = true;
      return {};
    }
    // Gemma splits at spaces, of which its normalizer has left none.
    if (type == "Split" && literal(step["pattern"]) == " ") return {};
    if (type != "Metaspace") return not_translated(step);
    const JsonValue replacement = step["replacement"];
    if (replacement.exists() && replacement.text() != kEscapedSpace)
      return replacement.unsupported("is not '▁'");
    auto old_prefix = step["add_prefix_space"].boolean();
    if (!old_prefix) return old_prefix.error();
    const std::string_view scheme = step["prepend_scheme"].text();
    if (scheme.empty() ? !old_prefix->value_or(true) : scheme == "never") return {};
    if (!scheme.empty() && scheme != "always" && scheme != "first")
      return step["prepend_scheme"].unsupported("is " + quoted(scheme));
    steps_.space_prefix = true;
    steps_.prefix_spared = true;
    steps_.prefix_once = scheme == "first";
    return {};
  }

  void push(SplitStage stage) { steps_.stages.emplace_back(split_stage_name(stage)); }

  JsonValue tokenizer_;
  TextSteps steps_;
};

}  // namespace

Result<TextSteps> read_text_steps(const JsonValue& tokenizer) { return Reader(tokenizer).read(); }

}  // namespace monolith::hf
