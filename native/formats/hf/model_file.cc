#include "formats/hf/model_file.h"

#include <sys/stat.h>

#include "base/control_group.h"
#include "formats/gguf/assembled_file.h"
#include "formats/hf/folder.h"

namespace monolith {
namespace {

bool is_folder(const std::string& path) {
  struct stat status;
  return path.find('\0') == std::string::npos && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

Result<std::unique_ptr<const GgufFile>> open_model_file(const std::string& path, const ModelFileOptions& options) {
  auto file = is_folder(path) ? hf::open_folder(path) : GgufFile::open_for_change(path);
  if (!file) return file.error();
  if (options.quantize) {
    AssembledFile::quantize(**file, *options.quantize, options.threads > 0 ? options.threads : usable_processors());
  }
  return std::unique_ptr<const GgufFile>(std::move(*file));
}

Result<std::unique_ptr<const GgufFile>> open_vision_file(const std::string& path) {
  if (!is_folder(path)) return GgufFile::open(path);
  auto file = hf::open_vision_folder(path);
  if (!file) return file.error();
  return std::unique_ptr<const GgufFile>(std::move(*file));
}

}  // namespace monolith
