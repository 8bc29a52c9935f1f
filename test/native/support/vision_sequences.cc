#include "support/vision_sequences.h"

#include "formats/gguf/tokenizer.h"

namespace monolith::testing {

std::shared_ptr<const std::vector<RopePosition>> rope_offsets(const Json& piece) {
  const auto t = piece["positions_t"].numbers<int32_t>(), y = piece["positions_y"].numbers<int32_t>(),
             x = piece["positions_x"].numbers<int32_t>();
  if (t.empty()) return nullptr;
  const int at = piece["position"].integer();
  std::vector<RopePosition> offsets;
  for (size_t i = 0; i < t.size(); ++i) offsets.push_back({t[i] - at, y[i] - at, x[i] - at});
  return std::make_shared<const std::vector<RopePosition>>(std::move(offsets));
}

bool read_sequence(const Json& from, uint64_t& hash, GenerationRequest& request) {
  for (const Json& piece : from["sequence"].array()) {
    const auto tokens = piece["tokens"].numbers<TokenId>();
    if (!tokens.empty()) {
      request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.end());
      continue;
    }
    if (piece["embedding_rows"].string() != "all") return false;
    InputSpan span{
        .first = static_cast<int>(request.prompt.size()), .n_rows = piece["n_tokens"].integer(), .hash = {++hash, 1}};
    span.rows = std::make_shared<const std::vector<float>>(floats_from_base64(piece["embeddings"].string()));
    span.bidirectional = piece["attention"].string() == "non-causal";
    span.rope_offsets = rope_offsets(piece);
    if (span.rope_offsets) span.n_rope_positions = piece["n_positions"].integer();
    request.prompt.insert(request.prompt.end(), static_cast<size_t>(span.n_rows), 1);
    request.spans.push_back(std::move(span));
  }
  return true;
}

std::optional<VisionPair> read_pair(const std::string& name) {
  const std::string path = check::vectors_path("../vision/cases/" + name + ".json");
  if (path.empty()) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  const auto json = Json::parse(std::string{std::istreambuf_iterator<char>(in), {}});
  if (!json) {
    check::fail(__FILE__, __LINE__, path + " is damaged");
    return std::nullopt;
  }
  VisionPair pair;
  pair.text_model = check::vectors_path("../vision/models/" + (*json)["text_model"].string());
  const auto tolerance = [&](const char* row) {
    const auto of_row = (*json)["tolerance"]["logits"][row].numbers<double>();
    return of_row.size() == 3 ? Tolerance{.max = of_row[0], .rms = of_row[1], .kl = of_row[2], .outliers = 0}
                              : Tolerance{};
  };
  pair.f32 = tolerance("f32");
  pair.f16 = tolerance("f16");
  uint64_t hash = 0;
  for (const Json& from : (*json)["cases"].array()) {
    VisionSequence sequence;
    sequence.name = name + " " + from["name"].string();
    if (!read_sequence(from, hash, sequence.request)) continue;
    sequence.logits = floats_from_base64(from["logits"].string());
    sequence.last_logits = floats_from_base64(from["greedy"]["last_logits"].string());
    sequence.greedy = from["greedy"]["tokens"].numbers<int32_t>();
    sequence.margins = from["greedy"]["margins"].numbers<double>();
    pair.sequences.push_back(std::move(sequence));
  }
  return pair;
}

const float* NotedModel::forward(const Batch& batch) {
  const float* const logits = model_->forward(batch);
  if (batch.logit_rows.empty()) return logits;
  const int n_vocab = model_->params().n_vocab;
  noted_.emplace_back(static_cast<size_t>(n_vocab));
  if (batch.leaves_logits)
    model_->backend().read_floats(noted_.back().data(), logits, n_vocab);
  else
    std::copy_n(logits, n_vocab, noted_.back().begin());
  return logits;
}

int32_t best_of(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

void judge(const VisionSequence& sequence, const std::vector<std::vector<float>>& noted, size_t n_tokens,
           const Tolerance& tolerance, const std::string& how) {
  const auto fail = [&](const std::string& what) {
    check::fail(__FILE__, __LINE__, sequence.name + ", " + how + ": " + what);
  };
  if (noted.size() != n_tokens) return fail(std::to_string(noted.size()) + " steps with logits");
  const auto check_logits = [&](const std::vector<float>& got, const std::vector<float>& expected, const char* which) {
    const Distance d = distance(got, expected, tolerance);
    if (!(d.max <= tolerance.max && d.rms <= tolerance.rms && d.kl <= tolerance.kl))
      fail(std::string(which) + " logits are off by max " + std::to_string(d.max) + " rms " + std::to_string(d.rms) +
           " kl " + std::to_string(d.kl));
  };
  check_logits(noted[0], sequence.logits, "first");
  for (size_t i = 0; i < n_tokens; ++i) {
    if (best_of(noted[i]) == sequence.greedy[i]) continue;
    if (sequence.margins[i] >= 2 * tolerance.max * standard_deviation(noted[i]))
      fail("greedy token " + std::to_string(i));
    return;  // After a legitimate tie the sequences differ, so later tokens cannot be compared.
  }
  if (n_tokens == sequence.greedy.size()) check_logits(noted.back(), sequence.last_logits, "last");
}

void run_pair(const VisionPair& pair, std::unique_ptr<Backend> backend, const VisionRun& run) {
  auto file = GgufFile::open(pair.text_model);
  REQUIRE(file.ok());
  CHECK(!pair.sequences.empty());
  const ModelLimits limits{.max_batch_tokens = 512,
                           .max_logit_rows = 4,
                           .max_context = 700,
                           .n_pages = 256,
                           .kv_type = run.exact ? KvType::kF32 : KvType::kF16,
                           .pages_by_window = run.rows == 20};
  auto model = Model::load(**file, *backend, limits, {});
  REQUIRE(model.ok());
  auto tokenizer = load_tokenizer(**file);
  REQUIRE(tokenizer.ok());
  std::vector<std::vector<float>> noted;
  EngineOptions options;
  options.max_batch_tokens = run.rows;
  auto engine = Engine::start(std::make_unique<NotedModel>(std::move(*model), noted), std::move(backend),
                              std::move(*tokenizer), options);
  REQUIRE(engine.ok());
  for (size_t i = 0; i < std::min(run.sequences_limit, pair.sequences.size()); ++i) {
    const VisionSequence& sequence = pair.sequences[i];
    GenerationRequest request = sequence.request;
    request.max_tokens = std::min(run.most_tokens, static_cast<int>(sequence.greedy.size()));
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    for (const bool again : {false, true}) {  // The second run starts from the prefix cache.
      noted.clear();
      Consumer consumer(**engine);
      const RequestId id = consumer.submit(request);
      while (!consumer.outcomes()[id].ended())
        if (!consumer.pump(std::chrono::minutes(5)))
          return check::fail(__FILE__, __LINE__,
                             // The timeout is 5 minutes because steps are slow in the emulator.
                             sequence.name + ": the engine sent nothing for 5 minutes");
      const Outcome& outcome = consumer.outcomes()[id];
      REQUIRE(!outcome.failed);
      // A page is cached only if none of its tokens attends to positions beyond the page.
      if (!again || sequence.request.spans.front().bidirectional)
        CHECK(again || outcome.cached_tokens == 0);
      else
        CHECK(outcome.cached_tokens > 0);
      judge(sequence, noted, static_cast<size_t>(request.max_tokens), run.exact ? pair.f32 : pair.f16,
            run.how + (again ? ", again" : ""));
    }
  }
}

}  // namespace monolith::testing
