// A model by its path, or its vision tower: a GGUF file, or a Hugging Face folder, asked in the same way. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "formats/gguf/gguf.h"

namespace monolith {

struct ModelFileOptions {
  // Matrices of floats are stored as this type while they are loaded: Q8_0, Q6_K, Q4_K or Q4_0; or kept as F8_E4M3.
  std::optional<TensorType> quantize;
  int threads = 0;  // that do so; 0: as many as there are processors
};

// Errors are told with the path in front.
Result<std::unique_ptr<const GgufFile>> open_model_file(const std::string& path, const ModelFileOptions& options = {});

// A vision tower and its projector: a GGUF file ("mmproj"), or the folder that has them beside the text model. Errors are told with
// the path in front.
Result<std::unique_ptr<const GgufFile>> open_vision_file(const std::string& path);

// Opens the model at `path` and returns what `read` makes of it, a Result. Whatever `read` finds wrong is told with
// the path in front as well. The model's files are closed on return.
template <typename Read>
std::invoke_result_t<Read, const GgufFile&> read_model_file(const std::string& path, const ModelFileOptions& options,
                                                            Read&& read) {
  auto file = open_model_file(path, options);
  if (!file) return file.error();
  auto result = std::forward<Read>(read)(**file);
  if (!result) return Error{result.error().code, path + ": " + result.error().message};
  return result;
}

}  // namespace monolith
