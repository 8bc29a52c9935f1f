// The layout and the invariants are documented in parser.h.
#include "formats/gguf/parser.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "formats/gguf/few_bits.h"

namespace monolith {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF data is read in place, which requires a little-endian machine");
static_assert(sizeof(size_t) == 8, "files larger than 4 GiB are mapped whole, which requires a 64-bit machine");

// Versions 2 and 3 have the same layout; version 3 only added support for big-endian files.
constexpr uint32_t kOldestVersion = 2, kVersion = 3;
constexpr size_t kMaxKeyBytes = 65535;       // The limit in the GGUF specification.
constexpr size_t kMaxTensorNameBytes = 256;  // The specification says 64, but some converters write longer names.
// Limits far above the needs of real files: a few hundred keys and, if each expert is a separate tensor, up to about
// 30,000 tensors. The limits keep the tables built for a huge malformed file below some tens of MiB.
constexpr uint64_t kMaxMetadata = 1 << 16, kMaxTensors = 1 << 18;
constexpr size_t kMinMetadataBytes = 8 + 1 + 4 + 1;        // A one-byte key and a one-byte value.
constexpr size_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // A one-byte name and one dimension.
constexpr uint64_t kMinAlignment = 8;

// Keys and names appear in messages and are used for lookups, so they must not contain control characters or NUL bytes.
bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

std::string number(uint64_t n) { return std::to_string(n); }

// Returns the likely format of a file that does not start with "GGUF", for the error message, because users often pass
// model files in other formats.
std::string_view draft_format(std::string_view head) {
  if (head.starts_with("version https://git-lfs")) return " (a Git LFS pointer; fetch the actual file)";
  for (std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"})
    if (head.starts_with(magic)) return " (an old GGML file; convert it to GGUF)";
  if (head.starts_with("FUGG")) return " (big-endian; only little-endian files are supported)";
  if (head.starts_with("PK")) return " (a zip archive or PyTorch checkpoint)";
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<html")) return " (an HTML page: the download failed)";
  if (head.size() > 8 && head[8] == '{') return " (perhaps safetensors; pass the path of its folder)";
  return "";
}

}  // namespace

std::string in_quotes(std::string_view text, size_t shown) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (char c : text.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  if (text.size() > shown) out += "...";
  return out + "'";
}

std::string_view gguf_type_name(GgufValueType type) {
  constexpr std::string_view kTypeNames[] = {"uint8",   "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                             "boolean", "string", "array",  "uint64", "int64",  "float64"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kTypeNames) ? kTypeNames[index] : std::string_view("unknown type");
}

size_t gguf_scalar_bytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool: return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16: return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32: return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64: return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray: break;
  }
  return 0;
}

Error GgufParser::invalid(const std::string& what) const {
  return {ErrorCode::kInvalidFile, "GGUF: " + what + " (at byte " + number(position_) + ")"};
}

Error GgufParser::truncated(const std::string& what) const {
  return {ErrorCode::kInvalidFile, "GGUF: the file ends inside " + what + " (at byte " + number(position_) + " of " +
                                       number(bytes_.size()) + ")"};
}

template <typename T>
bool GgufParser::read(T* value) {
  if (remaining() < sizeof(T)) return false;
  std::memcpy(value, bytes_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return true;
}

bool GgufParser::read_string(std::string_view* value) {
  uint64_t length;
  const size_t start = position_;
  if (!read(&length)) return false;
  if (length > remaining()) {
    position_ = start;  // The error message then points to the length.
    return false;
  }
  *value = {reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<size_t>(length)};
  position_ += length;
  return true;
}

Result<std::unique_ptr<GgufFile>> GgufParser::parse() {
  file_.reset(new GgufFile());
  file_->bytes_ = bytes_;
  file_->file_bytes_ = bytes_.size();
  for (auto step : {&GgufParser::parse_header, &GgufParser::parse_metadata, &GgufParser::check_general,
                    &GgufParser::parse_tensors, &GgufParser::place_tensors}) {
    if (Status status = (this->*step)(); !status) return status.error();
  }
  return std::move(file_);
}

Status GgufParser::parse_header() {
  if (bytes_.empty()) return Error{ErrorCode::kInvalidFile, "GGUF: the file is empty"};
  const std::string_view head(reinterpret_cast<const char*>(bytes_.data()), std::min<size_t>(bytes_.size(), 32));
  if (!head.starts_with("GGUF"))
    return Error{ErrorCode::kInvalidFile,
                 "not a GGUF file: it begins with " + in_quotes(head.substr(0, 4)) + std::string(draft_format(head))};
  position_ = 4;
  uint32_t version;
  if (!read(&version)) return truncated("the header");
  if (version < kOldestVersion || version > kVersion) {
    if (__builtin_bswap32(version) <= kVersion && version != 0)
      return Error{ErrorCode::kUnsupported, "GGUF: big-endian file; only little-endian files are supported"};
    return Error{version == 0 || version > 0xffff ? ErrorCode::kInvalidFile : ErrorCode::kUnsupported,
                 "GGUF: format version " + number(version) + " is not supported; expected 2 or 3"};
  }
  if (!read(&n_tensors_) || !read(&n_metadata_)) return truncated("the header");
  if (n_metadata_ > kMaxMetadata || n_metadata_ > remaining() / kMinMetadataBytes)
    return invalid("the header claims " + number(n_metadata_) + " metadata entries, but only " +
                   number(std::min<uint64_t>(kMaxMetadata, remaining() / kMinMetadataBytes)) + " are possible");
  const uint64_t possible =
      std::min<uint64_t>(kMaxTensors, (remaining() - n_metadata_ * kMinMetadataBytes) / kMinTensorBytes);
  if (n_tensors_ > possible)
    return invalid("the header claims " + number(n_tensors_) + " tensors, but only " + number(possible) +
                   " are possible");
  return {};
}

Status GgufParser::parse_metadata() {
  file_->metadata_.reserve(n_metadata_);
  for (uint64_t i = 0; i < n_metadata_; ++i) {
    const size_t start = position_;
    std::string_view key;
    if (!read_string(&key)) return truncated("the key of metadata entry " + number(i));
    if (key.empty() || key.size() > kMaxKeyBytes || !is_plain(key)) {
      position_ = start;
      return invalid("metadata entry " + number(i) + " has an invalid key: " + in_quotes(key));
    }
    GgufValue value{};
    if (Status status = parse_value(key, &value); !status) return status;
    file_->metadata_.emplace_back(key, value);
  }
  // The index is built before the tensors are read, because the alignment that they need is looked up by key.
  auto& order = file_->metadata_by_name_;
  order.resize(n_metadata_);
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key_of = [this](uint32_t i) { return file_->metadata_[i].first; };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key_of(a) < key_of(b); });
  const auto twin =
      std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key_of(a) == key_of(b); });
  if (twin != order.end())
    return Error{ErrorCode::kInvalidFile, "GGUF: metadata key " + in_quotes(key_of(*twin)) + " occurs twice"};
  return {};
}

Status GgufParser::parse_value(std::string_view key, GgufValue* value) {
  uint32_t type;
  if (!read(&type)) return truncated("the type of metadata key " + in_quotes(key));
  if (type > static_cast<uint32_t>(GgufValueType::kFloat64)) {
    position_ -= sizeof type;
    return invalid("metadata key " + in_quotes(key) + " has unknown value type " + number(type));
  }
  value->type = value->element_type = static_cast<GgufValueType>(type);
  value->count = 1;
  if (value->type == GgufValueType::kArray) return parse_array(key, value);
  if (value->type == GgufValueType::kString) {
    std::string_view text;
    if (!read_string(&text)) return truncated("the string of metadata key " + in_quotes(key));
    value->payload = std::as_bytes(std::span(text));
    return {};
  }
  const size_t size = gguf_scalar_bytes(value->type);
  if (remaining() < size) return truncated("the value of metadata key " + in_quotes(key));
  value->payload = bytes_.subspan(position_, size);
  position_ += size;
  return value->type == GgufValueType::kBool ? check_booleans(key, value->payload) : Status();
}

Status GgufParser::parse_array(std::string_view key, GgufValue* value) {
  uint32_t type;
  if (!read(&type) || !read(&value->count)) return truncated("the array header of metadata key " + in_quotes(key));
  if (type > static_cast<uint32_t>(GgufValueType::kFloat64))
    return invalid("the array of metadata key " + in_quotes(key) + " has unknown element type " + number(type));
  value->element_type = static_cast<GgufValueType>(type);
  if (value->element_type == GgufValueType::kArray)
    return Error{ErrorCode::kUnsupported,
                 "GGUF: metadata key " + in_quotes(key) + " is an array of arrays, which is not supported"};
  // A string takes at least the 8 bytes of its length.
  const size_t scalar_bytes = gguf_scalar_bytes(value->element_type);
  const size_t min_bytes = scalar_bytes != 0 ? scalar_bytes : 8;
  if (value->count > remaining() / min_bytes)
    return truncated("the array of metadata key " + in_quotes(key) + ", which claims " + number(value->count) +
                     " elements of type " + std::string(gguf_type_name(value->element_type)));
  const size_t start = position_;
  if (scalar_bytes != 0) {
    position_ += value->count * scalar_bytes;
  } else {
    std::string_view text;
    for (uint64_t i = 0; i < value->count; ++i)
      if (!read_string(&text)) return truncated("string " + number(i) + " of metadata key " + in_quotes(key));
  }
  value->payload = bytes_.subspan(start, position_ - start);
  return value->element_type == GgufValueType::kBool ? check_booleans(key, value->payload) : Status();
}

Status GgufParser::check_booleans(std::string_view key, std::span<const std::byte> payload) const {
  for (std::byte b : payload)
    if (b > std::byte{1})
      return invalid("metadata key " + in_quotes(key) + " holds the boolean " + number(static_cast<uint8_t>(b)) +
                     "; only 0 and 1 are defined");
  return {};
}

// Checks the keys that determine how the rest of the file is read.
Status GgufParser::check_general() {
  const auto alignment = file_->unsigned_integer("general.alignment");
  if (!alignment) return alignment.error();
  if (*alignment) {
    const uint64_t bytes = **alignment;
    if (!std::has_single_bit(bytes) || bytes < kMinAlignment || bytes > UINT32_MAX)
      return Error{ErrorCode::kInvalidFile,
                   "GGUF: general.alignment is " + number(bytes) + "; it must be a power of two, at least 8"};
    file_->alignment_ = bytes;
  }
  return {};
}

Status GgufParser::parse_tensors() {
  // This check is stricter than the one on the header, because the metadata has been read by now and fewer bytes
  // remain.
  if (n_tensors_ > remaining() / kMinTensorBytes)
    return truncated("the tensor table, which claims " + number(n_tensors_) + " tensors");
  file_->tensors_.reserve(n_tensors_);
  offsets_.reserve(n_tensors_);
  sizes_.reserve(n_tensors_);
  few_.reserve(n_tensors_);
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    GgufTensor tensor{};
    uint64_t offset;
    if (Status status = parse_tensor(i, &tensor, &offset); !status) return status;
    file_->tensors_.push_back(tensor);
    offsets_.push_back(offset);
  }
  auto& order = file_->tensors_by_name_;
  order.resize(n_tensors_);
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto name_of = [this](uint32_t i) { return file_->tensors_[i].name; };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name_of(a) < name_of(b); });
  const auto twin =
      std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return name_of(a) == name_of(b); });
  if (twin != order.end())
    return Error{ErrorCode::kInvalidFile, "GGUF: tensor " + in_quotes(name_of(*twin)) + " occurs twice"};
  return {};
}

Status GgufParser::parse_tensor(size_t index, GgufTensor* tensor, uint64_t* offset) {
  const size_t start = position_;
  if (!read_string(&tensor->name)) return truncated("the name of tensor " + number(index));
  if (tensor->name.empty() || tensor->name.size() > kMaxTensorNameBytes || !is_plain(tensor->name)) {
    position_ = start;
    return invalid("tensor " + number(index) + " has an invalid name (1 to " + number(kMaxTensorNameBytes) +
                   " bytes, no control characters): " + in_quotes(tensor->name));
  }
  const std::string name = "tensor " + in_quotes(tensor->name);
  uint32_t n_dims;
  if (!read(&n_dims)) return truncated(name);
  if (n_dims < 1 || n_dims > tensor->shape.size())
    return invalid(name + " has " + number(n_dims) + " dimensions; 1 to 4 are possible");
  tensor->n_dims = static_cast<int>(n_dims);
  tensor->shape.fill(1);
  int64_t n_values = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    uint64_t length;
    if (!read(&length)) return truncated(name);
    const auto product = length > INT64_MAX ? std::nullopt : checked_mul(n_values, static_cast<int64_t>(length));
    if (length == 0 || !product)
      return invalid(name + ": dimension " + number(i) + " is " + number(length) +
                     (length == 0 ? "" : ", and the number of values overflows"));
    n_values = *product;
    tensor->shape[i] = static_cast<int64_t>(length);
  }
  uint32_t type;
  if (!read(&type) || !read(offset)) return truncated(name);
  const FewBits* const few = few_bits(type);
  const TensorTypeTraits* traits = tensor_type_traits(few != nullptr ? static_cast<uint32_t>(TensorType::kQ4_0) : type);
  if (traits == nullptr)
    return Error{ErrorCode::kUnsupported, "GGUF: " + name + " has type " + std::string(tensor_type_name(type)) +
                                              " (ggml type " + number(type) + "), which is not supported"};
  tensor->type = few != nullptr ? TensorType::kQ4_0 : static_cast<TensorType>(type);
  const int64_t block_values = few != nullptr ? few->block_values : traits->block_values;
  if (tensor->shape[0] % block_values != 0)
    return invalid(name + ": rows of " + number(static_cast<uint64_t>(tensor->shape[0])) +
                   " values do not fill whole blocks of " + std::string(few != nullptr ? few->name : traits->name) +
                   " (" + number(static_cast<uint64_t>(block_values)) + " values)");
  const auto size = checked_mul(n_values / block_values, few != nullptr ? few->block_bytes : traits->block_bytes);
  if (!size || !checked_mul(n_values / traits->block_values, traits->block_bytes))
    return invalid(name + ": its size in bytes overflows");
  few_.push_back(few);
  // The data section starts after the tensor table, so place_tensors() assigns the bytes once the whole table has been
  // read.
  sizes_.push_back(static_cast<uint64_t>(*size));
  return {};
}

// Assigns each tensor its bytes. Checks that the bytes are aligned, lie inside the data section and do not overlap
// another tensor's bytes.
Status GgufParser::place_tensors() {
  if (n_tensors_ == 0) return {};
  const uint64_t mask = file_->alignment_ - 1;
  // The sum cannot overflow because both terms are far below 2^63.
  const uint64_t data_start = (position_ + mask) & ~mask;
  if (data_start > bytes_.size()) return truncated("the padding before the tensor data");
  const uint64_t data_bytes = bytes_.size() - data_start;
  std::vector<uint32_t> order(n_tensors_);
  for (uint32_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    GgufTensor& tensor = file_->tensors_[i];
    const std::string name = "GGUF: tensor " + in_quotes(tensor.name);
    const uint64_t offset = offsets_[i], size = sizes_[i];
    if (offset % file_->alignment_ != 0)
      return Error{ErrorCode::kInvalidFile, name + " lies at offset " + number(offset) +
                                                ", not a multiple of the alignment " + number(file_->alignment_)};
    if (size > data_bytes || offset > data_bytes - size)
      return Error{ErrorCode::kInvalidFile, name + " needs " + number(size) + " bytes at offset " + number(offset) +
                                                " of the tensor data, which has " + number(data_bytes) +
                                                " bytes: the file is truncated or corrupt"};
    tensor.data = bytes_.subspan(data_start + offset, size);
    if (few_[i] == nullptr) continue;
    tensor.source = &file_->sources_.emplace_back(TensorSource{
        .type = tensor.type, .cols = tensor.shape[0], .maker = few_bits_rows(*few_[i], tensor.data, tensor.shape[0])});
    tensor.data = {};
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return offsets_[a] < offsets_[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint32_t before = order[i - 1], after = order[i];
    if (offsets_[before] + sizes_[before] > offsets_[after])
      return Error{ErrorCode::kInvalidFile, "GGUF: tensors " + in_quotes(file_->tensors_[before].name) + " and " +
                                                in_quotes(file_->tensors_[after].name) + " overlap"};
  }
  return {};
}

}  // namespace monolith
