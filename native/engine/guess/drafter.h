// Who says what may come next where the text has not been before: a smaller model (draft_model.h), or a layer of the
// model itself (own_draft.h). No result depends on it, only how many steps it takes. Engine thread only.
#pragma once

#include <span>

#include "engine/guess/draft_pace.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

struct Sequence;

// What one sequence wants to know.
struct DraftWish {
  const void* owner = nullptr;         // the sequence
  std::span<const TokenId> tokens;     // its text: that of the last call and any number of new ones; not empty
  std::span<TokenId> out;              // at most Guesses::kMost
  int n = 0;                           // guesses that have come into `out`
  const Sequence* sequence = nullptr;  // the same, for who needs its pages
};

class Drafter {
 public:
  static constexpr int kMostSequences = 32;  // of one call

  virtual ~Drafter() = default;
  // Guesses for each of the wishes, at most kMostSequences; less than wanted, or none, where it has not all it needs.
  // `pace` learns what the steps took. Returns the milliseconds it took.
  virtual double draft(std::span<DraftWish> wishes, DraftPace& pace) = 0;
  // The sequence has ended. Who was never drafted for is ignored.
  virtual void forget(const void* owner) = 0;
  // Whether it writes into the sequences' own pages, which must have room for its guesses before it is asked.
  virtual bool writes_pages() const { return false; }
  virtual bool consistent() const { return true; }
};

}  // namespace monolith
