// Reads `<architecture>.<key>` values of a GGUF file within stated bounds. Errors name the whole
// key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/gguf.h"

namespace monolith {

class MetadataReader {
 public:
  MetadataReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  bool is_array(std::string_view name) const;

  // An integer in [low, high]. An array of equal numbers (per-layer values) counts as one number;
  // unequal ones are kUnsupported. Absent: `fallback`, or kInvalidFile if there is none. The
  // fallback must be in range too.
  Result<int> integer(std::string_view name, int64_t low, int64_t high,
                      std::optional<int64_t> fallback = std::nullopt) const;
  // One for each of `count` layers: a number stands for all of them, an array has one for each, or more than that.
  // Booleans count as 1 and 0.
  Result<std::vector<int>> integers(std::string_view name, int count, int64_t low, int64_t high,
                                    std::optional<int64_t> fallback = std::nullopt) const;
  Result<std::vector<double>> numbers(std::string_view name, int count, double low, double high,
                                      std::optional<double> fallback = std::nullopt) const;
  // A finite number in [low, high].
  Result<double> number(std::string_view name, double low, double high,
                        std::optional<double> fallback = std::nullopt) const;
  Result<bool> boolean(std::string_view name, bool fallback) const;
  // An array of booleans, or of integers that stand for them; the key must be there.
  Result<std::vector<bool>> flags(std::string_view name) const;
  Result<std::string> string(std::string_view name, std::string_view fallback) const;

  // kUnsupported if the key is there with a value other than `harmless` (false counts as 0, true as
  // 1; an array counts as the element that differs).
  Status refuse_unless(std::string_view name, double harmless, std::string_view what) const;

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace monolith
