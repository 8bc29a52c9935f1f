// The decoder of all architectures this build knows: one implementation of Model. What a network
// does and another does not is data (HyperParams), never a question after its name.
//
//   x = embedding * scale                          [rows][n_embd]: the residual stream
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

  void compute(const Batch& batch);   // a step's operations
  void note_logit_segments(const Batch& batch);
  void project_qkv(const LayerWeights& layer, int n_rows);
  // With the page table that holds the layer's keys and values.
  std::span<const Segment> segments_of(int index) const;
  void store(int index);
  Rows keep_logit_rows(const Batch& batch);
  void attend(const LayerWeights& layer, int index, const Rows& rows);
  void feed_forward(const LayerWeights& layer, int index, const Rows& rows);
  // activation(gate x) * up x, projected down into `out` or added to it. `use`: of x.
  void gated_network(const LayerWeights& layer, int64_t n_ff, const float* x, int n_rows,
                     float* out, bool add, InputUse use);
  Mixture mixture_of(const LayerWeights& layer) const;
  // The experts, and the network that all rows pass besides.
  void mix_experts(const LayerWeights& layer, const float* x, int n_rows, float* out, bool add);
  // What a half of a layer reads: x past its norm, if there is one.
  const float* normed(const float* x, const float* weight, int n_rows);
  // Of that: the residual stream itself is read again.
  InputUse last_use() const { return params_.pre_norm ? InputUse::kLast : InputUse::kAgain; }
  // A half's result goes straight to the residual stream, or to branch_ and through add_branch().
  bool adds_directly() const { return !params_.post_norm && params_.residual_scale == 1.0f; }
  void add_branch(const float* post_norm, const Rows& rows);
  void write_logits(int n_rows);
  void note(const float* x, int row, int index);

  HyperParams params_;
  ModelLimits limits_;
  Backend& backend_;
  Weights weights_;
  std::unique_ptr<KvCache> kv_;
  std::vector<KvPlace> places_;  // by layer
  MemoryPlan plan_{}, allocated_{};

  // Activations; rows first.
  float* x_ = nullptr;
  float* normed_ = nullptr;
  float* q_ = nullptr;
  float* k_ = nullptr;
  float* v_ = nullptr;
  float* attended_ = nullptr;
  float* branch_ = nullptr;  // what a half of a layer adds, unless it adds directly
  float* gate_ = nullptr;
  float* up_ = nullptr;
  float* router_ = nullptr;       // [rows][n_experts]
  float* shared_ = nullptr;       // result of a gated network beside the experts
  float* shared_gate_ = nullptr;  // [rows]
  float* last_q_ = nullptr;  // the last layer's logit rows, gathered
  float* last_x_ = nullptr;
  float* logits_ = nullptr;
  std::vector<float> host_logits_;
  std::vector<Segment> last_segments_;
  std::vector<std::span<const Segment>> lists_;  // of each page table, and last_segments_

  float* observed_ = nullptr;  // null: nobody observes
};

}  // namespace monolith
