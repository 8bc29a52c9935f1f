#include "formats/hf/shards.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "formats/gguf/parser.h"
#include "formats/hf/json_file.h"

namespace monolith::hf {
namespace {

constexpr size_t kMaxShards = 4096;

// Returns the names of the files that contain the tensors.
Result<std::vector<std::string>> list_shards(const std::string& folder) {
  if (is_file(folder + "/model.safetensors.index.json")) {
    auto index = JsonFile::read(folder, "model.safetensors.index.json");
    if (!index) return index.error();
    const JsonValue map = index->root()["weight_map"];
    if (!map.is_object()) return map.invalid("is not an object");
    std::set<std::string> names;
    for (const auto& [tensor, file] : map.members()) {
      const std::string name(JsonValue(map.document(), file, {}).text());
      // Accepts only the plain name of a file in the folder; paths to other directories are rejected.
      if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
          !name.ends_with(".safetensors"))
        return map.invalid("names the file " + monolith::in_quotes(name));
      names.insert(name);
    }
    if (names.empty() || names.size() > kMaxShards)
      return map.invalid("names " + std::to_string(names.size()) + " files");
    return std::vector<std::string>(names.begin(), names.end());
  }
  if (is_file(folder + "/model.safetensors")) return std::vector<std::string>{"model.safetensors"};
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".safetensors") found.push_back(at->path().filename().string());
  if (found.size() == 1) return found;
  return Error{ErrorCode::kIo, found.empty() ? "contains no model.safetensors"
                                             : "holds " + std::to_string(found.size()) +
                                                   " .safetensors files but no model.safetensors.index.json"};
}

}  // namespace

Result<std::vector<Shard>> open_shards(const std::string& folder) {
  auto names = list_shards(folder);
  if (!names) return names.error();
  std::vector<Shard> shards;
  for (const std::string& name : *names) {
    auto file = MappedFile::open(folder + "/" + name);
    if (!file) return file.error();
    auto tensors = parse_safetensors(file->bytes(), name);
    if (!tensors) return tensors.error();
    shards.push_back({std::move(*file), std::move(*tensors)});
  }
  return shards;
}

}  // namespace monolith::hf
