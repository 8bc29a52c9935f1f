// Which backend a model gets: the only place that knows them all. Any thread.
#pragma once

#include <memory>
#include <string_view>

#include "addon/options.h"
#include "backend/backend.h"
#include "backend/cuda/cuda_backend.h"

namespace monolith::addon {

// Whether make_backend() knows such a device: "auto", "cpu", "cuda" (the first GPU) or "cuda:N".
bool is_device(std::string_view name);

// By options.device; "auto" takes the first GPU this build can use, and without one the CPU. Errors of make_cpu_backend()
// and make_cuda_backend().
Result<std::unique_ptr<Backend>> make_backend(const LoadOptions& options);

// `options` with what was left to the device filled in: tokens of a step. A device reads every weight for each step of a
// prompt, and computes many tokens in the time that takes.
LoadOptions for_backend(LoadOptions options, const Backend& backend);

}  // namespace monolith::addon
