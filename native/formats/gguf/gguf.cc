// Lookups in a parsed file. The parser has already validated all data read here. May be called from any thread.
#include "formats/gguf/gguf.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/machine_memory.h"
#include "formats/gguf/parser.h"
#include "formats/gguf/split_file.h"

namespace monolith {
namespace {

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Calls visit() with the number at `at`, in its stored type. Returns false if `type` is not a numeric type.
template <typename Visit>
bool visit_number(GgufValueType type, const std::byte* at, Visit&& visit) {
  switch (type) {
    case GgufValueType::kUint8: visit(load<uint8_t>(at)); return true;
    case GgufValueType::kInt8: visit(load<int8_t>(at)); return true;
    case GgufValueType::kUint16: visit(load<uint16_t>(at)); return true;
    case GgufValueType::kInt16: visit(load<int16_t>(at)); return true;
    case GgufValueType::kUint32: visit(load<uint32_t>(at)); return true;
    case GgufValueType::kInt32: visit(load<int32_t>(at)); return true;
    case GgufValueType::kUint64: visit(load<uint64_t>(at)); return true;
    case GgufValueType::kInt64: visit(load<int64_t>(at)); return true;
    case GgufValueType::kFloat32: visit(load<float>(at)); return true;
    case GgufValueType::kFloat64: visit(load<double>(at)); return true;
    case GgufValueType::kBool:
    case GgufValueType::kString:
    case GgufValueType::kArray: break;
  }
  return false;
}

bool is_float(GgufValueType type) { return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64; }
bool is_number(GgufValueType type) {
  return type != GgufValueType::kBool && type != GgufValueType::kString && type != GgufValueType::kArray;
}
bool is_integer(GgufValueType type) { return is_number(type) && !is_float(type); }

std::string type_of(const GgufValue& value) {
  if (value.type != GgufValueType::kArray) return std::string(gguf_type_name(value.type));
  return "array of " + std::string(gguf_type_name(value.element_type));
}

Error wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) {
  return {ErrorCode::kInvalidFile, "GGUF: metadata key " + in_quotes(key) + " is of type " + type_of(value) +
                                       ", expected " + std::string(wanted)};
}

Error out_of_range(std::string_view key, const std::string& number, std::string_view wanted) {
  return {ErrorCode::kInvalidFile,
          "GGUF: metadata key " + in_quotes(key) + " is " + number + ", expected " + std::string(wanted)};
}

}  // namespace

Result<std::unique_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  auto file = open_for_change(path);
  if (!file) return file.error();
  return std::unique_ptr<const GgufFile>(std::move(*file));
}

Result<std::unique_ptr<GgufFile>> GgufFile::open_for_change(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  Result<std::unique_ptr<GgufFile>> parsed = GgufParser(mapped->bytes()).parse();
  if (!parsed) return Error{parsed.error().code, path + ": " + parsed.error().message};
  std::unique_ptr<GgufFile> file = std::move(parsed).value();
  // Moving the mapping does not move its pages, so all views remain valid.
  file->files_.push_back(std::move(mapped).value());
  if (Status status = SplitFile::join(path, *file); !status) return status.error();
  return file;
}

Result<std::unique_ptr<const GgufFile>> GgufFile::parse(std::span<const std::byte> bytes) {
  Result<std::unique_ptr<GgufFile>> parsed = GgufParser(bytes).parse();
  if (!parsed) return parsed.error();
  const auto parts = SplitFile::count(**parsed);
  if (!parts) return parts.error();
  if (*parts > 1)
    return Error{ErrorCode::kUnsupported, "GGUF: one of " + std::to_string(*parts) +
                                              " parts of a split model (split.count); open the model by its path"};
  return std::unique_ptr<const GgufFile>(std::move(parsed).value());
}

std::span<const std::byte> GgufFile::read(const GgufTensor& tensor, size_t offset, size_t size,
                                          std::vector<std::byte>& scratch) const {
  if (tensor.source == nullptr) return tensor.data.subspan(offset, size);
  const TensorSource& source = *tensor.source;
  const size_t row = tensor.bytes() / static_cast<size_t>(source.rows());
  assert(offset % row == 0 && size % row == 0);
  scratch.resize(size);
  read_rows(source, tensor.type, static_cast<int64_t>(offset / row), static_cast<int64_t>(size / row), threads_,
            scratch.data());
  return scratch;
}

bool GgufFile::fits_beside(size_t bytes) const {
  const uint64_t total = machine_memory().total;
  if (total == 0) return true;
  const uint64_t most = total / 10 * 9;  // Leaves 10% for other processes.
  return bytes <= most && file_bytes_ <= most - bytes;
}

void GgufFile::leave_cache() const {
  for (const MappedFile& file : files_) file.give_back(file.bytes(), true);
}

const MappedFile* GgufFile::file_of(std::span<const std::byte> bytes) const {
  for (const MappedFile& file : files_) {
    const auto all = file.bytes();
    if (bytes.data() >= all.data() && bytes.data() < all.data() + all.size()) return &file;
  }
  return nullptr;
}

void GgufFile::will_need(std::span<const std::byte> bytes) const {
  if (const MappedFile* const file = file_of(bytes)) file->will_need(bytes);
}

void GgufFile::populate(std::span<const std::byte> bytes) const {
  if (const MappedFile* const file = file_of(bytes)) file->populate(bytes);
}

void GgufFile::give_back(const GgufTensor& tensor, size_t offset, size_t size, bool cached_too) const {
  // Releases only ranges inside a mapped file: anonymous memory would read as zeros afterwards.
  const auto give = [this, cached_too](std::span<const std::byte> part) {
    if (const MappedFile* const file = file_of(part)) file->give_back(part, cached_too);
  };
  if (tensor.source == nullptr) return give(tensor.data.subspan(offset, size));
  // Any row may use any part of the source's ranges, so the pages are released only when the tensor's last bytes are
  // released.
  if (offset + size == tensor.bytes())
    for (const auto part : tensor.source->places()) give(part);
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto at = std::lower_bound(metadata_by_name_.begin(), metadata_by_name_.end(), key,
                                   [this](uint32_t i, std::string_view k) { return metadata_[i].first < k; });
  return at != metadata_by_name_.end() && metadata_[*at].first == key ? &metadata_[*at].second : nullptr;
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  const auto at = std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                                   [this](uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return at != tensors_by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

Result<std::optional<uint64_t>> GgufFile::unsigned_integer(std::string_view key) const {
  using Optional = std::optional<uint64_t>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  if (!is_integer(value->type)) return wrong_type(key, *value, "an unsigned integer");
  uint64_t number = 0;
  bool negative = false;
  visit_number(value->type, value->payload.data(), [&](auto n) {
    negative = n < decltype(n){0};
    number = static_cast<uint64_t>(n);
  });
  if (negative) return out_of_range(key, std::to_string(static_cast<int64_t>(number)), "an unsigned integer");
  return Optional(number);
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  using Optional = std::optional<double>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  double number = 0;
  if (!visit_number(value->type, value->payload.data(), [&](auto n) { number = static_cast<double>(n); }))
    return wrong_type(key, *value, "a number");
  if (!std::isfinite(number)) return out_of_range(key, std::to_string(number), "a finite number");
  return Optional(number);
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  using Optional = std::optional<bool>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  if (value->type != GgufValueType::kBool) return wrong_type(key, *value, "a boolean");
  return Optional(value->payload[0] != std::byte{0});
}

Result<std::optional<std::string_view>> GgufFile::string(std::string_view key) const {
  using Optional = std::optional<std::string_view>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  if (value->type != GgufValueType::kString) return wrong_type(key, *value, "a string");
  return Optional(std::string_view(reinterpret_cast<const char*>(value->payload.data()), value->payload.size()));
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::strings(std::string_view key) const {
  using Optional = std::optional<std::vector<std::string_view>>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  if (value->type != GgufValueType::kArray || value->element_type != GgufValueType::kString)
    return wrong_type(key, *value, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  const std::byte* at = value->payload.data();
  for (uint64_t i = 0; i < value->count; ++i) {  // The parser has already validated these lengths.
    const auto length = load<uint64_t>(at);
    at += sizeof length;
    strings.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
  }
  return Optional(std::move(strings));
}

Result<std::optional<std::vector<float>>> GgufFile::numbers(std::string_view key) const {
  using Optional = std::optional<std::vector<float>>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  if (value->type != GgufValueType::kArray || !is_number(value->element_type))
    return wrong_type(key, *value, "an array of numbers");
  std::vector<float> numbers(value->count);
  const std::byte* at = value->payload.data();
  const size_t stride = gguf_scalar_bytes(value->element_type);
  for (float& number : numbers) {
    visit_number(value->element_type, at, [&](auto n) { number = static_cast<float>(n); });
    at += stride;
  }
  return Optional(std::move(numbers));
}

Result<std::optional<std::vector<int64_t>>> GgufFile::integers(std::string_view key) const {
  using Optional = std::optional<std::vector<int64_t>>;
  const GgufValue* value = find(key);
  if (value == nullptr) return Optional();
  if (value->type != GgufValueType::kArray || !is_integer(value->element_type))
    return wrong_type(key, *value, "an array of integers");
  std::vector<int64_t> integers(value->count);
  const std::byte* at = value->payload.data();
  const size_t stride = gguf_scalar_bytes(value->element_type);
  bool fits = true;
  for (int64_t& integer : integers) {
    visit_number(value->element_type, at, [&](auto n) {
      if constexpr (std::is_same_v<decltype(n), uint64_t>) fits = fits && n <= uint64_t{INT64_MAX};
      integer = static_cast<int64_t>(n);
    });
    at += stride;
  }
  if (!fits) return out_of_range(key, "an array with an element above 2^63 - 1", "64-bit integers");
  return Optional(std::move(integers));
}

}  // namespace monolith
