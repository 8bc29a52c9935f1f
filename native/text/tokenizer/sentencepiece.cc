#include "text/tokenizer/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>

#include "text/tokenizer/char_reader.h"
#include "text/tokenizer/unicode.h"

namespace monolith {
namespace {

constexpr std::string_view kEscapedSpace = "\u2581";

// Symbols for characters that no piece contains. Such a symbol only records the position and the bytes of the
// character. An invalid byte is represented as 0x110000 + byte.
constexpr uint32_t kLooseBytes = 0x110000;
Symbol loose_symbol(uint32_t code_point) { return ~static_cast<Symbol>(code_point); }

void replace_escaped_spaces(std::string_view text, bool plain, std::string& out) {
  out.clear();
  for (;;) {
    if (plain) return void(out.append(text));
    const size_t at = text.find(kEscapedSpace);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return;
    out.push_back(' ');
    text.remove_prefix(at + kEscapedSpace.size());
  }
}

}  // namespace

Status check_scores(const std::vector<float>& scores, size_t n_tokens) {
  if (scores.size() != n_tokens)
    return Error{ErrorCode::kInvalidFile, "tokenizer.ggml.scores has " + std::to_string(scores.size()) +
                                              " entries for " + std::to_string(n_tokens) + " tokens"};
  for (size_t i = 0; i < n_tokens; ++i)
    if (std::isnan(scores[i]))
      return Error{ErrorCode::kInvalidFile, "tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number"};
  return {};
}

// Returns the options for a vocabulary whose pieces merge in the listed order, or null for other vocabularies. For each
// such vocabulary, the table lists the model and pre-tokenizer names ('' matches any) and the options that llama.cpp
// associates with them (llama-vocab.cpp).
const SentencePiece::Options* SentencePiece::find_listed(std::string_view model, std::string_view pre) {
  struct Listed {
    std::string_view model, pre;
    Options options;
  };
  using enum Options::WhiteSpace;
  static constexpr Options kGemma = {
      .space_prefix = false, .insists_on_bos = true, .lines_apart = true, .whole_lines = true, .lacks_unknown = true};
  static constexpr Listed kListed[] = {
      {"gemma4", "", kGemma},
      {"gpt2", "gemma4", kGemma},
      {"gpt2", "granite-embed-multi-311m", kGemma},
      {"gpt2", "sarvam-moe", {.space_prefix = false, .add_bos = false, .lines_apart = true, .lacks_unknown = true}},
      {"gpt2",
       "whitespace",
       {.space_prefix = false, .add_bos = false, .lacks_unknown = true, .white_space = kApart, .plain_spaces = true}},
      {"whitespace",
       "",
       {.space_prefix = false, .add_bos = false, .lacks_unknown = true, .white_space = kDropped, .plain_spaces = true}},
  };
  const auto found = std::ranges::find_if(
      kListed, [&](const Listed& one) { return one.model == model && (one.pre.empty() || one.pre == pre); });
  return found != std::end(kListed) ? &found->options : nullptr;
}

bool SentencePiece::lists_pieces(const TokenizerSpec& spec) {
  return find_listed(spec.model, spec.pre_tokenizer) != nullptr;
}

Result<SentencePiece::Options> SentencePiece::options_of(const TokenizerSpec& spec) {
  Options options;
  if (const Options* listed = find_listed(spec.model, spec.pre_tokenizer)) options = *listed;
  if (options.white_space != Options::WhiteSpace::kText && spec.lowercase.value_or(false))
    return Error{ErrorCode::kUnsupported,
                 "the file requires lower-case text (tokenizer.ggml.normalizer.lowercase), which is not supported"};
  options.space_prefix = spec.add_space_prefix.value_or(options.space_prefix);
  options.words_apart = spec.words_apart.value_or(options.words_apart);
  options.fuses_unknown = spec.fuse_unknown.value_or(options.fuses_unknown);
  options.once = spec.space_prefix_once.value_or(options.once);
  options.spared = spec.space_prefix_spared.value_or(options.spared);
  return options;
}

Result<std::unique_ptr<Tokenizer>> SentencePiece::build(const TokenizerSpec& spec) {
  auto options = options_of(spec);
  if (!options) return options.error();
  const bool by_merges = spec.merges && (!spec.scores || options->lacks_unknown);
  if (options->lacks_unknown && !by_merges)
    return Error{ErrorCode::kInvalidFile, "the file has no merge list: tokenizer.ggml.merges is missing"};
  if (!by_merges && !spec.scores)
    return Error{ErrorCode::kInvalidFile, "the file has no scores: tokenizer.ggml.scores is missing"};
  auto vocabulary = Vocabulary::build(spec, SpellingStyle::kSentencePiece);
  if (!vocabulary) return vocabulary.error();
  if (!by_merges)
    if (Status status = check_scores(*spec.scores, static_cast<size_t>((*vocabulary)->size())); !status)
      return status.error();

  std::unique_ptr<SentencePiece> tokenizer(new SentencePiece(std::move(vocabulary).value(), *options));
  if (by_merges)
    tokenizer->set_merges(*spec.merges);
  else
    tokenizer->build_merges(*spec.scores);
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

SentencePiece::SentencePiece(std::unique_ptr<const Vocabulary> owned, const Options& options)
    : Tokenizer(std::move(owned), {.add_bos = options.add_bos,
                                   .insists_on_bos = options.insists_on_bos,
                                   .strips_leading_space = options.space_prefix,
                                   .opens_once = options.once}),
      options_(options),
      by_piece_(pieces_, 0),
      merges_(0) {
  build_pieces();
}

void SentencePiece::build_pieces() {
  const Vocabulary& tokens = vocabulary();
  const TokenId n = tokens.size();
  byte_tokens_.fill(kNoToken);
  std::string piece;
  for (TokenId id = 0; id < n; ++id) {
    piece.clear();
    if (tokens.kind(id) == TokenKind::kByte)
      byte_tokens_[static_cast<unsigned char>(tokens.bytes(id)[0])] = id;
    else if (tokens.is_ordinary(id) && tokens.spelling(id).find(' ') == std::string_view::npos)
      // A spelling that contains a plain space can match only as a special token, because prepared text contains no
      // plain spaces.
      replace_escaped_spaces(tokens.spelling(id), options_.plain_spaces, piece);
    pieces_.push(piece);
  }

  // Characters that occur within pieces but are not pieces themselves. Their symbols follow the tokens.
  by_piece_ = StringTable(pieces_, static_cast<size_t>(n));
  for (TokenId id = 0; id < n; ++id)
    if (!pieces_[static_cast<size_t>(id)].empty()) by_piece_.insert(id);
  std::vector<std::string> characters;
  for (TokenId id = 0; id < n; ++id) {
    std::string_view rest = pieces_[static_cast<size_t>(id)];
    while (!rest.empty()) {
      const std::string_view character = rest.substr(0, decode_utf8(rest).size);
      if (by_piece_.find(character) == StringTable::kAbsent) characters.emplace_back(character);
      rest.remove_prefix(character.size());
    }
  }
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  for (const std::string& character : characters) pieces_.push(character);

  by_piece_ = StringTable(pieces_, pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const std::string_view text = pieces_[i];
    if (text.empty()) continue;
    by_piece_.insert(static_cast<int32_t>(i));
    const size_t first_word = std::min(text.find_first_not_of(' '), text.size());
    if (text.find(' ', first_word) != std::string_view::npos) words_are_separate_ = false;
  }
  for (size_t c = 0; c < ascii_symbols_.size(); ++c) {
    const char character = static_cast<char>(c);
    const int32_t found = by_piece_.find({&character, 1});
    ascii_symbols_[c] = found != StringTable::kAbsent ? found : loose_symbol(static_cast<uint32_t>(c));
  }
  whole_words_.reset(new std::atomic<WholeWord>[static_cast<size_t>(n)]());
}

// Two symbols merge if their concatenation is a piece, so every way to split a piece into two symbols is a merge. There
// are only a few such splits per piece, because most prefixes and suffixes of pieces are not pieces.
void SentencePiece::build_merges(const std::vector<float>& scores) {
  const size_t n = static_cast<size_t>(vocabulary().size());
  std::vector<TokenId> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](TokenId id) { return scores[static_cast<size_t>(id)]; };
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return score(a) > score(b); });
  merges_ = MergeTable(n * 2);
  uint32_t rank = 0;  // Equal scores get equal ranks; the leftmost pair is then merged first.
  for (size_t i = 0; i < n; ++i) {
    const TokenId id = order[i];
    if (i > 0 && score(id) != score(order[i - 1])) ++rank;
    const std::string_view piece = pieces_[static_cast<size_t>(id)];
    if (piece.empty()) continue;
    for (size_t cut = decode_utf8(piece).size; cut < piece.size(); cut += decode_utf8(piece.substr(cut)).size) {
      const int32_t left = by_piece_.find(piece.substr(0, cut));
      if (left == StringTable::kAbsent) continue;
      const int32_t right = by_piece_.find(piece.substr(cut));
      if (right != StringTable::kAbsent) merges_.insert(left, right, {rank, id});
    }
  }
}

// Stores an ordered list of merges of the form "left right". A line with an unknown piece is skipped, as in byte-level
// BPE.
void SentencePiece::set_merges(const std::vector<std::string_view>& merges) {
  merges_ = MergeTable(merges.size());
  std::string left, right, whole;
  uint32_t rank = 0;
  for (const std::string_view line : merges) {
    const uint32_t line_rank = rank++;
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos || line.size() > 4 * kMaxTokenBytes) continue;
    replace_escaped_spaces(line.substr(0, space), options_.plain_spaces, left);
    replace_escaped_spaces(line.substr(space + 1), options_.plain_spaces, right);
    const int32_t left_id = by_piece_.find(left), right_id = by_piece_.find(right);
    const int32_t result = by_piece_.find(whole.assign(left).append(right));
    if (left_id == StringTable::kAbsent || right_id == StringTable::kAbsent || result == StringTable::kAbsent ||
        result >= vocabulary().size())
      continue;
    merges_.insert(left_id, right_id, {line_rank, result});
  }
}

// State and scratch memory of one encode call.
struct SentencePiece::Session {
  const SentencePiece& model;
  std::vector<TokenId>& out;
  std::vector<Symbol> symbols = {};
  Merger merger = {};
  bool after_unknown = false;  // The last token represents an unknown character.

  void encode(std::string_view word) {
    const int32_t whole = word.size() <= kMaxTokenBytes ? model.by_piece_.find(word) : kNoToken;
    std::atomic<WholeWord>* known = nullptr;
    if (whole != kNoToken && whole < model.vocabulary().size()) {
      known = &model.whole_words_[static_cast<size_t>(whole)];
      const WholeWord answer = known->load(std::memory_order_relaxed);
      if (answer == WholeWord::kYes) {
        after_unknown = false;
        return out.push_back(whole);
      }
      if (answer == WholeWord::kNo) known = nullptr;
    }
    symbols.clear();
    for (size_t i = 0; i < word.size();) {
      const unsigned char c = static_cast<unsigned char>(word[i]);
      if (c < 0x80) {
        symbols.push_back(model.ascii_symbols_[c]);
        ++i;
        continue;
      }
      const Utf8Char wide = decode_utf8(word.substr(i));
      const int32_t found = model.by_piece_.find(word.substr(i, wide.size));
      const uint32_t loose = wide.code_point == kInvalidByte ? kLooseBytes + c : wide.code_point;
      symbols.push_back(found != StringTable::kAbsent ? found : loose_symbol(loose));
      i += wide.size;
    }
    merger.merge(model.merges_, symbols);
    if (known) {
      const bool yes = symbols.size() == 1 && symbols[0] == whole;
      known->store(yes ? WholeWord::kYes : WholeWord::kNo, std::memory_order_relaxed);
    }
    for (const Symbol symbol : symbols) put(symbol);
  }

  void put(Symbol symbol) {
    if (symbol >= model.vocabulary().size()) return put_bytes(model.pieces_[static_cast<size_t>(symbol)]);
    if (symbol >= 0) {
      after_unknown = false;
      return out.push_back(symbol);
    }
    const uint32_t loose = static_cast<uint32_t>(~symbol);
    std::string character;  // At most four bytes, so it never allocates.
    if (loose >= kLooseBytes)
      character.push_back(static_cast<char>(loose - kLooseBytes));
    else
      append_utf8(loose, character);
    put_bytes(character);
  }

  // Emits the byte tokens of a character. If any byte token is missing, emits the unknown token instead, or nothing if
  // there is no unknown token. With lacks_unknown, emits the byte tokens that exist.
  void put_bytes(std::string_view character) {
    // In SentencePiece's own representation of text, a space is written as "▁".
    if (character == " " && !model.options_.plain_spaces) character = kEscapedSpace;
    const size_t before = out.size();
    for (const char c : character) {
      const TokenId id = model.byte_tokens_[static_cast<unsigned char>(c)];
      if (id == kNoToken && model.options_.lacks_unknown) continue;
      if (id == kNoToken) {
        out.resize(before);
        const TokenId unknown = model.vocabulary().unknown();
        if (unknown != kNoToken && !(after_unknown && model.options_.fuses_unknown)) out.push_back(unknown);
        after_unknown = true;
        return;
      }
      out.push_back(id);
    }
    after_unknown = false;
  }
};

// SentencePiece replaces all spaces with "▁". This code does the reverse, which has the same effect.
std::string_view SentencePiece::spaced(std::string_view text, bool prefix, std::string& scratch) const {
  if (!prefix && text.find(kEscapedSpace) == std::string_view::npos) return text;
  replace_escaped_spaces(text, false, scratch);
  if (prefix) scratch.insert(scratch.begin(), ' ');
  return scratch;
}

// With the option `spared`, the pre-tokenizer adds the space prefix, so it is not added here. In all other cases, the
// normalizer adds it.
std::string_view SentencePiece::prepare(std::string_view text, bool opens, std::string& scratch) const {
  if (options_.white_space != Options::WhiteSpace::kText || options_.spared) return text;
  return spaced(text, opens && options_.space_prefix, scratch);
}

void SentencePiece::encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const {
  Session session{*this, out};
  if (options_.white_space != Options::WhiteSpace::kText) return encode_apart(session, text);
  std::string rewritten;
  if (options_.spared) {
    const bool has_space = text.starts_with(' ') || text.starts_with(kEscapedSpace);
    text = spaced(text, opens && options_.space_prefix && !has_space, rewritten);
  }
  if (options_.lines_apart)
    encode_lines(session, text);
  else
    encode_words(session, text);
}

// Splits the text by [^\n]+|[\n]+
void SentencePiece::encode_lines(Session& session, std::string_view text) const {
  for (size_t begin = 0; begin < text.size();) {
    const bool breaks = text[begin] == '\n';
    const size_t end = std::min(breaks ? text.find_first_not_of('\n', begin) : text.find('\n', begin), text.size());
    const std::string_view piece = text.substr(begin, end - begin);
    const int32_t whole =
        breaks && options_.whole_lines && piece.size() <= kMaxTokenBytes ? by_piece_.find(piece) : StringTable::kAbsent;
    if (whole != StringTable::kAbsent && whole < vocabulary().size())
      session.out.push_back(whole);
    else
      encode_words(session, piece);
    begin = end;
  }
}

// Splits the text by \S+
void SentencePiece::encode_apart(Session& session, std::string_view text) const {
  const CharReader reader(text);
  for (size_t begin = 0; begin < text.size();) {
    const bool space = reader.at(begin).is(CharClass::kSpace);
    const size_t end = reader.skip(begin, [=](const Char& c) { return c.is(CharClass::kSpace) == space; });
    if (!space || options_.white_space == Options::WhiteSpace::kApart) session.encode(reader.between(begin, end));
    begin = end;
  }
}

void SentencePiece::encode_words(Session& session, std::string_view text) const {
  if (!words_are_separate_ && !options_.words_apart) return session.encode(text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t word = options_.words_apart ? begin + 1 : std::min(text.find_first_not_of(' ', begin), text.size());
    const size_t end = std::min(text.find(' ', word), text.size());
    if (options_.words_apart) session.after_unknown = false;
    session.encode(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace monolith
