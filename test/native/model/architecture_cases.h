// For every architecture, a small random model and a reference network in float64. The model's metadata is chosen so
// that each part affects the result. For tests only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mlp.h"

namespace monolith::testing {

using P = Mlp;

constexpr uint32_t kEmbd = TinyModel::kEmbedding, kFf = TinyModel::kFeedForward;
constexpr uint32_t kQ = TinyModel::kHeads * TinyModel::kHeadDim;
constexpr uint32_t kKv = TinyModel::kKvHeads * TinyModel::kHeadDim;
constexpr uint32_t kExperts = 6, kUsed = 2, kExpertFf = 48, kWindow = 7;

std::string block_name(uint32_t layer);

void for_blocks(TinyModel& model, const std::function<void(const std::string&)>& fn);

void add_post_norms(TinyModel& model);

void add_qk_norms(TinyModel& model, bool each_head);

// Replaces the MLP with experts in all layers, starting with layer `lead`.
void put_experts(TinyModel& model, uint32_t n_ff, uint32_t lead = 0);

void put_shared_expert(TinyModel& model, uint32_t n_ff, uint32_t lead = 0);

using Tokens = std::vector<int32_t>;
using Network = std::function<Rows(const P&, const Tokens&)>;  // Returns the logits at every position.

struct Case {
  std::string name;
  TinyModel model;
  Network network;
};

// Parameters for the parts of an attention layer that most architectures have in common.
struct QkvOf {
  bool biases = false;
  Row frequency = P::frequencies(10000);  // RoPE frequencies. Empty = no rotation.
  bool halves = true;
  double magnitude = 1;
  // Normalizes queries and keys. Called with the name of the norm's tensor and a row.
  std::function<Row(const std::string&, const Row&)> qk_norm = {};
};
Rows attention(const P& net, const std::string& block, const Rows& h, const QkvOf& qkv, const P::Attention& how = {});
Row gated_mlp(const P& net, const std::string& block, const Row& h, double (*activation)(double) = silu,
              const std::string& suffix = "");
std::function<Row(const std::string&, const Row&)> norm_of(const P& net);
Rows normed(const P& net, const std::string& name, const Rows& x);
Rows sum(const Rows& a, const Rows& b, double factor = 1);
Rows logits_of(const P& net, const Rows& x, const char* output = "output");
// A pre-norm decoder: x += attention(norm(x)); x += mlp(norm(x)).
Rows pre_norm_layers(const P& net, const Tokens& tokens, uint32_t layers,
                     const std::function<Rows(uint32_t, const std::string&, const Rows&)>& attend,
                     const std::function<Row(const std::string&, const Row&)>& network);

Case mistral();

Case biased_llama();

Case mixtral();

Case qwen2moe();

Case qwen3moe(const char* name = "qwen3moe");

Case olmoe();

Case gemma();

// The norms are in the same places in Gemma 2 and 3.
Rows gemma_layers(const P& net, const Tokens& tokens, uint32_t layers,
                  const std::function<Rows(uint32_t, const std::string&, const Rows&)>& attend);

Case gemma2();

Case gemma3();

// Phi-3: partial rotation, LongRoPE, a sliding window and fused tensors. `original` is the context length with which
// the model was originally trained.
Case phi3(uint32_t original, double factor);

Case smollm3();

Rows granite_layers(const P& net, const Tokens& tokens, const Row& frequency, double scale,
                    const std::function<Row(const std::string&, const Row&)>& network);

void put_granite_scales(TinyModel& model);

Case granite(bool rotates);

Case minicpm();

Case granitemoe(bool shared);

// Olmo 2 or, with sliding windows, Olmo 3. In Olmo 3, RoPE is not scaled in sliding-window layers.
Case olmo2(bool windows);

// Exaone 4: norms only after each block. In models with sliding windows, the full-attention layers have no RoPE.
Case exaone4(bool windows);

Case glm4();

Case seed_oss();

// The text models of vision-language models.
Case qwen2vl();

Case qwen3vl();

Case llama_like(const char* name, bool halves);

}  // namespace monolith::testing
