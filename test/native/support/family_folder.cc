#include "support/family_folder.h"

namespace monolith::testing {

TensorNames operator+(TensorNames names, const TensorNames& more) {
  for (const auto& [gguf, name] : more) names.insert_or_assign(gguf, name);
  return names;
}

TensorNames below_language_model(TensorNames names) {
  for (auto& [gguf, name] : names)
    if (name.starts_with("model.")) name.insert(6, "language_model.");
  return names;
}

std::string mtp_names(int level, const std::string& rest) {
  static const std::map<std::string, std::string> beside = {{"eh_proj.weight", "mtp.fc.weight"},
                                                            {"enorm.weight", "mtp.pre_fc_norm_embedding.weight"},
                                                            {"hnorm.weight", "mtp.pre_fc_norm_hidden.weight"},
                                                            {"shared_head.norm.weight", "mtp.norm.weight"}};
  const auto found = beside.find(rest);
  return found == beside.end() ? "mtp.layers." + std::to_string(level) + "." + rest : found->second;
}

FloatTensor rows_between(const FloatTensor& tensor, int64_t first, int64_t count) {
  const auto row = static_cast<ptrdiff_t>(tensor.values.size()) / tensor.shape[0];
  FloatTensor out{tensor.shape, {tensor.values.begin() + first * row, tensor.values.begin() + (first + count) * row}};
  out.shape[0] = count;
  return out;
}

void take_each(Weights& weights, const std::string& stem,
               const std::function<void(const std::string& block, FloatTensor tensor)>& use) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : weights)
    if (is_named(name, stem)) names.push_back(name);
  for (const std::string& name : names) {
    FloatTensor tensor = std::move(weights.at(name));
    weights.erase(name);
    use(name.substr(0, name.size() - stem.size()), std::move(tensor));
  }
}

void fuse_experts(Weights& weights) {
  take_each(weights, "ffn_gate_exps.weight", [&](const std::string& block, const FloatTensor& gate) {
    const FloatTensor& up = weights.at(block + "ffn_up_exps.weight");
    FloatTensor both = join_rows({&gate, &up}, gate.shape[0]);
    both.shape = {gate.shape[0], 2 * gate.shape[1], gate.shape[2]};
    weights[block + "ffn_gate_up_exps.weight"] = std::move(both);
    weights.erase(block + "ffn_up_exps.weight");
  });
}

void as_halves(Weights& weights, std::string_view stem, int64_t heads) {
  each(weights, stem, [&](FloatTensor& tensor) {
    const int64_t width = tensor.shape[0] / heads;
    pick_rows(tensor, [&](int64_t row) {
      const int64_t at = row % width, half = width / 2;
      return row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
    });
  });
}

}  // namespace monolith::testing
