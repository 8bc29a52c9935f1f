#include "formats/hf/folder.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "formats/gguf/assembled_file.h"
#include "formats/hf/json_file.h"
#include "formats/hf/shards.h"
#include "formats/hf/vision_config.h"
#include "formats/hf/vision_tensors.h"

namespace monolith::hf {
namespace {

constexpr std::string_view kRowBreak = "[IMG_BREAK]";

// Returns the ID of the token with this text in "added_tokens".
Result<int64_t> added_token(const std::string& folder, std::string_view text) {
  auto tokenizer = JsonFile::read(folder, "tokenizer.json");
  if (!tokenizer) return tokenizer.error();
  const JsonValue added = tokenizer->root()["added_tokens"];
  for (size_t i = 0; i < added.items().size(); ++i) {
    if (added.item(i)["content"].text() != text) continue;
    const auto id = added.item(i)["id"].integer();
    if (!id) return id.error();
    if (*id) return **id;
  }
  return added.invalid("does not contain \"" + std::string(text) + "\", the token between image rows");
}

Result<std::unique_ptr<GgufFile>> open(const std::string& folder) {
  auto config = JsonFile::read(folder, "config.json");
  if (!config) return config.error();
  if (!has_encoder(config->root()))
    return config->root()["vision_config"].invalid("is missing: the folder contains no vision encoder");
  auto apart = JsonFile::read(folder, "preprocessor_config.json", true);
  if (!apart) return apart.error();
  auto whole = JsonFile::read(folder, "processor_config.json", true);
  if (!whole) return whole.error();
  const bool is_apart = is_file(folder + "/preprocessor_config.json");
  const JsonValue processor = is_apart ? apart->root() : whole->root()["image_processor"];
  AssembledFile file;
  auto encoder = translate_encoder(config->root(), processor, file);
  if (!encoder) return encoder.error();
  if (!processor.is_object())
    return Error{ErrorCode::kInvalidFile,
                 "contains no preprocessor_config.json and no processor_config.json with an image_processor: "
                 "the image preprocessing is unknown"};
  int64_t row_break = 0;
  if (encoder->breaks_rows) {
    const auto id = added_token(folder, kRowBreak);
    if (!id) return id.error();
    row_break = *id;
  }
  auto shards = open_shards(folder);
  if (!shards) return shards.error();
  std::vector<const Safetensor*> tensors;
  for (const Shard& shard : *shards)
    for (const Safetensor& tensor : shard.tensors) tensors.push_back(&tensor);
  if (Status status = translate_encoder_tensors(tensors, *encoder, row_break, file); !status) return status.error();
  const std::filesystem::path named = std::filesystem::path(folder).lexically_normal();
  file.string("general.name", (named.has_filename() ? named : named.parent_path()).filename().string());
  std::vector<MappedFile> mapped;
  for (Shard& shard : *shards) mapped.push_back(std::move(shard.file));
  file.own(std::move(mapped), config->bytes() + (is_apart ? apart->bytes() : whole->bytes()));
  return std::move(file).build();
}

}  // namespace

Result<std::unique_ptr<GgufFile>> open_vision_folder(const std::string& path) {
  auto file = open(path);
  if (!file && !file.error().message.starts_with(path))
    return Error{file.error().code, path + ": " + file.error().message};
  return file;
}

}  // namespace monolith::hf
