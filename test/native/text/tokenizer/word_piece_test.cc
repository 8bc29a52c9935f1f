// Tests the normalization of WordPiece tokenizers (BERT).
#include <string>

#include "check.h"
#include "text/tokenizer/support.h"

namespace monolith::testing {
namespace {

// Hugging Face's BERT normalizer removes only nonspacing marks. "क" + U+093E (spacing) and "क" + U+0941 (nonspacing).
TEST(accents_are_removed_but_spacing_marks_stay) {
  VocabularyFile file;
  file.model = "bert";
  file.pre = "";
  for (const char* token : {"[UNK]", "[CLS]", "[SEP]", "▁e", "▁क", "▁का"}) file.add(token);
  const auto loaded = load(file.builder()
                               .scalar<uint32_t>("tokenizer.ggml.unknown_token_id", 0)
                               .scalar<uint32_t>("tokenizer.ggml.bos_token_id", 1)
                               .scalar<uint32_t>("tokenizer.ggml.eos_token_id", 2));
  REQUIRE(loaded.ok());
  CHECK_EQ(show(encode(**loaded, "é")), "[3]");
  CHECK_EQ(show(encode(**loaded, "क\u0941")), "[4]");
  CHECK_EQ(show(encode(**loaded, "क\u093E")), "[5]");
}

}  // namespace
}  // namespace monolith::testing
