// tokenizer.json, with what tokenizer_config.json and generation_config.json add, to GGUF's tokenizer metadata and
// the keys of text/tokenizer/extension_keys.h; likewise Kimi's tiktoken.model. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/json_file.h"
#include "formats/hf/tiktoken.h"

namespace monolith::hf {

// Of a folder with either of them, tokenizer.json or ranks.
struct TokenizerFiles {
  JsonValue tokenizer;                  // tokenizer.json
  JsonValue settings;                   // tokenizer_config.json; absent if there is none
  JsonValue generation;                 // generation_config.json; the same
  JsonValue config;                     // config.json
  const RankedTokens* ranks = nullptr;  // tiktoken.model; then tokenizer.json is absent
};

// `rows` of the embedding table: ids beyond the vocabulary's are filled up with tokens that stand for nothing.
// Errors name file and key: kUnsupported for models (other than BPE and Unigram), normalizers, pre-tokenizers,
// regular expressions and templates that are not translated; kInvalidFile for what contradicts itself.
Status translate_tokenizer(const TokenizerFiles& files, int64_t rows, AssembledFile& file);

}  // namespace monolith::hf
