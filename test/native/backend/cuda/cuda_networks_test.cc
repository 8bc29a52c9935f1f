// Tests small models of every architecture on the CUDA backend. Results are compared with float64 and, for quantized
// weights, with the CPU. They must be bit-identical regardless of the other sequences in the step and of how the prompt
// is divided into chunks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/graph_replays.h"
#include "emulator/emulator.h"
#include "check.h"
#include "model/all_cases.h"
#include "support/golden.h"
#include "support/network_run.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// Returns the largest error of any logit, in standard deviations of its row.
template <typename Expected>
double farthest(const std::vector<float>& logits, size_t n_rows, const Expected& expected) {
  double worst = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const std::span<const float> own(logits.data() + row * TinyModel::kVocab, TinyModel::kVocab);
    const double deviation = standard_deviation(own);
    for (size_t i = 0; i < own.size(); ++i)
      worst = std::max(worst, std::abs(own[i] - static_cast<double>(expected(row, i))) / deviation);
  }
  return std::isfinite(worst) ? worst : INFINITY;
}

// A dense model and MoE models whose matmuls are split into many segments of the K dimension.
std::vector<TinyModel> wide_models() {
  constexpr uint32_t kWide = 512;
  TinyModel dense("llama");
  dense.key("feed_forward_length", kWide);
  for_blocks(dense, [&](const std::string& block) {
    dense.matrix(block + "ffn_gate.weight", kWide, kEmbd);
    dense.matrix(block + "ffn_up.weight", kWide, kEmbd);
    dense.matrix(block + "ffn_down.weight", kEmbd, kWide);
  });
  TinyModel mixture("olmoe");
  put_experts(mixture, kWide);
  add_qk_norms(mixture, false);
  TinyModel halves = mixture;
  quantize(dense);
  quantize(mixture);
  quantize(halves, TensorType::kBF16);
  return {dense, mixture, halves};
}

// Returns the logits at a sequence's positions. The prompt is computed in chunks of `piece` tokens. Each step also
// contains `others` other sequences of random tokens, with different lengths.
std::vector<float> logits_beside(Transformer& model, const std::vector<int32_t>& tokens, int prompt, int piece,
                                 int others, uint32_t seed) {
  constexpr int kPages = 3;
  const auto next = [&] { return (seed = seed * 1664525 + 1013904223) >> 16; };
  struct Sequence {
    std::vector<int32_t> tokens, pages;
    int prompt, piece, at = 0;
  };
  std::vector<Sequence> sequences(static_cast<size_t>(others) + 1);
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = sequences[i];
    if (i == sequences.size() / 2) {
      s = {tokens, {}, prompt, piece};
    } else {
      s.prompt = s.piece = 1 + static_cast<int>(next() % 3);
      for (int t = 0; t < kPages * kPageTokens; ++t)
        s.tokens.push_back(static_cast<int32_t>(next() % TinyModel::kVocab));
    }
    for (size_t p = 0; p < kPages; ++p)  // Shuffles the pages; 11 divides no number of sequences used here.
      s.pages.push_back(static_cast<int32_t>(p * sequences.size() + (i * 11 + 3) % sequences.size()));
  }
  std::vector<float> logits;
  const Sequence& own = sequences[sequences.size() / 2];
  while (own.at < static_cast<int>(tokens.size())) {
    std::vector<int32_t> fed, rows;
    std::vector<Segment> segments;
    size_t first_logits = 0, n_logits = 0;
    for (Sequence& s : sequences) {
      const int n = s.at < s.prompt ? std::min(s.piece, s.prompt - s.at) : 1;
      const int first = static_cast<int>(fed.size());
      segments.push_back({first, n, s.at, s.pages.data()});
      fed.insert(fed.end(), s.tokens.begin() + s.at, s.tokens.begin() + s.at + n);
      const int wanted = &s == &own ? n : 1;
      if (&s == &own) {
        first_logits = rows.size();
        n_logits = static_cast<size_t>(n);
      }
      for (int i = n - wanted; i < n; ++i) rows.push_back(first + i);
      s.at += n;
    }
    const float* const all = model.forward({fed, segments, rows});
    const float* const from = all + first_logits * TinyModel::kVocab;
    logits.insert(logits.end(), from, from + n_logits * TinyModel::kVocab);
  }
  return logits;
}

}  // namespace

TEST(cuda_computes_every_architecture) {
  constexpr int kTokens = 14;
  const Tokens tokens = some_tokens(kTokens);
  for (const Case& one : all_cases()) {
    const ParsedModel parsed(one.model);
    REQUIRE(parsed.file != nullptr);
    const Loaded loaded = load_network(*parsed.file, make_cuda_backend({.exact = true}));
    REQUIRE(loaded.model != nullptr);
    const std::vector<float> logits = run_network(*loaded.model, tokens, 9);
    const Rows expected = one.network(Mlp(one.model), tokens);
    const double worst = farthest(logits, kTokens, [&](size_t row, size_t i) { return expected[row][i]; });
    if (!(worst < 2e-5)) check::fail(__FILE__, __LINE__, one.name + " is off by " + std::to_string(worst));
  }
}

TEST(cuda_refuses_alibi_by_name) {
  const Case one = alibi_case();
  const ParsedModel parsed(one.model);
  const auto backend = make_cuda_backend({});
  REQUIRE(parsed.file != nullptr && backend.ok());
  const auto plan = Model::plan(*parsed.file, **backend, kNetworkLimits);
  REQUIRE(!plan.ok());
  CHECK(plan.error().code == ErrorCode::kUnsupported && plan.error().message.find("ALiBi") != std::string::npos);
}

TEST(cuda_refuses_chunk_experts_by_name) {
  const Case one = grovemoe();
  const ParsedModel parsed(one.model);
  const auto backend = make_cuda_backend({});
  REQUIRE(parsed.file != nullptr && backend.ok());
  const auto loaded = Model::load(*parsed.file, **backend, kNetworkLimits, {});
  REQUIRE(!loaded.ok());
  CHECK(loaded.error().code == ErrorCode::kUnsupported &&
        loaded.error().message.find("chunk experts") != std::string::npos);
}

// A CUDA graph of 4 rows that is captured with 3 tokens must compute all 4 rows when it is replayed. For each kind of
// norm, graphs_test.cc tests one architecture. Steps with learned positions are never captured.
TEST(cuda_graphs_of_every_architecture_compute_tokens_that_were_padding) {
  for (const Case& one : all_cases()) {
    const ParsedModel parsed(one.model);
    REQUIRE(parsed.file != nullptr);
    check_replays(one.name, *parsed.file, true, one.model.architecture != "gpt2");
  }
}

// These golden models have kinds of layers that do not occur in any generated model. Steps with hyper-connections are
// never captured.
TEST(cuda_graphs_of_golden_models_compute_tokens_that_were_padding) {
  bool any = false;
  for (const char* name : {"gemma3n.q4_0", "gemma4-ple.q8_0", "apertus.f16", "hunyuan-dense.q8_0", "llama4.q4_0",
                           "deepseek32.q8_0", "kimi-linear.q8_0", "deepseek4.mxfp4_moe"}) {
    const std::string path = check::vectors_path(std::string("models/") + name + ".gguf");
    if (path.empty()) continue;
    any = true;
    const auto file = GgufFile::open(path);
    REQUIRE(file.ok());
    check_replays(name, **file, true, std::string_view(name) != "deepseek4.mxfp4_moe");
  }
  if (!any) check::skip("golden vectors not found");
}

// Both backends round activations to 8 bits, but in a different order. Both results are close to the result without
// rounding.
TEST(cuda_quantized_moe_matches_the_cpu) {
  constexpr int kTokens = 20;
  const Tokens tokens = some_tokens(kTokens);
  const auto device = make_cuda_backend({});
  REQUIRE(device.ok());
  const bool emulated = (*device)->info().isa.starts_with("emulated");
  for (Case one : {mixtral(), qwen2moe(), qwen3moe(), olmoe(), granitemoe(true), glm4moe(true), dots1(), bailingmoe2(),
                   ernie4_5_moe(), gpt_oss()}) {
    quantize(one.model);
    const ParsedModel parsed(one.model);
    REQUIRE(parsed.file != nullptr);
    const auto run = [&](Result<std::unique_ptr<Backend>> backend) {
      const Loaded loaded = load_network(*parsed.file, std::move(backend));
      return loaded.model ? run_network(*loaded.model, tokens, 9) : std::vector<float>{};
    };
    const std::vector<float> exact = run(make_cpu_backend({.threads = 1, .arithmetic = Arithmetic::kExact}));
    const std::vector<float> cpu = run(make_cpu_backend({.threads = 1})), cuda = run(make_cuda_backend({}));
    REQUIRE(!exact.empty() && cpu.size() == exact.size() && cuda.size() == exact.size());
    const auto of = [&](const std::vector<float>& them) {
      return [&](size_t row, size_t i) { return them[row * TinyModel::kVocab + i]; };
    };
    const double apart = farthest(cuda, kTokens, of(cpu)), rounding = farthest(cpu, kTokens, of(exact));
    check::note(one.name + ": " + std::to_string(apart) + " apart, the processor " + std::to_string(rounding) +
                " from exact arithmetic");
    // On a GPU, BF16 sums are computed in a different order. A difference in rounding may then change which experts are
    // selected.
    if (!(apart < (emulated ? 1e-3 : 1e-3 + rounding)))
      check::fail(__FILE__, __LINE__, one.name + " is off by " + std::to_string(apart));
  }
}

TEST(cuda_quantized_models_do_not_depend_on_the_batch) {
  constexpr int kTokens = 22, kPrompt = 19;  // The third decode step after the prompt is replayed from a CUDA graph.
  using enum cuda::emulator::Order;
  struct Way {
    int others, piece;
    bool recording;
    cuda::emulator::Order order;
  };
  const Way ways[] = {{0, kPrompt, true, kAscending},
                      {0, 1, false, kDescending},
                      {6, 5, true, kShuffled},
                      {39, kPrompt, true, kDescending},
                      {99, 10, true, kAscending}};
  const ModelLimits limits{.max_batch_tokens = 420, .max_logit_rows = 120, .max_context = 48, .n_pages = 300};
  const Tokens tokens = some_tokens(kTokens);
  for (const TinyModel& tiny : wide_models()) {
    const ParsedModel parsed(tiny);
    REQUIRE(parsed.file != nullptr);
    std::vector<float> alone;
    for (const Way& way : ways) {
      cuda::emulator::set_order(way.order);
      const Loaded loaded = load_network(*parsed.file, make_cuda_backend({.recording = way.recording}), limits);
      REQUIRE(loaded.model != nullptr);
      const std::vector<float> logits = logits_beside(*loaded.model, tokens, kPrompt, way.piece, way.others, 5);
      CHECK_EQ(logits.size(), size_t{kTokens} * TinyModel::kVocab);
      if (alone.empty()) alone = logits;
      if (std::memcmp(alone.data(), logits.data(), alone.size() * sizeof(float)) != 0)
        check::fail(__FILE__, __LINE__,
                    tiny.architecture + ": different bits with other sequences: " + std::to_string(way.others));
    }
  }
  cuda::emulator::set_order(kAscending);
}
