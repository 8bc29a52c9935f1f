#include "formats/gguf/assembled_file.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "formats/gguf/parser.h"
#include "formats/gguf/quantize.h"

namespace monolith {
namespace {

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append_text(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Returns the type in which a matrix is stored if the user has requested `type`. `decides`: the matrix is the embedding
// table or the output matrix, which affect the logits directly.
TensorType stored_as(TensorType type, bool decides, int64_t cols) {
  if (decides && type == TensorType::kQ4_0) return TensorType::kQ8_0;
  if (decides && type == TensorType::kQ4_K) type = TensorType::kQ6_K;
  return cols % traits_of(type).block_values == 0 ? type : TensorType::kQ8_0;
}

}  // namespace

AssembledFile::AssembledFile() : file_(new GgufFile()) {}

bool AssembledFile::has(std::string_view key) const { return std::ranges::find(keys_, key) != keys_.end(); }

void AssembledFile::key(std::string_view key, GgufValueType type) {
  keys_.emplace_back(key);
  append_text(entries_, key);
  append(entries_, static_cast<uint32_t>(type));
}

void AssembledFile::string(std::string_view name, std::string_view value) {
  if (has(name)) return;
  key(name, GgufValueType::kString);
  append_text(entries_, value);
}

void AssembledFile::boolean(std::string_view name, bool value) {
  if (has(name)) return;
  key(name, GgufValueType::kBool);
  append(entries_, static_cast<uint8_t>(value));
}

void AssembledFile::integer(std::string_view name, uint64_t value) {
  if (has(name)) return;
  if (value <= UINT32_MAX) {
    key(name, GgufValueType::kUint32);
    append(entries_, static_cast<uint32_t>(value));
  } else {
    key(name, GgufValueType::kUint64);
    append(entries_, value);
  }
}

void AssembledFile::number(std::string_view name, double value) {
  if (has(name)) return;
  key(name, GgufValueType::kFloat32);
  append(entries_, static_cast<float>(value));
}

void AssembledFile::strings(std::string_view name, const std::vector<std::string_view>& values) {
  if (has(name)) return;
  key(name, GgufValueType::kArray);
  append(entries_, static_cast<uint32_t>(GgufValueType::kString));
  append(entries_, static_cast<uint64_t>(values.size()));
  for (const std::string_view value : values) append_text(entries_, value);
}

void AssembledFile::integers(std::string_view name, const std::vector<int32_t>& values) {
  if (has(name)) return;
  key(name, GgufValueType::kArray);
  append(entries_, static_cast<uint32_t>(GgufValueType::kInt32));
  append(entries_, static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) append(entries_, value);
}

void AssembledFile::numbers(std::string_view name, const std::vector<float>& values) {
  if (has(name)) return;
  key(name, GgufValueType::kArray);
  append(entries_, static_cast<uint32_t>(GgufValueType::kFloat32));
  append(entries_, static_cast<uint64_t>(values.size()));
  for (const float value : values) append(entries_, value);
}

void AssembledFile::booleans(std::string_view name, const std::vector<bool>& values) {
  if (has(name)) return;
  key(name, GgufValueType::kArray);
  append(entries_, static_cast<uint32_t>(GgufValueType::kBool));
  append(entries_, static_cast<uint64_t>(values.size()));
  for (const bool value : values) append(entries_, static_cast<uint8_t>(value));
}

void AssembledFile::bytes(std::string_view name, std::span<const std::byte> values) {
  if (has(name)) return;
  key(name, GgufValueType::kArray);
  append(entries_, static_cast<uint32_t>(GgufValueType::kUint8));
  append(entries_, static_cast<uint64_t>(values.size()));
  entries_.insert(entries_.end(), values.begin(), values.end());
}

void AssembledFile::own(std::vector<MappedFile> files, size_t other_bytes) {
  file_->file_bytes_ += other_bytes;
  for (MappedFile& file : files) {
    file_->file_bytes_ += file.bytes().size();
    file_->files_.push_back(std::move(file));  // Moving the mapping does not move its pages.
  }
}

GgufTensor& AssembledFile::add(std::string_view name, const std::vector<int64_t>& shape, TensorType type) {
  assert(!shape.empty() && shape.size() <= 4);
  GgufTensor tensor{};
  tensor.name = file_->node_ids_.emplace_back(name);
  tensor.type = type;
  tensor.n_dims = static_cast<int>(shape.size());
  tensor.shape.fill(1);
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  return file_->tensors_.emplace_back(tensor);
}

void AssembledFile::tensor(std::string_view name, const std::vector<int64_t>& shape, TensorType type,
                           std::span<const std::byte> data) {
  GgufTensor& added = add(name, shape, type);
  assert(added.bytes() == data.size());
  added.data = data;
}

void AssembledFile::tensor(std::string_view name, const std::vector<int64_t>& shape, TensorType type,
                           TensorSource source) {
  assert(can_store(source, type));
  GgufTensor& added = add(name, shape, type);
  assert(added.n_values() == source.rows() * source.cols);
  added.source = &file_->sources_.emplace_back(std::move(source));
}

void AssembledFile::tensor(std::string_view name, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  const auto& kept = file_->made_.emplace_back(bytes.begin(), bytes.end());
  add(name, {static_cast<int64_t>(values.size())}, TensorType::kF32).data = kept;
}

Result<std::unique_ptr<GgufFile>> AssembledFile::build() && {
  // The metadata is written as a GGUF file without tensors, so the parser validates it as it does any other file.
  std::vector<std::byte> image;
  for (const char c : {'G', 'G', 'U', 'F'}) image.push_back(static_cast<std::byte>(c));
  append(image, uint32_t{3});
  append(image, uint64_t{0});
  append(image, static_cast<uint64_t>(keys_.size()));
  image.insert(image.end(), entries_.begin(), entries_.end());
  auto parsed = GgufParser(image).parse();
  if (!parsed) return parsed.error();
  GgufFile& head = **parsed;
  file_->image_ = std::move(image);  // Moving the vector does not move the bytes to which the metadata views point.
  file_->bytes_ = file_->image_;
  file_->metadata_ = std::move(head.metadata_);
  file_->metadata_by_name_ = std::move(head.metadata_by_name_);

  auto& order = file_->tensors_by_name_;
  order.resize(file_->tensors_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto name_of = [this](uint32_t i) { return file_->tensors_[i].name; };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name_of(a) < name_of(b); });
  const auto twin =
      std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name_of(a) == name_of(b); });
  if (twin != order.end())
    return Error{ErrorCode::kInvalidFile, "tensor " + in_quotes(name_of(*twin)) + " occurs twice"};
  return std::move(file_);
}

void AssembledFile::quantize(GgufFile& file, TensorType type, int threads) {
  file.threads_ = std::max(threads, 1);
  for (GgufTensor& tensor : file.tensors_) {
    if (!is_float(tensor.type) || tensor.n_dims < 2 || tensor.name.ends_with(".bias") ||
        tensor.name.ends_with("ffn_gate_inp.weight"))
      continue;
    if (type == TensorType::kF8E4M3) {
      if (tensor.type == TensorType::kF8Scaled) tensor.type = tensor.source->maker->float_type();
      tensor.fp8 = true;
      continue;
    }
    const bool decides = tensor.name == "token_embd.weight" || tensor.name == "output.weight";
    const TensorType wanted = stored_as(type, decides, tensor.shape[0]);
    if (tensor.source == nullptr) {
      TensorSource source{.type = tensor.type, .cols = tensor.shape[0], .parts = {tensor.data}};
      if (!can_store(source, wanted)) continue;
      tensor.source = &file.sources_.emplace_back(std::move(source));
      tensor.data = {};
    } else if (!can_store(*tensor.source, wanted)) {
      continue;
    }
    tensor.type = wanted;
  }
}

}  // namespace monolith
