#include "formats/gguf/gguf_builder.h"

namespace monolith::testing {

void put_text(Bytes& out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put_string(Bytes& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  put_text(out, text);
}

GgufBuilder& GgufBuilder::string(std::string_view key, std::string_view value) {
  Bytes payload;
  put_string(payload, value);
  return raw(key, static_cast<uint32_t>(GgufValueType::kString), payload);
}

GgufBuilder& GgufBuilder::strings(std::string_view key, std::span<const std::string> values) {
  Bytes payload = array_header(static_cast<uint32_t>(GgufValueType::kString), values.size());
  for (const std::string& value : values) put_string(payload, value);
  return raw(key, static_cast<uint32_t>(GgufValueType::kArray), payload);
}

GgufBuilder& GgufBuilder::strings(std::string_view key, std::initializer_list<std::string> values) {
  return strings(key, std::span<const std::string>(values.begin(), values.size()));
}

GgufBuilder& GgufBuilder::raw(std::string_view key, uint32_t type, const Bytes& payload) {
  put_string(metadata_, key);
  put(metadata_, type);
  metadata_.insert(metadata_.end(), payload.begin(), payload.end());
  ++metadata_count_;
  return *this;
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, uint32_t type, std::initializer_list<uint64_t> dims,
                                 std::span<const std::byte> data, std::optional<uint64_t> offset) {
  data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  put_string(table_, name);
  put(table_, static_cast<uint32_t>(dims.size()));
  for (uint64_t dim : dims) put(table_, dim);
  put(table_, type);
  put(table_, offset.value_or(data_.size()));
  data_.insert(data_.end(), data.begin(), data.end());
  ++tensor_count_;
  return *this;
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, TensorType type, std::initializer_list<uint64_t> dims,
                                 std::span<const std::byte> data) {
  return tensor(name, static_cast<uint32_t>(type), dims, data);
}

Bytes GgufBuilder::head() const {
  Bytes out;
  put_text(out, magic);
  put(out, version);
  put(out, n_tensors.value_or(tensor_count_));
  put(out, n_metadata.value_or(metadata_count_));
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  out.insert(out.end(), table_.begin(), table_.end());
  return out;
}

Bytes GgufBuilder::build() const {
  Bytes out = head();
  if (tensor_count_ != 0) out.resize((out.size() + alignment - 1) / alignment * alignment);
  out.insert(out.end(), data_.begin(), data_.end());
  return out;
}

Bytes GgufBuilder::array_header(uint32_t element_type, uint64_t count) {
  Bytes out;
  put(out, element_type);
  put(out, count);
  return out;
}

}  // namespace monolith::testing
