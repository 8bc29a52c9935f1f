#include "text/tokenizer/byte_level_bpe.h"

#include <algorithm>
#include <string>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/unicode.h"

namespace monolith {

namespace {

// Returns the pre-tokenizer that the tokenizer's description specifies, either by name or as a list of stages.
Result<PreTokenizerTraits> find_traits(const TokenizerSpec& spec) {
  if (spec.split_stages) {
    PreTokenizerTraits traits{
        .name = {}, .splitter = {}, .whole_words_first = spec.ignore_merges.value_or(false), .cleans_up_spaces = false};
    for (const std::string_view name : *spec.split_stages) {
      const auto stage = split_stage_of_name(name);
      if (!stage || !traits.splitter.push(*stage))
        return Error{ErrorCode::kUnsupported,
                     "the file requires the split stage '" + std::string(name.substr(0, 64)) + "' (split_stages), " +
                         (stage ? "which exceeds the maximum number of stages" : "which is not supported")};
    }
    return traits;
  }
  if (const PreTokenizerTraits* traits = find_pretokenizer(spec.pre_tokenizer)) return *traits;
  return Error{ErrorCode::kUnsupported, "the file requires the pre-tokenizer '" +
                                            std::string(spec.pre_tokenizer.substr(0, 64)) +
                                            "' (tokenizer.ggml.pre), which is not supported"};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> ByteLevelBpe::build(const TokenizerSpec& spec) {
  auto traits = find_traits(spec);
  if (!traits) return traits.error();
  if (!spec.merges)
    return Error{ErrorCode::kInvalidFile, "the file has no merge list: tokenizer.ggml.merges is missing"};
  auto vocabulary = Vocabulary::build(spec, SpellingStyle::kByteLevel);
  if (!vocabulary) return vocabulary.error();
  return std::unique_ptr<Tokenizer>(new ByteLevelBpe(std::move(vocabulary).value(), *traits, *spec.merges));
}

ByteLevelBpe::ByteLevelBpe(std::unique_ptr<const Vocabulary> owned, const PreTokenizerTraits& traits,
                           const std::vector<std::string_view>& merges)
    : Tokenizer(std::move(owned), {.add_bos = traits.adds_bos,
                                   .cleans_up_spaces = traits.cleans_up_spaces,
                                   .normal_form = normal_form_of_pretokenizer(traits.name)}),
      traits_(traits),
      merges_(merges.size()),
      words_(vocabulary().all_bytes(), static_cast<size_t>(vocabulary().size())),
      whole_words_(new std::atomic<WholeWord>[static_cast<size_t>(vocabulary().size())]()) {
  const Vocabulary& tokens = vocabulary();
  std::string scratch;
  for (size_t byte = 0; byte < 256; ++byte) {
    scratch.clear();
    append_utf8(kCharacterOfByte[byte], scratch);
    const TokenId id = tokens.find(scratch);
    byte_symbols_[byte] = id != kNoToken && tokens.is_ordinary(id) ? id : -1;
  }
  // Each line is "left right". A valid file has no merge with an unknown operand or result; such lines are skipped, and
  // their ranks remain unused. Most files number the tokens in merge order, so the next token ID is tried before a
  // lookup.
  uint32_t rank = 0;
  TokenId next = 0;
  for (const std::string_view line : merges) {
    const uint32_t line_rank = rank++;
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos || line.size() > kMaxTokenBytes + 1) continue;
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    const TokenId left_id = tokens.find(left), right_id = tokens.find(right);
    if (left_id == kNoToken || right_id == kNoToken) continue;
    scratch.assign(left).append(right);
    const bool in_order = next < tokens.size() && tokens.spelling(next) == scratch;
    const TokenId result = in_order ? next : tokens.find(scratch);
    next = result + 1;
    if (result == kNoToken || !tokens.is_ordinary(result)) continue;
    merges_.insert(left_id, right_id, {line_rank, result});
  }
  // If two tokens have the same bytes, the first one is kept. Such duplicates occur only with unusual spellings.
  for (TokenId id = 0; id < tokens.size(); ++id)
    if (tokens.kind(id) == TokenKind::kNormal && !tokens.bytes(id).empty()) words_.insert(id);
}

// Encodes the words of one ByteLevelBpe::encode() call. The pre-tokenizer calls WordEncoder::encode() for each word.
struct ByteLevelBpe::WordEncoder {
  const ByteLevelBpe& bpe;
  std::vector<TokenId>& out;
  std::vector<Symbol> symbols = {};
  Merger merger = {};

  // Vocabularies trained on clean text may lack the bytes that never occur in valid UTF-8. Each of these bytes is
  // encoded as U+FFFD. Any other byte without a token is dropped, as in llama.cpp.
  void put_byte(unsigned char byte) {
    const Symbol symbol = bpe.byte_symbols_[byte];
    const bool never_utf8 = byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;
    if (symbol >= 0 || !never_utf8) return symbols.push_back(symbol);
    for (const unsigned char part : {0xEF, 0xBF, 0xBD}) symbols.push_back(bpe.byte_symbols_[part]);
  }

  void encode(std::string_view word) {
    const TokenId whole = word.size() <= kMaxTokenBytes ? bpe.words_.find(word) : kNoToken;
    std::atomic<WholeWord>* known = nullptr;
    if (whole != kNoToken) {
      if (bpe.traits_.whole_words_first) return out.push_back(whole);
      known = &bpe.whole_words_[static_cast<size_t>(whole)];
      const WholeWord answer = known->load(std::memory_order_relaxed);
      if (answer == WholeWord::kYes) return out.push_back(whole);
      if (answer == WholeWord::kNo) known = nullptr;
    }
    symbols.clear();
    for (const char c : word) put_byte(static_cast<unsigned char>(c));
    merger.merge(bpe.merges_, symbols);
    if (known) {
      const bool yes = symbols.size() == 1 && symbols[0] == whole;
      known->store(yes ? WholeWord::kYes : WholeWord::kNo, std::memory_order_relaxed);
    }
    for (const Symbol symbol : symbols)
      if (symbol >= 0) out.push_back(symbol);
  }
};

void ByteLevelBpe::encode_prepared(std::string_view text, bool, std::vector<TokenId>& out) const {
  WordEncoder encoder{*this, out};
  pretokenize(
      traits_.splitter, text,
      [](void* context, std::string_view word) { static_cast<WordEncoder*>(context)->encode(word); }, &encoder);
}

}  // namespace monolith
