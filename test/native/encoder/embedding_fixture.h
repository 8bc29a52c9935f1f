// Engines that compute embeddings, and golden vectors to compare with. For tests only.
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
  // Reads golden vectors from a JSON file. Returns nullopt if the file is unreadable or damaged.
  static std::optional<GoldenEmbeddings> read(const std::string& path);
};

// Returns the largest difference and the root mean square difference from `golden.exact`. For vectors, differences are
// in standard deviations of `exact`; for scores, they are absolute.
Distance embedding_distance(const std::vector<float>& vector, const GoldenEmbedding& golden);

// Loads models/NAME.gguf from the golden-vector directories. Returns null and marks the test as skipped if it does not
// exist.
std::unique_ptr<LoadedEngine> load_embedder(const std::string& name, LoadOptions options = {});

GenerationRequest embedding_request(std::vector<TokenId> tokens, uint64_t organization = 1);

// Submits all texts together and returns one vector per text. The test fails if a request fails.
std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> texts);

}  // namespace monolith::testing
