#include "model/pooling.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <optional>

#include "formats/gguf/parser.h"
#include "model/metadata_reader.h"

namespace monolith {
namespace {

constexpr int64_t kMaxOutputs = 1 << 16;

struct HeadTensors {
  std::string_view weight, bias;
};

constexpr std::array kDenseLayers = {HeadTensors{"dense_2.weight", "dense_2.bias"},
                                     HeadTensors{"dense_3.weight", "dense_3.bias"}};
constexpr std::array kRankLayers = {HeadTensors{"cls.weight", "cls.bias"},
                                    HeadTensors{"cls.output.weight", "cls.output.bias"}};
constexpr std::string_view kRankNorm = "cls.norm.weight";

// Computes a dot product with 16 partial sums that are added in a fixed order, so that the compiler can vectorize the
// loop without changing the result.
float dot(const float* x, const float* y, int64_t n) {
  std::array<float, 16> sums{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (size_t lane = 0; lane < 16; ++lane) {
      const auto at = i + static_cast<int64_t>(lane);
      sums[lane] += x[at] * y[at];
    }
  for (size_t lane = 0; i < n; ++i, ++lane) sums[lane] += x[i] * y[i];
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

Result<std::vector<float>> read_values(const GgufFile& file, const GgufTensor& tensor) {
  if (tensor.type == TensorType::kI32 || tensor.type == TensorType::kI64)
    return Error{ErrorCode::kInvalidFile, "tensor " + in_quotes(tensor.name) + " has type " +
                                              std::string(traits_of(tensor.type).name) +
                                              ", which is not a weight type"};
  std::vector<float> values(static_cast<size_t>(tensor.n_values()));
  std::vector<std::byte> scratch;
  const std::span<const std::byte> data = file.read(tensor, 0, tensor.bytes(), scratch);
  dequantize(tensor.type, data.data(), tensor.n_values(), values.data());
  return values;
}

Error wrong_shape(const GgufTensor& tensor, int64_t expected) {
  return {ErrorCode::kInvalidFile, "tensor " + in_quotes(tensor.name) + " has rows of " +
                                       std::to_string(tensor.shape[0]) + " values, expected " +
                                       std::to_string(expected)};
}

float gelu(float x) {
  constexpr float kRootOf2OverPi = 0.79788456f;
  return 0.5f * x * (1.0f + std::tanh(kRootOf2OverPi * (x + 0.044715f * x * x * x)));
}

void layer_norm(std::vector<float>& values, const std::vector<float>& weight, float eps) {
  const auto n = static_cast<float>(values.size());
  float mean = 0, variance = 0;
  for (const float value : values) mean += value;
  mean /= n;
  for (const float value : values) variance += (value - mean) * (value - mean);
  const float factor = 1.0f / std::sqrt(variance / n + eps);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (values[i] - mean) * factor * weight[i];
}

void softmax(std::vector<float>& values) {
  const float largest = *std::ranges::max_element(values);
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
}

}  // namespace

Result<Pooling> read_pooling(const GgufFile& file, std::string_view architecture, Pooling fallback) {
  const MetadataReader read(file, architecture);
  constexpr std::string_view kKey = "pooling_type";
  if (!read.has(kKey)) return fallback;
  auto type = read.integer(kKey, -1, INT32_MAX);
  if (!type) return type.error();
  switch (*type) {
    case -1: return fallback;
    case 0: return Pooling::kNone;
    case 1: return Pooling::kMean;
    case 2: return Pooling::kCls;
    case 3: return Pooling::kLast;
    case 4: return Pooling::kRank;
    default: break;
  }
  return Error{ErrorCode::kInvalidFile,
               "'" + read.key(kKey) + "' is " + std::to_string(*type) + ", expected 0 (none) to 4 (rank)"};
}

bool PoolingHead::uses(std::string_view tensor) {
  const auto named = [&](const HeadTensors& layer) { return tensor == layer.weight || tensor == layer.bias; };
  return std::ranges::any_of(kDenseLayers, named) || std::ranges::any_of(kRankLayers, named) || tensor == kRankNorm;
}

Result<PoolingHead> PoolingHead::load(const GgufFile& file, const PooledModel& model) {
  PoolingHead head;
  head.pooling_ = model.pooling;
  head.n_embd_ = head.dimensions_ = model.n_embd;
  head.norm_eps_ = model.norm_eps;
  if (model.pooling == Pooling::kNone) return head;
  auto stated = file.string("general.architecture");
  if (!stated) return stated.error();
  const std::string architecture(stated->value_or(""));
  const bool ranks = model.pooling == Pooling::kRank, is_modern_bert = architecture == "modern-bert";
  if (model.pooling == Pooling::kMean || (ranks && is_modern_bert))
    head.rows_ = PooledRows::kAll;
  else
    head.rows_ =
        model.pooling == Pooling::kLast || (ranks && model.is_decoder) ? PooledRows::kLast : PooledRows::kFirst;
  for (const HeadTensors& names : ranks ? kRankLayers : kDenseLayers) {
    if (file.tensor(names.weight) == nullptr) continue;
    if (Status status = head.add_layer(file, names.weight, names.bias); !status) return status.error();
    Layer& layer = head.layers_.back();
    if (names.weight != "cls.weight") continue;
    layer.function = is_modern_bert ? Layer::Function::kGelu : Layer::Function::kTanh;
    const GgufTensor* const norm = file.tensor(kRankNorm);
    if (norm == nullptr) continue;
    if (norm->n_values() != layer.rows) return wrong_shape(*norm, layer.rows);
    auto weight = read_values(file, *norm);
    if (!weight) return weight.error();
    layer.norm = std::move(*weight);
  }
  if (!ranks) return head;
  // The softmax is not applied to a single score, because it would always return 1.
  head.softmax_ = architecture.starts_with("qwen3") && head.dimensions_ > 1;
  if (head.layers_.empty())
    return Error{ErrorCode::kInvalidFile, "'pooling_type' is 4 (rank), but tensor 'cls.output.weight' is missing"};
  auto labels = file.strings(architecture + ".classifier.output_labels");
  if (!labels) return labels.error();
  if (!*labels) return head;
  if ((*labels)->size() != static_cast<size_t>(head.dimensions_))
    return Error{ErrorCode::kInvalidFile, "'classifier.output_labels' has " + std::to_string((*labels)->size()) +
                                              " labels, but the classification head has " +
                                              std::to_string(head.dimensions_) + " outputs"};
  head.labels_.assign((*labels)->begin(), (*labels)->end());
  return head;
}

Status PoolingHead::add_layer(const GgufFile& file, std::string_view weight_name, std::string_view bias_name) {
  const GgufTensor& weight = *file.tensor(weight_name);
  if (weight.shape[0] != dimensions_) return wrong_shape(weight, dimensions_);
  Layer layer;
  layer.cols = weight.shape[0];
  layer.rows = weight.n_values() / layer.cols;
  if (layer.rows < 1 || layer.rows > kMaxOutputs)
    return Error{ErrorCode::kInvalidFile, "tensor " + in_quotes(weight.name) + " has " + std::to_string(layer.rows) +
                                              " rows, expected 1 to " + std::to_string(kMaxOutputs)};
  auto values = read_values(file, weight);
  if (!values) return values.error();
  layer.weight = std::move(*values);
  if (const GgufTensor* const bias = file.tensor(bias_name)) {
    if (bias->n_values() != layer.rows) return wrong_shape(*bias, layer.rows);
    auto biases = read_values(file, *bias);
    if (!biases) return biases.error();
    layer.bias = std::move(*biases);
  }
  dimensions_ = static_cast<int>(layer.rows);
  layers_.push_back(std::move(layer));
  return {};
}

size_t PoolingHead::bytes() const {
  size_t floats = 0;
  for (const Layer& layer : layers_) floats += layer.weight.size() + layer.bias.size();
  return floats * sizeof(float);
}

std::vector<float> PoolingHead::apply(std::vector<float> pooled) const {
  for (const Layer& layer : layers_) {
    std::vector<float> out(static_cast<size_t>(layer.rows));
    for (int64_t row = 0; row < layer.rows; ++row) {
      const auto at = static_cast<size_t>(row);
      out[at] = dot(layer.weight.data() + row * layer.cols, pooled.data(), layer.cols);
      if (!layer.bias.empty()) out[at] += layer.bias[at];
      if (layer.function == Layer::Function::kTanh) out[at] = std::tanh(out[at]);
      if (layer.function == Layer::Function::kGelu) out[at] = gelu(out[at]);
    }
    if (!layer.norm.empty()) layer_norm(out, layer.norm, norm_eps_);
    pooled = std::move(out);
  }
  if (softmax_) softmax(pooled);
  return pooled;
}

void PooledText::add(const PoolingHead& head, const float* rows, int first, int n_rows, int length) {
  const int64_t n_embd = head.n_embd();
  assert(first <= n_added_);
  if (sum_.empty()) sum_.resize(static_cast<size_t>(n_embd));
  for (int position = std::max(first, n_added_); position < first + n_rows; ++position) {
    const float* const row = rows + (position - first) * n_embd;
    switch (head.rows()) {
      case PooledRows::kAll:
        for (int64_t i = 0; i < n_embd; ++i) sum_[static_cast<size_t>(i)] += row[i];
        break;
      case PooledRows::kFirst:
        if (position == 0) std::copy_n(row, n_embd, sum_.begin());
        break;
      case PooledRows::kLast:
        if (position == length - 1) std::copy_n(row, n_embd, sum_.begin());
        break;
    }
  }
  n_added_ = std::max(n_added_, first + n_rows);
}

std::vector<float> PooledText::finish(const PoolingHead& head) && {
  if (head.rows() == PooledRows::kAll && n_added_ > 0)
    for (float& value : sum_) value /= static_cast<float>(n_added_);
  return head.apply(std::move(sum_));
}

}  // namespace monolith
