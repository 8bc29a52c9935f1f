// Speculative decoding with a draft model: a smaller model with the same vocabulary that continues the text greedily.
// Each recently drafted sequence has its own KV pages in the draft model. The draft model does not affect the output,
// only the number of steps; speculation.h decides when it is used. Engine thread only; nothing allocates after
// construction.
//
// Rejected draft tokens are simply overwritten. A sequence's pages contain the tokens [0, n_computed), followed by
// draft tokens. Accepted draft tokens are counted the next time the sequence is drafted. The page pool has a fixed
// size. If there are too few pages, sequences that have not been drafted for a while lose their pages. If there are no
// such sequences, nothing is drafted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/machine_memory.h"
#include "base/result.h"
#include "engine/sampling/batch_sampler.h"
#include "engine/speculation/draft_budget.h"
#include "engine/speculation/drafter.h"
#include "engine/kv/page_pool.h"
#include "engine/speculation/speculation.h"
#include "model/model.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

class DraftModel final : public Drafter {
 public:
  static constexpr int kMaxRows = 64;  // Maximum number of tokens per draft step.

  // Chooses the draft model's limits from the target model's. The draft model has as many pages as the target model,
  // but no more than fit in `kv_bytes` and, on a CPU, no more than it can use. Returns the errors of Model::plan(), and
  // kUnsupported for models with recurrent state.
  static Result<ModelLimits> choose_limits(const GgufFile& file, const Backend& backend, const ModelLimits& limits,
                                           uint64_t kv_bytes);
  // Checks that every token is the same in both vocabularies. A kInvalidArgument error names the first difference.
  static Status check_vocabulary(const Tokenizer& model, const Tokenizer& draft);

  // All token IDs are below `n_vocab`, which must not exceed the draft model's embedding table (asserted). The model
  // must outlive the DraftModel.
  DraftModel(Model& model, int n_vocab);

  // Produces fewer draft tokens than requested, or none, if the sequence's tokens have not all been computed yet or
  // there are too few pages.
  double draft(std::span<DraftRequest> requests, DraftBudget& pace) override;
  void forget(const void* owner) override;  // Releases the sequence's KV pages in the draft model.

  const PagePool& pool() const { return pool_; }
  // Whether all pages are accounted for. Takes O(pages) time.
  bool consistent() const override;

 private:
  // Sequences with at most this many unprocessed tokens are computed before the others.
  static constexpr int kNear = 4;
  // After this many rounds without being drafted, a sequence may lose its pages to another one.
  static constexpr uint64_t kIdleRounds = 64;

  struct Slot {
    const void* owner = nullptr;
    uint64_t seen = 0;  // Last round in which the sequence was drafted.
    std::vector<PageId> pages;
    // n_drafted: draft tokens computed after n_computed whose acceptance is not known yet.
    int n_computed = 0, n_drafted = 0;
    std::array<TokenId, SequenceDrafts::kMax> drafted{};
  };
  struct Task {
    DraftRequest* request;
    Slot* slot;
    int n_tokens;  // Number of tokens computed in the first draft step.
  };

  Slot* slot_of(const void* owner);
  void see(Slot& slot, std::span<const TokenId> tokens) const;
  bool make_room(Slot& slot, int n_tokens);
  bool take_from_idle(const Slot* but);
  void release(Slot& slot);
  void plan(std::span<DraftRequest> requests);
  void add_row(const Slot& slot, std::span<const TokenId> tokens, int position);
  const float* compute();
  void take_best(const float* logits);

  Model& model_;
  BatchSampler sampler_;
  PagePool pool_;
  MemoryClaim unused_kv_;  // Memory of pages that have never been used.
  std::vector<Slot> slots_;
  std::vector<Task> tasks_;                   // Tasks of the current draft() call.
  std::vector<int32_t> tokens_, logit_rows_;  // These two vectors and the next are the batch of a draft step.
  std::vector<Segment> segments_;
  uint64_t round_ = 0;
};

}  // namespace monolith
