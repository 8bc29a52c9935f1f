#include "vision/load_options.h"

#include <algorithm>
#include <cstdint>

#include "model/metadata_reader.h"

namespace monolith {

Result<TextModelFacts> read_text_facts(const GgufFile& file, const Tokenizer& tokenizer) {
  const auto architecture = file.string("general.architecture");
  if (!architecture) return architecture.error();
  if (!*architecture) return Error{ErrorCode::kInvalidFile, "general.architecture is missing"};
  const MetadataReader read(file, **architecture);
  TextModelFacts facts;
  facts.architecture = **architecture;
  facts.tokenizer = &tokenizer;
  const Result<int> n_embd = read.integer("embedding_length", 1, INT32_MAX),
                    deepstack = read.integer("n_deepstack_layers", 0, 1 << 16, 0);
  if (!n_embd) return n_embd.error();
  if (!deepstack) return deepstack.error();
  facts.n_embd = *n_embd;
  facts.n_deepstack = *deepstack;
  // The numbers of RoPE pairs rotated by time, row and column. The model uses M-RoPE if any pairs are rotated by row or
  // column.
  const auto sections = file.integers(read.key("rope.dimension_sections"));
  if (!sections) return sections.error();
  if (*sections && (*sections)->size() >= 3)
    facts.mrope =
        std::any_of((*sections)->begin() + 1, (*sections)->begin() + 3, [](int64_t pairs) { return pairs > 0; });
  return facts;
}

VisionResize resize_of(const GgufFile& file) {
  const auto folder = file.boolean("clip.vision.from_folder");
  return folder && folder->value_or(false) ? VisionResize::kOriginal : VisionResize::kLlamaCpp;
}

}  // namespace monolith
