// The forward pass of all supported architectures: the only implementation of Model. Differences between models are
// data (HyperParams); the code never checks an architecture's name. It runs a list of blocks (layers/layer_block.h);
// each kind of block has its own file.
//
//   x = embedding * scale, or a row of an embedding span    [tokens][n_embd]: the residual stream
//   per layer:  x += scale * post_norm(W_o attention(rope(qk_norm(W_qkv pre_norm(x)))))
//               x += scale * post_norm(feed_forward(pre_norm(x)))
//   feed_forward(x) = W_down (activation(W_gate x) * W_up x), or MoE of that form,
//               with or without a shared expert
//   logits = soft_cap(scale * W_out norm(x))                only for tokens whose logits are requested
//
// Norms, scales and soft caps apply only where HyperParams specifies them. Owned and used by one thread. All memory is
// allocated during loading.
#pragma once

#include <memory>
#include <vector>

#include "model/adapter_operations.h"
#include "model/mtp_layer.h"
#include "model/layers/layer_block.h"
#include "model/model.h"
#include "model/weights.h"

namespace monolith {

class Transformer final : public Model {
 public:
  static Result<std::unique_ptr<Transformer>> load(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                                   const Progress& progress, const GgufFile* head = nullptr);

  const HyperParams& params() const override { return params_; }
  const ModelLimits& limits() const override { return limits_; }
  const MemoryPlan& memory() const override { return plan_; }
  KvCache& kv() override { return *kv_; }
  LayerSlots state_slots() override { return slots_; }
  Backend& backend() override { return backend_; }
  const float* forward(const Batch& batch) override;
  const std::vector<AdaptableWeight>& adaptable_weights() const override { return adaptable_; }
  size_t collapse_huge_pages(const Stopped& stopped) override;
  Status reserve_adapters(int rank) override { return adapted_.reserve(rank); }
  const PoolingHead* pooling_head() const override {
    return params_.pooling == Pooling::kNone ? nullptr : &pooling_head_;
  }
  const float* hidden_states() override;
  bool drafts() const override { return draft_layer_ != nullptr; }
  std::span<const int32_t> draft_tokens() const override;
  int draft_levels() const override { return params_.draft.n_levels; }
  const float* draft(const DraftBatch& batch) override;

  // The number of bytes that load() has actually allocated, counted at each allocation. Equal to memory().
  const MemoryPlan& allocated() const { return allocated_; }

  // For debugging: after this call, each step with logits records the residual stream of the last token with logits,
  // after every layer and after the final norm. Off by default; memory is allocated only once.
  Status observe();
  // Returns the recorded values of the last step with logits: [n_layers + 1][n_embd].
  std::vector<float> observed();

 private:
  Transformer(HyperParams params, const ModelLimits& limits, Backend& backend)
      : params_(std::move(params)), limits_(limits), backend_(backend), adapted_(backend, limits.max_batch_tokens) {}

  void note_matrices(const std::vector<WeightSlot>& slots);
  Status build_layers(Backend& backend);
  // Runs the operations of one step. `all`: the number of tokens in the step.
  void compute(const Batch& batch, RowCount all);
  void add_positions(RowCount all);  // Adds learned position embeddings.
  void place_embedded(const Batch& batch);
  void add_deepstack(const Batch& batch, const StepRows& rows, int part);
  static void note_logit_segments(const Batch& batch, std::span<const Segment> of_all, std::vector<Segment>& segments);
  void write_logits(const Matrix* head, int n_tokens, RowCount rows);
  const float* host_logits(int n_rows);
  void note(const float* x, int row, int index);

  // One block of a layer; parts_ lists the blocks of all layers in order.
  struct Part {
    std::unique_ptr<LayerBlock> part;
    int layer;
    bool ends_layer;
  };

  HyperParams params_;
  ModelLimits limits_;
  Backend& backend_;
  AdapterOperations adapted_;  // Used by the model's own layers; drafters use backend_.
  Weights weights_;
  std::vector<AdaptableWeight> adaptable_;
  std::vector<const Matrix*> matrices_;  // All weight matrices, for collapse_huge_pages().
  bool crowded_ = false;                 // Whether the memory could not hold both the file and the weights.
  std::unique_ptr<KvCache> kv_;
  LayerSlots slots_;  // Recurrent state of all layers; null if the model has none.
  MemoryPlan plan_{}, allocated_{};

  Activations activations_;
  std::vector<Part> parts_;
  size_t last_to_keep_ = 0;           // Index in parts_ of the last block that stores data for later tokens.
  std::vector<size_t> logit_tables_;  // Page tables that this block and later blocks read.
  size_t n_tables_ = 1;
  std::vector<float> host_logits_;
  PoolingHead pooling_head_;
  std::vector<float> host_states_;                     // Host copy of final_states; empty if they are in host memory.
  int n_hidden_states_ = 0;                            // Number of tokens in the last step.
  std::vector<std::vector<Segment>> last_segments_;    // One list per entry of logit_tables_.
  std::vector<std::span<const Segment>> logit_lists_;  // The lists in last_segments_, indexed by page table.
  std::vector<std::span<const Segment>> lists_;        // Segments for each page table, followed by last_segments_.

  std::unique_ptr<MtpLayer> draft_layer_;  // The drafter; null if there is none.
  std::vector<int32_t> positions_;         // Position of each token, for learned position embeddings.
  std::vector<int32_t> repeated_;  // Each token's index, repeated once per residual stream, for hyper-connections.

  float* observed_ = nullptr;  // Null unless observe() was called.
};

}  // namespace monolith
