// Translates text encoders for embeddings and reranking: BERT and related architectures whose settings and tensor names
// differ from those of decoders. The names are taken from transformers (modeling_bert.py, modeling_roberta.py,
// modeling_distilbert.py, modeling_modernbert.py, modeling_t5.py) and from the published code of Nomic's and Jina's
// models. Used on the thread that opens the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/json_file.h"
#include "formats/hf/safetensors.h"

namespace monolith::hf {

struct EncoderClass;

// Returns the entry for the class in "architectures" of config.json, or null if the class is not an encoder in this
// table. EuroBERT and EmbeddingGemma have the settings and tensor names of decoders, so architecture.h lists them.
const EncoderClass* find_encoder_class(const JsonValue& config);

struct TranslatedEncoder {
  int64_t table_rows;             // Number of rows in the embedding table.
  std::string_view architecture;  // GGUF name.
  bool ranks;                     // Whether the model is a reranker.
};

// Adds the settings and tensors of an encoder to `file`. Tensors without a GGUF name keep their name, so that the model
// can report them as unknown. Errors name the key or the tensor: kInvalidFile, or kUnsupported for settings and types
// that are not supported.
Result<TranslatedEncoder> translate_encoder(const EncoderClass& known, const JsonValue& config,
                                            const std::vector<Safetensor>& tensors, AssembledFile& file);

}  // namespace monolith::hf
