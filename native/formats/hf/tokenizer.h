// Reads tokenizer.json (with tokenizer_config.json and generation_config.json) or Kimi's tiktoken.model, and converts
// it to a TokenizerSpec. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/json_file.h"
#include "formats/hf/tiktoken.h"

namespace monolith::hf {

// The tokenizer files of a folder that has either tokenizer.json or a tiktoken vocabulary.
struct TokenizerFiles {
  JsonValue tokenizer;                  // Root of tokenizer.json.
  JsonValue settings;                   // Root of tokenizer_config.json; absent if the file does not exist.
  JsonValue generation;                 // Root of generation_config.json; absent if the file does not exist.
  JsonValue config;                     // Root of config.json.
  const RankedTokens* ranks = nullptr;  // Contents of tiktoken.model. If set, tokenizer.json is absent.
};

// Adds the folder's tokenizer to `file`. `rows` is the number of rows in the embedding table; the vocabulary is padded
// to this size with unused tokens. Errors name the file and the key. kUnsupported: models other than BPE, Unigram and
// WordPiece, and normalizers, pre-tokenizers, regular expressions or templates that are not supported. kInvalidFile:
// contradictory contents.
Status translate_tokenizer(const TokenizerFiles& files, int64_t rows, AssembledFile& file);

}  // namespace monolith::hf
