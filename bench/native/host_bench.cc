// Benchmark of the host's work per decode step when a GPU does the computing, in microseconds. Runs the engine's step
// loop with the CUDA backend in the emulator's dry-run mode, which computes nothing (emulator/runtime_emulated.h). The
// model has the layers and the vocabulary of Llama 8B.
//
//   host_bench [--streams N] [--context N] [--steps N] [--kind plain|stops|logprobs|penalties|tools] [--in-order]
//
// Idle time is the time from the arrival of the device's results to the launch of the next step; the device has nothing
// to do during that time. Overlapped time is the time from that launch until the host starts to wait for the results.
// It costs nothing as long as it is shorter than the device's computation. CUDA calls are counted but not timed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "emulator/runtime_emulated.h"
#include "backend/cuda/sampling/sampling.h"
#include "engine/loop/step_loop.h"
#include "support/tiny_model.h"
#include "text/tokenizer/support.h"

namespace monolith::bench {
namespace {

using namespace monolith::testing;

constexpr int kVocabulary = 128256, kLayers = 32;

struct Options {
  int streams = 256, context = 1024, steps = 2000;
  std::string kind = "plain";
  bool in_order = false;
};

// Fills the results of a step's sampling tasks with arbitrary tokens.
void answer(void* to_host, size_t bytes) {
  static uint32_t state = 1;
  auto* const results = static_cast<cuda::DeviceResult*>(to_host);
  for (size_t i = 0; i < bytes / sizeof(cuda::DeviceResult); ++i) {
    state = state * 1664525 + 1013904223;
    results[i].token = static_cast<int32_t>(300 + (state >> 8) % 100000);
    results[i].quanta = uint64_t{1} << 34;
    for (int top = 0; top < kMaxTopLogprobs; ++top) results[i].tops[top] = top;
  }
}

TinyModel model_file() {
  TinyModel model("llama", kLayers);
  model.key("context_length", 131072u);
  for (const char* const name : {"token_embd.weight", "output.weight"})
    model.tensors[name] = {{TinyModel::kEmbedding, kVocabulary}, TensorType::kF16};
  return model;
}

VocabularyFile vocabulary() {
  VocabularyFile file = VocabularyFile::byte_level();
  while (file.tokens.size() < kVocabulary) {
    std::string word = "w";  // A "w" and 2 to 4 more letters.
    for (size_t n = file.tokens.size(); n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    file.add(word);
  }
  return file;
}

// Returns the maximum number of tokens per request: one token for each measured step, plus an upper bound on the tokens
// generated while the other streams' prompts are prefilled.
int most_tokens(const Options& options) { return options.steps + 2 * options.streams * options.context / 2048 + 200; }

GenerationRequest request_of(const Options& options, int i) {
  GenerationRequest request;
  for (int at = 0; at < options.context; ++at) request.prompt.push_back(300 + (i * 997 + at * 31) % 100000);
  request.organization = static_cast<uint64_t>(i % 8);
  request.max_tokens = most_tokens(options);
  request.sampling.temperature = 0.7f;
  request.sampling.top_p = 0.95f;
  request.sampling.seed = static_cast<uint64_t>(i);
  if (options.kind == "stops") request.stop = {"never said", "nor this"};
  if (options.kind == "logprobs") request.sampling.top_logprobs = 5;
  if (options.kind == "penalties") request.sampling.frequency_penalty = 0.1f;
  if (options.kind == "tools") {
    request.calls.open = {"<call>", 260};
    request.calls.close = {"</call>", 261};
    request.calls.prefixes = {{270, 271}, {270, 272}};
  }
  return request;
}

int run(const Options& options) {
  cuda::DryRun& dry = cuda::dry_run();
  dry.on = true;
  dry.answer = answer;
  const ParsedModel file(model_file());
  auto backend = make_cuda_backend({});
  auto tokenizer = load(vocabulary());
  if (!file.file || !backend || !tokenizer) {
    const std::string& why = !file.file ? file.error : !backend ? backend.error().message : tokenizer.error().message;
    std::fprintf(stderr, "%s\n", why.c_str());
    return 1;
  }
  const int most = options.context + most_tokens(options) + 1;
  ModelLimits limits{.max_batch_tokens = 2048,
                     .max_logit_rows = options.streams,
                     .max_context = most,
                     .n_pages = int64_t{options.streams} * (most / kPageTokens + 2)};
  auto model = Model::load(*file.file, **backend, limits, {});
  if (!model) {
    std::fprintf(stderr, "%s\n", model.error().message.c_str());
    return 1;
  }
  EngineOptions engine;
  engine.max_batch_tokens = 2048;
  engine.max_sequences = options.streams;
  engine.overlap = !options.in_order;
  EngineCounters counters;
  StepLoop loop(**model, **tokenizer, engine, counters);
  auto channel = std::make_shared<Channel>([] {}, engine.channel_bytes_max);
  std::vector<std::byte> drained;
  const auto step = [&] {
    loop.await();
    loop.step();
    channel->drain(drained);
  };
  for (int i = 0; i < options.streams; ++i) {
    const auto id = static_cast<RequestId>(i + 1);
    loop.add(std::make_unique<Request>(id, channel, request_of(options, i), kVocabulary, most));
  }
  for (int i = 0; i < 20; ++i) {  // Run until all streams decode in every step.
    const uint64_t tokens = counters.decode_tokens;
    step();
    if (counters.decode_tokens - tokens < static_cast<uint64_t>(options.streams)) i = 0;
  }
  const int running = counters.running;
  dry.reset();
  for (int i = 0; i < options.steps; ++i) step();
  const auto steps = static_cast<double>(dry.steps);
  const auto each = [&](uint64_t count) { return static_cast<double>(count) / steps; };
  std::printf(
      "%-9s %3d streams, context %d: idle %6.1f us, overlapped %6.1f us | per step: %.1f uploads (%.1f KB), "
      "%.1f downloads (%.1f KB), %.1f launches, %.1f graph replays\n",
      options.kind.c_str(), running, options.context, each(dry.idle_ns) / 1e3, each(dry.busy_ns) / 1e3,
      each(dry.uploads), each(dry.upload_bytes) / 1e3, each(dry.downloads), each(dry.download_bytes) / 1e3,
      each(dry.launches), each(dry.replays));
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--in-order") {
      options.in_order = true;
      continue;
    }
    if (value && word == "--streams")
      options.streams = std::atoi(value);
    else if (value && word == "--context")
      options.context = std::atoi(value);
    else if (value && word == "--steps")
      options.steps = std::atoi(value);
    else if (value && word == "--kind")
      options.kind = value;
    else {
      std::fprintf(stderr,
                   "usage: host_bench [--streams N] [--context N] [--steps N] "
                   "[--kind plain|stops|logprobs|penalties|tools] [--in-order]\n");
      return 2;
    }
    ++i;
  }
  return run(options);
}

}  // namespace
}  // namespace monolith::bench

int main(int argc, char** argv) { return monolith::bench::main_of(argc, argv); }
