// Opens a model or its vision encoder by path. GGUF files and Hugging Face folders share one interface. May be called
// from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "formats/gguf/gguf.h"

namespace monolith {

struct ModelFileOptions {
  // The type that float matrices are converted to at load time: Q8_0, Q6_K, Q4_K, Q4_0 or F8_E4M3. The conversion to
  // F8_E4M3 is done by the backend.
  std::optional<TensorType> quantize;
  int threads = 0;  // Number of threads for quantization; 0 = the number of usable processors.
};

// Error messages start with the path.
Result<std::unique_ptr<const GgufFile>> open_model_file(const std::string& path, const ModelFileOptions& options = {});

// Opens a vision encoder and its projector from a GGUF file ("mmproj") or from the folder that contains them along with
// the text model. Error messages start with the path.
Result<std::unique_ptr<const GgufFile>> open_vision_file(const std::string& path);

// Opens the model at `path` and returns the result of `read`, which is called with the model. All error messages,
// including messages from `read`, start with the path. The model's files are closed on return.
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
