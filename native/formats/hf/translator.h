// Translates the tensors of one checkpoint to GGUF names and row order. Implemented in tensors.cc, packed_experts.cc
// and family_tensors.cc. Used on the thread that opens the model.
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
#include "formats/hf/mtp_tensors.h"
#include "formats/hf/rows.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

class Translator {
 public:
  Translator(const Config& config, AssembledFile& file) : config_(config), file_(file) {}

  Status add(const Safetensor& tensor);
  // Returns the number of rows in the embedding table.
  Result<int64_t> finish();

 private:
  struct Experts {
    TensorType type;
    std::vector<int64_t> shape;  // Shape of one expert.
    std::map<int64_t, const Safetensor*> parts;
    int64_t count = 0;  // Expected number of experts.
  };
  struct Packed {
    const Safetensor* numbers = nullptr;
    const Safetensor* scales = nullptr;
  };

  std::string_view layer_name(std::string_view stem) const;
  Status add_of_layer(int64_t layer, std::string_view rest, const Safetensor& tensor, TensorType type);
  Status add_token_numbers(const Safetensor& tensor);
  Status add_expert_numbers(const Safetensor& tensor);
  Status add_of_drafts(const DraftName& draft, const Safetensor& tensor, TensorType type);
  // Adds matrix `expert` of `count` matrices that GGUF stacks into one tensor.
  Status add_expert(const std::string& name, int64_t expert, int64_t count, const Safetensor& tensor, TensorType type);
  Status add_fused(const std::string& block, const std::string& kind, const Safetensor& tensor, TensorType type);
  Status add_grouped(const std::string& block, std::string_view suffix, const Safetensor& tensor, TensorType type);
  Status add_sharded(int64_t layer, const Safetensor& tensor, TensorType type);
  Status add_joined(const std::string& block, std::string_view suffix, const Safetensor& tensor, TensorType type);
  // Adds `tensor` unchanged, except for the conversions that the architecture applies to all tensors.
  Status put(const std::string& name, const Safetensor& tensor, TensorType type);
  // Adds the concatenated `runs` of `tensor` as tensor `name`. `shape` has the row length first. Applies the same
  // conversions as put().
  Status put_runs(const std::string& name, const std::vector<int64_t>& shape, std::vector<Run> runs,
                  const Safetensor& tensor);
  void put_rows(std::string_view name, const std::vector<int64_t>& shape, Rows rows);
  // Adds the matrix scale, or one scale per stacked matrix, as "x.scale" next to "x.weight". Adds nothing if all
  // factors are 1.
  void put_scale(std::string_view name, const std::vector<float>& factors);

  // For gpt-oss; implemented in packed_experts.cc.
  Status add_packed(const Safetensor& tensor);
  Status put_packed(const std::string& name, const Packed& packed);
  Status add_expert_bias(const std::string& block, std::string_view rest, const Safetensor& tensor, TensorType type);

  // In family_tensors.cc. Returns false if `rest`, the tensor name within a layer, is not specific to the model family.
  Result<bool> add_of_family(const std::string& block, std::string_view rest, const Safetensor& tensor,
                             TensorType type);
  Status add_of_delta_net(const std::string& block, std::string_view part, const Safetensor& tensor, TensorType type);
  Status add_of_state_space(const std::string& block, std::string_view part, const Safetensor& tensor, TensorType type);
  Result<bool> add_of_kimi_net(const std::string& block, std::string_view rest, const Safetensor& tensor,
                               TensorType type);
  Status add_activation_number(int64_t layer, std::string_view which, const Safetensor& tensor, TensorType type);
  Status add_turned_experts(const std::string& block, std::string_view part, const Safetensor& tensor, TensorType type);
  Status add_latent_heads(const std::string& block, const Safetensor& tensor, TensorType type);
  // Returns `rows` multiplied by Falcon H1's factor for the tensor with this GGUF name, or `rows` unchanged if there is
  // no such factor.
  Rows multiplied(std::string_view name, const Rows& rows) const;

  const Config& config_;
  AssembledFile& file_;
  std::map<std::string, Experts> experts_;
  std::map<std::string, Packed> packed_;
  std::map<std::string, std::vector<float>> activation_numbers_;  // One value per layer.
  int64_t table_rows_ = 0;
};

// Returns the GGUF type in which the tensor's values can be stored exactly, or nullopt if its type is not supported.
std::optional<TensorType> type_of(const Safetensor& tensor);
Error invalid(const Safetensor& tensor, const std::string& what);
// Parses "N." at the start of `rest` and removes it. Returns -1 if there is no such number.
int64_t take_number(std::string_view& rest);
// Splits "norm.weight" into "norm" and ".weight". The suffix is empty if the name ends in neither ".weight" nor
// ".bias".
std::pair<std::string_view, std::string_view> split_suffix(std::string_view name);
// Returns the tensor's row length, which is its last dimension. Each row of a one-dimensional tensor is a single
// number.
Rows rows_of(const Safetensor& tensor, TensorType type);

}  // namespace monolith::hf
