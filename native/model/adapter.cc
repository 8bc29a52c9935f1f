#include "model/adapter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <new>
#include <optional>
#include <span>

#include "base/sha256.h"
#include "formats/gguf/parser.h"
#include "model/model.h"
#include "model/weights.h"

namespace monolith {
namespace {

constexpr std::array<std::string_view, 8> kKinds = {"attn_q",      "attn_k",   "attn_v", "attn_qkv",
                                                    "attn_output", "ffn_gate", "ffn_up", "ffn_down"};

struct LayerTensor {
  int layer = -1;
  std::string_view kind;
};

// Splits "blk.3.attn_q.weight" into layer 3 and kind "attn_q". Returns nullopt for names with a different form.
std::optional<LayerTensor> split_name(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.", kSuffix = ".weight";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  LayerTensor tensor;
  const char* const begin = name.data() + kPrefix.size();
  const char* const stop = name.data() + name.size();
  const auto [end, error] = std::from_chars(begin, stop, tensor.layer);
  if (error != std::errc() || end == stop || *end != '.' || end + 1 > stop - kSuffix.size()) return std::nullopt;
  tensor.kind = std::string_view(end + 1, static_cast<size_t>(stop - kSuffix.size() - end - 1));
  return tensor;
}

std::string shape_text(int64_t rows, int64_t cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

Error misfit(const LoraPair& pair, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "tensor " + in_quotes(pair.a.name) + " " + what};
}

// Returns the error for a pair of factors whose target is not a weight that adapters can change.
Error no_such_weight(const LoraPair& pair, const HyperParams& params) {
  const auto tensor = split_name(pair.target);
  if (tensor && tensor->layer >= params.n_layers)
    return misfit(pair, "is of layer " + std::to_string(tensor->layer) + ", but the model has " +
                            std::to_string(params.n_layers) + " layers");
  if (tensor && std::ranges::find(kKinds, tensor->kind) != kKinds.end())
    return misfit(pair, "adapts " + in_quotes(pair.target) + ", which the model does not have as a single matrix");
  std::string kinds;
  for (const std::string_view kind : kKinds) kinds += (kinds.empty() ? "" : ", ") + std::string(kind);
  return Error{ErrorCode::kUnsupported, "tensor " + in_quotes(pair.a.name) + " adapts " + in_quotes(pair.target) +
                                            "; only these matrices can be adapted: " + kinds};
}

// Returns the rows of B that correspond to the tensor rows that `weight.matrix` contains.
std::vector<float> rows_for(const AdaptableWeight& weight, const LoraPair& pair, std::span<const float> b) {
  std::vector<float> rows;
  rows.reserve(static_cast<size_t>(weight.matrix->rows * pair.rank));
  const int64_t of_run = weight.matrix->rows / weight.runs;
  for (int64_t run = 0; run < weight.runs; ++run) {
    const auto from = b.begin() + (weight.first + run * weight.run_stride) * pair.rank;
    rows.insert(rows.end(), from, from + of_run * pair.rank);
  }
  return rows;
}

void add(Sha256& hash, std::span<const float> values) { hash.add(std::as_bytes(values)); }

}  // namespace

std::vector<AdaptableWeight> adaptable_weights(const std::vector<WeightSlot>& slots, const HyperParams& params) {
  std::vector<AdaptableWeight> weights;
  for (const WeightSlot& slot : slots) {
    const auto tensor = split_name(slot.name);
    if (!tensor || tensor->layer >= params.n_layers || slot.matrix == nullptr || slot.heads.n_heads > 0) continue;
    if (std::ranges::find(kKinds, tensor->kind) == kKinds.end() || slot.shape[2] != 1) continue;
    weights.push_back(
        {slot.name, slot.shape[1], slot.cols, slot.matrix->get(), slot.first, slot.runs, slot.run_stride});
  }
  return weights;
}

Result<std::unique_ptr<const Adapter>> Adapter::load(const LoraFile& file, float scale, Model& model,
                                                     size_t most_bytes) try {
  const HyperParams& params = model.params();
  BackendMemory& backend = model.backend();
  if (Status status = backend.supports(OperationKind::kAddAdapters); !status) return status.error();
  if (!file.architecture.empty() && file.architecture != params.architecture_name)
    return Error{ErrorCode::kInvalidArgument, "the adapter is for models of architecture " +
                                                  in_quotes(file.architecture) + ", but the model has architecture " +
                                                  in_quotes(params.architecture_name)};
  auto adapter = std::unique_ptr<Adapter>(new Adapter());
  Sha256 hash;
  for (const LoraPair& pair : file.pairs) {
    std::vector<const AdaptableWeight*> parts;
    for (const AdaptableWeight& weight : model.adaptable_weights())
      if (weight.name == pair.target) parts.push_back(&weight);
    if (parts.empty()) return no_such_weight(pair, params);
    const AdaptableWeight& tensor = *parts.front();
    if (pair.rows != tensor.of_rows || pair.cols != tensor.cols)
      return misfit(pair, "adapts a matrix of " + shape_text(pair.rows, pair.cols) + ", but " + in_quotes(pair.target) +
                              " is " + shape_text(tensor.of_rows, tensor.cols));
    if (pair.rank > kMaxAdapterRank)
      return Error{ErrorCode::kUnsupported, "tensor " + in_quotes(pair.a.name) + " has rank " +
                                                std::to_string(pair.rank) + "; the largest supported rank is " +
                                                std::to_string(kMaxAdapterRank)};
    const float factor = pair.factor * scale;
    if (!std::isfinite(factor))
      return Error{ErrorCode::kInvalidFile, "the factor of " + in_quotes(pair.a.name) + " is not finite"};
    const auto a = pair.read_a();
    if (!a) return a.error();
    const auto b = pair.read_b();
    if (!b) return b.error();
    for (const AdaptableWeight* part : parts) {
      const std::vector<float> rows = rows_for(*part, pair, *b);
      auto matrix = backend.adapter_matrix(
          {.rank = pair.rank, .rows = part->matrix->rows, .cols = pair.cols, .a = *a, .b = rows, .scale = factor});
      if (!matrix) return matrix.error();
      adapter->bytes_ += (*matrix)->bytes;
      if (adapter->bytes_ > most_bytes)
        return Error{ErrorCode::kOutOfMemory, "the adapter takes more than the " + std::to_string(most_bytes >> 20) +
                                                  " MiB that are left for adapters"};
      adapter->factors_[part->matrix] = std::move(*matrix);
    }
    adapter->rank_ = std::max(adapter->rank_, pair.rank);
    const std::string kind(split_name(pair.target)->kind);
    if (std::ranges::find(adapter->targets_, kind) == adapter->targets_.end()) adapter->targets_.push_back(kind);
    hash.add(std::as_bytes(std::span(pair.target)));
    hash.add_number(static_cast<uint64_t>(pair.rank));
    add(hash, {&factor, 1});
    add(hash, *a);
    add(hash, *b);
  }
  std::ranges::sort(adapter->targets_);
  adapter->hash_ = hash.content();
  return std::unique_ptr<const Adapter>(std::move(adapter));
} catch (const std::bad_alloc&) {
  return Error{ErrorCode::kOutOfMemory, "there is not enough memory for the adapter"};
}

}  // namespace monolith
