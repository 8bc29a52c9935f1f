// Reference for the text stage: a simple algorithm that sees the whole text. Also checks the stage against it for a
// given way of splitting the text into tokens. For tests only.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/output/output_parser.h"

namespace monolith::testing {

struct Collected final : DeltaSink {
  std::string content, reasoning, calls;
  std::vector<std::pair<Section, std::string>> sections;  // In order; adjacent deltas in one section are joined.
  int n_tokens = 0;
  std::vector<TokenId> entries;  // Tokens with logprob entries, in order.
  void piece(Section section, std::string_view text, int n, std::span<const TokenLogprobs> logprobs) override;
};

struct StageParams {
  ReasoningParams reasoning{};
  CallParams calls{};
  std::vector<std::string> stops{};
};

// The reference algorithm. It determines which bytes of the whole text are emitted, and to which section each byte
// belongs.
class Reference {
 public:
  struct Piece {
    Section section;
    size_t begin, end;
  };
  std::vector<Piece> pieces;
  int stop = -1;

  Reference(const std::string& text, const StageParams& params) : text_(text), params_(params) { run(); }

  std::vector<std::pair<Section, std::string>> sections() const;

  // How the token with the bytes text[begin, end) is treated.
  struct Fate {
    bool counted = false, has_entry = false;
  };
  Fate fate_of(size_t begin, size_t end) const;

 private:
  void add(Section section, size_t begin, size_t end);
  size_t behind_line_breaks(size_t begin, size_t end);
  size_t before_line_breaks(size_t begin, size_t end);
  size_t behind_spaces(size_t begin) const { return std::min(text_.find_first_not_of(" \t\r\n", begin), text_.size()); }

  void run();

  // Scans from `begin` for the first open marker of a tool call or the first stop string, either of which ends the
  // content.
  void content(size_t begin);

  const std::string& text_;
  const StageParams& params_;
  std::vector<std::pair<size_t, size_t>> line_breaks_;
};

// Checks the stage against the reference. `text` is passed to the stage in pieces, split before each position whose bit
// in `cuts` is set. If a call marker has a token, its spelling is passed as one token.
void check_cut(const std::string& text, const StageParams& params, uint64_t cuts);

// Performs this check for every way to split the text.
void check_every_cut(const std::string& text, const StageParams& params);

}  // namespace monolith::testing
