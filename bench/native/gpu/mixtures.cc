// Benchmark of MoE layers on the GPU. Measures whole layers, including routing. Router logits are random, so each token
// selects random experts.
#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "backend/cuda/moe/moe.h"
#include "gpu/measure.h"

namespace monolith::bench {
namespace {

using namespace cuda;

struct Kind {
  const char* name;
  MixtureShape shape;
};
constexpr Kind kKinds[] = {
    {"128 of 768", {.n_experts = 128, .n_used = 8, .n_embd = 2048, .n_ff = 768}},  // The shape of Qwen3 30B A3B.
    {"32 of 2880", {.n_experts = 32, .n_used = 4, .n_embd = 2880, .n_ff = 2880}},  // The shape of gpt-oss 20B.
};
constexpr Kind kTinyKinds[] = {{"6 of 256", {.n_experts = 6, .n_used = 2, .n_embd = 256, .n_ff = 256}}};

void require(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

std::vector<float> read(Runtime& runtime, const float* from, size_t n) {
  std::vector<float> values(n);
  runtime.download(values.data(), from, n * sizeof(float));
  runtime.synchronize();
  return values;
}

// Returns how many distinct experts these router logits select across all tokens.
int experts_in_use(const std::vector<float>& logits, const MixtureShape& shape) {
  const auto n = static_cast<size_t>(shape.n_experts);
  std::vector<bool> used(n);
  std::vector<size_t> order(n);
  for (size_t row = 0; row < logits.size(); row += n) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::partial_sort(order.begin(), order.begin() + shape.n_used, order.end(),
                      [&](size_t a, size_t b) { return logits[row + a] > logits[row + b]; });
    for (int i = 0; i < shape.n_used; ++i) used[order[static_cast<size_t>(i)]] = true;
  }
  return static_cast<int>(std::count(used.begin(), used.end(), true));
}

std::unique_ptr<Matrix> random_matrix(Runtime& runtime, TensorType type, int64_t rows, int64_t cols, uint64_t seed) {
  const auto blocks = static_cast<size_t>(rows * cols / traits_of(type).block_values);
  auto matrix = make_matrix(runtime, {type, rows, cols, random_blocks(type, blocks, seed)}, false);
  if (!matrix) throw std::runtime_error(matrix.error().message);
  return std::move(*matrix);
}

void measure_kind(Runtime& runtime, const Options& options, const Clock& clock, const Kind& kind, TensorType type,
                  Results& results) {
  const std::string name = std::string(traits_of(type).name) + " " + kind.name;
  if (("mixture " + name).find(options.filter) == std::string::npos) return;
  const std::vector<int> counts = options.tiny ? std::vector{1, 20} : std::vector{1, 8, 64, 256, 2048};
  const MixtureShape& shape = kind.shape;
  const int most = counts.back();
  if (shape.n_ff % traits_of(type).block_values != 0) {
    results.left_out.push_back(name + ": the row length is not a multiple of the block size");
    return;
  }
  CudaMixture mixtures(runtime);
  require(mixtures.reserve(most, shape));
  MatmulContext context{DenseScratch(runtime), dense_device(runtime, {}), Int8Activations(runtime)};
  const int64_t columns = CudaMixture::most_columns(most, shape), widest = std::max(shape.n_embd, shape.n_ff);
  require(context.dense.reserve(columns, widest));
  require(context.int8.reserve(columns, widest));
  const int64_t inside = int64_t{shape.n_experts} * shape.n_ff, outside = int64_t{shape.n_experts} * shape.n_embd;
  const auto gate = random_matrix(runtime, type, inside, shape.n_embd, 21);
  const auto up = random_matrix(runtime, type, inside, shape.n_embd, 22);
  const auto down = random_matrix(runtime, type, outside, shape.n_ff, 23);
  const Mixture mixture{.shape = shape, .gate = gate.get(), .up = up.get(), .down = down.get()};
  float* const logits = random_floats(runtime, int64_t{most} * shape.n_experts, 1, 24);
  float* const x = random_floats(runtime, int64_t{most} * shape.n_embd, 1, 25);
  float* const out = floats(runtime, int64_t{most} * shape.n_embd);
  for (const int n : counts) {
    if (clock.is_over()) {
      results.left_out.push_back(name + ": out of time");
      break;
    }
    // Number of token ranges that successive calls cycle through. Each range selects different experts, so the weights
    // are read from memory rather than from the L2 cache.
    const int places = std::min(most / n, 64);
    const double seconds = time_calls(runtime, options, places, [&](int i) {
      const int64_t row = int64_t{i % places} * n;
      mixtures.run(context, mixture, logits + row * shape.n_experts, x + row * shape.n_embd, n,
                   out + row * shape.n_embd, false);
    });
    const auto rows = static_cast<double>(n);
    const auto n_logits = static_cast<size_t>(n) * static_cast<size_t>(shape.n_experts);
    const int used = experts_in_use(read(runtime, logits, n_logits), shape);
    const double weights = static_cast<double>(gate->bytes + up->bytes + down->bytes) * used / shape.n_experts;
    const KernelResult result{"mixture",
                              name,
                              n,
                              seconds,
                              weights + rows * (2.0 * shape.n_embd + shape.n_experts) * sizeof(float),
                              6.0 * rows * shape.n_used * shape.n_embd * shape.n_ff,
                              type == TensorType::kBF16 ? Unit::kHalf : Unit::kByte};
    std::fprintf(stderr, "%-9s %-22s %6d %10.1f us %8.0f GB/s %8.2f Tops/s, %d experts\n", "mixture", name.c_str(), n,
                 seconds * 1e6, result.bytes / seconds / 1e9, result.operations / seconds / 1e12, used);
    results.kernels.push_back(result);
  }
  runtime.free(logits), runtime.free(x), runtime.free(out);
}

}  // namespace

void measure_mixtures(const Options& options, const Clock& clock, Results& results) {
  if (!options.kernels) return;
  for (const Kind& kind : options.tiny ? std::span<const Kind>(kTinyKinds) : std::span<const Kind>(kKinds))
    for (const TensorType type : {TensorType::kBF16, TensorType::kQ4_K, TensorType::kMXFP4}) {
      // Each measurement has its own runtime, because scratch memory is freed only with the runtime.
      auto runtime = Runtime::open(options.device);
      if (!runtime) throw std::runtime_error(runtime.error().message);
      measure_kind(**runtime, options, clock, kind, type, results);
    }
}

}  // namespace monolith::bench
