// The tensors of one checkpoint on their way to GGUF's names and order: what tensors.cc, packed_experts.cc and
// family_tensors.cc share. Used on the thread that opens the model.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/config.h"
#include "formats/hf/guess_tensors.h"
#include "formats/hf/rows.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

class Translator {
 public:
  Translator(const Config& config, AssembledFile& file) : config_(config), file_(file) {}

  Status add(const Safetensor& tensor);
  // The rows of the embedding table.
  Result<int64_t> finish();

 private:
  struct Experts {
    TensorType type;
    std::vector<int64_t> shape;  // of one
    std::map<int64_t, const Safetensor*> parts;
    int64_t count = 0;  // that there must be
  };
  struct Packed {
    const Safetensor* numbers = nullptr;
    const Safetensor* scales = nullptr;
  };

  std::string_view layer_name(std::string_view stem) const;
  Status add_of_layer(int64_t layer, std::string_view rest, const Safetensor& tensor, TensorType type);
  Status add_token_numbers(const Safetensor& tensor);
  Status add_expert_numbers(const Safetensor& tensor);
  Status add_of_guesses(const GuessName& guess, const Safetensor& tensor, TensorType type);
  // One of `count` matrices that GGUF has in one tensor.
  Status add_expert(const std::string& name, int64_t expert, int64_t count, const Safetensor& tensor, TensorType type);
  Status add_fused(const std::string& block, const std::string& kind, const Safetensor& tensor, TensorType type);
  Status add_grouped(const std::string& block, std::string_view suffix, const Safetensor& tensor, TensorType type);
  Status add_sharded(int64_t layer, const Safetensor& tensor, TensorType type);
  Status add_joined(const std::string& block, std::string_view suffix, const Safetensor& tensor, TensorType type);
  // `tensor` as it is, but for what the architecture does to all.
  Status put(const std::string& name, const Safetensor& tensor, TensorType type);
  // Likewise `runs` of `tensor`, one below the other, as the tensor `name` of `shape`: the row length first.
  Status put_runs(const std::string& name, const std::vector<int64_t>& shape, std::vector<Run> runs,
                  const Safetensor& tensor);
  void put_rows(std::string_view name, const std::vector<int64_t>& shape, Rows rows);
  // `factors` of it, or of each of its matrices, as "x.scale" beside "x.weight"; none if all are 1.
  void put_scale(std::string_view name, const std::vector<float>& factors);

  // packed_experts.cc: gpt-oss.
  Status add_packed(const Safetensor& tensor);
  Status put_packed(const std::string& name, const Packed& packed);
  Status add_expert_bias(const std::string& block, std::string_view rest, const Safetensor& tensor, TensorType type);

  // family_tensors.cc: false if `rest`, the name within a layer, is none of the family's own.
  Result<bool> add_of_family(const std::string& block, std::string_view rest, const Safetensor& tensor,
                             TensorType type);
  Status add_of_delta_net(const std::string& block, std::string_view part, const Safetensor& tensor, TensorType type);
  Status add_of_state_space(const std::string& block, std::string_view part, const Safetensor& tensor, TensorType type);
  Result<bool> add_of_kimi_net(const std::string& block, std::string_view rest, const Safetensor& tensor,
                               TensorType type);
  Status add_activation_number(int64_t layer, std::string_view which, const Safetensor& tensor, TensorType type);
  Status add_turned_experts(const std::string& block, std::string_view part, const Safetensor& tensor, TensorType type);
  Status add_latent_heads(const std::string& block, const Safetensor& tensor, TensorType type);
  // What Falcon H1's tensor of this GGUF name is multiplied by; nothing: by 1.
  Rows multiplied(std::string_view name, const Rows& rows) const;

  const Config& config_;
  AssembledFile& file_;
  std::map<std::string, Experts> experts_;
  std::map<std::string, Packed> packed_;
  std::map<std::string, std::vector<float>> activation_numbers_;  // of each layer
  int64_t table_rows_ = 0;
};

Error invalid(const Safetensor& tensor, const std::string& what);
// "N." at the front of `rest`, taken off; -1 if there is none.
int64_t take_number(std::string_view& rest);
// "norm.weight" is "norm" and ".weight"; a name without either suffix has none.
std::pair<std::string_view, std::string_view> split_suffix(std::string_view name);
// Rows as long as the last dimension, or of one number if there is one dimension only.
Rows rows_of(const Safetensor& tensor, TensorType type);

}  // namespace monolith::hf
