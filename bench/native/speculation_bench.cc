// Benchmark of the maximum speedup from speculative decoding. It compares draft tokens from prompt lookup, a draft
// model, MTP layers and an EAGLE-3 head, both in steps and in time. The drafters take turns within one run, so that
// slowdowns of the machine affect all of them.
//
// No published model is used. The benchmark builds a model of realistic shape whose layers add nothing to the residual
// stream, and whose head predicts the token with the next higher id. For such a model, drafters can be built whose
// draft tokens are always right. A second series of measurements biases the output towards a single repeated word,
// which only prompt lookup can predict.
//
//   speculation_bench [--rounds N] [--tokens N] [--width N] [--layers N] [--threads N]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/half.h"
#include "engine/speculation/draft_model.h"
#include "engine/loop/step_loop.h"
#include "formats/gguf/gguf_builder.h"
#include "text/tokenizer/support.h"

namespace monolith::bench {
namespace {

using namespace monolith::testing;

constexpr uint32_t kVocabulary = 4096, kHeadDim = 64;

struct Options {
  int rounds = 5, tokens = 96, width = 1024, layers = 16, threads = 2;
};

// Writes the GGUF file of a generated model. Most weights are 8-bit zeros, which the engine reads and multiplies like
// any other weights.
class File {
 public:
  explicit File(uint64_t width) : width_(width) {}

  void zeros(const std::string& name, uint64_t rows, uint64_t cols) {
    builder.tensor(name, TensorType::kQ8_0, {cols, rows}, Bytes(rows * cols / 32 * 34));
  }
  void numbers(const std::string& name, uint64_t rows, uint64_t cols, const std::vector<float>& values) {
    std::vector<uint16_t> halves;
    for (const float value : values) halves.push_back(float_to_half(value));
    builder.tensor(name, TensorType::kF16, {cols, rows}, std::as_bytes(std::span(halves)));
  }
  void ones(const std::string& name, uint64_t count) {
    const std::vector<float> values(count, 1.0f);
    builder.tensor(name, TensorType::kF32, {count}, std::as_bytes(std::span(values)));
  }
  // A matrix with `factor` at row i, column first + i, and zeros elsewhere.
  void diagonal(const std::string& name, uint64_t cols, float factor, uint64_t first = 0) {
    std::vector<float> values(width_ * cols);
    for (uint64_t i = 0; i < width_; ++i) values[i * cols + first + i] = factor;
    numbers(name, width_, cols, values);
  }

  GgufBuilder builder;

 private:
  const uint64_t width_;
};

std::vector<float> table_of(uint64_t width) {
  std::vector<float> table;
  uint64_t state = 5;
  for (uint64_t i = 0; i < kVocabulary * width; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    table.push_back(static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f);
  }
  return table;
}

// Returns an output head that predicts the token whose id is higher by `ahead`. The head's row for a token is the
// normalized embedding of the token `ahead` ids before it.
std::vector<float> looks_back(const std::vector<float>& table, uint64_t width, uint64_t ahead) {
  std::vector<float> head;
  for (uint64_t token = 0; token < kVocabulary; ++token) {
    const auto row = table.begin() + static_cast<ptrdiff_t>((token + kVocabulary - ahead) % kVocabulary * width);
    const float length = std::sqrt(std::inner_product(row, row + static_cast<ptrdiff_t>(width), row, 0.0f));
    for (uint64_t i = 0; i < width; ++i) head.push_back(row[static_cast<ptrdiff_t>(i)] / length);
  }
  return head;
}

void put_layer(File& file, const std::string& block, uint64_t width, bool experts) {
  const uint64_t kv = width / 4, n_ff = 3 * width;
  file.ones(block + "attn_norm.weight", width);
  file.zeros(block + "attn_q.weight", width, width);
  file.zeros(block + "attn_k.weight", kv, width);
  file.zeros(block + "attn_v.weight", kv, width);
  file.zeros(block + "attn_output.weight", width, width);
  file.ones(block + "post_attention_norm.weight", width);
  if (!experts) {
    file.zeros(block + "ffn_gate.weight", n_ff, width);
    file.zeros(block + "ffn_up.weight", n_ff, width);
    file.zeros(block + "ffn_down.weight", width, n_ff);
    return;
  }
  // The architecture requires at least one MoE layer. The MoE layer of this model has two small experts.
  file.ones(block + "exp_probs_b.bias", 2);
  file.zeros(block + "ffn_gate_inp.weight", 2, width);
  for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"})
    file.builder.tensor(block + name, TensorType::kQ8_0, {width, 64, 2}, Bytes(2 * 64 * width / 32 * 34));
  file.builder.tensor(block + std::string("ffn_down_exps.weight"), TensorType::kQ8_0, {64, width, 2},
                      Bytes(2 * 64 * width / 32 * 34));
}

// Returns a GGUF file of the GLM 4.5 architecture in which only the last regular layer is an MoE layer, followed by
// `n_draft` MTP layers. A single MTP layer predicts the next token from the current one. If there are several, MTP
// layer i (counted from 0) predicts the token i + 2 positions later from the hidden state.
Bytes network(const Options& options, int n_layers, int n_draft) {
  const auto width = static_cast<uint64_t>(options.width);
  File file(width);
  const auto key = [&](const char* name, auto value) { file.builder.scalar("glm4moe." + std::string(name), value); };
  file.builder.string("general.architecture", "glm4moe");
  key("block_count", static_cast<uint32_t>(n_layers + n_draft));
  if (n_draft > 0) key("nextn_predict_layers", static_cast<uint32_t>(n_draft));
  key("context_length", uint32_t{2048});
  key("embedding_length", static_cast<uint32_t>(width));
  key("feed_forward_length", static_cast<uint32_t>(3 * width));
  key("attention.head_count", static_cast<uint32_t>(width) / kHeadDim);
  key("attention.head_count_kv", static_cast<uint32_t>(width) / kHeadDim / 4);
  key("attention.key_length", kHeadDim);
  key("attention.value_length", kHeadDim);
  key("attention.layer_norm_rms_epsilon", 1e-5f);
  key("rope.dimension_count", kHeadDim);
  key("expert_count", uint32_t{2});
  key("expert_used_count", uint32_t{1});
  key("expert_feed_forward_length", uint32_t{64});
  key("leading_dense_block_count", static_cast<uint32_t>(n_layers - 1));
  const std::vector<float> table = table_of(width);
  file.numbers("token_embd.weight", kVocabulary, width, table);
  file.numbers("output.weight", kVocabulary, width, looks_back(table, width, 1));
  file.ones("output_norm.weight", width);
  for (int i = 0; i < n_layers + n_draft; ++i)
    put_layer(file, "blk." + std::to_string(i) + ".", width, i == n_layers - 1);
  for (int level = 0; level < n_draft; ++level) {
    const std::string block = "blk." + std::to_string(n_layers + level) + ".nextn.";
    const bool by_token = n_draft == 1;
    for (const char* norm : {"enorm.weight", "hnorm.weight", "shared_head_norm.weight"}) file.ones(block + norm, width);
    file.diagonal(block + "eh_proj.weight", 2 * width, 1, by_token ? 0 : width);
    file.numbers(block + "shared_head_head.weight", kVocabulary, width,
                 looks_back(table, width, by_token ? 1 : static_cast<uint64_t>(level) + 2));
  }
  return file.builder.build();
}

// Returns a GGUF file of an EAGLE-3 head. Each token attends only to itself, and its embedding is copied to the output.
Bytes eagle(const Options& options) {
  const auto width = static_cast<uint64_t>(options.width);
  File file(width);
  const auto key = [&](const char* name, auto value) { file.builder.scalar("eagle3." + std::string(name), value); };
  file.builder.string("general.architecture", "eagle3");
  key("block_count", uint32_t{1});
  key("context_length", uint32_t{2048});
  key("embedding_length", static_cast<uint32_t>(width));
  key("feed_forward_length", static_cast<uint32_t>(3 * width));
  key("attention.head_count", uint32_t{1});
  key("rope.dimension_count", uint32_t{2});
  key("attention.layer_norm_rms_epsilon", 1e-5f);
  key("norm_before_residual", true);
  key("target_hidden_size", static_cast<uint32_t>(width));
  const uint32_t layers = static_cast<uint32_t>(options.layers);
  file.builder.array<uint32_t>("eagle3.target_layers", {2, layers / 2, layers - 3});
  file.zeros("fc.weight", width, 3 * width);
  file.ones("output_norm.weight", width);
  for (const char* norm : {"attn_norm", "attn_norm_2", "ffn_norm"})
    file.ones("blk.0." + std::string(norm) + ".weight", width);
  for (const char* name : {"attn_q", "attn_k"}) file.diagonal("blk.0." + std::string(name) + ".weight", 2 * width, 3);
  file.diagonal("blk.0.attn_v.weight", 2 * width, 1);
  // The factor 8 makes the attention output dominate the residual stream, so that the hidden state of the previous
  // token has no effect.
  file.diagonal("blk.0.attn_output.weight", width, 8);
  file.zeros("blk.0.ffn_gate.weight", 3 * width, width);
  file.zeros("blk.0.ffn_up.weight", 3 * width, width);
  file.zeros("blk.0.ffn_down.weight", width, 3 * width);
  return file.builder.build();
}

struct Run {
  std::string name;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model, draft;
  std::unique_ptr<StepLoop> loop;
  std::unique_ptr<EngineCounters> counters = std::make_unique<EngineCounters>();
  // Indexed by text: 0 = counting, 1 = one repeated word. `ms` has one entry per round; the other members are totals
  // over all rounds.
  std::vector<double> ms[2];
  uint64_t steps[2] = {}, tokens[2] = {}, drafted[2] = {}, right[2] = {};
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

std::unique_ptr<Run> open(const std::string& name, const Options& options, const Tokenizer& tokenizer,
                          Speculation speculation, int n_draft, int draft_layers, bool with_head) {
  auto run = std::make_unique<Run>();
  run->name = name;
  auto backend = make_cpu_backend({.threads = options.threads});
  if (!backend) fail(backend.error().message);
  run->backend = std::move(*backend);
  ModelLimits limits{.max_batch_tokens = 64,
                     .max_logit_rows = 1 + SequenceDrafts::kMax,
                     .draft_rows = SequenceDrafts::kMax,
                     .max_context = 2048,
                     .n_pages = 128};
  limits.mtp_layer = n_draft > 0;
  const auto load = [&](const Bytes& image, const ModelLimits& own, const GgufFile* head) {
    auto file = GgufFile::parse(image);
    if (!file) fail(file.error().message);
    auto model = Model::load(**file, *run->backend, own, {}, head);
    if (!model) fail(name + ": " + model.error().message);
    return std::move(*model);
  };
  const Bytes head_image = eagle(options);
  auto head = GgufFile::parse(head_image);
  if (!head) fail(head.error().message);
  run->model = load(network(options, options.layers, n_draft), limits, with_head ? head->get() : nullptr);
  if (draft_layers > 0) {
    ModelLimits own = limits;
    own.max_logit_rows = DraftModel::kMaxSequences;
    own.draft_rows = 0;
    run->draft = load(network(options, draft_layers, 0), own, nullptr);
  }
  EngineOptions engine;
  engine.max_batch_tokens = 64;
  engine.max_sequences = 1;
  engine.prefix_cache = false;
  engine.speculation = speculation;
  run->loop = std::make_unique<StepLoop>(*run->model, tokenizer, engine, *run->counters, run->draft.get());
  return run;
}

// Generates one response and, if `counts` is set, adds its measurements to `run`. Text 0 continues counting from the
// prompt; text 1 repeats one word.
void answer(Run& run, const Options& options, int text, int round, bool counts) {
  GenerationRequest request;
  for (int i = 0; i < 12; ++i) request.prompt.push_back(300 + (round * 97 + i * i * 31) % 3000);
  request.max_tokens = options.tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  if (text == 1) request.sampling.logit_bias = {{777, 100.0f}};
  auto channel = std::make_shared<Channel>([] {}, size_t{1} << 20);
  static RequestId id = 1;
  run.loop->add(std::make_unique<Request>(id++, channel, request, static_cast<int>(kVocabulary), 2048));
  std::vector<std::byte> drained;
  const EngineCounters& c = *run.counters;
  const uint64_t steps = c.steps, tokens = c.decode_tokens, drafted = c.draft_tokens, right = c.accepted_draft_tokens;
  const auto start = std::chrono::steady_clock::now();
  while (!run.loop->idle()) {
    run.loop->step();
    channel->drain(drained);
  }
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (!counts) return;
  const auto at = static_cast<size_t>(text);
  run.ms[at].push_back(ms);
  run.steps[at] += c.steps - steps;
  run.tokens[at] += c.decode_tokens - tokens;
  run.drafted[at] += c.draft_tokens - drafted;
  run.right[at] += c.accepted_draft_tokens - right;
}

int run_all(const Options& options) {
  VocabularyFile words = VocabularyFile::byte_level();
  while (words.tokens.size() < kVocabulary) {
    std::string word = "w";
    for (size_t n = words.tokens.size(); n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    words.add(word);
  }
  const auto tokenizer = load(words);
  if (!tokenizer) fail(tokenizer.error().message);
  std::vector<std::unique_ptr<Run>> runs;
  const auto add = [&](const char* name, Speculation speculation, int n_draft, int draft_layers, bool with_head) {
    runs.push_back(open(name, options, **tokenizer, speculation, n_draft, draft_layers, with_head));
  };
  add("none", Speculation::kOff, 0, 0, false);
  add("prompt lookup", Speculation::kAuto, 0, 0, false);
  add("draft model", Speculation::kAuto, 0, std::max(2, options.layers / 8), false);
  add("one MTP layer", Speculation::kAuto, 1, 0, false);
  add("three MTP layers", Speculation::kAuto, 3, 0, false);
  add("EAGLE-3 head", Speculation::kAuto, 0, 0, true);
  for (int round = -2; round < options.rounds; ++round)  // The first two rounds are warm-up.
    for (const int text : {0, 1})
      for (size_t i = 0; i < runs.size(); ++i)
        answer(*runs[(i + static_cast<size_t>(round + 2)) % runs.size()], options, text, round + 2, round >= 0);
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  for (const int text : {0, 1}) {
    std::printf(
        "\n| %s | steps per 100 tokens | draft tokens accepted | ms for %d tokens, median (min to max) | speedup "
        "|\n|---|---|---|---|---|\n",
        text == 0 ? "counting, no repetition" : "one word, repeated", options.tokens);
    const double plain = median(runs[0]->ms[static_cast<size_t>(text)]);
    for (const auto& run : runs) {
      const auto at = static_cast<size_t>(text);
      const auto [least, most] = std::ranges::minmax(run->ms[at]);
      std::printf("| %s | %.0f | %llu of %llu | %.0f (%.0f to %.0f) | %.2f |\n", run->name.c_str(),
                  100.0 * static_cast<double>(run->steps[at]) / static_cast<double>(run->tokens[at]),
                  static_cast<unsigned long long>(run->right[at]), static_cast<unsigned long long>(run->drafted[at]),
                  median(run->ms[at]), least, most, plain / median(run->ms[at]));
    }
  }
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    const int value = std::atoi(argv[i + 1]);
    if (word == "--rounds")
      options.rounds = std::max(1, value);
    else if (word == "--tokens")
      options.tokens = std::clamp(value, 1, 1024);
    else if (word == "--width")
      options.width = std::max(256, value / 256 * 256);
    else if (word == "--layers")
      options.layers = std::clamp(value, 6, 128);
    else if (word == "--threads")
      options.threads = std::max(1, value);
    else
      fail("usage: speculation_bench [--rounds N] [--tokens N] [--width N] [--layers N] [--threads N]");
  }
  return run_all(options);
}

}  // namespace
}  // namespace monolith::bench

int main(int argc, char** argv) { return monolith::bench::main_of(argc, argv); }
