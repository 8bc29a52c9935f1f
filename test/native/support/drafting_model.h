// Adds MTP layers to golden files and makes other changes to the tensors in a file. For tests only.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/gguf/gguf_builder.h"

namespace monolith::testing {

// A GGUF file split into keys and tensors, which can be changed and written to a file again.
struct LooseModel {
  struct Value {
    uint32_t type;
    Bytes payload;  // The value in the form expected by GgufBuilder::raw().
  };
  struct Tensor {
    TensorType type;
    std::vector<uint64_t> dims;  // Row length first.
    Bytes data;
    int64_t values() const;
  };
  std::string architecture;
  std::map<std::string, Value> keys;
  std::map<std::string, Tensor> tensors;

  explicit LooseModel(const GgufFile& file);

  std::string key(const std::string& name) const { return architecture + "." + name; }
  bool has(const std::string& name) const { return keys.contains(key(name)); }
  void set(const std::string& name, uint32_t value);
  uint32_t number(const std::string& name) const;
  void put_floats(const std::string& name, std::vector<uint64_t> dims, const std::vector<float>& values);
  std::vector<float> floats(const std::string& name) const;
  void zero(const std::string& name);
  // Changes the length of all metadata arrays that have one element per layer. `from` is the current number of layers.
  void change_layer_arrays(uint64_t from, const std::function<Bytes(const Bytes& items, size_t item_bytes)>& change);

  Bytes build() const;
};

std::vector<float> made_up(size_t count, uint64_t seed, float scale, float offset = 0);

// Appends an MTP layer after the model's last layer, or after its last MTP layer if it has any. The new layer is a copy
// of the last layer. Returns the block number of the new layer.
uint32_t add_mtp_layer(LooseModel& model);

}  // namespace monolith::testing
