// One of several token sequences being written: the next tokens must spell one of them. Where they agree
// there is nothing to choose; where they part, the sampler chooses among what goes on. One per sequence,
// engine thread only; never allocates.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace monolith {

class TokenScript {
 public:
  // `alternatives` in ascending order and alike in their first `written` tokens, which are there already.
  // They must outlive the script. Ended at once if there are none, or one has no more than these.
  void start(std::span<const std::vector<TokenId>> alternatives, size_t written = 0) {
    left_ = all_ = alternatives;
    written_ = written;
    end_if_complete();
  }

  bool active() const { return !left_.empty(); }
  // Which of the alternatives given to start() was completed. Valid only right after it was.
  size_t completed() const { return completed_; }

  // The tokens that may come next, ascending, into `out` (cleared first). None if not active.
  void next(std::vector<TokenId>& out) const {
    out.clear();
    for (const std::vector<TokenId>& alternative : left_)
      if (out.empty() || out.back() != alternative[written_]) out.push_back(alternative[written_]);
  }

  // `token` was one of next(). The first alternative that is complete ends the script.
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
  // In ascending order a shorter sequence stands before those that continue it.
  void end_if_complete() {
    if (left_.empty() || left_.front().size() > written_) return;
    completed_ = static_cast<size_t>(left_.data() - all_.data());
    left_ = {};
  }

  std::span<const std::vector<TokenId>> left_;  // that agree with what was written
  std::span<const std::vector<TokenId>> all_;
  size_t written_ = 0, completed_ = 0;
};

}  // namespace monolith
