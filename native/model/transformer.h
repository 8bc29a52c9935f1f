// The decoder of all architectures this build knows: one implementation of Model. What a network
// does and another does not is data (HyperParams), never a question after its name. It walks a list of the layers'
// parts (layers/layer_part.h), of which each kind has its file.
//
//   x = embedding * scale, or a span's row         [rows][n_embd]: the residual stream
//   per layer:  x += scale * post_norm(W_o attention(rope(qk_norm(W_qkv pre_norm(x)))))
//               x += scale * post_norm(feed_forward(pre_norm(x)))
//   feed_forward(x) = W_down (activation(W_gate x) * W_up x), or a mixture of experts of that form,
//               with or without a network that all rows pass besides
//   logits = soft_cap(scale * W_out norm(x))       only for the rows that ask
//
// Norms, scales and caps where HyperParams has them. Owned and used by one thread. All memory is
// taken at load.
#pragma once

#include <memory>
#include <vector>

#include "model/guess_layer.h"
#include "model/layers/layer_part.h"
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
  Backend& backend() override { return backend_; }
  const float* forward(const Batch& batch) override;
  bool guesses() const override { return guess_layer_ != nullptr; }
  std::span<const int32_t> guessed_tokens() const override;
  int guess_levels() const override { return params_.guess.n_levels; }
  const float* guess(const GuessBatch& batch) override;

  // What load() really took, counted where it was taken; equals memory().
  const MemoryPlan& allocated() const { return allocated_; }

  // For diagnosis: from now on each step that has logits keeps, for the last row that has them, the
  // residual stream after every layer and after the final norm. Off by default; allocates once.
  Status observe();
  // What the last such step left: [n_layers + 1][n_embd].
  std::vector<float> observed();

 private:
  Transformer(HyperParams params, const ModelLimits& limits, Backend& backend)
      : params_(std::move(params)), limits_(limits), backend_(backend) {}

  Status build_layers(Backend& backend);
  void compute(const Batch& batch);  // a step's operations
  void place_embedded(const Batch& batch);
  void add_deepstack(const Batch& batch, const StepRows& rows, int part);
  static void note_logit_segments(const Batch& batch, std::span<const Segment> of_all, std::vector<Segment>& segments);
  void write_logits(const Matrix* head, int n_tokens, int n_rows);
  const float* host_logits(int n_rows);
  void note(const float* x, int row, int index);

  // Of all layers in order.
  struct Part {
    std::unique_ptr<LayerPart> part;
    int layer;
    bool ends_layer;
  };

  HyperParams params_;
  ModelLimits limits_;
  Backend& backend_;
  Weights weights_;
  std::unique_ptr<KvCache> kv_;
  LayerSlots slots_;  // of all layers; null where none has recurrent state
  MemoryPlan plan_{}, allocated_{};

  Activations activations_;
  std::vector<Part> parts_;
  size_t last_to_keep_ = 0;           // of parts_: the last that keeps something for later tokens
  std::vector<size_t> logit_tables_;  // page tables that it reads and that parts after it read
  size_t n_tables_ = 1;
  std::vector<float> host_logits_;
  std::vector<std::vector<Segment>> last_segments_;    // of each of logit_tables_
  std::vector<std::span<const Segment>> logit_lists_;  // these by page table
  std::vector<std::span<const Segment>> lists_;        // of each page table, and last_segments_

  std::unique_ptr<GuessLayer> guess_layer_;  // null: it has none
  std::vector<int32_t> repeated_;            // each row's number as often as there are streams that are mixed

  float* observed_ = nullptr;  // null: nobody observes
};

}  // namespace monolith
