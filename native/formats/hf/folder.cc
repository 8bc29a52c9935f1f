#include "formats/hf/folder.h"

#include <filesystem>
#include <iterator>
#include <vector>

#include "formats/gguf/assembled_file.h"
#include "formats/gguf/parser.h"
#include "formats/hf/config.h"
#include "formats/hf/encoders.h"
#include "formats/hf/json_file.h"
#include "formats/hf/safetensors.h"
#include "formats/hf/sentence_modules.h"
#include "formats/hf/shards.h"
#include "formats/hf/tensors.h"
#include "formats/hf/tokenizer.h"

namespace monolith::hf {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

// Adds the chat template from one of three sources: chat_template.jinja in recent folders, chat_template.json, or
// tokenizer_config.json. If a source lists several templates by name, the one named "default" is used.
Status add_chat_template(const std::string& folder, const JsonValue& settings, AssembledFile& file) {
  const std::string_view key = "tokenizer.chat_template";
  if (const std::string path = folder + "/chat_template.jinja"; is_file(path)) {
    std::error_code unknown;
    if (std::filesystem::file_size(path, unknown) == 0) {  // An empty file cannot be mapped.
      file.string(key, "");
      return {};
    }
    auto text = read_text(path, kMaxTemplateBytes);
    if (!text) return text.error();
    file.string(key, *text);
    return {};
  }
  auto other = JsonFile::read(folder, "chat_template.json", true);
  if (!other) return other.error();
  for (const JsonValue& value : {other->root()["chat_template"], settings["chat_template"]}) {
    if (value.is_string()) file.string(key, value.text());
    for (size_t i = 0; i < value.items().size(); ++i)
      if (value.item(i)["name"].text() == "default") file.string(key, value.item(i)["template"].text());
  }
  return {};
}

Result<std::unique_ptr<GgufFile>> open(const std::string& folder) {
  auto config = JsonFile::read(folder, "config.json");
  if (!config) return config.error();
  auto shards = open_shards(folder);  // An error here is returned only after any error in config.json.
  std::vector<MappedFile> mapped;
  std::vector<Safetensor> tensors;
  for (size_t i = 0; shards && i < shards->size(); ++i) {
    Shard& shard = (*shards)[i];
    std::move(shard.tensors.begin(), shard.tensors.end(), std::back_inserter(tensors));
    mapped.push_back(std::move(shard.file));
  }
  AssembledFile file;
  int64_t table_rows = 0;
  std::string_view architecture;
  bool has_tokenizer = true, is_reranker = false;
  if (const EncoderClass* const encoder = find_encoder_class(config->root())) {
    if (!shards) return shards.error();
    const auto translated = translate_encoder(*encoder, config->root(), tensors, file);
    if (!translated) return translated.error();
    table_rows = translated->table_rows;
    architecture = translated->architecture;
    is_reranker = translated->ranks;
  } else {
    auto translated = translate_config(config->root(), tensors, file);
    if (!translated) return translated.error();
    if (!shards) return shards.error();
    if (Status status = join_quantized(translated->quantization, tensors); !status) return status.error();
    const auto rows = translate_tensors(tensors, *translated, file);
    if (!rows) return rows.error();
    table_rows = *rows;
    architecture = translated->architecture->gguf;
    // An EAGLE head has no tokenizer, because it uses the tokens of its target model.
    has_tokenizer = translated->architecture->family != Family::kEagle;
  }
  size_t module_bytes = 0;
  if (Status status = add_sentence_modules(folder, architecture, is_reranker, file, mapped, module_bytes); !status)
    return status.error();

  const std::filesystem::path named = std::filesystem::path(folder).lexically_normal();
  file.string("general.name", (named.has_filename() ? named : named.parent_path()).filename().string());
  if (!has_tokenizer) {
    file.own(std::move(mapped), config->bytes());
    return std::move(file).build();
  }
  const bool ranked = !is_file(folder + "/tokenizer.json") && is_file(folder + "/tiktoken.model");
  auto tokenizer = JsonFile::read(folder, "tokenizer.json", ranked);
  if (!tokenizer) return tokenizer.error();
  RankedTokens ranks;
  if (ranked) {
    auto text = read_text(folder + "/tiktoken.model", kMaxJsonBytes);
    if (!text) return text.error();
    auto read = read_ranked_tokens(*text, "tiktoken.model");
    if (!read) return read.error();
    ranks = std::move(*read);
  }
  auto settings = JsonFile::read(folder, "tokenizer_config.json", true);
  if (!settings) return settings.error();
  auto generation = JsonFile::read(folder, "generation_config.json", true);
  if (!generation) return generation.error();
  if (Status status = add_chat_template(folder, settings->root(), file); !status) return status.error();
  if (Status status = translate_tokenizer(
          {tokenizer->root(), settings->root(), generation->root(), config->root(), ranked ? &ranks : nullptr},
          table_rows, file);
      !status)
    return status.error();
  file.own(std::move(mapped),
           config->bytes() + module_bytes + tokenizer->bytes() + settings->bytes() + generation->bytes());
  return std::move(file).build();
}

}  // namespace

Result<std::unique_ptr<GgufFile>> open_folder(const std::string& path) {
  auto file = open(path);
  if (!file && !file.error().message.starts_with(path))
    return Error{file.error().code, path + ": " + file.error().message};
  return file;
}

}  // namespace monolith::hf
