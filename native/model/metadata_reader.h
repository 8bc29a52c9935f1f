// Reads the `<architecture>.<key>` values of a GGUF file and checks them against limits. Errors name the full key.
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

  // Returns an integer in [low, high]. An array of equal numbers (per-layer values) counts as one number; an array of
  // different numbers is kUnsupported. If the key is missing, returns `fallback`, which must also be in range, or
  // kInvalidFile if no fallback is given.
  Result<int> integer(std::string_view name, int64_t low, int64_t high,
                      std::optional<int64_t> fallback = std::nullopt) const;
  // Returns one value for each of `count` layers. A single number applies to all layers; an array must have at least
  // one element per layer. Booleans count as 1 and 0.
  Result<std::vector<int>> integers(std::string_view name, int count, int64_t low, int64_t high,
                                    std::optional<int64_t> fallback = std::nullopt) const;
  Result<std::vector<double>> numbers(std::string_view name, int count, double low, double high,
                                      std::optional<double> fallback = std::nullopt) const;
  // Returns a finite number in [low, high].
  Result<double> number(std::string_view name, double low, double high,
                        std::optional<double> fallback = std::nullopt) const;
  Result<bool> boolean(std::string_view name, bool fallback) const;
  // Reads a required array of booleans, or of integers used as booleans.
  Result<std::vector<bool>> flags(std::string_view name) const;
  Result<std::string> string(std::string_view name, std::string_view fallback) const;

  // Returns kUnsupported if the key exists with a value other than `harmless`. False counts as 0 and true as 1. An
  // array is rejected if any element differs from `harmless`.
  Status refuse_unless(std::string_view name, double harmless, std::string_view what) const;

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace monolith
