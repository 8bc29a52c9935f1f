// LoRA adapters with random weights, as GGUF files and PEFT folders. For tests only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/gguf/gguf_builder.h"
#include "support/hf_folder.h"

namespace monolith::testing {

// An adapter for all matrices of attention and the feed-forward networks of a golden model.
struct RandomAdapter {
  struct Matrix {
    int64_t rows = 0, cols = 0;
    std::vector<float> a, b;  // Shapes [rank][cols] and [rows][rank].
  };

  // `model`: as in EngineSetup. Without the file, there are no matrices.
  RandomAdapter(const std::string& model, int rank, uint32_t seed);

  Bytes gguf() const;
  // Writes adapter_config.json, with `more` members, and adapter_model.safetensors. Rows of query and key heads are in
  // the order of checkpoints.
  void write_folder(const ScratchFolder& folder, const std::string& more = "") const;

  std::string architecture;
  int rank;
  float alpha = 16.0f;
  TensorType type = TensorType::kF16;
  int64_t n_heads = 0, n_kv_heads = 0;
  std::map<std::string, Matrix> matrices;
};

// Writes the file and returns its path.
std::string write_bytes(const ScratchFolder& folder, const std::string& name, const Bytes& bytes);

}  // namespace monolith::testing
