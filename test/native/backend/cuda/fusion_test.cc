// Tests kernel fusion on the CUDA backend: which operations are fused, whether results are bit-identical to the results
// without fusion, and how many kernels a layer launches.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/matrix_data.h"
#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "emulator/runtime_emulated.h"
#include "backend/cuda/fusion_queue.h"
#include "check.h"
#include "model/all_cases.h"
#include "model/transformer.h"

using namespace monolith;
using namespace monolith::cuda;
using namespace monolith::testing;

namespace {

using Floats = std::vector<float>;

bool same_bits(const Floats& a, const Floats& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

// Replaces all of a model's matrices, except embeddings and routers, with random weights of `type`.
void retype(TinyModel& model, TensorType type) {
  uint64_t seed = 1;
  for (auto& [name, tensor] : model.tensors) {
    if (tensor.dims.size() < 2 || name.ends_with("_inp.weight") || name.ends_with("_inp_shexp.weight")) continue;
    const auto cols = static_cast<int64_t>(tensor.dims[0]);
    int64_t rows = 1;
    for (size_t i = 1; i < tensor.dims.size(); ++i) rows *= static_cast<int64_t>(tensor.dims[i]);
    // Tensors with fewer than 8 columns are convolution kernels or decay rates, not matrices.
    if (cols % traits_of(type).block_values != 0 || cols < 8) continue;
    const auto blocks = matrix_data(type, rows, cols, seed++, 0.125f);
    tensor.type = type;
    tensor.data.resize(blocks.size());
    std::memcpy(tensor.data.data(), blocks.data(), blocks.size());
  }
}

// Rows have 256 values, so that every type fits. Heads have 64 dimensions, so that the kernels are the same as for real
// models.
TinyModel wide_model(TensorType type, uint32_t layers, const char* architecture = "llama") {
  TinyModel model(architecture, layers);
  model.key("embedding_length", 256u);
  model.key("feed_forward_length", 512u);
  for (auto& [name, tensor] : model.tensors) {
    for (uint64_t& dim : tensor.dims)
      dim = dim == TinyModel::kEmbedding     ? 256
            : dim == TinyModel::kFeedForward ? 512
            : dim == 32                      ? 128  // The width of the key and value projections.
            : dim == TinyModel::kHeadDim     ? 64
                                             : dim;
  }
  retype(model, type);
  return model;
}

// Runs steps of a model: a prompt of 21 tokens, a prompt of 3 tokens, then decode steps for both and for a third
// sequence.
class Steps {
 public:
  Steps(const TinyModel& tiny, const CudaBackendOptions& options, int max_rows = 32) : parsed_(tiny) {
    if (!parsed_.file) {
      error = parsed_.error;
      return;
    }
    backend_ = make_cuda_backend(options).value();
    const ModelLimits limits = {.max_batch_tokens = max_rows,
                                .max_logit_rows = max_rows,
                                .max_context = 256,
                                .n_pages = 4 * max_rows,
                                .kv_type = KvType::kF16};
    auto loaded = Transformer::load(*parsed_.file, *backend_, limits, {});
    if (!loaded)
      error = loaded.error().message;
    else
      model_ = std::move(*loaded);
    for (int32_t i = 0; i < 4 * max_rows; ++i) pages_.push_back((i * 3 + 1) % (4 * max_rows));
  }
  explicit operator bool() const { return model_ != nullptr; }

  // One segment of a step: sequence, number of tokens and first position.
  struct Part {
    int sequence, n_tokens, position;
  };
  Floats step(const std::vector<Part>& parts, bool all_logits = true) {
    std::vector<int32_t> tokens, rows;
    std::vector<Segment> segments;
    for (const Part& part : parts) {
      const int32_t* const pages = &pages_[4 * static_cast<size_t>(part.sequence)];
      segments.push_back({static_cast<int>(tokens.size()), part.n_tokens, part.position, pages,
                          part.position > 0 ? part.sequence : kNoSlot, part.sequence});
      for (int i = 0; i < part.n_tokens; ++i)
        tokens.push_back((part.position + i + part.sequence) * 17 % static_cast<int32_t>(TinyModel::kVocab));
      if (!all_logits) rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
    }
    if (all_logits) {
      rows.resize(tokens.size());
      std::iota(rows.begin(), rows.end(), 0);
    }
    const float* const logits = model_->forward({tokens, segments, rows});
    return {logits, logits + rows.size() * TinyModel::kVocab};
  }
  Floats all() {
    Floats values;
    const auto add = [&](const Floats& more) { values.insert(values.end(), more.begin(), more.end()); };
    add(step({{0, 21, 0}, {1, 3, 0}}, false));
    // A step with three decode tokens, padded to 4.
    for (int i = 0; i < 3; ++i) add(step({{0, 1, 21 + i}, {1, 1, 3 + i}, {2, 1, i}}));
    return values;
  }

  const Backend& backend() const { return *backend_; }

  std::string error;

 private:
  ParsedModel parsed_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> model_;
  std::vector<int32_t> pages_;
};

// Returns how many more kernels a step launches with three layers than with two.
int launches_per_layer(const char* architecture, TensorType type, bool fused, const std::vector<Steps::Part>& parts,
                       bool all_logits) {
  uint64_t counts[2];
  for (const uint32_t layers : {2u, 3u}) {
    Steps steps(wide_model(type, layers, architecture), {.fused = fused});
    if (!steps) {
      check::fail(__FILE__, __LINE__, steps.error);
      return 0;
    }
    steps.step(parts, all_logits);  // The first step also computes the RoPE angles.
    const uint64_t before = emulator::launches();
    steps.step(parts, all_logits);  // The second step is captured as a CUDA graph, if possible.
    counts[layers - 2] = emulator::launches() - before;
  }
  return static_cast<int>(counts[1] - counts[0]);
}

}  // namespace

TEST(cuda_operations_are_fused_if_a_single_matmul_reads_them) {
  auto device = Runtime::open(0).value();
  const auto matrix = [&](Format format, int64_t cols) {
    auto made = std::make_unique<CudaMatrix>(*device, format, nullptr);
    made->cols = cols;
    return made;
  };
  const auto bf16 = matrix(Format::kBf16, 64), f16 = matrix(Format::kF16, 64), quant = matrix(Format::kQuant, 64);
  const auto f32 = matrix(Format::kF32, 64), odd = matrix(Format::kBf16, 66), narrow = matrix(Format::kBf16, 32);
  float rows[1] = {}, other[1] = {};
  const PendingNorm norm{nullptr, nullptr, 1e-5f, 3, 64, rows};
  const PendingGate gate{Activation::kSilu, nullptr, nullptr, 3, 64, rows};
  const auto decide = [&](const PendingOperation& operation, std::vector<const Matrix*> matrices, const float* x,
                          int n_rows, InputUse use) {
    std::vector<MatmulTarget> targets;
    for (const Matrix* weight : matrices) targets.push_back({weight, other, 64});
    return fusion_for(operation, targets, x, n_rows, use);
  };
  using enum InputForm;
  using enum InputUse;
  const Fusion none{};
  CHECK(decide(norm, {bf16.get()}, rows, 3, kLast) == Fusion(kBf16, false));
  CHECK(decide(norm, {bf16.get(), bf16.get()}, rows, 3, kAgain) == Fusion(kBf16, true));
  CHECK(decide(gate, {f16.get()}, rows, 3, kLast) == Fusion(kF16, false));
  CHECK(decide(gate, {quant.get(), quant.get()}, rows, 3, kLast) == Fusion(kInt8, false));
  CHECK(decide({}, {bf16.get()}, rows, 3, kLast) == none);
  CHECK(decide(norm, {f32.get()}, rows, 3, kLast) == none);  // Not fused: the matmul reads floats.
  // Not fused, because the matmuls read two different input formats.
  CHECK(decide(norm, {bf16.get(), f32.get()}, rows, 3, kLast) == none);
  CHECK(decide(norm, {bf16.get(), quant.get()}, rows, 3, kLast) == none);
  CHECK(decide(norm, {bf16.get()}, other, 3, kLast) == none);  // Not fused: the matmul reads different rows.
  CHECK(decide(norm, {bf16.get()}, rows, 2, kLast) == none);
  CHECK(decide(norm, {narrow.get()}, rows, 3, kLast) == none);
  CHECK(attention_input(kBf16, KvType::kF16, 64, 1, 64, 64));
  CHECK(attention_input(kInt8, KvType::kF16, 96, 4, 384, 384));
  // Not fused, because the input format has one scale for the whole row.
  CHECK(!attention_input(kF16, KvType::kF16, 64, 2, 128, 128));
  // Not fused, because a different attention kernel is used for F32 caches.
  CHECK(!attention_input(kBf16, KvType::kF32, 64, 1, 64, 64));
  CHECK(!attention_input(kInt8, KvType::kF16, 80, 8, 640, 640));  // Not fused: input blocks would span several heads.
  CHECK(!attention_input(kInt8, KvType::kF16, 64, 1, 64, 64));    // Not fused: the input row is padded.
  CHECK(!attention_input(kBf16, KvType::kF16, 80, 1, 80, 80));
  CHECK(!attention_input(kBf16, KvType::kF16, 64, 1, 64, 128));  // Not fused: there are gaps between the rows.

  RowList list;
  list.n_rows = 3;
  float q[1] = {}, k[1] = {};
  RopeLaunch call{&list, q, 256, 4, k, 128, k, 128, {}, KvType::kF16};
  call.cache.n_kv_heads = 2;
  call.cache.head_dim = call.cache.value_dim = 64;
  const PendingHeads of_q{q, 256, rows, 1e-5f, 3, 4, 64}, of_k{k, 128, other, 1e-5f, 3, 2, 64};
  PendingHeads of_others = of_k, of_few = of_q;
  of_others.eps = 1e-6f;
  of_few.n_rows = 2;
  CHECK(head_norms_for(of_q, of_k, call, 64) == HeadNorms(rows, other, 1e-5f));
  CHECK(head_norms_for(of_k, of_q, call, 64) == HeadNorms());
  CHECK(head_norms_for({}, of_k, call, 64) == HeadNorms());
  CHECK(head_norms_for(of_q, norm, call, 64) == HeadNorms());
  CHECK(head_norms_for(of_q, of_others, call, 64) == HeadNorms());
  CHECK(head_norms_for(of_few, of_k, call, 64) == HeadNorms());
  // Not fused, because the values of heads of this size are processed one by one.
  CHECK(head_norms_for(of_q, of_k, call, 62) == HeadNorms());
  const PendingNorm odd_norm{nullptr, nullptr, 1e-5f, 3, 66, rows};
  const PendingGate odd_gate{Activation::kSilu, nullptr, nullptr, 3, 66, rows};
  CHECK(decide(odd_norm, {odd.get()}, rows, 3, kLast) == none);  // Not fused: there is no kernel for this size.
  CHECK(decide(odd_gate, {odd.get()}, rows, 3, kLast) == none);
}

// Tests one operation and the matrix product after it, fused and not fused, in both orders of threads. Sizes end within
// a block of k, values have every magnitude, and one row is not finite.
TEST(cuda_fused_operations_give_the_same_bits) {
  using enum emulator::Order;
  for (const TensorType type : {TensorType::kBF16, TensorType::kF16, TensorType::kQ8_0, TensorType::kF32}) {
    for (const int64_t dim : {int64_t{32}, int64_t{100}, int64_t{544}, int64_t{2080}, int64_t{8192}, int64_t{8224}}) {
      if (dim % traits_of(type).block_values != 0) continue;
      const int n_rows = dim > 2048 ? 2 : 9;
      const auto n = static_cast<size_t>(dim) * static_cast<size_t>(n_rows), width = static_cast<size_t>(dim);
      Random random(7);
      Floats x(n), up(n), weight(width);
      for (size_t i = 0; i < n; ++i) {
        x[i] = random.uniform() * std::exp2(static_cast<float>(i / width) * 20 - 60);
        up[i] = random.uniform();
      }
      for (float& value : weight) value = random.uniform();
      x[n - 1] = std::numeric_limits<float>::infinity();
      std::fill_n(x.begin(), width, 0.0f);
      const auto data = matrix_data(type, 16, dim, 3, 0.5f);
      Floats results[4];
      for (int way = 0; way < 4; ++way) {  // Unfused, fused, with rows that are read again, and in a different order.
        emulator::set_order(way == 3 ? kShuffled : kAscending);
        auto backend = make_cuda_backend({.fused = way != 0}).value();
        REQUIRE(backend->reserve(n_rows, dim, 64, 64).ok());
        const auto matrix = backend->matrix({type, 16, dim, data}).value();
        const auto put = [&](const Floats& values) {
          float* const at = *backend->allocate(static_cast<int64_t>(values.size()));
          backend->write_floats(at, values.data(), static_cast<int64_t>(values.size()));
          return at;
        };
        float *const from = put(x), *const ups = put(up), *const scales = put(weight);
        float *const rows = put(Floats(n)), *const out = put(Floats(16 * static_cast<size_t>(n_rows)));
        const MatmulTarget target{matrix.get(), out, 16};
        const InputUse use = way == 2 ? InputUse::kAgain : InputUse::kLast;
        const auto take = [&](const float* at, size_t count) {
          const size_t before = results[way].size();
          results[way].resize(before + count);
          backend->read_floats(results[way].data() + before, at, static_cast<int64_t>(count));
        };
        for (const Activation activation : {Activation::kSilu, Activation::kGelu}) {
          backend->rms_norm(from, scales, 1e-5f, RowCount::fixed(n_rows), dim, rows);
          backend->matmul({&target, 1}, rows, RowCount::fixed(n_rows), use);
          take(out, 16 * static_cast<size_t>(n_rows));
          if (way == 0 || way == 2) take(rows, n);
          backend->gated(activation, from, ups, RowCount::fixed(n_rows), dim, rows);
          backend->matmul({&target, 1}, rows, RowCount::fixed(n_rows), use);
          take(out, 16 * static_cast<size_t>(n_rows));
          if (way == 0 || way == 2) take(rows, n);
        }
        // A queued operation is launched even if no matrix product follows.
        backend->rms_norm(from, scales, 1e-5f, RowCount::fixed(n_rows), dim, rows);
        take(rows, n);
      }
      CHECK(same_bits(results[0], results[2]));
      CHECK(same_bits(results[1], results[3]));
      size_t at = 0, all = 0;  // Offset in results[0], which also contains the rows.
      for (int i = 0; i < 4; ++i, at += 16 * static_cast<size_t>(n_rows), all += 16 * static_cast<size_t>(n_rows) + n) {
        const size_t bytes = 16 * static_cast<size_t>(n_rows) * sizeof(float);
        if (std::memcmp(&results[1][at], &results[0][all], bytes) != 0)
          check::fail(__FILE__, __LINE__, std::string(traits_of(type).name) + " of " + std::to_string(dim));
      }
    }
  }
  emulator::set_order(kAscending);
}

// Tests attention and the matrix product after it, for tokens whose context is split over several warps, for tokens
// computed by a single warp, and for a tile.
TEST(cuda_fused_attention_gives_the_same_bits) {
  constexpr int kContext = 290, kTile = 20, kRows = 2 + kTile, kHeads = 4, kKvHeads = 2;
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    const int64_t q_dim = kHeads * head_dim, kv_dim = kKvHeads * head_dim;
    for (const TensorType type : {TensorType::kBF16, TensorType::kF16, TensorType::kQ8_0}) {
      if (q_dim % traits_of(type).block_values != 0) continue;
      Random random(5);
      const auto floats = [&](int64_t n) {
        Floats values(static_cast<size_t>(n));
        for (float& value : values) value = random.uniform();
        return values;
      };
      const Floats keys = floats(kContext * kv_dim), queries = floats(kRows * q_dim), sinks = floats(kHeads);
      const auto data = matrix_data(type, 16, q_dim, 3, 0.5f);
      Floats results[2];
      for (const bool fused : {false, true}) {
        auto backend = make_cuda_backend({.fused = fused}).value();
        REQUIRE(backend->reserve(kContext, q_dim, 512, head_dim).ok());
        const KvType kv = head_dim == 128 ? KvType::kFp8 : head_dim == 256 ? KvType::kQ8_0 : KvType::kF16;
        const auto cache = backend->kv_cache(KvShape::of_equal_layers(1, kKvHeads, head_dim, 64, kv)).value();
        const auto matrix = backend->matrix({type, 16, q_dim, data}).value();
        const auto put = [&](const Floats& values) {
          float* const at = *backend->allocate(static_cast<int64_t>(values.size()));
          backend->write_floats(at, values.data(), static_cast<int64_t>(values.size()));
          return at;
        };
        float *const q = put(queries), *const k = put(keys), *const out = put(Floats(16 * kRows));
        float* const rows = put(Floats(kRows * static_cast<size_t>(q_dim), std::nanf("")));
        std::vector<int32_t> pages(kContext / kPageTokens + 1);
        std::iota(pages.begin(), pages.end(), 7);
        const Segment all{0, kContext, 0, pages.data()};
        const std::vector<Segment> list = {
            {0, 1, kContext - 1, pages.data()}, {1, 1, 20, pages.data()}, {2, kTile, 130, pages.data()}};
        const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
        backend->rope_and_store({none, {&all, 1}, k, kv_dim, kKvHeads, k, kv_dim, k, kv_dim, 0, *cache});
        const MatmulTarget target{matrix.get(), out, 16};
        const AttentionParams params{.scale = 0.2f, .sinks = head_dim == 96 ? put(sinks) : nullptr};
        backend->attention({list, q, q_dim, kHeads, 0, *cache, params, rows, q_dim});
        backend->matmul({&target, 1}, rows, RowCount::fixed(kRows), InputUse::kLast);
        results[fused ? 1 : 0].resize(16 * kRows);
        backend->read_floats(results[fused ? 1 : 0].data(), out, 16 * kRows);
      }
      CHECK(!std::isnan(results[0][0]) && results[0][0] != 0);
      if (!same_bits(results[0], results[1]))
        check::fail(__FILE__, __LINE__, std::string(traits_of(type).name) + ", heads of " + std::to_string(head_dim));
    }
  }
}

TEST(cuda_fused_models_give_the_same_bits) {
  std::vector<std::pair<std::string, TinyModel>> models;
  using enum TensorType;
  for (const TensorType type : {kBF16, kF16, kQ8_0, kQ4_K, kF32})
    models.emplace_back(traits_of(type).name, wide_model(type, 2));
  models.emplace_back("wide qwen3", wide_model(TensorType::kBF16, 2, "qwen3"));
  constexpr TensorType kTypes[] = {kBF16, kQ8_0, kF16};
  size_t at = 0;
  for (const Case& one : all_cases()) {
    models.emplace_back(one.name, one.model);
    retype(models.back().second, kTypes[at++ % std::size(kTypes)]);
  }
  int computed = 0;
  for (const auto& [name, model] : models) {
    Floats results[2];
    for (const bool fused : {false, true}) {
      Steps steps(model, {.fused = fused});
      if (steps) results[fused ? 1 : 0] = steps.all();
    }
    if (!same_bits(results[0], results[1])) check::fail(__FILE__, __LINE__, name);
    computed += results[1].empty() ? 0 : 1;
  }
  check::note(std::to_string(computed) + " of " + std::to_string(models.size()) + " models");
  CHECK(computed >= 20);
}

// Each batch size has two CUDA graphs, with and without the kernel that merges the partial results of tokens whose
// context is split. Each step must replay the right graph.
TEST(cuda_graphs_with_and_without_split_tokens_are_separate) {
  Floats results[2];
  for (const bool recording : {false, true}) {
    Steps steps(wide_model(TensorType::kBF16, 1), {.recording = recording});
    REQUIRE(steps);
    for (const int position : {100, 101, 102, 200, 103, 201, 202, 104})
      for (const float logit : steps.step({{0, 1, position}})) results[recording ? 1 : 0].push_back(logit);
  }
  CHECK(same_bits(results[0], results[1]));
}

// A failed capture is reported once and retried. The retry is immediate, without programmatic dependent launch; if that
// was already off, the retry follows after some steps.
TEST(cuda_failed_graph_captures_are_reported_and_retried) {
  struct Reset {
    ~Reset() { faults() = {}; }
  } reset;
  if (!make_cuda_backend({}).value()->info().isa.starts_with("emulated")) return check::note("only in the emulator");
  std::vector<bool> asked;
  std::vector<Error> failures;
  faults().recording = [&](bool early) -> std::optional<Error> {
    const size_t i = asked.size();
    asked.push_back(early);
    return i < failures.size() ? std::optional(failures[i]) : std::nullopt;
  };
  const auto run = [&](std::vector<Error> wanted, int n_steps) {
    asked.clear();
    failures = std::move(wanted);
    Steps steps(wide_model(TensorType::kBF16, 1), {});
    Steps plain(wide_model(TensorType::kBF16, 1), {.recording = false});
    for (int i = 0; i < n_steps; ++i) CHECK(same_bits(steps.step({{0, 1, i % 8}}), plain.step({{0, 1, i % 8}})));
    return steps.backend().note();
  };
  const Error refused{ErrorCode::kUnsupported, "no such node"}, memory{ErrorCode::kOutOfMemory, "all used"};
  using Tries = std::vector<bool>;

  CHECK_EQ(run({}, 6), "");
  CHECK(asked == Tries{true});
  CHECK_EQ(
      run({refused}, 6),
      "CUDA graph of 1 tokens: capture failed with programmatic dependent launch, retrying without it (no such node)");
  CHECK(asked == (Tries{true, false}));
  CHECK_EQ(run({memory}, 6),
           "CUDA graph of 1 tokens: not enough memory for the capture, launching kernel by kernel and retrying later "
           "(all used)");
  CHECK(asked == Tries{true});
  run({memory, memory}, 1 + 1 + 64 + 1 + 128 + 1);
  CHECK(asked == (Tries{true, true, true}));
}

// Expected kernel launches per layer. The numbers may decrease. If a number increases, every step of a model takes
// longer.
TEST(cuda_kernel_launches_per_layer) {
  struct Row {
    const char* architecture;
    TensorType type;
    bool fused;
    // Number of launches for one decode token whose context is split over several warps, for five decode tokens, and
    // for a prompt.
    int one, many, prompt;
  };
  constexpr Row kRows[] = {
      {"llama", TensorType::kBF16, false, 14, 13, 13}, {"llama", TensorType::kBF16, true, 10, 9, 9},
      {"llama", TensorType::kF16, false, 14, 13, 13},  {"llama", TensorType::kF16, true, 11, 10, 10},
      {"llama", TensorType::kQ4_K, false, 14, 13, 13}, {"llama", TensorType::kQ4_K, true, 10, 9, 9},
      {"qwen3", TensorType::kBF16, false, 16, 15, 15}, {"qwen3", TensorType::kBF16, true, 10, 9, 9},
  };
  std::vector<Steps::Part> many;
  for (int i = 0; i < 5; ++i) many.push_back({i, 1, i});
  for (const Row& row : kRows) {
    const auto count = [&](const std::vector<Steps::Part>& parts, bool all_logits) {
      return launches_per_layer(row.architecture, row.type, row.fused, parts, all_logits);
    };
    const int one = count({{0, 1, 200}}, true), five = count(many, true), prompt = count({{0, 20, 0}}, false);
    if (emulator::launches() == 0) return check::skip("a GPU has no launch counter");
    check::note(std::string(row.architecture) + " " + std::string(traits_of(row.type).name) +
                (row.fused ? " fused: " : ": ") + std::to_string(one) + ", " + std::to_string(five) + ", " +
                std::to_string(prompt));
    CHECK_EQ(one, row.one);
    CHECK_EQ(five, row.many);
    CHECK_EQ(prompt, row.prompt);
  }
}
