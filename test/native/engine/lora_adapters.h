// Generates LoRA adapters with random factors, as GGUF files and PEFT folders, for tests.
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

// An adapter for all attention and feed-forward matrices of a golden model.
struct RandomAdapter {
  struct Matrix {
    int64_t rows = 0, cols = 0;
    std::vector<float> a, b;  // Shapes [rank][cols] and [rows][rank].
  };

  // `model` has the same meaning as in EngineSetup. If the model file does not exist, the adapter has no matrices.
  RandomAdapter(const std::string& model, int rank, uint32_t seed);

  Bytes gguf() const;
  // Writes adapter_config.json and adapter_model.safetensors. `more` contains JSON members that are appended to the
  // config. Rows of query and key heads are in the order of Hugging Face checkpoints.
  void write_folder(const ScratchFolder& folder, const std::string& more = "") const;

  std::string architecture;
  int rank;
  float alpha = 16.0f;
  TensorType type = TensorType::kF16;
  int64_t n_heads = 0, n_kv_heads = 0;
  std::map<std::string, Matrix> matrices;
};

// Writes `bytes` to a file in the folder and returns its path.
std::string write_bytes(const ScratchFolder& folder, const std::string& name, const Bytes& bytes);

}  // namespace monolith::testing
