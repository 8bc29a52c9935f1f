// Benchmark of decoding one stream of a model file on the CPU: the forward pass alone, without the scheduler, sampling
// or Node. Reports the memory bandwidth as a share of a plain read loop's bandwidth, and the time per operation. The
// read loop and decoding alternate, so that machine slowdowns affect both.
//
// Decoding starts with `depth` positions already in the KV cache. Their keys and values are zero, so no prefill is
// needed. The zeros are read like any other keys and values. The bytes per token count the weights once (in an MoE
// layer, only the selected experts), the keys and values once, and the recurrent state twice.
//
//   usage: decode_bench FILE [isa] [threads] [passes] [depth]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/profiled_backend.h"
#include "base/memory_bandwidth.h"
#include "model/model.h"

namespace monolith {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: decode_bench FILE [isa] [threads] [passes] [depth]\n");
    return 1;
  }
  const char* isa = argc > 2 ? argv[2] : "auto";
  const int threads = argc > 3 ? std::atoi(argv[3]) : 0, passes = argc > 4 ? std::max(1, std::atoi(argv[4])) : 9;
  const int depth = argc > 5 ? std::max(0, std::atoi(argv[5])) : 0;
  constexpr int kTokens = 16, kWindow = 512;
  const int context = depth + kWindow, n_pages = (context + kPageTokens - 1) / kPageTokens;

  auto file = GgufFile::open(argv[1]);
  if (!file) return fail(file.error());
  auto backend = make_cpu_backend({.threads = threads, .isa = isa});
  if (!backend) return fail(backend.error());
  const BackendInfo info = (*backend)->info();
  const auto profile = std::make_shared<StepProfile>();
  const auto profiled = make_profiled_backend(std::move(*backend), profile);
  auto model = Model::load(
      **file, *profiled,
      {.max_batch_tokens = 16, .max_logit_rows = 1, .max_context = context, .n_pages = n_pages, .n_slots = 2},
      [](float) {});
  if (!model) return fail(model.error());

  std::vector<int32_t> pages(static_cast<size_t>(n_pages));
  std::iota(pages.begin(), pages.end(), 0);
  int position = depth;
  int32_t token = 1, slot = kNoSlot;
  const auto decode = [&] {
    const Segment segment{.first_row = 0,
                          .n_tokens = 1,
                          .first_position = position,
                          .pages = pages.data(),
                          .state_from = slot,
                          .state_to = 0};
    slot = 0;
    const int32_t row = 0;
    const Batch batch{.tokens = {&token, 1}, .segments = {&segment, 1}, .logit_rows = {&row, 1}};
    const float* logits = (*model)->forward(batch);
    token = static_cast<int32_t>(std::max_element(logits, logits + 1000) - logits);
    position = position + 1 < context ? position + 1 : depth;
  };
  for (int i = 0; i < kTokens; ++i) decode();

  const std::vector<OpFigures> before = profile->read();
  std::vector<double> shares, rates, reads;
  double bytes = 0;
  for (const OpFigures& op : before)
    if (op.name.starts_with("matmul") || op.name.starts_with("mixture"))
      bytes += static_cast<double>(op.bytes) / kTokens;
  const MemoryPlan& memory = (*model)->memory();
  const double kept = static_cast<double>(memory.page_bytes) / kPageTokens * depth,
               state = 2.0 * static_cast<double>(memory.slot_bytes);
  std::printf("per token: %.3f GB of weights, %.3f GB of keys and values, %.3f GB of state (read and written)\n",
              bytes / 1e9, kept / 1e9, state / 2e9);
  bytes += kept + state;
  for (int pass = 0; pass < passes; ++pass) {
    const double read_before = read_bandwidth(info.threads, size_t{256} << 20, 3).value();
    const double start = now();
    for (int i = 0; i < kTokens; ++i) decode();
    const double seconds = (now() - start) / kTokens;
    const double read = (read_before + read_bandwidth(info.threads, size_t{256} << 20, 3).value()) / 2;
    reads.push_back(read / 1e9);
    rates.push_back(1 / seconds);
    shares.push_back(bytes / seconds / read * 100);
  }
  std::printf("%s, %d threads: %.1f tokens/s, %.1f of %.1f GB/s; share %.1f %% (median), %.1f to %.1f %%\n",
              info.isa.c_str(), info.threads, median(rates), median(rates) * bytes / 1e9, median(reads), median(shares),
              *std::ranges::min_element(shares), *std::ranges::max_element(shares));
  const double tokens = static_cast<double>(kTokens) * passes;
  const std::vector<OpFigures> after = profile->read();
  for (size_t i = 0; i < after.size(); ++i) {
    const OpFigures first = i < before.size() ? before[i] : OpFigures{};
    const double calls = static_cast<double>(after[i].calls - first.calls);
    const double spent = static_cast<double>(after[i].nanoseconds - first.nanoseconds);
    const double moved = static_cast<double>(after[i].bytes - first.bytes);
    std::printf("  %-24s %5.1f calls per token  %8.2f us per call  %8.1f us per token  %6.1f GB/s\n",
                after[i].name.c_str(), calls / tokens, spent / calls / 1e3, spent / tokens / 1e3, moved / spent);
  }
  return 0;
}

}  // namespace
}  // namespace monolith

int main(int argc, char** argv) { return monolith::run(argc, argv); }
