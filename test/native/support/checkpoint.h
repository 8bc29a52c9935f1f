// The weights of a golden GGUF file in float32, and functions that convert them back to the layout of a checkpoint.
// They follow the published layout of each checkpoint and share no code with the converter under test. For tests only.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "formats/gguf/gguf_builder.h"
#include "support/hf_folder.h"

namespace monolith::testing {

// A float32 tensor. The last dimension of the shape is the row length.
struct FloatTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, FloatTensor>;

Weights weights_of(const GgufFile& file);

std::string bytes_of(const std::vector<float>& values);

// Whether a tensor is a lookup table of integers rather than weights.
bool is_table_of_numbers(std::string_view name);

template <typename T>
std::vector<T> as_numbers(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Returns `file` with these weights in F32, without the metadata keys in `without`, and with the keys that `more` adds.
Bytes gguf_of(
    const GgufFile& file, const Weights& weights, const std::vector<std::string>& without = {},
    const std::function<void(GgufBuilder&)>& more = [](GgufBuilder&) {});

// Whether a tensor name has this stem; "blk.3.ssm_a" has the stem "ssm_a".
bool is_named(std::string_view name, std::string_view stem);

// Applies `change` to every tensor with this stem, in all layers.
void each(Weights& weights, std::string_view stem, const std::function<void(FloatTensor&)>& change);

// Reorders the rows: row i of the result is the former row `of(i)`.
void pick_rows(FloatTensor& tensor, const std::function<int64_t(int64_t)>& of);

void transpose(FloatTensor& tensor);

// Changes the shape to [channels, kernel size] in the layout of a depthwise torch Conv1d.
void as_conv1d(FloatTensor& tensor);
void as_vector(FloatTensor& tensor);

// GGUF stores a decay as -exp(A_log). For some float32 decays, no float32 A_log produces exactly this value.
// as_rounded_decay() rounds a decay to a value for which such an A_log exists, and as_log_of_decay() converts the decay
// to this A_log.
void as_rounded_decay(FloatTensor& tensor);
void as_log_of_decay(FloatTensor& tensor);
// The same as as_rounded_decay() and as_log_of_decay(), but for norms, which some checkpoints store as weight - 1.
void as_rounded_norm(FloatTensor& tensor);
void as_norm_less_one(FloatTensor& tensor);

// Interleaves the rows of several tensors in one layer, group by group: group 0 of every tensor, then group 1 of every
// tensor, and so on.
FloatTensor join_rows(const std::vector<const FloatTensor*>& parts, int64_t groups);

// Returns the tensors under their checkpoint names. `names` maps a GGUF name (of the model, or within a layer) to the
// checkpoint name. "{}" stands for the expert index; such a tensor is split into one tensor per expert. A tensor whose
// name maps to "" is omitted.
std::vector<SafetensorData> renamed(const Weights& weights, const std::map<std::string, std::string>& names,
                                    const std::string& layers);

}  // namespace monolith::testing
