#include "encoder/embedding_fixture.h"

#include <cmath>
#include <fstream>

#include "check.h"
#include "support/json.h"

namespace monolith::testing {

const Tolerance& GoldenEmbeddings::tolerance(std::string_view kind) const {
  static const Tolerance none;
  for (const auto& [name, tolerance] : tolerances)
    if (name == kind) return tolerance;
  check::fail(__FILE__, __LINE__, "no tolerance " + std::string(kind));
  return none;
}

std::optional<GoldenEmbeddings> GoldenEmbeddings::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto json = Json::parse(text);
  if (!json || (*json)["format"].string() != "golden-embeddings 1") return std::nullopt;
  GoldenEmbeddings golden;
  golden.pooling = (*json)["pooling"].string();
  for (const char* kind : {"f32", "f16", "bf16", "int8"}) {
    const Json& row = (*json)["tolerance_vs_exact"][kind];
    if (!row.is_null())
      golden.tolerances.push_back({kind, {row["max"].number(), row["rms"].number(), 0, row["outliers"].number()}});
  }
  for (const Json& from : (*json)["prompts"].array()) {
    GoldenEmbedding prompt;
    prompt.id = from["id"].string();
    prompt.text = from["text"].string();
    prompt.add_special = from["add_special"].boolean();
    prompt.tokens = from["tokens"].numbers<int32_t>();
    prompt.is_score = !from["scores"].is_null();
    prompt.exact = floats_from_base64(from[prompt.is_score ? "scores" : "embedding"]["exact"].string());
    if (prompt.tokens.empty() || prompt.exact.empty()) return std::nullopt;
    golden.prompts.push_back(std::move(prompt));
  }
  if (golden.prompts.empty()) return std::nullopt;
  return golden;
}

Distance embedding_distance(const std::vector<float>& vector, const GoldenEmbedding& golden) {
  Distance d;
  const double unit = golden.is_score ? 1 : standard_deviation(golden.exact);
  double squares = 0;
  for (size_t i = 0; i < golden.exact.size(); ++i) {
    const double difference = std::abs(double{vector[i]} - golden.exact[i]) / unit;
    d.max = difference > d.max || std::isnan(difference) ? difference : d.max;
    squares += difference * difference;
  }
  d.rms = std::sqrt(squares / static_cast<double>(golden.exact.size()));
  return d;
}

std::unique_ptr<LoadedEngine> load_embedder(const std::string& name, LoadOptions options) {
  const std::string path = check::vectors_path("models/" + name + ".gguf");
  if (path.empty()) {
    check::skip("golden vectors not found: " + name);
    return nullptr;
  }
  options.backend.device = "cpu";
  if (options.max_context == 0) options.max_context = 448;
  auto engine = open_engine(path, options);
  if (engine) return std::move(*engine);
  check::fail(__FILE__, __LINE__, engine.error().message);
  return nullptr;
}

GenerationRequest embedding_request(std::vector<TokenId> tokens, uint64_t organization) {
  GenerationRequest request;
  request.prompt = std::move(tokens);
  request.output = OutputKind::kVector;
  request.organization = organization;
  request.max_tokens = 0;
  return request;
}

std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> texts) {
  Consumer consumer(engine);
  std::vector<RequestId> ids;
  for (const std::vector<TokenId>& text : texts) ids.push_back(consumer.submit(embedding_request(text)));
  std::vector<std::vector<float>> vectors;
  for (const RequestId id : ids) {
    consumer.pump_until_ended(id);
    const Outcome& outcome = consumer.outcomes()[id];
    if (outcome.failed) check::fail(__FILE__, __LINE__, outcome.message);
    vectors.push_back(outcome.vector);
  }
  return vectors;
}

}  // namespace monolith::testing
