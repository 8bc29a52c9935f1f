// Benchmark of the CUDA backend on one GPU: memory copies, individual kernels, and whole steps of a model with the
// shape of Llama 8B. Prints each result to stderr as soon as it is measured, and all results to stdout as JSON at the
// end. gpu_bench_emulated is the same program linked with the emulator; `gpu_bench_emulated --tiny` checks within
// seconds that the benchmark works.
//
//   usage: gpu_bench [--device N] [--filter WORD] [--only kernels|models] [--tflops N] [--seconds N] [--tiny]
#include <cstdlib>
#include <cstring>
#include <exception>

#include "gpu/measure.h"

namespace monolith::bench {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out + "\"";
}

// Returns the peak rate of 16-bit matmuls in operations per second: the rate given in the options or, if none was
// given, the best rate measured. The rate of an 8-bit matmul counts half.
double half_ceiling(const Options& options, const Results& results) {
  if (options.tflops > 0) return options.tflops * 1e12;
  double best = 0;
  for (const KernelResult& kernel : results.kernels) {
    if (kernel.family != "product") continue;
    best = std::max(best, kernel.operations / kernel.seconds / (kernel.unit == Unit::kByte ? 2 : 1));
  }
  return best;
}

// Returns the fraction of the roofline that the kernel reaches: the minimum time that the copy bandwidth and the matmul
// peak allow, divided by the measured time.
double share(const KernelResult& kernel, double copy, double ceiling) {
  double least = copy > 0 ? kernel.bytes / copy : 0;
  if (kernel.unit != Unit::kNone && ceiling > 0)
    least = std::max(least, kernel.operations / (kernel.unit == Unit::kByte ? 2 * ceiling : ceiling));
  return least / kernel.seconds;
}

void print(const Options& options, const cuda::DeviceProperties& device, const Results& results,
           const std::string& failure) {
  const double ceiling = half_ceiling(options, results);
  std::printf(
      "{\n  \"device\": {\"name\": %s, \"capability\": \"%d.%d\", \"multiprocessors\": %d, \"memoryBytes\": %zu, "
      "\"l2Bytes\": %zu, \"driver\": %s},\n",
      quoted(device.name).c_str(), device.major, device.minor, device.multiprocessors, device.memory_bytes,
      device.l2_bytes, quoted(device.driver).c_str());
  std::printf(
      "  \"tiny\": %s,\n  \"copyGBs\": %.1f,\n  \"uploadGBs\": %.2f,\n  \"ceilingTflops\": %.2f,\n  \"ceilingIs\": "
      "%s,\n",
      options.tiny ? "true" : "false", results.copy_bytes_per_second / 1e9, results.upload_bytes_per_second / 1e9,
      ceiling / 1e12, options.tflops > 0 ? "\"given\"" : "\"the best matmul measured\"");
  std::printf("  \"kernels\": [");
  const char* comma = "\n";
  for (const KernelResult& k : results.kernels) {
    std::printf(
        "%s    {\"family\": %s, \"name\": %s, \"rows\": %lld, \"us\": %.2f, \"bytes\": %.0f, \"operations\": %.0f, "
        "\"gbs\": %.1f, \"tflops\": %.3f, \"share\": %.3f}",
        comma, quoted(k.family).c_str(), quoted(k.name).c_str(), static_cast<long long>(k.rows), k.seconds * 1e6,
        k.bytes, k.operations, k.bytes / k.seconds / 1e9, k.operations / k.seconds / 1e12,
        share(k, results.copy_bytes_per_second, ceiling));
    comma = ",\n";
  }
  std::printf("\n  ],\n  \"models\": [");
  comma = "\n";
  for (const ModelResult& m : results.models) {
    std::printf(
        "%s    {\"model\": %s, \"phase\": %s, \"streams\": %d, \"recording\": %s, \"invariant\": %s, \"earlyLaunch\": "
        "%s, "
        "\"tokensPerSecond\": %.1f, \"stepMs\": %.4f, \"hostUs\": %.1f, \"weightBytes\": %.0f, "
        "\"weightsShare\": %.3f}",
        comma, quoted(m.model).c_str(), quoted(m.phase).c_str(), m.streams, m.recording ? "true" : "false",
        m.invariant ? "true" : "false", m.early_launch ? "true" : "false",
        static_cast<double>(m.tokens) / m.step_seconds, m.step_seconds * 1e3, m.host_seconds * 1e6, m.weight_bytes,
        results.copy_bytes_per_second > 0 ? m.weight_bytes / m.step_seconds / results.copy_bytes_per_second : 0);
    comma = ",\n";
  }
  std::printf("\n  ],\n  \"leftOut\": [");
  comma = "";
  for (const std::string& text : results.left_out) {
    std::printf("%s%s", comma, quoted(text).c_str());
    comma = ", ";
  }
  std::printf("],\n  \"failure\": %s\n}\n", failure.empty() ? "null" : quoted(failure).c_str());
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--tiny") {
      options.tiny = true;
      continue;
    }
    if (value && word == "--device")
      options.device = std::atoi(value);
    else if (value && word == "--filter")
      options.filter = value;
    else if (value && word == "--tflops")
      options.tflops = std::atof(value);
    else if (value && word == "--seconds")
      options.seconds = std::atof(value);
    else if (value && word == "--only" && std::strcmp(value, "kernels") == 0)
      options.models = false;
    else if (value && word == "--only" && std::strcmp(value, "models") == 0)
      options.kernels = false;
    else {
      std::fprintf(stderr,
                   "usage: gpu_bench [--device N] [--filter WORD] [--only kernels|models] [--tflops N] [--seconds N] "
                   "[--tiny]\n");
      return 2;
    }
    ++i;
  }
  const auto devices = cuda::list_devices();
  if (!devices || options.device < 0 || static_cast<size_t>(options.device) >= devices->size()) {
    std::fprintf(stderr, "%s\n",
                 devices ? "--device: there is no GPU with this number" : devices.error().message.c_str());
    return 1;
  }
  const cuda::DeviceProperties& device = (*devices)[static_cast<size_t>(options.device)];
  const Clock clock(options.seconds);
  Results results;
  std::string failure;
  // Results measured before a failure are printed as well.
  for (const auto measure : {measure_kernels, measure_mixtures, measure_models}) {
    if (measure == measure_models && !options.models) continue;
    try {
      measure(options, clock, results);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      failure += (failure.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  print(options, device, results, failure);
  return failure.empty() ? 0 : 1;
}

}  // namespace
}  // namespace monolith::bench

int main(int argc, char** argv) { return monolith::bench::run(argc, argv); }
