// Chooses the backend of a text encoder and the maximum number of tokens per text. Loading a model and inspecting a
// file use the same rules.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/registry/registry.h"
#include "encoder/text_encoder.h"

namespace monolith {

// Returns the CPU backend if the device was chosen automatically and `backend` does not support encoders, otherwise
// `backend`.
Result<std::unique_ptr<Backend>> encoder_backend(std::unique_ptr<Backend> backend, const BackendOptions& options);

struct EncoderBudget {
  int max_context = 0;  // For TextEncoder::load(); 0: the length that the file declares.
  MemoryPlan plan{};
};

// Plans an encoder's memory. `max_context`: configured limit for the tokens per text; 0: the length that the file
// declares, reduced to what fits in memory. `available`: bytes that the encoder may take; 0: unknown. Errors:
// kOutOfMemory if the encoder does not fit, and those of TextEncoder::plan().
Result<EncoderBudget> plan_encoder(const GgufFile& file, Backend& backend, int max_context, uint64_t available);

// Returns the machine's available memory, less the memory that other loads have claimed, and at least 1; 0: unknown.
uint64_t memory_for_encoder();

}  // namespace monolith
