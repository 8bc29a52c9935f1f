// Reading GGUF version 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) from a memory map.
// The parser trusts nothing: each count is bounded by the bytes that remain before anything is
// allocated for it, all arithmetic is checked, and every failure is one Error that says what and where.
// A parsed file is immutable and may be read from any thread.
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

// A whole file mapped read-only. Moves, does not copy; unmaps on destruction. While it is mapped, replace the
// file by rename only: truncating it in place makes later reads raise SIGBUS.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // The whole pages within `bytes` of this mapping need not stay in memory: in this process, or in the system's cache
  // either, where no other process has mapped them. They come back when read.
  void give_back(std::span<const std::byte> bytes, bool cached_too) const;

 private:
  MappedFile(int fd, const std::byte* data, size_t size) : fd_(fd), data_(data), size_(size) {}
  int fd_ = -1;  // a cache is told to forget by file, not by address
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

// One metadata value, kept as a view into the file; numbers are decoded on request.
struct GgufValue {
  GgufValueType type;
  GgufValueType element_type;          // for arrays; nested arrays are refused by the parser
  uint64_t count;                      // array length; 1 otherwise
  std::span<const std::byte> payload;  // scalar bytes, string bytes without length, or array body
};

// A string array whose element offsets have been checked once; iteration cannot fail.
class GgufStrings {
 public:
  size_t size() const { return items_.size(); }
  std::string_view operator[](size_t i) const { return items_[i]; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  friend class GgufFile;
  std::vector<std::string_view> items_;
};

struct GgufTensor {
  std::string_view name;
  TensorType type;
  int n_dims;
  std::array<int64_t, 4> shape;          // shape[0] varies fastest (the row length); unused are 1
  std::span<const std::byte> data;       // exactly the tensor's bytes; empty where there is a source
  const TensorSource* source = nullptr;  // where the bytes are made from, if they do not lie ready
  bool fp8 = false;                      // floats that a backend is to keep as kF8E4M3; see AssembledFile::quantize
  int64_t n_values() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  // What it is kept as once loaded.
  TensorType kept_as() const { return fp8 ? TensorType::kF8E4M3 : type; }
  size_t bytes() const {
    const TensorTypeTraits& traits = traits_of(type);
    return static_cast<size_t>(n_values() / traits.block_values * traits.block_bytes);
  }
};

// A model's metadata and tensors: those of a GGUF file, or what stands in their place and is asked in the same way
// (see assembled_file.h).
class GgufFile {
 public:
  // A model in several files (NAME-00001-of-00003.gguf) is opened by the first; one that is missing is named.
  static Result<std::unique_ptr<const GgufFile>> open(const std::string& path);
  static Result<std::unique_ptr<GgufFile>> open_for_change(const std::string& path);  // see AssembledFile::quantize
  // Parses one whole file's bytes, which somebody else keeps alive (tests, fuzzing). Tensor data is as aligned as `bytes` is.
  static Result<std::unique_ptr<const GgufFile>> parse(std::span<const std::byte> bytes);

  // Metadata. A missing key is nullopt; a key of another type is an Error naming key and type.
  // Integers of any width are accepted where they fit.
  const GgufValue* find(std::string_view key) const;
  Result<std::optional<uint64_t>> unsigned_integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string_view>> string(std::string_view key) const;
  Result<std::optional<GgufStrings>> strings(std::string_view key) const;
  Result<std::optional<std::vector<float>>> numbers(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view key) const;

  std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const;  // null if absent

  // `size` bytes of a tensor of this file from byte `offset` on, whole rows (of its source, if it has one): where they lie, or made in `scratch`.
  std::span<const std::byte> read(const GgufTensor& tensor, size_t offset, size_t size,
                                  std::vector<std::byte>& scratch) const;
  // They will not be read again soon: the system may have their pages back, those in its cache too if asked.
  void give_back(const GgufTensor& tensor, size_t offset, size_t size, bool cached_too = false) const;
  // Whether the memory that this process may use holds the whole file and `bytes` more.
  bool fits_beside(size_t bytes) const;
  // The system's cache forgets the whole file: what it keeps now would have to be found among the weights otherwise, piece by piece.
  void leave_cache() const;

  size_t file_bytes() const { return file_bytes_; }  // of all files it was read from
  size_t alignment() const { return alignment_; }

 private:
  friend class GgufParser;
  friend class AssembledFile;
  friend class SplitFile;
  GgufFile() = default;
  std::vector<MappedFile> files_;  // none after parse()
  std::vector<std::byte> image_;   // metadata of an assembled file
  std::deque<std::string> names_;  // tensors' names and bytes that no file holds
  std::deque<std::vector<std::byte>> made_;
  std::deque<TensorSource> sources_;
  size_t file_bytes_ = 0;
  int threads_ = 1;  // that make bytes
  std::span<const std::byte> bytes_;
  size_t alignment_ = 32;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;  // in file order
  std::vector<GgufTensor> tensors_;                               // in file order
  std::vector<uint32_t> metadata_by_name_, tensors_by_name_;      // sorted indices for look-up
};

}  // namespace monolith
