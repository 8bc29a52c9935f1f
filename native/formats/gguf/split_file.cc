#include "formats/gguf/split_file.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "formats/gguf/parser.h"

namespace monolith {
namespace {

// Returns the suffix that llama.cpp's gguf-split appends to the name of a part, such as "-00002-of-00003.gguf". Part
// numbers in file names start at 1.
std::string suffix_of(uint64_t number, uint64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(number + 1),
                static_cast<unsigned long long>(count));
  return text;
}

std::string part_of(uint64_t number, uint64_t count) {
  return "part " + std::to_string(number + 1) + " of " + std::to_string(count);
}

}  // namespace

Result<uint64_t> SplitFile::count(const GgufFile& file) {
  const auto count = file.unsigned_integer("split.count");
  if (!count) return count.error();
  return std::max<uint64_t>(1, count->value_or(1));
}

Status SplitFile::join(const std::string& path, GgufFile& first) {
  const auto count = SplitFile::count(first);
  if (!count) return count.error();
  if (*count == 1) return {};
  if (*count > kMaxParts)
    return Error{ErrorCode::kUnsupported, path + ": split.count is " + std::to_string(*count) +
                                              "; a model can have at most " + std::to_string(kMaxParts) + " files"};
  const auto number = first.unsigned_integer("split.no");
  if (!number) return Error{number.error().code, path + ": " + number.error().message};
  const uint64_t own = number->value_or(0);
  const std::string suffix = suffix_of(own, *count);
  if (own >= *count || !path.ends_with(suffix))
    return Error{ErrorCode::kInvalidArgument, path + ": this is " + part_of(own, *count) +
                                                  " of a split model; the files must keep their names, which end in " +
                                                  suffix_of(0, *count) + " and so on"};
  const std::string name = path.substr(0, path.size() - suffix.size());
  if (own != 0)
    return Error{ErrorCode::kInvalidArgument, path + ": this is " + part_of(own, *count) +
                                                  " of a split model; open the first file instead: " + name +
                                                  suffix_of(0, *count)};
  for (uint64_t i = 1; i < *count; ++i)
    if (Status status = add(name + suffix_of(i, *count), i, *count, first); !status)
      return Error{status.error().code, path + ": " + status.error().message};

  const auto wanted = first.unsigned_integer("split.tensors.count");
  if (!wanted) return Error{wanted.error().code, path + ": " + wanted.error().message};
  if (wanted->value_or(first.tensors_.size()) != first.tensors_.size())
    return Error{ErrorCode::kInvalidFile, path + ": its " + std::to_string(*count) + " parts have " +
                                              std::to_string(first.tensors_.size()) +
                                              " tensors, but split.tensors.count is " + std::to_string(**wanted)};
  auto& order = first.tensors_by_name_;
  order.resize(first.tensors_.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto name_of = [&](uint32_t i) { return first.tensors_[i].name; };
  std::ranges::sort(order, {}, name_of);
  if (const auto twin = std::ranges::adjacent_find(order, {}, name_of); twin != order.end())
    return Error{ErrorCode::kInvalidFile, path + ": tensor " + in_quotes(name_of(*twin)) + " occurs in two parts"};
  return {};
}

// Adds the tensors of one part. The part's other metadata is ignored, except for the part number.
Status SplitFile::add(const std::string& path, uint64_t number, uint64_t count, GgufFile& first) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return Error{mapped.error().code, part_of(number, count) + " cannot be read: " + mapped.error().message};
  Result<std::unique_ptr<GgufFile>> parsed = GgufParser(mapped->bytes()).parse();
  if (!parsed) return Error{parsed.error().code, path + ": " + parsed.error().message};
  GgufFile& part = **parsed;
  const auto says_number = part.unsigned_integer("split.no"), says_count = part.unsigned_integer("split.count");
  if (!says_number || !says_count || says_number->value_or(0) != number || says_count->value_or(0) != count)
    return Error{ErrorCode::kInvalidFile, path + ": this is not " + part_of(number, count) +
                                              ", as its name claims: split.no or split.count differs"};
  for (GgufTensor& tensor : part.tensors_)
    if (tensor.source != nullptr) tensor.source = &first.sources_.emplace_back(*tensor.source);
  first.tensors_.insert(first.tensors_.end(), part.tensors_.begin(), part.tensors_.end());
  first.file_bytes_ += part.file_bytes_;
  // Moving the mapping does not move its pages, so all views remain valid.
  first.files_.push_back(std::move(mapped).value());
  return {};
}

}  // namespace monolith
