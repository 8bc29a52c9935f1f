// SentencePiece's Unigram (tokenizer.ggml.model "t5"): of all ways to cut the text into pieces, the one whose
// scores (log probabilities) have the greatest sum. Time is linear in the text: from each character the pieces
// that begin there are walked, and kMaxTokenBytes bounds their length.
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

// Prefixes of a text that are entries. Built once, then read by any thread.
class PieceTrie {
 public:
  struct Entry {
    std::string_view text;  // not empty
    int32_t value;
  };
  // The first of equal texts wins.
  explicit PieceTrie(std::vector<Entry> entries);

  // Calls visit(length, value) for each entry that `text` begins with, the shortest first.
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
  uint32_t child(uint32_t node, unsigned char byte) const;  // 0 if there is none

  std::vector<Node> nodes_;
  std::vector<unsigned char> edge_bytes_;  // of one node: neighbours, ascending
  std::vector<uint32_t> edge_nodes_;
};

class Unigram final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const GgufFile& file);

 private:
  struct Session;
  struct Options {
    bool space_prefix = true;       // a space in front of text that opens
    bool spared = false;            // not where the text has one
    bool once = false;              // only at the very beginning
    bool words_apart = false;       // every space begins a word
    bool merges_spaces = false;     // runs of spaces are one, at the edges none (remove_extra_whitespaces)
    bool collapses_spaces = false;  // runs of spaces are one, at the edges as well
  };

  Unigram(std::unique_ptr<const Vocabulary> vocabulary, const Options& options,
          std::unique_ptr<const Charsmap> charsmap, const std::vector<float>& scores);
  static std::vector<PieceTrie::Entry> entries_of(const Vocabulary& vocabulary);
  std::string normalized(std::string_view text, bool opens) const;
  void encode_prepared(std::string_view text, bool opens, std::vector<TokenId>& out) const override;

  Options options_;
  std::unique_ptr<const Charsmap> charsmap_;  // null if the file has none
  PieceTrie pieces_;                          // "▁" read as a space
  std::vector<double> scores_;                // by token
  double unknown_score_;
  std::array<TokenId, 256> byte_tokens_;  // kNoToken where missing
  bool words_are_separate_ = true;        // as in SentencePiece
};

}  // namespace monolith
