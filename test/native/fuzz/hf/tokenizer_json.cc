// Fuzz target: for any tokenizer.json and any text, either the file is rejected with a message, or the text becomes
// token IDs in its vocabulary. The input is the file, a separator and the text. Input that does not start with { is
// read as a tiktoken.model file.
#include "formats/hf/tokenizer.h"
#include "fuzz/json_mutator.h"
#include "fuzz/target.h"
#include "formats/gguf/tokenizer.h"

using namespace monolith;
using namespace monolith::fuzzing;

FUZZ_TARGET(tokenizer_json) {
  const auto [written, text] = halves(input);
  json::Document document;
  json::Id root = json::kAbsent;
  std::string error;
  hf::RankedTokens ranks;
  const bool ranked = !written.starts_with('{');
  if (ranked) {
    auto read = hf::read_ranked_tokens(written, "tiktoken.model");
    if (!read) return check_refusal(read.error());
    ranks = std::move(*read);
  } else if (!document.parse(written, root, error)) {
    return check_message(error);
  }
  const hf::JsonValue value = ranked ? hf::JsonValue() : hf::JsonValue(&document, root, "tokenizer.json");
  AssembledFile file;
  file.string("general.architecture", "llama");
  // The settings are part of the same document here, so that the mutator has to handle only one JSON document.
  if (Status status = hf::translate_tokenizer(
          {value, value["settings"], value["generation"], value["config"], ranked ? &ranks : nullptr}, 400, file);
      !status)
    return check_refusal(status.error());
  auto built = std::move(file).build();
  if (!built) return check_refusal(built.error());
  const auto loaded = load_tokenizer(**built);
  if (!loaded) return check_refusal(loaded.error());
  const Tokenizer& tokenizer = **loaded;
  for (const bool special : {false, true}) {
    std::vector<TokenId> ids;
    tokenizer.encode(text, {.add_special = special, .parse_special = special}, ids);
    for (const TokenId id : ids) insist(id >= 0 && id < tokenizer.n_vocab(), "ids are of the vocabulary");
    Utf8Stream stream;
    std::string out;
    for (const TokenId id : ids) stream.push(tokenizer.bytes(id), out);
    stream.finish(out);
    insist(stream.pending() == 0, "nothing of a finished text is held back");
    tokenizer.decode(ids);
  }
  ++n_reached();
}

namespace {
constexpr std::string_view kMembers[] = {
    R"("normalizer": {"type": "Sequence", "normalizers": [%, %]})",
    R"("normalizer": {"type": "NFC"})",
    R"("normalizer": {"type": "Prepend", "prepend": "▁"})",
    R"("normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"})",
    R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [%, %]})",
    R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": false})",
    R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})",
    R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})",
    R"("pre_tokenizer": {"type": "Digits", "individual_digits": true})",
    R"("decoder": {"type": "ByteFallback"})",
    R"("post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {}})",
    R"("byte_fallback": true)",
    R"("ignore_merges": true)",
    R"("unk_id": 1)",
    R"("type": "Unigram", "vocab": [["a", -1.5], ["b", -2], ["<0x0A>", 0]])",
    R"("merges": ["a b"])",
    R"("merges": [["a", "b"]])",
    R"("added_tokens": [{"id": 2, "content": "<s>", "special": true, "lstrip": true, "rstrip": true, "normalized": false, "single_word": false}])",
    R"("settings": {"add_bos_token": true, "bos_token": "<s>", "eos_token": %})",
    R"("generation": {"eos_token_id": [1, 2]})",
    R"("config": {"vocab_size": 9, "eos_token_id": %})"};
constexpr std::string_view kWraps[] = {"[%]", "[%, %]", R"({"type": "Sequence", "normalizers": [%]})",
                                       R"({"type": "Sequence", "pretokenizers": [%, %]})", R"({"content": %})"};
}  // namespace

FUZZ_MUTATOR(tokenizer_json) {
  static JsonMutator json(kMembers, kWraps);
  return mutate_halves(input, json, chance);
}
