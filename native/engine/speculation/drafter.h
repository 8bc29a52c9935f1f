// Interface of draft sources that compute: a draft model (draft_model.h), or an MTP layer or EAGLE-3 head
// (mtp_drafter.h). Output does not depend on the drafter, only the number of steps does. Engine thread only.
#pragma once

#include <span>

#include "engine/speculation/draft_budget.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

struct Sequence;

// Draft request of one sequence.
struct DraftRequest {
  const void* owner = nullptr;  // Key that identifies the sequence.
  // Tokens of the sequence: those of the last call plus any number of new ones; not empty.
  std::span<const TokenId> tokens;
  std::span<TokenId> out;              // Buffer for the draft tokens; at most SequenceDrafts::kMax.
  int n = 0;                           // Number of draft tokens written to `out`.
  const Sequence* sequence = nullptr;  // The same sequence as `owner`, for drafters that need its page tables.
};

class Drafter {
 public:
  static constexpr int kMaxSequences = 32;  // Maximum sequences per draft() call.

  virtual ~Drafter() = default;
  // Drafts tokens for up to kMaxSequences sequences; fewer than requested, or none, if required data is missing.
  // Reports the duration of its steps to `pace`. Returns the total time in ms.
  virtual double draft(std::span<DraftRequest> requests, DraftBudget& pace) = 0;
  // Call when a sequence has ended. Unknown sequences are ignored.
  virtual void forget(const void* owner) = 0;
  // True if the drafter writes to the sequences' own pages. The caller must then allocate pages for the draft tokens
  // first.
  virtual bool writes_pages() const { return false; }
  virtual bool consistent() const { return true; }
};

}  // namespace monolith
