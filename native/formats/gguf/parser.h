// One pass over a GGUF file's head: header, metadata, tensor table. Used once per file, on the
// thread that opens it; private to this folder. Layout (all little-endian):
//
//   "GGUF"  version u32  n_tensors u64  n_metadata u64
//   n_metadata times: key (u64 length, bytes)  type u32  value
//   n_tensors times:  name (u64 length, bytes)  n_dims u32  dims u64[n_dims]  type u32  offset u64
//   padding to the alignment, then the data section that the offsets count from
//
// Invariant: position_ <= bytes_.size(), and nothing is allocated whose size the remaining bytes do
// not bound.
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
  std::vector<const FewBits*> few_;        // of each tensor: what its bytes are; null: its type
  std::vector<uint64_t> offsets_, sizes_;  // of each tensor's bytes in the data section
  std::unique_ptr<GgufFile> file_;
};

// A GGUF type's name for messages ("uint32", "array"); "type 77" cannot occur after parsing.
std::string_view gguf_type_name(GgufValueType type);
// Bytes of one scalar; 0 for strings and arrays.
size_t gguf_scalar_bytes(GgufValueType type);
// Untrusted text for a message: quoted, shortened, with anything but printable ASCII escaped.
std::string quoted(std::string_view text, size_t shown = 96);

}  // namespace monolith
