// The decoder part of the vision vectors. Sequences of tokens and given image embeddings run through the engine on any
// backend, and the results are compared with the logits and the greedy path of exact arithmetic. The vision encoders
// themselves are tested in test/native/vision.
#pragma once

#include <cmath>

#include "formats/gguf/tokenizer.h"
#include "engine/engine_fixture.h"
#include "support/golden.h"
#include "support/json.h"

namespace monolith::testing {

struct VisionSequence {
  std::string name;
  GenerationRequest request;
  std::vector<float> logits, last_logits;
  std::vector<int32_t> greedy;
  std::vector<double> margins;
};

struct VisionPair {
  std::string text_model;
  Tolerance f32, f16;
  std::vector<VisionSequence> sequences;  // Sequences whose embeddings are all given.
};

std::shared_ptr<const std::vector<RopePosition>> rope_offsets(const Json& piece);

// Returns false if the vectors do not contain all embeddings of the sequence.
bool read_sequence(const Json& from, uint64_t& hash, GenerationRequest& request);

std::optional<VisionPair> read_pair(const std::string& name);

// Wraps a model and records the logits of each step.
class NotedModel final : public Model {
 public:
  NotedModel(std::unique_ptr<Model> model, std::vector<std::vector<float>>& noted)
      : model_(std::move(model)), noted_(noted) {}
  const HyperParams& params() const override { return model_->params(); }
  const ModelLimits& limits() const override { return model_->limits(); }
  const MemoryPlan& memory() const override { return model_->memory(); }
  KvCache& kv() override { return model_->kv(); }
  Backend& backend() override { return model_->backend(); }
  const float* forward(const Batch& batch) override;

 private:
  const std::unique_ptr<Model> model_;
  std::vector<std::vector<float>>& noted_;
};

int32_t best_of(const std::vector<float>& logits);

// Compares the logits of the first `n_tokens` tokens of a response with the vectors.
void judge(const VisionSequence& sequence, const std::vector<std::vector<float>>& noted, size_t n_tokens,
           const Tolerance& tolerance, const std::string& how);

// How to run a pair's sequences.
struct VisionRun {
  std::string how;  // Description of the run for error messages.
  bool exact = false;
  int rows = 512;                     // Maximum tokens per step.
  size_t sequences_limit = SIZE_MAX;  // Runs only the first N sequences.
  int most_tokens = INT32_MAX;        // Maximum tokens per response.
};

void run_pair(const VisionPair& pair, std::unique_ptr<Backend> backend, const VisionRun& run);

}  // namespace monolith::testing
