// Builds a GgufFile from another model format, storing metadata under GGUF keys and tensors under GGUF names. Can also
// mark the matrices of a GGUF file for quantization at load time. Used on the thread that opens the model.
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

  // The functions below add metadata. If a key is added twice, the first value is kept.
  void string(std::string_view key, std::string_view value);
  void boolean(std::string_view key, bool value);
  void integer(std::string_view key, uint64_t value);  // Stored as uint32 if the value fits, otherwise as uint64.
  void number(std::string_view key, double value);     // Stored as float32.
  void strings(std::string_view key, const std::vector<std::string_view>& values);
  void integers(std::string_view key, const std::vector<int32_t>& values);
  void numbers(std::string_view key, const std::vector<float>& values);
  void booleans(std::string_view key, const std::vector<bool>& values);
  void bytes(std::string_view key, std::span<const std::byte> values);
  bool has(std::string_view key) const;

  // Takes ownership of the mapped files that contain the tensor data. `other_bytes` is the total size of all other
  // files that were read, such as config.json.
  void own(std::vector<MappedFile> files, size_t other_bytes);

  // The functions below add tensors. build() fails if a name is added twice. `shape` has 1 to 4 dimensions, the row
  // length first.
  void tensor(std::string_view name, const std::vector<int64_t>& shape, TensorType type,
              std::span<const std::byte> data);
  // Adds a tensor of type `type` whose bytes are computed from `source` when they are read. Requires can_store(source,
  // type).
  void tensor(std::string_view name, const std::vector<int64_t>& shape, TensorType type, TensorSource source);
  // Adds a float32 vector that is not in any file.
  void tensor(std::string_view name, const std::vector<float>& values);

  // Returns the file, or the GGUF parser's errors for this metadata, or an error if two tensors have the same name.
  Result<std::unique_ptr<GgufFile>> build() &&;

  // Sets up `file` so that its float matrices are converted to `type` as they are read, using `threads` threads.
  // Matrices of other types, norms, biases, MoE routers and matrices whose rows do not divide into whole blocks stay
  // unchanged. The embedding table and the output matrix become Q8_0 instead of Q4_0, and Q6_K instead of Q4_K: these
  // two affect the logits directly, so rounding errors in them do the most harm. Matrices whose rows divide into Q8_0
  // blocks but not into Q4_K or Q6_K blocks become Q8_0. With kF8E4M3, the file's tensors stay floats, and the backend
  // converts them to FP8.
  static void quantize(GgufFile& file, TensorType type, int threads);

 private:
  void key(std::string_view key, GgufValueType type);
  GgufTensor& add(std::string_view name, const std::vector<int64_t>& shape, TensorType type);

  std::unique_ptr<GgufFile> file_;
  std::vector<std::byte> entries_;  // Metadata entries, encoded as in a GGUF file.
  std::vector<std::string> keys_;
};

}  // namespace monolith
