// Builds small GGUF images for tests. Images are valid by default, but tests can set any field to an invalid value.
// Sizes, counts and offsets are filled in unless a test sets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formats/gguf/gguf.h"

namespace monolith::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
void put(Bytes& out, T value) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), from, from + sizeof value);
}

void put_text(Bytes& out, std::string_view text);

void put_string(Bytes& out, std::string_view text);

template <typename T>
constexpr GgufValueType gguf_type_of() {
  if constexpr (std::is_same_v<T, uint8_t>)
    return GgufValueType::kUint8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return GgufValueType::kInt8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return GgufValueType::kUint16;
  else if constexpr (std::is_same_v<T, int16_t>)
    return GgufValueType::kInt16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return GgufValueType::kUint32;
  else if constexpr (std::is_same_v<T, int32_t>)
    return GgufValueType::kInt32;
  else if constexpr (std::is_same_v<T, float>)
    return GgufValueType::kFloat32;
  else if constexpr (std::is_same_v<T, bool>)
    return GgufValueType::kBool;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return GgufValueType::kUint64;
  else if constexpr (std::is_same_v<T, int64_t>)
    return GgufValueType::kInt64;
  else if constexpr (std::is_same_v<T, double>)
    return GgufValueType::kFloat64;
  else
    static_assert(!sizeof(T), "not a GGUF scalar");
}

class GgufBuilder {
 public:
  // Header fields. Tests may set them to invalid values.
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors, n_metadata;
  // Alignment of the data section. A test that changes this value must add the general.alignment key itself.
  size_t alignment = 32;

  template <typename T>
  GgufBuilder& scalar(std::string_view key, T value) {
    Bytes payload;
    put(payload, value);
    return raw(key, static_cast<uint32_t>(gguf_type_of<T>()), payload);
  }
  GgufBuilder& string(std::string_view key, std::string_view value);
  template <typename T>
  GgufBuilder& array(std::string_view key, std::span<const T> values) {
    Bytes payload = array_header(static_cast<uint32_t>(gguf_type_of<T>()), values.size());
    for (const T& value : values) put(payload, value);
    return raw(key, static_cast<uint32_t>(GgufValueType::kArray), payload);
  }
  template <typename T>
  GgufBuilder& array(std::string_view key, std::initializer_list<T> values) {
    return array<T>(key, std::span<const T>(values.begin(), values.size()));
  }
  GgufBuilder& strings(std::string_view key, std::span<const std::string> values);
  GgufBuilder& strings(std::string_view key, std::initializer_list<std::string> values);
  // Adds a key with an arbitrary type number, followed by arbitrary bytes.
  GgufBuilder& raw(std::string_view key, uint32_t type, const Bytes& payload);

  // Adds a tensor with its data. If `offset` is given, the tensor table contains this offset instead of the correct
  // one.
  GgufBuilder& tensor(std::string_view name, uint32_t type, std::initializer_list<uint64_t> dims,
                      std::span<const std::byte> data, std::optional<uint64_t> offset = std::nullopt);
  GgufBuilder& tensor(std::string_view name, TensorType type, std::initializer_list<uint64_t> dims,
                      std::span<const std::byte> data);

  // Returns the header, the metadata and the tensor table, without padding and data.
  Bytes head() const;
  Bytes build() const;

  static Bytes array_header(uint32_t element_type, uint64_t count);

 private:
  Bytes metadata_, table_, data_;
  uint64_t metadata_count_ = 0, tensor_count_ = 0;
};

}  // namespace monolith::testing
