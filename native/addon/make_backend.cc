#include "addon/make_backend.h"

#include <charconv>
#include <optional>
#include <string>

namespace monolith::addon {
namespace {

constexpr std::string_view kCuda = "cuda";
constexpr int kBatchTokens = 256, kBatchTokensOnDevice = 2'048;  // Default tokens per step on the CPU and on a GPU.

// Returns the index of the GPU that `name` refers to, or nullopt if it does not name a GPU.
std::optional<int> gpu_of(std::string_view name) {
  if (!name.starts_with(kCuda)) return std::nullopt;
  name.remove_prefix(kCuda.size());
  if (name.empty()) return 0;
  if (!name.starts_with(':')) return std::nullopt;
  name.remove_prefix(1);
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

bool is_device(std::string_view name) { return name == "auto" || name == "cpu" || gpu_of(name).has_value(); }

Result<std::unique_ptr<Backend>> make_backend(const LoadOptions& options) {
  const bool is_auto = options.device == "auto";
  const std::optional<int> gpu = is_auto ? std::optional(0) : gpu_of(options.device);
  if (gpu && !(is_auto && !cuda_devices())) {
    auto backend = make_cuda_backend({.device = *gpu,
                                      .exact = options.arithmetic == Arithmetic::kExact,
                                      .invariant = options.batch_invariant,
                                      .cublaslt = options.cublaslt});
    if (backend) return backend;
    const bool too_old = backend.error().code == ErrorCode::kUnsupported;
    if (is_auto && too_old) return make_cpu_backend(options.cpu());
    return Error{backend.error().code, "device " + options.device + ": " + backend.error().message};
  }
  return make_cpu_backend(options.cpu());
}

LoadOptions for_backend(LoadOptions options, const Backend& backend) {
  if (options.engine.max_batch_tokens == 0)
    options.engine.max_batch_tokens = backend.free_memory() > 0 ? kBatchTokensOnDevice : kBatchTokens;
  // On a GPU, `auto` turns MTP layers off: steps with MTP layers do not use CUDA graphs, and `auto` does not measure
  // the cost of that. `always` still enables them.
  if (!backend.is_host_memory() && options.engine.mtp == Speculation::kAuto) options.engine.mtp = Speculation::kOff;
  return options;
}

}  // namespace monolith::addon
