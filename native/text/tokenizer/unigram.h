// SentencePiece Unigram (tokenizer.ggml.model "t5"): of all ways to segment the text into pieces, it chooses the one
// with the greatest sum of scores (log probabilities). The time is linear in the length of the text: at each character,
// the pieces that start there are looked up, and their length is limited by kMaxTokenBytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocabulary.h"

namespace monolith {

// A trie that finds all entries with which a text starts. After construction, any thread may read it.
class PieceTrie {
 public:
  struct Entry {
    std::string_view text;  // Not empty.
    int32_t value;
  };
  // If several entries have the same text, the first entry is kept.
  explicit PieceTrie(std::vector<Entry> entries);

  // Calls visit(length, value) for each entry that is a prefix of `text`, shortest first.
  template <typename Visit>
  void prefixes(std::string_view text, Visit visit) const {
    uint32_t node = 0;
    for (size_t length = 0; length < text.size();) {
      node = child(node, static_cast<unsigned char>(text[length]));
      if (node == 0) return;
      ++length;
      if (nodes_[node].value >= 0) visit(length, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint16_t n_edges = 0;
    int32_t value = -1;
  };
  uint32_t child(uint32_t node, unsigned char byte) const;  // Returns 0 if there is no child.

  std::vector<Node> nodes_;
  std::vector<unsigned char> edge_bytes_;  // The edges of a node are contiguous and ascending.
  std::vector<uint32_t> edge_nodes_;
};

class Unigram final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> build(const TokenizerSpec& spec);

 private:
  struct Session;
  struct Options {
    bool space_prefix = true;  // Add a space before text at the start or after a special token.
    bool spared = false;       // Do not add the space if the text already starts with one.
    bool once = false;         // Add the space only at the very start of the text.
    bool words_apart = false;  // Every space starts a word.
    // Collapse runs of spaces to one space, and remove spaces at both ends (remove_extra_whitespaces).
    bool merges_spaces = false;
    bool collapses_spaces = false;  // Collapse runs of spaces to one space, including at both ends.
  };

  Unigram(std::unique_ptr<const Vocabulary> vocabulary, const Options& options,
          std::unique_ptr<const Charsmap> charsmap, const std::vector<float>& scores);
  static std::vector<PieceTrie::Entry> entries_of(const Vocabulary& vocabulary);
  std::string normalized(std::string_view text, bool opens) const;
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;

  Options options_;
  std::unique_ptr<const Charsmap> charsmap_;  // Null if the file has no charsmap.
  PieceTrie pieces_;                          // Pieces with "▁" replaced by a space.
  std::vector<double> scores_;                // Indexed by token ID.
  double unknown_score_;
  std::array<TokenId, 256> byte_tokens_;  // kNoToken if missing.
  bool words_are_separate_ = true;        // As in SentencePiece.
};

}  // namespace monolith
