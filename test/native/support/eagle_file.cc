#include "support/eagle_file.h"

namespace monolith::testing {

EagleFile::EagleFile(const LooseModel& model, std::vector<int64_t> chosen)
    : n_embd(model.number("embedding_length")),
      n_vocab(model.tensors.at("token_embd.weight").dims[1]),
      tokens(std::move(chosen)) {
  uint64_t seed = 11;
  for (const auto& [name, dims] : shapes())
    values[name] = dims.size() == 1 ? std::vector<float>(dims[0], 1.0f) : made_up(dims[0] * dims[1], ++seed, 0.2f);
}

std::map<std::string, std::vector<uint64_t>> EagleFile::shapes()
    const {  // Returns the shapes of all tensors, row length first.
  const uint64_t n = n_embd, n_ff = 2 * n;
  return {{"fc.weight", {3 * n, n}},           {"output_norm.weight", {n}},
          {"output.weight", {n, n_tokens()}},  {"token_embd.weight", {n, n_vocab}},
          {"blk.0.attn_norm.weight", {n}},     {"blk.0.attn_norm_2.weight", {n}},
          {"blk.0.attn_q.weight", {2 * n, n}}, {"blk.0.attn_k.weight", {2 * n, n}},
          {"blk.0.attn_v.weight", {2 * n, n}}, {"blk.0.attn_output.weight", {n, n}},
          {"blk.0.ffn_norm.weight", {n}},      {"blk.0.ffn_gate.weight", {n, n_ff}},
          {"blk.0.ffn_up.weight", {n, n_ff}},  {"blk.0.ffn_down.weight", {n_ff, n}}};
}

void EagleFile::diagonal(const std::string& name, float factor, uint64_t first) {
  zero(name);
  const uint64_t cols = shapes().at(name)[0];
  for (uint64_t i = 0; i < n_embd; ++i) values.at(name)[i * cols + first + i] = factor;
}

Bytes EagleFile::build() const {
  const auto width = static_cast<uint32_t>(n_embd);
  GgufBuilder builder;
  builder.string("general.architecture", "eagle3")
      .scalar("eagle3.block_count", uint32_t{1})
      .scalar("eagle3.context_length", uint32_t{512})
      .scalar("eagle3.embedding_length", width)
      .scalar("eagle3.feed_forward_length", 2 * width)
      .scalar("eagle3.attention.head_count", uint32_t{1})
      .scalar("eagle3.attention.key_length", width)
      .scalar("eagle3.attention.value_length", width)
      .scalar("eagle3.rope.dimension_count", rotated)
      .scalar("eagle3.norm_before_residual", norm_before_residual)
      .scalar("eagle3.attention.layer_norm_rms_epsilon", 1e-5f)
      .scalar("eagle3.target_hidden_size", width)
      .array<uint32_t>("eagle3.target_layers", std::span<const uint32_t>(sources));
  for (const auto& [name, dims] : shapes()) {
    const auto bytes = std::as_bytes(std::span(values.at(name)));
    if (dims.size() == 1)
      builder.tensor(name, TensorType::kF32, {dims[0]}, bytes);
    else
      builder.tensor(name, TensorType::kF32, {dims[0], dims[1]}, bytes);
  }
  if (!tokens.empty()) builder.tensor("d2t", TensorType::kI64, {tokens.size()}, std::as_bytes(std::span(tokens)));
  return builder.build();
}

std::vector<float> looks_back(const std::vector<float>& table, uint64_t n_embd, const std::vector<int64_t>& tokens,
                              uint64_t ahead) {
  const uint64_t n_vocab = table.size() / n_embd;
  std::vector<float> head;
  for (const int64_t token : tokens) {
    const auto row =
        table.begin() + static_cast<ptrdiff_t>((static_cast<uint64_t>(token) + n_vocab - ahead) % n_vocab * n_embd);
    // In some model files, some rows of the embedding table are all zeros.
    const float length =
        std::max(1e-6f, std::sqrt(std::inner_product(row, row + static_cast<ptrdiff_t>(n_embd), row, 0.0f)));
    for (uint64_t i = 0; i < n_embd; ++i) head.push_back(row[static_cast<ptrdiff_t>(i)] / length);
  }
  return head;
}

}  // namespace monolith::testing
