// Any tokenizer.json and any text: refused in words, or the text becomes ids of its vocabulary. The input is the file, a mark,
// and the text. What does not begin with { is read as a tiktoken.model.
#include "formats/hf/tokenizer.h"
#include "fuzz/target.h"
#include "text/tokenizer/tokenizer.h"

using namespace monolith;
using namespace monolith::fuzzing;

FUZZ_TARGET(tokenizer_json) {
  const auto [written, text] = halves(input);
  hf::JsonDocument document;
  hf::JsonId root = hf::kNoJson;
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
  // The settings stand in the same file here: one document for the mutator to work on.
  if (Status status = hf::translate_tokenizer({value, value["settings"], value["generation"], value["config"], ranked ? &ranks : nullptr}, 400, file); !status)
    return check_refusal(status.error());
  auto built = std::move(file).build();
  if (!built) return check_refusal(built.error());
  const auto loaded = Tokenizer::load(**built);
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
    insist(stream.pending() == 0, "a text that has ended holds nothing back");
    tokenizer.decode(ids);
  }
}
