// Interface of the sources that compute draft tokens: a draft model (draft_model.h), or MTP layers or an EAGLE-3 head
// (mtp_drafter.h). A drafter does not affect the output, only the number of steps. Engine thread only.
#pragma once

#include <span>

#include "engine/speculation/draft_budget.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

struct Sequence;

// A sequence's draft request.
struct DraftRequest {
  const void* owner = nullptr;  // Identifies the sequence.
  // The sequence's tokens: the tokens passed in the previous call, followed by any number of new tokens. Not empty.
  std::span<const TokenId> tokens;
  std::span<TokenId> out;              // Buffer for the draft tokens; at most SequenceDrafts::kMax.
  int n = 0;                           // Number of draft tokens written to `out`.
  const Sequence* sequence = nullptr;  // The same sequence as `owner`, for drafters that need its page tables.
};

class Drafter {
 public:
  static constexpr int kMaxSequences = 32;  // Maximum number of sequences per draft() call.

  virtual ~Drafter() = default;
  // Drafts tokens for up to kMaxSequences sequences: fewer than requested, or none, if required data is missing.
  // Reports the duration of its steps to `pace`. Returns the total time in ms.
  virtual double draft(std::span<DraftRequest> requests, DraftBudget& pace) = 0;
  // Must be called when a sequence has ended. Unknown sequences are ignored.
  virtual void forget(const void* owner) = 0;
  // Whether the drafter writes to the sequences' own pages. If so, the caller must first allocate pages for the draft
  // tokens.
  virtual bool writes_pages() const { return false; }
  virtual bool consistent() const { return true; }
};

}  // namespace monolith
