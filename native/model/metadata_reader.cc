#include "model/metadata_reader.h"

#include <cmath>
#include <cstdio>
#include <vector>

namespace monolith {
namespace {

std::string text_of(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

Error missing(const std::string& key) { return {ErrorCode::kInvalidFile, "metadata key '" + key + "' is missing"}; }

}  // namespace

Result<int> MetadataReader::integer(std::string_view name, int64_t low, int64_t high,
                                    std::optional<int64_t> fallback) const {
  const std::string full = key(name);
  const GgufValue* found = file_.find(full);
  int64_t value = 0;
  if (found == nullptr) {
    if (!fallback) return missing(full);
    value = *fallback;
  } else if (found->type == GgufValueType::kArray) {
    auto values = file_.integers(full);
    if (!values) return values.error();
    const std::vector<int64_t>& items = **values;
    if (items.empty()) return Error{ErrorCode::kInvalidFile, "metadata key '" + full + "' is an empty array"};
    for (const int64_t item : items) {
      if (item != items[0]) {
        return Error{ErrorCode::kUnsupported,
                     "metadata key '" + full + "' differs between layers, which is not supported"};
      }
    }
    value = items[0];
  } else {
    auto number = file_.unsigned_integer(full);
    if (!number) return number.error();
    // Values above INT64_MAX exceed every limit in use. They are clamped to INT64_MAX, so that the comparison below can
    // be signed.
    value = **number > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(**number);
  }
  if (value < low || value > high) {
    return Error{ErrorCode::kInvalidFile, "metadata key '" + full + "' is " + std::to_string(value) + ", expected " +
                                              std::to_string(low) + " to " + std::to_string(high)};
  }
  return static_cast<int>(value);
}

Result<double> MetadataReader::number(std::string_view name, double low, double high,
                                      std::optional<double> fallback) const {
  const std::string full = key(name);
  auto found = file_.number(full);
  if (!found) return found.error();
  if (!*found && !fallback) return missing(full);
  const double value = *found ? **found : *fallback;
  if (!(value >= low && value <= high)) {  // NaN fails this check.
    return Error{ErrorCode::kInvalidFile, "metadata key '" + full + "' is " + text_of(value) + ", expected " +
                                              text_of(low) + " to " + text_of(high)};
  }
  return value;
}

namespace {

// An array may be longer than `count`, with extra elements for layers that are not loaded.
template <typename Value, typename Item>
Result<std::vector<Value>> of_layers(const std::string& key, const std::vector<Item>& items, int count, double low,
                                     double high) {
  if (items.size() < static_cast<size_t>(count)) {
    return Error{ErrorCode::kInvalidFile, "metadata key '" + key + "' has " + std::to_string(items.size()) +
                                              " elements, expected one per layer, " + std::to_string(count)};
  }
  std::vector<Value> values;
  for (int i = 0; i < count; ++i) {
    const auto item = static_cast<double>(items[static_cast<size_t>(i)]);
    if (!(item >= low && item <= high)) {  // NaN fails this check.
      return Error{ErrorCode::kInvalidFile, "metadata key '" + key + "' is " + text_of(item) + " for layer " +
                                                std::to_string(i) + ", expected " + text_of(low) + " to " +
                                                text_of(high)};
    }
    values.push_back(static_cast<Value>(item));
  }
  return values;
}

}  // namespace

Result<std::vector<int>> MetadataReader::integers(std::string_view name, int count, int64_t low, int64_t high,
                                                  std::optional<int64_t> fallback) const {
  if (is_array(name)) {
    if (file_.find(key(name))->element_type == GgufValueType::kBool) {
      auto set = flags(name);
      if (!set) return set.error();
      return of_layers<int>(key(name), std::vector<int>(set->begin(), set->end()), count, static_cast<double>(low),
                            static_cast<double>(high));
    }
    auto items = file_.integers(key(name));
    if (!items) return items.error();
    return of_layers<int>(key(name), **items, count, static_cast<double>(low), static_cast<double>(high));
  }
  auto value = integer(name, low, high, fallback);
  if (!value) return value.error();
  return std::vector<int>(static_cast<size_t>(count), *value);
}

Result<std::vector<double>> MetadataReader::numbers(std::string_view name, int count, double low, double high,
                                                    std::optional<double> fallback) const {
  if (is_array(name)) {
    auto items = file_.numbers(key(name));
    if (!items) return items.error();
    return of_layers<double>(key(name), **items, count, low, high);
  }
  auto value = number(name, low, high, fallback);
  if (!value) return value.error();
  return std::vector<double>(static_cast<size_t>(count), *value);
}

bool MetadataReader::is_array(std::string_view name) const {
  const GgufValue* found = file_.find(key(name));
  return found != nullptr && found->type == GgufValueType::kArray;
}

Result<bool> MetadataReader::boolean(std::string_view name, bool fallback) const {
  auto found = file_.boolean(key(name));
  if (!found) return found.error();
  return found->value_or(fallback);
}

Result<std::vector<bool>> MetadataReader::flags(std::string_view name) const {
  const std::string full = key(name);
  const GgufValue* found = file_.find(full);
  if (found == nullptr) return missing(full);
  if (found->type == GgufValueType::kArray && found->element_type != GgufValueType::kBool) {
    // Some converters copy the checkpoint's list unchanged, and that list may consist of the integers 0 and 1 (MiMo
    // V2).
    if (auto items = file_.integers(full); items && *items) {
      std::vector<bool> flags;
      for (const int64_t item : **items) flags.push_back(item != 0);
      return flags;
    }
  }
  if (found->type != GgufValueType::kArray || found->element_type != GgufValueType::kBool) {
    return Error{ErrorCode::kInvalidFile, "metadata key '" + full + "' is not an array of booleans"};
  }
  std::vector<bool> flags(found->count);
  for (size_t i = 0; i < flags.size(); ++i) flags[i] = found->payload[i] != std::byte{0};
  return flags;
}

Result<std::string> MetadataReader::string(std::string_view name, std::string_view fallback) const {
  auto found = file_.string(key(name));
  if (!found) return found.error();
  return std::string(*found ? **found : fallback);
}

Status MetadataReader::refuse_unless(std::string_view name, double harmless, std::string_view what) const {
  const std::string full = key(name);
  const GgufValue* found = file_.find(full);
  if (found == nullptr) return {};
  double value = std::nan("");
  if (found->type == GgufValueType::kBool) {
    auto flag = file_.boolean(full);
    if (!flag) return flag.error();
    value = **flag ? 1 : 0;
  } else if (found->type == GgufValueType::kArray) {
    auto values = file_.numbers(full);
    if (!values) return values.error();
    value = harmless;
    for (const float item : **values) {
      if (item != static_cast<float>(harmless)) value = item;
    }
  } else {
    auto number = file_.number(full);
    if (!number) return number.error();
    value = **number;
  }
  if (value == harmless) return {};
  return Error{ErrorCode::kUnsupported,
               std::string(what) + " is not supported ('" + full + "' is " + text_of(value) + ")"};
}

}  // namespace monolith
