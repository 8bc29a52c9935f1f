// The engine of a text encoder (native/encoder): accepts only requests for vectors (OutputKind::kVector). It packs
// waiting texts into batches and computes them slice by slice on its own thread. Cancellations take effect between
// slices; the rows of a cancelled text are computed with its batch, but its result is dropped.
//
// The engine's threads have a lower priority than those of other engines, so that embedding texts does not delay the
// tokens of a model that generates on the same cores.
#pragma once

#include <memory>

#include "encoder/text_encoder.h"
#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Takes ownership of the parts and starts the engine thread.
Result<std::unique_ptr<Engine>> start_encoder_engine(std::unique_ptr<TextEncoder> encoder,
                                                     std::unique_ptr<Backend> backend,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     const EngineOptions& options);

}  // namespace monolith
