// A smaller model of the same vocabulary that says what may come next: the text as it would go on, greedily. It keeps
// for each sequence it has lately been asked about the pages with keys and values of its own. No
// result depends on it, only how many steps it takes; see speculation.h for when it is asked. Engine thread only, and
// after construction nothing allocates.
//
// What it computed for tokens that came out otherwise is simply computed over: a sequence's pages hold the tokens
// [0, n_computed), and behind them guesses, of which those that came true count when the sequence is seen again.
// Pages are a fixed pool. Where it is short, sequences not seen for a while lose theirs, and else nothing is guessed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_claim.h"
#include "base/result.h"
#include "engine/sampling/batch_sampler.h"
#include "engine/guess/draft_pace.h"
#include "engine/guess/drafter.h"
#include "engine/memory/page_pool.h"
#include "engine/guess/speculation.h"
#include "model/model.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

class DraftModel final : public Drafter {
 public:
  static constexpr int kMostRows = 64;  // of one step of its own

  // The draft's limits, given the main model's: as many pages as the main model has, but no more than fit into its
  // `kv_bytes`, nor on a processor than it can use. Errors: those of Model::plan.
  static Result<ModelLimits> choose_limits(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                                           uint64_t kv_bytes);
  // Whether each token is the same in both. The error names the first that is not: kInvalidArgument.
  static Status check_vocabulary(const Tokenizer& model, const Tokenizer& draft);

  // Tokens are below `n_vocab`, which the draft's embedding table holds (asserted). The model outlives this.
  DraftModel(Model& model, int n_vocab);

  // Less than wanted, or none, where a text's tokens are not all computed yet, or room is short.
  double draft(std::span<DraftWish> wishes, DraftPace& pace) override;
  void forget(const void* owner) override;  // gives its pages back

  const PagePool& pool() const { return pool_; }
  // All pages accounted for. O(pages).
  bool consistent() const override;

 private:
  static constexpr int kNear = 4;              // tokens to catch up on that are computed before those of others
  static constexpr uint64_t kIdleRounds = 64;  // after so many without, others may take a sequence's pages

  struct Slot {
    const void* owner = nullptr;
    uint64_t seen = 0;  // round
    std::vector<PageId> pages;
    int n_computed = 0, n_drafted = 0;  // drafted: computed behind n_computed, not known to be right
    std::array<TokenId, Guesses::kMost> drafted{};
  };
  struct Task {
    DraftWish* wish;
    Slot* slot;
    int n_tokens;  // computed in the first step
  };

  Slot* slot_of(const void* owner);
  void see(Slot& slot, std::span<const TokenId> tokens) const;
  bool make_room(Slot& slot, int n_tokens);
  bool take_from_idle(const Slot* but);
  void release(Slot& slot);
  void plan(std::span<DraftWish> wishes);
  void add_row(const Slot& slot, std::span<const TokenId> tokens, int position);
  const float* compute();
  void take_best(const float* logits);

  Model& model_;
  BatchSampler sampler_;
  PagePool pool_;
  MemoryClaim unused_kv_;  // of pages that were never used
  std::vector<Slot> slots_;
  std::vector<Task> tasks_;                   // of this call
  std::vector<int32_t> tokens_, logit_rows_;  // the step's batch
  std::vector<Segment> segments_;
  uint64_t round_ = 0;
};

}  // namespace monolith
