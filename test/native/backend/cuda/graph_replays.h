// Compares decode steps that are replayed from a CUDA graph with the same steps launched kernel by kernel. For tests
// only.
#pragma once

#include <optional>
#include <string>

#include "support/tiny_model.h"

namespace monolith::testing {

// Quantizes weights to the types used in published files of these architectures: experts to MXFP4 or 8 bits, all other
// weights to 8 bits, or to BF16 if their rows do not consist of whole blocks. `type` sets a single type for all
// weights. F32 replaces BF16 on a CPU without BF16 dot products, because such a CPU does not round the inputs of
// products as the device does.
void quantize(TinyModel& model, std::optional<TensorType> type = {});

// Fails the test if the replayed steps produce different bits, or if the number of captures is not one (zero if
// `can_capture` is false).
void check_replays(const std::string& name, const GgufFile& file, bool exact, bool can_capture = true);

}  // namespace monolith::testing
