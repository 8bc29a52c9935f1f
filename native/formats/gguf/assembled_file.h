// Makes a GgufFile of another format: metadata under GGUF's keys and tensors under GGUF's names. Or makes one of a GGUF
// file whose matrices are to be stored as another type while they are loaded. Used on
// the thread that opens the model.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith {

class AssembledFile {
 public:
  AssembledFile();

  // Metadata; each key once. A key that is there already: the first stays.
  void string(std::string_view key, std::string_view value);
  void boolean(std::string_view key, bool value);
  void integer(std::string_view key, uint64_t value);  // as uint32 where it fits
  void number(std::string_view key, double value);     // as float32
  void strings(std::string_view key, const std::vector<std::string>& values);
  void integers(std::string_view key, const std::vector<int32_t>& values);
  void numbers(std::string_view key, const std::vector<float>& values);
  void booleans(std::string_view key, const std::vector<bool>& values);
  void bytes(std::string_view key, std::span<const std::byte> values);
  bool has(std::string_view key) const;

  // The files that tensors lie in, and how many bytes they were read from beside these.
  void own(std::vector<MappedFile> files, size_t other_bytes);

  // Tensors; each name once, or build() fails. `shape`: row length first, 1 to 4 lengths.
  void tensor(std::string_view name, const std::vector<int64_t>& shape, TensorType type,
              std::span<const std::byte> data);
  // One whose bytes are made of `source`, as `type`: can_store() must be true of them.
  void tensor(std::string_view name, const std::vector<int64_t>& shape, TensorType type, TensorSource source);
  // One of floats that no file holds.
  void tensor(std::string_view name, const std::vector<float>& values);

  // Errors: those of a GGUF parser for this metadata, and a tensor that occurs twice.
  Result<std::unique_ptr<GgufFile>> build() &&;

  // How `file` stores its matrices of floats from now on; `threads` make the bytes. Left alone are matrices of other
  // types, norms, biases, the routers of experts, and rows that are no whole blocks. With Q4_0 the embedding table
  // and the output matrix become Q8_0, with Q4_K they become Q6_K: they decide between tokens directly, and rounding
  // costs most there. Rows that are whole blocks of Q8_0 but not of Q4_K or Q6_K become that. For kF8E4M3 the floats stay
  // floats, and the backend makes FP8 of them.
  static void quantize(GgufFile& file, TensorType type, int threads);

 private:
  void key(std::string_view key, GgufValueType type);
  GgufTensor& add(std::string_view name, const std::vector<int64_t>& shape, TensorType type);

  std::unique_ptr<GgufFile> file_;
  std::vector<std::byte> entries_;  // metadata as in a file
  std::vector<std::string> keys_;
};

}  // namespace monolith
