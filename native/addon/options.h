// Reads the large option objects in addon-types.ts and checks every field.
#pragma once

#include <cstdint>
#include <string>

#include "addon/arguments.h"
#include "engine/engine.h"
#include "engine/load/load_options.h"
#include "engine/request.h"
#include "text/tokenizer/tokenizer.h"

namespace monolith {
class VisionModel;
}

namespace monolith::addon {

// Reads every option of load_options().
LoadOptions read_load_options(Arguments& arguments, const Named& options);

// All fields are optional.
EngineTunables read_tunables(Arguments& arguments, const Named& object);

AdapterOptions read_adapter_options(Arguments& arguments, const Named& object);

// `vision`: the encoder for which the request's images must have been prepared; null if the model has none.
GenerationRequest read_submit_options(Arguments& arguments, const Named& options, const Engine& engine,
                                      const VisionModel* vision);

// Reads only `prompt` and `images`: fills in the request's prompt and spans.
GenerationRequest read_positions(Arguments& arguments, const Named& options, const VisionModel* vision);

// Throws a TypeError for the first token ID that is not in the vocabulary.
void check_tokens(Arguments& arguments, const Named& named, std::span<const TokenId> tokens, int n_vocab);

struct TokenizeOptions {
  std::string text;
  EncodeOptions encode;
};

// JavaScript arguments: (text, {addSpecial, parseSpecial, guard}).
TokenizeOptions read_tokenize_options(Arguments& arguments);

// Maximum number of bytes that one call may tokenize, and maximum number of tokens that one call may detokenize.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;
inline constexpr size_t kMaxTokens = size_t{16} << 20;

}  // namespace monolith::addon
