#include "text/tokenizer/tokenizer.h"

#include <algorithm>
#include <string>

#include "text/tokenizer/byte_level_bpe.h"
#include "text/tokenizer/char_reader.h"
#include "text/tokenizer/longest_match.h"
#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/special_matcher.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocabulary.h"
#include "text/tokenizer/word_piece.h"

namespace monolith {
namespace {

constexpr TokenKind kSpecialKinds[] = {TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnknown};
constexpr TokenKind kUserDefinedKinds[] = {TokenKind::kUserDefined};

// Copies `text` to `out` without the code point `guard`, and stores in `positions` the offsets in `out` at which guards
// were removed. If `text` contains no guard, returns false and writes nothing.
bool remove_guards(std::string_view text, char32_t guard, std::string& out, std::vector<size_t>& positions) {
  if (guard == 0 || guard > 0x10FFFF || (guard >= 0xD800 && guard <= 0xDFFF)) return false;
  std::string bytes;
  append_utf8(guard, bytes);
  size_t at = text.find(bytes);
  if (at == std::string_view::npos) return false;
  out.reserve(text.size());
  size_t begin = 0;
  for (; at != std::string_view::npos; at = text.find(bytes, begin)) {
    out.append(text, begin, at - begin);
    positions.push_back(out.size());
    begin = at + bytes.size();
  }
  out.append(text, begin);
  return true;
}

// Returns the length of `text` without its trailing whitespace.
size_t without_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const CharReader reader(text.substr(0, end));
    const Char c = reader.at(begin);
    if (!c.is(CharClass::kSpace) || begin + c.size != end) break;
    end = begin;
  }
  return end;
}

// Returns the IDs of the tokens that consume the whitespace after them, in ascending order.
std::vector<TokenId> phi3_strips_behind(const Vocabulary& vocabulary) {
  constexpr std::string_view kKeep[] = {"<unk>", "<s>", "<|endoftext|>"};
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const bool is_special = std::ranges::find(kSpecialKinds, vocabulary.kind(id)) != std::end(kSpecialKinds);
    const std::string_view spelling = vocabulary.spelling(id);
    if ((is_special || spelling == "</s>") && std::ranges::find(kKeep, spelling) == std::end(kKeep)) ids.push_back(id);
  }
  return ids;
}

enum class Drop { kNothing, kSpaceBefore, kSpacesAround };

// Rewrites `text` in place. For each character that follows a space, `rule` receives the original text from that
// character to the end.
template <typename Rule>
void drop_spaces(std::string& text, Rule rule) {
  size_t written = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    // text[i - 1] still holds the original character, because the write position is behind the read position whenever
    // characters have been dropped.
    const bool after_space = i > 0 && text[i - 1] == ' ';
    const Drop drop = after_space ? rule(std::string_view(text).substr(i)) : Drop::kNothing;
    const char c = text[i];
    if (drop != Drop::kNothing) --written;
    text[written++] = c;
    // Overwrites the space so that the next character does not count as following a space.
    if (drop == Drop::kSpacesAround) text[++i] = '\0';
  }
  text.resize(written);
}

// Hugging Face's clean_up_tokenization_spaces, as llama.cpp applies it to a complete text. Applies three rules in this
// order: remove the space before ? ! . and ,; remove both spaces in " ' "; remove the space before 's 'm 're 've.
void clean_up_spaces(std::string& text) {
  drop_spaces(text, [](std::string_view rest) {
    const char c = rest[0];
    return c == '?' || c == '!' || c == '.' || c == ',' ? Drop::kSpaceBefore : Drop::kNothing;
  });
  drop_spaces(text,
              [](std::string_view rest) { return rest.starts_with("' ") ? Drop::kSpacesAround : Drop::kNothing; });
  drop_spaces(text, [](std::string_view rest) {
    for (const std::string_view suffix : {"'s", "'m", "'re", "'ve"})
      if (rest.starts_with(suffix)) return Drop::kSpaceBefore;
    return Drop::kNothing;
  });
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> Tokenizer::build(const TokenizerSpec& spec) {
  struct Family {
    std::string_view model;
    Result<std::unique_ptr<Tokenizer>> (*build)(const TokenizerSpec& spec);
  };
  constexpr Family kFamilies[] = {{"gpt2", ByteLevelBpe::build},    {"llama", SentencePiece::build},
                                  {"gemma4", SentencePiece::build}, {"whitespace", SentencePiece::build},
                                  {"t5", Unigram::build},           {"bert", WordPiece::build},
                                  {"rwkv", LongestMatch::build}};
  const auto family = std::ranges::find(kFamilies, spec.model, &Family::model);
  if (family == std::end(kFamilies))
    return Error{
        ErrorCode::kUnsupported,
        "the file requires the tokenizer '" + std::string(spec.model.substr(0, 64)) +
            "' (tokenizer.ggml.model); supported are 'gpt2', 'llama', 'gemma4', 'whitespace', 't5', 'bert' and 'rwkv'"};
  auto tokenizer = SentencePiece::lists_pieces(spec) ? SentencePiece::build(spec) : family->build(spec);
  if (!tokenizer) return tokenizer.error();
  for (const auto step : {&Tokenizer::set_added_tokens, &Tokenizer::set_normalization, &Tokenizer::build_matchers})
    if (Status status = ((*tokenizer).get()->*step)(spec); !status) return status.error();
  return std::unique_ptr<const Tokenizer>(std::move(tokenizer).value());
}

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, const Traits& traits)
    : vocabulary_(std::move(vocabulary)),
      normal_form_(traits.normal_form),
      add_bos_(traits.add_bos),
      add_eos_(traits.add_eos),
      insists_on_bos_(traits.insists_on_bos),
      strips_leading_space_(traits.strips_leading_space),
      cleans_up_spaces_(traits.cleans_up_spaces),
      opens_once_(traits.opens_once) {}

Tokenizer::~Tokenizer() = default;

Status Tokenizer::set_added_tokens(const TokenizerSpec& spec) {
  const auto set = [&](std::string_view key, std::optional<bool> value, TokenRole role, bool& flag) -> Status {
    const TokenId id = role == TokenRole::kBos ? bos() : eos();
    if (value.value_or(false) && id == kNoToken)
      return Error{ErrorCode::kInvalidFile,
                   std::string(key) + " is true, but " + std::string(key_of(role)) + " is missing"};
    flag = value.value_or(flag) && id != kNoToken;
    return {};
  };
  Status status = set("tokenizer.ggml.add_bos_token", spec.add_bos_token, TokenRole::kBos, add_bos_);
  if (!status) return status;
  if (insists_on_bos_) add_bos_ = bos() != kNoToken;
  status = set("tokenizer.ggml.add_eos_token", spec.add_eos_token, TokenRole::kEos, add_eos_);
  if (!status) return status;
  auto before = vocabulary_->checked_ids(spec.strip_before_ids, "strip_before_ids"),
       behind = vocabulary_->checked_ids(spec.strip_behind_ids, "strip_behind_ids");
  for (const auto* ids : {&before, &behind})
    if (!*ids) return ids->error();
  strips_before_ = std::move(*before);
  strips_behind_ = spec.strips_behind_special ? phi3_strips_behind(*vocabulary_) : std::move(*behind);
  std::ranges::sort(strips_before_);
  std::ranges::sort(strips_behind_);
  return {};
}

Status Tokenizer::set_normalization(const TokenizerSpec& spec) {
  if (spec.normal_form) {
    const auto known = normal_form_of_name(*spec.normal_form);
    if (!known)
      return Error{ErrorCode::kUnsupported, "normal_form is '" + std::string(spec.normal_form->substr(0, 64)) +
                                                "' (known: NFC, NFD, NFKC, NFKD)"};
    normal_form_ = *known;
  }
  strips_leading_space_ = spec.strip_first_space.value_or(strips_leading_space_);
  return {};
}

Status Tokenizer::build_matchers(const TokenizerSpec& spec) {
  const auto order =
      spec.leftmost_tokens.value_or(false) ? SpecialMatcher::Order::kLeftmost : SpecialMatcher::Order::kLongest;
  auto raw = vocabulary_->checked_ids(spec.raw_token_ids, "raw_token_ids"),
       normalized = vocabulary_->checked_ids(spec.normalized_token_ids, "normalized_token_ids");
  for (const auto* ids : {&raw, &normalized})
    if (!*ids) return ids->error();

  std::vector<SpecialMatcher::Entry> in_normalized;
  std::vector<bool> elsewhere(static_cast<size_t>(n_vocab()));
  std::string composed, scratch;
  for (const TokenId id : *normalized) {
    if (!vocabulary_->is_ordinary(id)) continue;  // Text must never become a control token.
    elsewhere[static_cast<size_t>(id)] = true;
    std::string_view spelling = vocabulary_->spelling(id);
    if (normalize(spelling, normal_form_, composed)) spelling = composed;
    in_normalized.push_back({std::string(prepare(spelling, true, scratch)), id});
  }
  if (!in_normalized.empty()) in_normalized_ = std::make_unique<SpecialMatcher>(std::move(in_normalized), order);

  const auto matcher_of = [&](std::span<const TokenKind> kinds) {
    std::vector<SpecialMatcher::Entry> entries;
    const auto add = [&](TokenId id) { entries.push_back({std::string(vocabulary_->spelling(id)), id}); };
    for (const TokenId id : *raw)
      if (vocabulary_->is_ordinary(id)) add(id);
    for (TokenId id = 0; id < n_vocab(); ++id)
      if (!elsewhere[static_cast<size_t>(id)] && std::ranges::find(kinds, kind(id)) != kinds.end()) add(id);
    return std::make_unique<const SpecialMatcher>(std::move(entries), order);
  };
  special_ = matcher_of(kSpecialKinds);
  user_defined_ = matcher_of(kUserDefinedKinds);
  return {};
}

std::string_view Tokenizer::prepare(std::string_view text, bool, std::string&) const { return text; }

void Tokenizer::encode_stretch(std::string_view text, bool opens, bool verbatim, std::vector<TokenId>& out) const {
  std::string composed, scratch;
  if (!verbatim && normalize(text, normal_form_, composed)) text = composed;
  text = prepare(text, opens, scratch);
  size_t done = 0;
  if (in_normalized_ != nullptr) {
    std::vector<SpecialMatch> matches;
    in_normalized_->find(text, {}, matches);
    for (const SpecialMatch& match : matches) {
      if (match.begin > done)
        encode_prepared(text.substr(done, match.begin - done), opens && (done == 0 || !opens_once_), out);
      out.push_back(match.id);
      done = match.end;
    }
  }
  if (done < text.size()) encode_prepared(text.substr(done), opens && (done == 0 || !opens_once_), out);
}

void Tokenizer::encode(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const {
  if (options.add_special && add_bos_) out.push_back(bos());
  std::string unguarded;
  std::vector<size_t> guards;
  if (remove_guards(text, options.guard, unguarded, guards)) text = unguarded;

  std::vector<SpecialMatch> matches;
  (options.parse_special ? special_ : user_defined_)->find(text, guards, matches);
  size_t done = 0;
  const auto opens = [&] { return done == 0 ? !options.continues : !opens_once_; };
  for (SpecialMatch match : matches) {
    if (std::ranges::binary_search(strips_before_, match.id))
      match.begin = std::max(done, without_trailing_space(text.substr(0, match.begin)));
    if (std::ranges::binary_search(strips_behind_, match.id))
      match.end = CharReader(text).skip_class(match.end, CharClass::kSpace);
    if (match.begin < done) continue;  // The match is inside whitespace that another token has consumed.
    if (match.begin > done) encode_stretch(text.substr(done, match.begin - done), opens(), options.verbatim, out);
    out.push_back(match.id);
    done = match.end;
  }
  if (done < text.size()) encode_stretch(text.substr(done), opens(), options.verbatim, out);
  if (options.add_special && add_eos_) out.push_back(eos());
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  bool strip = strips_leading_space_;
  for (const TokenId id : ids) {
    if (id < 0 || id >= n_vocab()) continue;
    std::string_view bytes = vocabulary_->bytes(id);
    if (strip && bytes.starts_with(' ')) bytes.remove_prefix(1);
    strip = false;
    text.append(bytes);
  }
  if (cleans_up_spaces_) clean_up_spaces(text);
  return text;
}

int Tokenizer::n_vocab() const { return vocabulary_->size(); }
TokenId Tokenizer::bos() const { return vocabulary_->bos(); }
TokenId Tokenizer::eos() const { return vocabulary_->eos(); }
TokenKind Tokenizer::kind(TokenId id) const { return vocabulary_->kind(id); }
std::string_view Tokenizer::bytes(TokenId id) const { return vocabulary_->bytes(id); }
TokenId Tokenizer::find(std::string_view spelling) const { return vocabulary_->find(spelling); }

std::span<const TokenId> Tokenizer::end_of_generation() const { return vocabulary_->end_of_generation(); }

bool Tokenizer::is_end_of_generation(TokenId id) const {
  const std::span<const TokenId> ends = end_of_generation();
  return std::binary_search(ends.begin(), ends.end(), id);
}

}  // namespace monolith
