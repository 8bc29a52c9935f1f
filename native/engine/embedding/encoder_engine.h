// Engine for text encoders (native/encoder). It accepts only requests for vectors (OutputKind::kVector), packs waiting
// texts into batches, and computes a batch slice by slice on its own thread. Cancellations take effect between slices.
// The rows of a cancelled text are still computed if other texts of the batch remain, but the result is dropped.
//
// The encoder's threads have a lower priority than the threads of other engines, so that embedding texts does not delay
// the tokens of a model that generates text on the same cores.
#pragma once

#include <memory>

#include "encoder/text_encoder.h"
#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {

// Takes ownership of the encoder, backend and tokenizer, and starts the engine thread.
Result<std::unique_ptr<Engine>> start_encoder_engine(std::unique_ptr<TextEncoder> encoder,
                                                     std::unique_ptr<Backend> backend,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     const EngineOptions& options);

}  // namespace monolith
