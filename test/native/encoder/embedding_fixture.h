// Engines that embed text, and their golden vectors. Tests only.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_fixture.h"
#include "engine/load/load_engine.h"
#include "support/golden.h"

namespace monolith::testing {

struct GoldenEmbedding {
  std::string id, text;
  bool add_special = false;
  std::vector<int32_t> tokens;
  std::vector<float> exact;
  bool is_score = false;  // `exact` holds the scores of a reranker.
};

struct GoldenEmbeddings {
  std::string pooling;
  std::vector<std::pair<std::string, Tolerance>> tolerances;
  std::vector<GoldenEmbedding> prompts;

  const Tolerance& tolerance(std::string_view kind) const;
  // Returns nullopt if the file is unreadable or damaged.
  static std::optional<GoldenEmbeddings> read(const std::string& path);
};

// Largest and root mean square difference, in standard deviations of `exact` or, for scores, absolute.
Distance embedding_distance(const std::vector<float>& vector, const GoldenEmbedding& golden);

// Loads models/NAME.gguf from the vector sets. Returns null and marks the test as skipped if it does not exist.
std::unique_ptr<LoadedEngine> load_embedder(const std::string& name, LoadOptions options = {});

GenerationRequest embedding_request(std::vector<TokenId> tokens, uint64_t organization = 1);

// Submits all texts at once and returns their vectors. The test fails if one of them fails.
std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> texts);

}  // namespace monolith::testing
