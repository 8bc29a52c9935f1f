#include "formats/hf/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "formats/gguf/parser.h"
#include "formats/hf/json_file.h"

namespace monolith::hf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are read in place, which requires a little-endian machine");

constexpr size_t kMaxHeadBytes = size_t{100} << 20;  // The limit in the format specification.
constexpr size_t kMaxTensors = 1 << 18;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxDimensions = 8;

struct ElementType {
  std::string_view name;
  int64_t bits;
};
constexpr ElementType kTypes[] = {
    {"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},        {"I32", 32},
    {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32},    {"U16", 16},        {"U8", 8},
    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64},
};

Error invalid(const std::string& file, const std::string& what) {
  return {ErrorCode::kInvalidFile, file + ": " + what};
}

// Reads one tensor's entry. `begin` and `end` are relative to the first byte after the header.
Status read_entry(const JsonValue& entry, const std::string& where, size_t data_bytes, Safetensor& tensor,
                  uint64_t& begin, uint64_t& end) {
  const auto wrong = [&](const std::string& what) { return Error{ErrorCode::kInvalidFile, where + " " + what}; };
  if (!entry.is_object()) return wrong("must be described by a JSON object");
  tensor.type = entry["dtype"].text();
  if (tensor.type.empty() || tensor.type.size() > 16) return wrong("has no type ('dtype')");
  if (!entry["shape"].is_array()) return wrong("has no shape");
  const auto lengths = entry["shape"].items();
  if (lengths.size() > kMaxDimensions)
    return wrong("has " + std::to_string(lengths.size()) + " dimensions, expected " + std::to_string(kMaxDimensions) +
                 " or fewer");
  int64_t values = 1;
  for (size_t i = 0; i < lengths.size(); ++i) {
    auto length = entry["shape"].item(i).integer();
    if (!length) return wrong("has a dimension that is not a non-negative integer: " + length.error().message);
    if (!*length) return wrong("has a dimension that is null");
    const auto product = checked_mul(values, **length);
    if (!product) return wrong("has too many values");
    values = *product;
    tensor.shape.push_back(**length);
  }
  const JsonValue offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.items().size() != 2) return wrong("must have two 'data_offsets'");
  for (const size_t i : {size_t{0}, size_t{1}}) {
    auto offset = offsets.item(i).integer();
    if (!offset) return wrong("has an offset that is not a non-negative integer: " + offset.error().message);
    if (!*offset) return wrong("has an offset that is null");
    (i == 0 ? begin : end) = static_cast<uint64_t>(**offset);
  }
  if (begin > end || end > data_bytes)
    return wrong("lies at bytes " + std::to_string(begin) + " to " + std::to_string(end) + " of the data, which has " +
                 std::to_string(data_bytes) + ": the file is truncated or corrupt");
  const auto type = std::ranges::find(kTypes, tensor.type, &ElementType::name);
  // A tensor of an unknown type is rejected later, and only if the model needs it.
  if (type == std::end(kTypes)) return {};
  const auto bits = checked_mul(values, type->bits);
  if (!bits || *bits % 8 != 0 || static_cast<uint64_t>(*bits / 8) != end - begin)
    return wrong("has " + std::to_string(end - begin) + " bytes, which does not match its shape in " + tensor.type);
  return {};
}

}  // namespace

Result<std::vector<Safetensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  uint64_t head_bytes = 0;
  if (bytes.size() < sizeof head_bytes) return invalid(file, "too short to be a safetensors file");
  std::memcpy(&head_bytes, bytes.data(), sizeof head_bytes);
  const size_t rest = bytes.size() - sizeof head_bytes;
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 32));
  if (start.starts_with("version https://git-lfs"))
    return invalid(file, "a Git LFS pointer and not a safetensors file; fetch the actual file");
  if (head_bytes > kMaxHeadBytes || head_bytes > rest)
    return invalid(file, "not a safetensors file, or truncated: the header claims " + std::to_string(head_bytes) +
                             " bytes, but " + std::to_string(rest) +
                             " follow (limit: " + std::to_string(kMaxHeadBytes) + ")");
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()) + sizeof head_bytes, head_bytes);
  json::Document document;
  json::Id root = json::kAbsent;
  std::string error;
  if (!document.parse(head, root, error, kMaxHeadBytes)) return invalid(file, "the header is not valid JSON: " + error);
  if (!document.is(root, json::Document::Kind::kObject)) return invalid(file, "the header is not a JSON object");

  const auto data = bytes.subspan(sizeof head_bytes + head_bytes);
  const JsonValue entries(&document, root, file);
  if (entries.members().size() > kMaxTensors)
    return invalid(file, "claims " + std::to_string(entries.members().size()) + " tensors, expected " +
                             std::to_string(kMaxTensors) + " or fewer");
  std::vector<Safetensor> tensors;
  struct Extent {
    uint64_t begin, end;
    size_t tensor;
  };
  std::vector<Extent> extents;
  for (const auto& [name, id] : entries.members()) {
    if (name == "__metadata__") continue;
    if (name.empty() || name.size() > kMaxNameBytes ||
        std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
      return invalid(file, "a tensor has the invalid name " + in_quotes(name));
    Safetensor tensor{.name = name, .type = {}, .shape = {}, .data = {}, .file = file};
    uint64_t begin = 0, end = 0;
    const std::string where = file + ": tensor " + in_quotes(name);
    if (Status status = read_entry(entries.at(id, name), where, data.size(), tensor, begin, end); !status)
      return status.error();
    tensor.data = data.subspan(begin, end - begin);
    extents.push_back({begin, end, tensors.size()});
    tensors.push_back(std::move(tensor));
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  uint64_t done = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].begin < done)
      return invalid(file, "tensors " + in_quotes(tensors[extents[i - 1].tensor].name) + " and " +
                               in_quotes(tensors[extents[i].tensor].name) + " overlap");
    if (extents[i].begin > done) break;
    done = extents[i].end;
  }
  if (done != data.size())
    return invalid(file, "bytes from " + std::to_string(done) + " on in the data belong to no tensor");
  return tensors;
}

}  // namespace monolith::hf
