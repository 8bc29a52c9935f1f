// Benchmark of LoRA adapters on the CPU. Alternates between decode steps with and without adapters, so that machine
// slowdowns affect both measurements. Covers only the forward pass, without the scheduler, sampling or Node.js. The
// adapters have random F16 factors for every adaptable matrix of the model. Stream i uses adapter i % adapters.
//
//   usage: adapter_bench FILE [rank] [streams] [adapters] [steps] [isa] [threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/profiled_backend.h"
#include "base/half.h"
#include "model/model.h"

namespace monolith {
namespace {

constexpr int kDepth = 64, kContext = 256;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double at_share(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

std::span<const std::byte> bytes_of(const std::vector<uint16_t>& values) { return std::as_bytes(std::span(values)); }

// Builds an adapter with random factors for every adaptable matrix of the model.
Result<std::unique_ptr<const Adapter>> random_adapter(Model& model, int rank, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  const auto halves = [&](int64_t count) {
    std::vector<uint16_t> values(static_cast<size_t>(count));
    for (uint16_t& value : values) value = float_to_half(normal(random));
    return values;
  };
  const std::vector<AdaptableWeight>& weights = model.adaptable_weights();
  std::vector<std::vector<uint16_t>> factors;
  factors.reserve(2 * weights.size());
  LoraFile file;
  for (const AdaptableWeight& weight : weights) {
    const bool is_known = std::ranges::any_of(file.pairs, [&](const LoraPair& p) { return p.target == weight.name; });
    if (is_known) continue;
    LoraPair pair;
    pair.target = weight.name;
    pair.rank = rank;
    pair.rows = weight.of_rows;
    pair.cols = weight.cols;
    factors.push_back(halves(rank * pair.cols));
    pair.a = {"a", TensorType::kF16, bytes_of(factors.back())};
    factors.push_back(halves(rank * pair.rows));
    pair.b = {"b", TensorType::kF16, bytes_of(factors.back())};
    file.pairs.push_back(std::move(pair));
  }
  return Adapter::load(file, 1.0f, model, SIZE_MAX);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: adapter_bench FILE [rank] [streams] [adapters] [steps] [isa] [threads]\n");
    return 1;
  }
  const auto number = [&](int at, int usual) { return argc > at ? std::max(0, std::atoi(argv[at])) : usual; };
  const int rank = std::max(1, number(2, 8)), streams = std::max(1, number(3, 16)), n_adapters = number(4, 8);
  const int steps = std::max(1, number(5, 20)), threads = number(7, 0);
  constexpr int kPages = kContext / kPageTokens;
  auto file = GgufFile::open(argv[1]);
  if (!file) return fail(file.error());
  auto backend = make_cpu_backend({.threads = threads, .isa = argc > 6 ? argv[6] : "auto"});
  if (!backend) return fail(backend.error());
  const auto profile = std::make_shared<StepProfile>();
  const auto profiled = make_profiled_backend(std::move(*backend), profile);
  auto model = Model::load(**file, *profiled,
                           {.max_batch_tokens = streams,
                            .max_logit_rows = streams,
                            .max_context = kContext,
                            .n_pages = int64_t{kPages} * streams,
                            .n_slots = 2 * streams},
                           [](float) {});
  if (!model) return fail(model.error());
  std::vector<std::unique_ptr<const Adapter>> adapters;
  size_t bytes = 0;
  for (int i = 0; i < n_adapters; ++i) {
    auto adapter = random_adapter(**model, rank, static_cast<uint32_t>(i));
    if (!adapter) return fail(adapter.error());
    bytes += (*adapter)->bytes();
    adapters.push_back(std::move(*adapter));
  }
  if (Status status = (*model)->reserve_adapters(rank); !status) return fail(status.error());

  const auto n = static_cast<size_t>(streams);
  std::vector<int32_t> pages(n * kPages), tokens(n), rows(n);
  std::iota(pages.begin(), pages.end(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(tokens.begin(), tokens.end(), 1);
  std::vector<AdapterRows> used;
  for (int i = 0; i < streams && n_adapters > 0; ++i)
    used.push_back({i, 1, adapters[static_cast<size_t>(i % n_adapters)].get()});
  int position = kDepth;
  const auto step = [&](bool adapted) {
    std::vector<Segment> segments;
    for (int i = 0; i < streams; ++i)
      segments.push_back({.first_row = i,
                          .n_tokens = 1,
                          .first_position = position,
                          .pages = pages.data() + i * kPages,
                          .state_from = kNoSlot,
                          .state_to = i});
    const double start = now();
    (*model)->forward({.tokens = tokens,
                       .segments = segments,
                       .logit_rows = rows,
                       .adapters = adapted ? std::span<const AdapterRows>(used) : std::span<const AdapterRows>()});
    const double seconds = now() - start;
    position = position + 1 < kContext ? position + 1 : kDepth;
    return seconds * 1e3;
  };
  std::vector<double> without, with;
  for (int i = -2; i < steps; ++i) {
    const double plain = step(false), adapted = step(true);
    if (i < 0) continue;  // Steps -2 and -1 are warm-up.
    without.push_back(plain);
    with.push_back(adapted);
  }
  std::printf(
      "rank %d, %d streams, %d adapters of %.1f MB: step %.1f ms without, %.1f ms with (medians): %+.1f %%; "
      "lower quartiles %.1f and %.1f ms: %+.1f %%\n",
      rank, streams, n_adapters, static_cast<double>(bytes) / 1e6 / std::max(1, n_adapters), at_share(without, 0.5),
      at_share(with, 0.5), (at_share(with, 0.5) / at_share(without, 0.5) - 1) * 100, at_share(without, 0.25),
      at_share(with, 0.25), (at_share(with, 0.25) / at_share(without, 0.25) - 1) * 100);
  for (const OpFigures& op : profile->read())
    if (op.name == "add_adapters")
      std::printf("  add_adapters %.1f us per call, %.1f ms per step, %.1f GB/s\n",
                  static_cast<double>(op.nanoseconds) / static_cast<double>(op.calls) / 1e3,
                  static_cast<double>(op.nanoseconds) / 1e6 / (steps + 2),
                  static_cast<double>(op.bytes) / static_cast<double>(op.nanoseconds));
  return 0;
}

}  // namespace
}  // namespace monolith

int main(int argc, char** argv) { return monolith::run(argc, argv); }
