// What a plan becomes for the model: tokens, segments over the tables of each sequence, and the rows whose logits are
// wanted. Buffers are as large as a step may be from the start. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "model/model.h"

namespace monolith {

class BatchBuilder {
 public:
  // `n_tables`: KvLayout::tables() of the model. `turns_by_three`: HyperParams::turns_by_three().
  BatchBuilder(const ModelLimits& limits, int n_tables, bool turns_by_three);

  // Logits come in the order of the items that want some, each item's followed by its guesses'. The batch is valid until
  // the next call, and as long as the sequences' pages stay where they are.
  Batch build(const StepPlan& plan, bool logits_stay_on_backend);
  // Rows of prompts in the batch built last.
  uint64_t prompt_rows() const { return prompt_rows_; }

 private:
  void add_segments(const StepPlan& plan, const StepPlan::Item& item, int row);
  void add_segment(const Sequence& sequence, Segment segment);
  void add_embedded(const Sequence& sequence, int n_tokens, int row);

  const int n_tables_;
  const bool turns_by_three_;
  std::vector<int32_t> tokens_, logit_rows_;
  std::vector<Segment> segments_;
  // of rows behind and within embedding spans; reserved, so they stay where they are
  std::vector<RopePosition> rope_positions_;
  std::vector<EmbeddedRows> embedded_;
  std::vector<const Sequence*> owners_;  // of the first table's segments
  uint64_t prompt_rows_ = 0;
};

}  // namespace monolith
