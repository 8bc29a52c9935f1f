// Loads a model file with a CPU backend and computes golden prompts. For tests only.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "model/transformer.h"
#include "support/golden.h"

namespace monolith::testing {

struct LoadedModel {
  std::unique_ptr<Backend> backend;  // The backend must outlive the model.
  std::unique_ptr<Transformer> model;
};

// Limits that allow all golden prompts of one file in a single step. There are enough pages for the seven page tables
// that the model with sliding windows needs.
ModelLimits golden_limits(KvType kv_type);

Result<LoadedModel> load_model(const std::string& path, Result<std::unique_ptr<Backend>> backend,
                               const ModelLimits& limits);

Result<LoadedModel> load_model(const std::string& path, const CpuBackendOptions& options, const ModelLimits& limits);

// The logits that the model computed for one golden prompt.
struct PromptRun {
  std::vector<std::vector<float>> positions;  // The logits at the positions of GoldenPrompt::positions.
  std::vector<std::vector<float>> greedy;     // The logits that select greedy[i], along the golden path.
};

// Processes golden prompts and their greedy continuations, with `piece` tokens of each prompt per step. If `together`
// is true, the prompts share steps; otherwise, each prompt has its own steps.
class GoldenRunner {
 public:
  explicit GoldenRunner(Transformer& model) : model_(model) {}

  std::vector<PromptRun> run(const std::vector<GoldenPrompt>& prompts, int piece, bool together);
  // In all following runs, prompt i uses adapters[i % adapters.size()]; a null pointer means no adapter.
  void use(std::vector<const Adapter*> adapters) { adapters_ = std::move(adapters); }

 private:
  struct Sequence {
    const GoldenPrompt* golden;
    PromptRun* run;
    std::vector<int32_t> tokens;  // The tokens of the prompt and of the greedy path.
    std::vector<int32_t> pages;   // The pages in each page table.
    int position = 0;
    bool odd = false;
    const Adapter* adapter = nullptr;
    size_t prompt_size() const { return golden->tokens.size(); }
    size_t table_size() const { return (tokens.size() + kPageTokens - 1) / kPageTokens; }
    bool ended() const { return position == static_cast<int>(tokens.size()); }
  };

  Sequence start(const GoldenPrompt& prompt, PromptRun& run);

  void finish(std::span<Sequence> sequences, int piece);

  // Processes the next chunk of each prompt, or the next token of each sequence whose prompt has been processed, as the
  // engine does. Returns false when all sequences have ended.
  bool step(std::span<Sequence> sequences, int piece);

  // The last position of the prompt is both a golden position and the position of the first greedy step. Its logits are
  // stored as the logits of the greedy step.
  static std::vector<float>* place_of(Sequence& s, int position);

  Transformer& model_;
  std::vector<const Adapter*> adapters_;
  int64_t next_page_ = 0;
};

}  // namespace monolith::testing
