// Reads GGUF versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) from a memory map. The parser
// treats the file as untrusted: it checks every count against the remaining bytes before it allocates, checks all
// arithmetic for overflow, and reports each failure as one Error that states the problem and its location. A parsed
// file is immutable and may be read from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/tensor_source.h"
#include "formats/gguf/tensor_type.h"

namespace monolith {

// A whole file, mapped read-only. The object is movable but not copyable, and unmaps the file on destruction. While the
// file is mapped, replace it only by renaming another file over it: after it is truncated in place, reads can raise
// SIGBUS.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Releases the whole pages inside `bytes` from this process's memory. With `cached_too`, the pages are also dropped
  // from the system's page cache, unless another process has mapped them. Released pages are loaded again on the next
  // read.
  void give_back(std::span<const std::byte> bytes, bool cached_too) const;
  // Starts reading these bytes into the page cache, without waiting for them. Intended for small, scattered ranges.
  void will_need(std::span<const std::byte> bytes) const;
  // Reads these bytes into the page cache and maps their pages, so that using them causes no page fault. Before Linux
  // 5.14, it only starts reading them.
  void populate(std::span<const std::byte> bytes) const;

 private:
  MappedFile(int fd, const std::byte* data, size_t size) : fd_(fd), data_(data), size_(size) {}
  int fd_ = -1;  // Needed to drop cached pages: posix_fadvise takes a file descriptor, not an address.
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// One metadata value, stored as a view into the file. Numbers are decoded when requested.
struct GgufValue {
  GgufValueType type;
  GgufValueType element_type;  // Used only for arrays. The parser rejects nested arrays.
  uint64_t count;              // Array length; 1 for other types.
  // The bytes of the scalar, of the string without its length, or of the array's elements.
  std::span<const std::byte> payload;
};

struct GgufTensor {
  std::string_view name;
  TensorType type;
  int n_dims;
  std::array<int64_t, 4> shape;          // shape[0] is the row length and varies fastest; unused dimensions are 1.
  std::span<const std::byte> data;       // Exactly the tensor's bytes; empty if the tensor has a source.
  const TensorSource* source = nullptr;  // How to produce the bytes if no file contains them in this form.
  bool fp8 = false;  // Whether the backend should convert these floats to kF8E4M3 (see AssembledFile::quantize).
  int64_t n_values() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  // The type in which the loaded model stores this tensor.
  TensorType kept_as() const { return fp8 ? TensorType::kF8E4M3 : type; }
  size_t bytes() const {
    const TensorTypeTraits& traits = traits_of(type);
    return static_cast<size_t>(n_values() / traits.block_values * traits.block_bytes);
  }
};

// A model's metadata and tensors, either read from a GGUF file or assembled from another format (see assembled_file.h).
class GgufFile {
 public:
  // Opens a model. A split model (NAME-00001-of-00003.gguf) is opened through its first file. If a part is missing, the
  // error names it.
  static Result<std::unique_ptr<const GgufFile>> open(const std::string& path);
  static Result<std::unique_ptr<GgufFile>> open_for_change(const std::string& path);  // For AssembledFile::quantize.
  // Parses the bytes of one whole file, for tests and fuzzing. The bytes must outlive the result. The alignment of the
  // tensor data depends on that of `bytes`.
  static Result<std::unique_ptr<const GgufFile>> parse(std::span<const std::byte> bytes);

  // Metadata getters. For a missing key, they return nullopt. For a key with another type, they return an Error that
  // names the key and its type. Integers of any width are accepted if the value fits.
  const GgufValue* find(std::string_view key) const;
  Result<std::optional<uint64_t>> unsigned_integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> string(std::string_view key) const;
  Result<std::optional<std::vector<std::string_view>>> strings(std::string_view key) const;
  Result<std::optional<std::vector<float>>> numbers(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view key) const;

  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const;  // Returns null if the tensor does not exist.

  // Returns `size` bytes of one of this file's tensors, starting at byte `offset`. The result points into the file or,
  // if the tensor has a source, into `scratch`. For a tensor with a source, `offset` and `size` must cover whole rows.
  std::span<const std::byte> read(const GgufTensor& tensor, size_t offset, size_t size,
                                  std::vector<std::byte>& scratch) const;
  // Notifies the operating system that these bytes will not be read again soon, so that it may reclaim their pages.
  // With `cached_too`, the pages are also dropped from the page cache.
  void give_back(const GgufTensor& tensor, size_t offset, size_t size, bool cached_too = false) const;
  // Call the MappedFile functions of the same names. They do nothing for bytes that are not in a mapped file.
  void will_need(std::span<const std::byte> bytes) const;
  void populate(std::span<const std::byte> bytes) const;
  bool is_mapped() const { return !files_.empty(); }
  // Whether the whole file plus `bytes` more bytes fit in 90% of the memory available to this process.
  bool fits_beside(size_t bytes) const;
  // Drops the whole file from the system's page cache. Otherwise, the kernel would reclaim the cached pages one by one
  // while the weights are being allocated, leaving only fragmented memory for huge pages.
  void leave_cache() const;

  size_t file_bytes() const { return file_bytes_; }  // Total size of all files from which the model was read.
  size_t alignment() const { return alignment_; }

 private:
  friend class GgufParser;
  friend class AssembledFile;
  friend class SplitFile;
  GgufFile() = default;
  // Returns the mapped file that contains the first of these bytes, or null.
  const MappedFile* file_of(std::span<const std::byte> bytes) const;
  std::vector<MappedFile> files_;     // Empty for a file from parse().
  std::vector<std::byte> image_;      // Metadata of an assembled file, in GGUF encoding.
  std::deque<std::string> node_ids_;  // Names and bytes of tensors that do not point into a file.
  std::deque<std::vector<std::byte>> made_;
  std::deque<TensorSource> sources_;
  size_t file_bytes_ = 0;
  int threads_ = 1;  // Number of threads that produce the bytes of tensors with a source.
  std::span<const std::byte> bytes_;
  size_t alignment_ = 32;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;  // In the order of the file.
  std::vector<GgufTensor> tensors_;                               // In the order of the file.
  std::vector<uint32_t> metadata_by_name_, tensors_by_name_;      // Indices sorted by name, for binary search.
};

}  // namespace monolith
