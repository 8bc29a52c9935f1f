// Chooses the backend of a text encoder and the maximum number of tokens per text. Used both to load a model and to
// inspect a file.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/registry/registry.h"
#include "encoder/text_encoder.h"

namespace monolith {

// Returns `backend`, or a CPU backend instead if the device setting is "auto" and `backend` is not a CPU. Text encoders
// run only on CPUs.
Result<std::unique_ptr<Backend>> encoder_backend(std::unique_ptr<Backend> backend, const BackendOptions& options);

struct EncoderBudget {
  int max_context = 0;  // Argument of TextEncoder::load(); 0 = the file's context length.
  MemoryPlan plan{};
};

// Plans an encoder's memory. `max_context`: configured maximum number of tokens per text; 0 = the file's context
// length, reduced until the encoder fits in memory. `available`: bytes of memory that the encoder may use; 0 = unknown,
// so nothing is checked. Errors: kOutOfMemory if the encoder does not fit, and the errors of TextEncoder::plan().
Result<EncoderBudget> plan_encoder(const GgufFile& file, Backend& backend, int max_context, uint64_t available);

// Returns the bytes of memory that an encoder may use: the machine's available memory minus the memory that models
// being loaded have claimed, but at least 1. Returns 0 if the machine's memory is unknown.
uint64_t memory_for_encoder();

}  // namespace monolith
