// Runs one sequence through a model with a drafter, step by step and without an engine. For tests only.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "model/model.h"

namespace monolith::testing {

ModelLimits draft_limits(bool drafts);

// One sequence, which a model processes in chunks. Its hidden states are saved in the hidden-state range of sequence
// slot `place`.
class Fed {
 public:
  Fed(Model& model, int first_page, int place);

  // Processes `tokens` in chunks of `piece` tokens. Returns the logits of the last token.
  std::vector<float> feed(const std::vector<int32_t>& tokens, int piece);
  // Returns the draft logits for the token after `token`, where `token` is the next token of the sequence. `depth` is
  // the number of draft passes since the last fed token; the tokens of these passes are kept. If an MTP level has not
  // processed the earlier tokens yet, it processes all of them in this pass.
  std::vector<float> draft(int32_t token, int depth);

 private:
  int tables() const { return model_.memory().layout.tables(); }
  const int32_t* pages_of(int table) const { return pages_.data() + 6 * table; }
  int32_t slot_from() const { return position_ == 0 ? kNoSlot : place_; }
  int32_t slot_to() const { return place_; }

  Model& model_;
  const int place_;
  std::vector<int32_t> pages_;
  int position_ = 0, last_row_ = 0;
  std::vector<int32_t> behind_;  // The tokens beyond the sequence that the draft passes have processed.
};

}  // namespace monolith::testing
