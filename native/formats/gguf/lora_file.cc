#include "formats/gguf/lora_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "formats/gguf/gguf.h"
#include "formats/gguf/parser.h"

namespace monolith {
namespace {

constexpr std::string_view kSuffixA = ".lora_a", kSuffixB = ".lora_b";

struct Found {
  const GgufTensor* a = nullptr;
  const GgufTensor* b = nullptr;
};

Error invalid(std::string_view tensor, const std::string& what) {
  return {ErrorCode::kInvalidFile, "tensor " + in_quotes(tensor) + " " + what};
}

Result<std::vector<float>> read(const LoraFactor& factor, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  dequantize(factor.type, factor.data.data(), count, values.data());
  if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return values;
  return invalid(factor.name, "contains a value that is not finite");
}

// Checks that the file's metadata declares a LoRA adapter.
Status check_kind(const GgufFile& file) {
  const auto type = file.string("general.type");
  if (!type) return type.error();
  if (*type != "adapter")
    return Error{ErrorCode::kInvalidFile,
                 "'general.type' is " + in_quotes(type->value_or("missing")) + ", so the file is not an adapter"};
  const auto kind = file.string("adapter.type");
  if (!kind) return kind.error();
  if (*kind != "lora")
    return Error{ErrorCode::kUnsupported,
                 "'adapter.type' is " + in_quotes(kind->value_or("missing")) + "; only 'lora' is supported"};
  // Activated LoRA (aLoRA) applies the adapter only after certain tokens.
  if (file.find("adapter.alora.invocation_tokens") != nullptr)
    return Error{ErrorCode::kUnsupported, "activated LoRA ('adapter.alora.invocation_tokens') is not supported"};
  return {};
}

bool is_readable(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16 || type == TensorType::kQ8_0;
}

Status check_factor(const GgufTensor& tensor) {
  if (!is_readable(tensor.type) || tensor.source != nullptr)
    return Error{ErrorCode::kUnsupported, "tensor " + in_quotes(tensor.name) + " has type " +
                                              std::string(traits_of(tensor.type).name) +
                                              "; LoRA tensors must be F32, F16, BF16 or Q8_0"};
  if (tensor.shape[2] != 1 || tensor.shape[3] != 1)
    return Error{ErrorCode::kUnsupported, "tensor " + in_quotes(tensor.name) +
                                              " has more than two dimensions; expert matrices are not supported"};
  return {};
}

LoraFactor factor_of(const GgufTensor& tensor) { return {std::string(tensor.name), tensor.type, tensor.data}; }

Result<LoraPair> make_pair_of(std::string_view target, const Found& found, float alpha) {
  if (found.a == nullptr || found.b == nullptr)
    return Error{ErrorCode::kInvalidFile,
                 "tensor " + in_quotes(std::string(target) + std::string(found.a == nullptr ? kSuffixA : kSuffixB)) +
                     " is missing"};
  if (Status status = check_factor(*found.a); !status) return status.error();
  if (Status status = check_factor(*found.b); !status) return status.error();
  const int64_t rank = found.a->shape[1];
  if (found.b->shape[0] != rank)
    return invalid(found.b->name, "has rank " + std::to_string(found.b->shape[0]) + ", but " +
                                      in_quotes(found.a->name) + " has rank " + std::to_string(rank));
  if (rank < 1 || rank > kMaxLoraDimension || found.a->shape[0] < 1 || found.b->shape[1] < 1 ||
      found.a->shape[0] > kMaxLoraDimension || found.b->shape[1] > kMaxLoraDimension)
    return invalid(found.a->name, "has an impossible shape");
  LoraPair pair;
  pair.target = target;
  pair.rank = static_cast<int>(std::min<int64_t>(rank, INT32_MAX));
  pair.cols = found.a->shape[0];
  pair.rows = found.b->shape[1];
  pair.a = factor_of(*found.a);
  pair.b = factor_of(*found.b);
  // As in llama.cpp, the factor is 1 if alpha is missing or 0.
  pair.factor = alpha == 0 ? 1.0f : alpha / static_cast<float>(pair.rank);
  return pair;
}

Result<LoraFile> read_file(std::shared_ptr<const GgufFile> file) {
  if (Status status = check_kind(*file); !status) return status.error();
  LoraFile lora;
  const auto architecture = file->string("general.architecture");
  if (!architecture) return architecture.error();
  lora.architecture = architecture->value_or("");
  const auto alpha = file->number("adapter.lora.alpha");
  if (!alpha) return alpha.error();
  lora.alpha = static_cast<float>(alpha->value_or(0.0));
  if (!std::isfinite(lora.alpha)) return Error{ErrorCode::kInvalidFile, "'adapter.lora.alpha' is not a finite number"};
  std::map<std::string_view, Found> found;
  for (const GgufTensor& tensor : file->tensors()) {
    const std::string_view name = tensor.name;
    if (name.ends_with(kSuffixA))
      found[name.substr(0, name.size() - kSuffixA.size())].a = &tensor;
    else if (name.ends_with(kSuffixB))
      found[name.substr(0, name.size() - kSuffixB.size())].b = &tensor;
    else
      return Error{ErrorCode::kUnsupported,
                   "tensor " + in_quotes(name) + " is not a factor of a weight matrix (NAME.lora_a or NAME.lora_b)"};
  }
  if (found.empty()) return Error{ErrorCode::kInvalidFile, "the file has no tensors"};
  for (const auto& [target, tensors] : found) {
    auto pair = make_pair_of(target, tensors, lora.alpha);
    if (!pair) return pair.error();
    lora.pairs.push_back(std::move(*pair));
  }
  lora.source = std::move(file);
  return lora;
}

}  // namespace

Result<std::vector<float>> LoraPair::read_a() const { return read(a, rank * cols); }

Result<std::vector<float>> LoraPair::read_b() const {
  auto values = read(b, rows * rank);
  if (!values || heads == 0) return values;
  std::vector<float> ordered(values->size());
  const int64_t width = rows / heads;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t from = row / width * width + row % width / 2 + row % 2 * (width / 2);
    std::copy_n(values->begin() + from * rank, rank, ordered.begin() + row * rank);
  }
  return ordered;
}

Result<LoraFile> open_lora_file(const std::string& path) {
  auto file = GgufFile::open(path);
  if (!file) return file.error();
  return read_file(std::shared_ptr<const GgufFile>(std::move(*file)));
}

Result<LoraFile> parse_lora_file(std::span<const std::byte> bytes) {
  auto file = GgufFile::parse(bytes);
  if (!file) return file.error();
  return read_file(std::shared_ptr<const GgufFile>(std::move(*file)));
}

}  // namespace monolith
