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
  // `n_tables`: KvLayout::tables() of the model.
  BatchBuilder(const ModelLimits& limits, int n_tables);

  // Items that want logits get theirs in their order, each followed by those of its guesses. Valid until the next call,
  // and as long as the sequences' pages stay where they are.
  Batch build(const StepPlan& plan, bool logits_stay_on_backend);
  // Rows of prompts in the batch built last.
  uint64_t prompt_rows() const { return prompt_rows_; }

 private:
  const int n_tables_;
  std::vector<int32_t> tokens_, logit_rows_;
  std::vector<Segment> segments_;
  uint64_t prompt_rows_ = 0;
};

}  // namespace monolith
