// Parses the start of a GGUF file in a single pass: header, metadata and tensor table. Runs once per file, on the
// thread that opens the file. Private to this directory. Layout (all little-endian):
//
//   "GGUF"  version u32  n_tensors u64  n_metadata u64
//   n_metadata times: key (u64 length, bytes)  type u32  value
//   n_tensors times:  name (u64 length, bytes)  n_dims u32  dims u64[n_dims]  type u32  offset u64
//   padding to the alignment, then the data section; tensor offsets are relative to its start
//
// Invariants: position_ <= bytes_.size(), and no allocation is larger than the remaining bytes can justify.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf.h"

namespace monolith {

struct FewBits;

class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Result<std::unique_ptr<GgufFile>> parse();

 private:
  Status parse_header();
  Status parse_metadata();
  Status parse_value(std::string_view key, GgufValue* value);
  Status parse_array(std::string_view key, GgufValue* value);
  Status check_booleans(std::string_view key, std::span<const std::byte> payload) const;
  Status check_general();
  Status parse_tensors();
  Status parse_tensor(size_t index, GgufTensor* tensor, uint64_t* offset);
  Status place_tensors();

  size_t remaining() const { return bytes_.size() - position_; }
  template <typename T>
  bool read(T* value);
  bool read_string(std::string_view* value);
  Error invalid(const std::string& what) const;
  Error truncated(const std::string& what) const;

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  uint64_t n_tensors_ = 0, n_metadata_ = 0;
  // One entry per tensor: its few-bit storage format (Q1_0, Q2_0), or null if it is stored in another format and needs
  // no conversion.
  std::vector<const FewBits*> few_;
  std::vector<uint64_t> offsets_, sizes_;  // Per tensor: where its bytes are in the data section.
  std::unique_ptr<GgufFile> file_;
};

// Returns the name of a GGUF value type for error messages ("uint32", "array"). The type must be a valid one.
std::string_view gguf_type_name(GgufValueType type);
// Returns the size of one scalar of this type in bytes; 0 for strings and arrays.
size_t gguf_scalar_bytes(GgufValueType type);
// Formats untrusted text for an error message: quotes it, truncates it to `shown` bytes and escapes everything but
// printable ASCII.
std::string in_quotes(std::string_view text, size_t shown = 96);

}  // namespace monolith
