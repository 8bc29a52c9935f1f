// Converts a step plan into the model's input: tokens, segments with their page tables, and the tokens that need
// logits. All buffers are allocated at construction for the largest possible step. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace monolith {

class BatchBuilder {
 public:
  // `n_tables`: KvLayout::tables() of the model. `uses_mrope`: HyperParams::uses_mrope().
  BatchBuilder(const ModelLimits& limits, int n_tables, bool uses_mrope);

  // Builds the batch. Logits are in the order of the items that need them; within an item, its own token comes first,
  // then its draft tokens. The batch is valid until the next call, as long as the sequences' page tables do not move.
  Batch build(const StepPlan& plan, bool logits_stay_on_backend);
  // Number of prompt tokens in the batch that was built last.
  uint64_t prompt_rows() const { return prompt_rows_; }

 private:
  void add_segments(const StepPlan& plan, const StepPlan::Item& item, int row);
  void add_segment(const Sequence& sequence, Segment segment);
  void add_embedded(const Sequence& sequence, int n_tokens, int row);

  const int n_tables_;
  const bool turns_by_three_;
  std::vector<int32_t> tokens_, logit_rows_;
  std::vector<Segment> segments_;
  // Rotary positions of tokens in or after embedding spans. The capacity is reserved, so pointers into the vector stay
  // valid.
  std::vector<RopePosition> rope_positions_;
  std::vector<EmbeddedRows> embedded_;
  std::vector<AdapterRows> adapters_;
  std::vector<const Sequence*> owners_;  // Sequence of each segment of the first page table.
  uint64_t prompt_rows_ = 0;
};

}  // namespace monolith
