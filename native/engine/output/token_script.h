// Forced sequence: the next tokens must spell one of several alternatives. Where the remaining alternatives agree, the
// token is forced; where they differ, the sampler chooses among their next tokens. One per sequence; engine thread
// only; never allocates.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace monolith {

class TokenScript {
 public:
  // `alternatives` must be in ascending order and outlive the TokenScript. The first `written` tokens, which all
  // alternatives share, are already in the sequence. The script ends immediately if there are no alternatives or if one
  // of them is already complete.
  void start(std::span<const std::vector<TokenId>> alternatives, size_t written = 0) {
    left_ = all_ = alternatives;
    written_ = written;
    end_if_complete();
  }

  bool active() const { return !left_.empty(); }
  // Index of the completed alternative. Valid only directly after the script has ended.
  size_t completed() const { return completed_; }

  // Stores the allowed next tokens in `out`, in ascending order, replacing its contents. Empty if the script is not
  // active.
  void next(std::vector<TokenId>& out) const {
    out.clear();
    for (const std::vector<TokenId>& alternative : left_)
      if (out.empty() || out.back() != alternative[written_]) out.push_back(alternative[written_]);
  }

  // Advances by `token`, which must be one of next(). The script ends as soon as an alternative is complete.
  void advance(TokenId token) {
    size_t first = 0;
    while (first < left_.size() && left_[first][written_] != token) ++first;
    size_t last = first;
    while (last < left_.size() && left_[last][written_] == token) ++last;
    left_ = left_.subspan(first, last - first);
    ++written_;
    end_if_complete();
  }

 private:
  // In ascending order, a shorter sequence comes before the sequences that extend it.
  void end_if_complete() {
    if (left_.empty() || left_.front().size() > written_) return;
    completed_ = static_cast<size_t>(left_.data() - all_.data());
    left_ = {};
  }

  std::span<const std::vector<TokenId>> left_;  // The alternatives that match the tokens generated so far.
  std::span<const std::vector<TokenId>> all_;
  size_t written_ = 0, completed_ = 0;
};

}  // namespace monolith
