// Chooses a model's backend. This is the only module that knows about all backends. Any thread.
#pragma once

#include <memory>
#include <string_view>

#include "addon/options.h"
#include "backend/backend.h"
#include "backend/cuda/cuda_backend.h"

namespace monolith::addon {

// Whether make_backend() accepts this device name: "auto", "cpu", "cuda" (the first GPU) or "cuda:N".
bool is_device(std::string_view name);

// Creates the backend named by options.device. "auto" selects the first GPU that this build can use, or the CPU if
// there is none. Returns the errors of make_cpu_backend() and make_cuda_backend().
Result<std::unique_ptr<Backend>> make_backend(const LoadOptions& options);

// Fills in the defaults that depend on the device, such as the tokens per step. A GPU gets larger steps because each
// prefill step reads all weights, and in that time a GPU can compute many tokens.
LoadOptions for_backend(LoadOptions options, const Backend& backend);

}  // namespace monolith::addon
