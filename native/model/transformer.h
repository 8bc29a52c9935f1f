// The decoder of Llama, Qwen2 and Qwen3: one implementation of Model. Their differences are data
// (biases on Q, K and V; a norm on each Q and K head; which dimensions RoPE pairs; tied output).
//
//   x = embedding                                  [rows][n_embd]: the residual stream
//   per layer:  x += W_o attention(rope(W_qkv norm(x)))
//               x += W_down (silu(W_gate norm(x)) * W_up norm(x))
//   logits = W_out norm(x)                         only for the rows that ask
//
// Owned and used by one thread. All memory is taken at load.
#pragma once

#include <memory>
#include <vector>

#include "model/model.h"
#include "model/weights.h"

namespace monolith {

class Transformer final : public Model {
 public:
  static Result<std::unique_ptr<Transformer>> load(const GgufFile& file, Backend& backend,
                                                   const ModelLimits& limits,
                                                   const Progress& progress);

  const HyperParams& params() const override { return params_; }
  const ModelLimits& limits() const override { return limits_; }
  const MemoryPlan& memory() const override { return plan_; }
  KvCache& kv() override { return *kv_; }
  Backend& backend() override { return backend_; }
  const float* forward(const Batch& batch) override;

  // What load() really took, counted where it was taken; equals memory().
  const MemoryPlan& allocated() const { return allocated_; }

  // For diagnosis: from now on each step that has logits keeps, for the last row that has them, the
  // residual stream after every layer and after the final norm. Off by default; allocates once.
  Status observe();
  // What the last such step left: [n_layers + 1][n_embd].
  std::vector<float> observed();

 private:
  // Floats of one buffer: `per_row` times the rows a step may have, or the logit rows it may have.
  struct Buffer {
    float* Transformer::*place;
    int64_t count;
  };
  static std::vector<Buffer> buffers(const HyperParams& params, const ModelLimits& limits);
  friend class Model;  // plan() asks buffers()

  // The rows a layer's second half works on: all of the step's, or in the last layer those with
  // logits.
  struct Rows {
    std::span<const Segment> segments;
    float* q;
    float* x;
    int count;
  };

  Transformer(HyperParams params, const ModelLimits& limits, Backend& backend)
      : params_(std::move(params)), limits_(limits), backend_(backend) {}

  void project_qkv(const LayerWeights& layer, int n_rows);
  Rows keep_logit_rows(const Batch& batch);
  void attend(const LayerWeights& layer, int index, const Rows& rows);
  void feed_forward(const LayerWeights& layer, const Rows& rows);
  void note(const float* x, int row, int index);

  HyperParams params_;
  ModelLimits limits_;
  Backend& backend_;
  Weights weights_;
  std::unique_ptr<KvCache> kv_;
  MemoryPlan plan_{}, allocated_{};

  // Activations; rows first.
  float* x_ = nullptr;
  float* normed_ = nullptr;
  float* q_ = nullptr;
  float* k_ = nullptr;
  float* v_ = nullptr;
  float* attended_ = nullptr;
  float* gate_ = nullptr;
  float* up_ = nullptr;
  float* last_q_ = nullptr;  // the last layer's logit rows, gathered
  float* last_x_ = nullptr;
  float* logits_ = nullptr;
  std::vector<float> host_logits_;
  std::vector<Segment> last_segments_;

  float* observed_ = nullptr;  // null: nobody observes
};

}  // namespace monolith
