#include "text/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/tokenizer/sentencepiece.h"
#include "text/tokenizer/unicode.h"

namespace monolith {
namespace {

// Penalty for a character that no piece covers, relative to the worst piece score. SentencePiece uses the same value.
constexpr double kUnknownPenalty = 10;

}  // namespace

PieceTrie::PieceTrie(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  // Builds the trie breadth-first from ranges of the sorted entries that share their first `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    for (; begin < end && entries[begin].text.size() == depth; ++begin)
      if (nodes_[node].value < 0) nodes_[node].value = entries[begin].value;
    nodes_[node].first_edge = static_cast<uint32_t>(edge_bytes_.size());
    while (begin < end) {
      const char byte = entries[begin].text[depth];
      size_t next = begin + 1;
      while (next < end && entries[next].text[depth] == byte) ++next;
      edge_bytes_.push_back(static_cast<unsigned char>(byte));
      edge_nodes_.push_back(static_cast<uint32_t>(nodes_.size()));
      ++nodes_[node].n_edges;
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
}

uint32_t PieceTrie::child(uint32_t node, unsigned char byte) const {
  const Node& at = nodes_[node];
  const unsigned char* begin = edge_bytes_.data() + at.first_edge;
  const unsigned char* end = begin + at.n_edges;
  const unsigned char* found = at.n_edges == 256 ? begin + byte : std::lower_bound(begin, end, byte);
  return found != end && *found == byte ? edge_nodes_[at.first_edge + static_cast<size_t>(found - begin)] : 0;
}

Result<std::unique_ptr<Tokenizer>> Unigram::build(const TokenizerSpec& spec) {
  const Options options = {.space_prefix = spec.add_space_prefix.value_or(true),
                           .spared = spec.space_prefix_spared.value_or(false),
                           .once = spec.space_prefix_once.value_or(false),
                           .words_apart = spec.words_apart.value_or(false),
                           .merges_spaces = spec.remove_extra_whitespaces.value_or(false),
                           .collapses_spaces = spec.collapse_spaces.value_or(false)};
  std::unique_ptr<const Charsmap> charsmap;
  if (!spec.charsmap.empty()) {
    auto parsed = Charsmap::parse(spec.charsmap);
    if (!parsed) return parsed.error();
    charsmap = std::move(*parsed);
  }
  if (!spec.scores) return Error{ErrorCode::kInvalidFile, "the file has no scores: tokenizer.ggml.scores is missing"};
  const std::vector<float>& scores = *spec.scores;
  auto vocabulary = Vocabulary::build(spec, SpellingStyle::kUnigram);
  if (!vocabulary) return vocabulary.error();
  if (Status status = check_scores(scores, static_cast<size_t>((*vocabulary)->size())); !status) return status.error();
  for (size_t i = 0; i < scores.size(); ++i)
    if (!std::isfinite(scores[i]))  // Sums of infinite scores could be NaN.
      return Error{ErrorCode::kInvalidFile, "tokenizer.ggml.scores[" + std::to_string(i) + "] is not finite"};
  return std::unique_ptr<Tokenizer>(new Unigram(std::move(vocabulary).value(), options, std::move(charsmap), scores));
}

std::vector<PieceTrie::Entry> Unigram::entries_of(const Vocabulary& vocabulary) {
  std::vector<PieceTrie::Entry> entries;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (kind != TokenKind::kNormal || vocabulary.bytes(id).empty()) continue;
    entries.push_back({vocabulary.bytes(id), id});
  }
  return entries;
}

Unigram::Unigram(std::unique_ptr<const Vocabulary> owned, const Options& options,
                 std::unique_ptr<const Charsmap> charsmap, const std::vector<float>& scores)
    : Tokenizer(std::move(owned),
                {.add_eos = true, .strips_leading_space = options.space_prefix, .opens_once = options.once}),
      options_(options),
      charsmap_(std::move(charsmap)),
      pieces_(entries_of(vocabulary())),
      scores_(scores.begin(), scores.end()) {
  byte_tokens_.fill(kNoToken);
  double worst = std::numeric_limits<float>::max();
  bool any = false;
  const Vocabulary& tokens = vocabulary();
  for (TokenId id = 0; id < tokens.size(); ++id) {
    const std::string_view bytes = tokens.bytes(id);
    if (tokens.kind(id) == TokenKind::kByte) byte_tokens_[static_cast<unsigned char>(bytes[0])] = id;
    if (tokens.kind(id) != TokenKind::kNormal) continue;
    worst = std::min(worst, scores_[static_cast<size_t>(id)]);
    any = true;
    const size_t first_word = std::min(bytes.find_first_not_of(' '), bytes.size());
    if (bytes.find(' ', first_word) != std::string_view::npos) words_are_separate_ = false;
  }
  unknown_score_ = (any ? worst : 0) - kUnknownPenalty;
}

// State and scratch memory for one encode call.
struct Unigram::Session {
  const Unigram& model;
  std::vector<TokenId>& out;
  struct Best {
    double score;   // Score of the best segmentation that ends here.
    uint32_t from;  // Offset at which its last piece starts.
    TokenId token;  // kNoToken = a character that no piece covers.
  };
  std::vector<Best> best = {};
  std::vector<uint32_t> ends = {};
  bool after_unknown = false;

  void encode(std::string_view text) {
    constexpr Best kUnreached = {-std::numeric_limits<double>::infinity(), 0, kNoToken};
    best.assign(text.size() + 1, kUnreached);
    best[0].score = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t character = decode_utf8(text.substr(begin)).size;
      const double score = best[begin].score;
      bool covered = false;
      model.pieces_.prefixes(text.substr(begin), [&](size_t length, TokenId token) {
        covered |= length == character;
        offer(begin + length, score + model.scores_[static_cast<size_t>(token)], begin, token);
      });
      if (!covered) offer(begin + character, score + model.unknown_score_, begin, kNoToken);
      begin += character;
    }
    ends.clear();
    for (uint32_t at = static_cast<uint32_t>(text.size()); at > 0; at = best[at].from) ends.push_back(at);
    for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
      const Best& piece = best[*end];
      if (piece.token == kNoToken) {
        put_unknown(text.substr(piece.from, *end - piece.from));
      } else {
        after_unknown = false;
        out.push_back(piece.token);
      }
    }
  }

  // If several segmentations have the same score, the first one is kept.
  void offer(size_t end, double score, size_t from, TokenId token) {
    if (score > best[end].score) best[end] = {score, static_cast<uint32_t>(from), token};
  }

  // Emits the character's byte tokens if the vocabulary has all of them. Otherwise, emits one unknown token for each
  // run of characters without byte tokens.
  void put_unknown(std::string_view character) {
    const size_t before = out.size();
    for (const char c : character) {
      const TokenId id = model.byte_tokens_[static_cast<unsigned char>(c)];
      if (id == kNoToken) {
        out.resize(before);
        const TokenId unknown = model.vocabulary().unknown();
        if (unknown != kNoToken && !after_unknown) out.push_back(unknown);
        after_unknown = true;
        return;
      }
      out.push_back(id);
    }
    after_unknown = false;
  }
};

std::string Unigram::normalized(std::string_view text, bool opens) const {
  std::string mapped;
  if (charsmap_ != nullptr)
    charsmap_->normalize(text, mapped);
  else
    mapped.assign(text);
  if (options_.collapses_spaces) {
    const auto both = [](char a, char b) { return a == ' ' && b == ' '; };
    mapped.erase(std::unique(mapped.begin(), mapped.end(), both), mapped.end());
  }
  constexpr std::string_view kSpelledSpace = "\u2581";
  std::string out;
  out.reserve(mapped.size() + 1);
  const bool prefix = opens && options_.space_prefix;
  bool pending = prefix;  // A space must be written before the next non-space character.
  for (size_t i = 0; i < mapped.size();) {
    const bool escaped = std::string_view(mapped).substr(i).starts_with(kSpelledSpace);
    if (mapped[i] != ' ' && !escaped) {
      if (pending) out.push_back(' ');
      pending = false;
      out.push_back(mapped[i++]);
      continue;
    }
    i += escaped ? kSpelledSpace.size() : 1;
    if (options_.merges_spaces) {
      pending = !out.empty() || prefix;
      continue;
    }
    if (pending && !options_.spared) out.push_back(' ');
    pending = false;
    out.push_back(' ');
  }
  return out;
}

void Unigram::encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const {
  const std::string rewritten = normalized(text, opens);
  text = rewritten;
  Session session{*this, out};
  if (!words_are_separate_ && !options_.words_apart) return session.encode(text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t word = options_.words_apart ? begin + 1 : std::min(text.find_first_not_of(' ', begin), text.size());
    const size_t end = std::min(text.find(' ', word), text.size());
    session.encode(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace monolith
