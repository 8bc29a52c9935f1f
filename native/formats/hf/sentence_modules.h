// Reads the files that sentence-transformers adds to a model folder: modules.json lists the steps after the network,
// which are pooling, dense layers and normalization. Used on the thread that opens the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf/assembled_file.h"
#include "formats/gguf/gguf.h"

namespace monolith::hf {

// Adds the pooling type and the dense layers to `file` if the folder contains a modules.json. `architecture`: GGUF name
// of the model's architecture. `ranks`: whether the model is a reranker; a reranker may have neither of them. Appends
// the mapped files of the dense layers to `mapped`, and adds the sizes of the JSON files to `bytes`. Errors name the
// file and the key: kInvalidFile, or kUnsupported for other steps and pooling modes.
Status add_sentence_modules(const std::string& folder, std::string_view architecture, bool ranks, AssembledFile& file,
                            std::vector<MappedFile>& mapped, size_t& bytes);

}  // namespace monolith::hf
