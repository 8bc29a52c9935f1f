// Checks the invariants of a grammar on a random walk through its texts, in which the bytes of the input choose the
// tokens. Shared by the fuzz targets for schemas, regular expressions and grammar rules.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "base/json/document.h"
#include "fuzz/target.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer/support.h"

namespace monolith::fuzzing {

// A vocabulary with one token per byte, some multi-byte tokens, and one special token.
struct WalkVocabulary {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const grammar::GrammarVocabulary> tokens;

  static const WalkVocabulary& get() {
    static const WalkVocabulary made = [] {
      auto file =
          testing::VocabularyFile::byte_level({"{ \"", "\" :", "\" }", "} }", "t r", "tr u", "Ã ©", "0 0", "a b"});
      file.add("<|end|>", TokenKind::kControl);
      auto loaded = testing::load(file);
      insist(loaded.ok(), "the vocabulary loads");
      WalkVocabulary out;
      out.tokenizer = std::move(*loaded);
      out.tokens = std::make_shared<const grammar::GrammarVocabulary>(*out.tokenizer, out.tokenizer->n_vocab());
      return out;
    }();
    return made;
  }
};

// The first byte of `choices` sets the grammar's options. The remaining bytes choose among the allowed tokens.
inline void walk_grammar(grammar::GrammarOptions options, std::string_view choices) {
  using namespace grammar;
  using Outcome = Grammar::Outcome;
  const auto flags = choices.empty() ? uint8_t{0} : static_cast<uint8_t>(choices[0]);
  if (!choices.empty()) choices.remove_prefix(1);
  options.strict = flags & 1;
  options.one_of_as_any_of = flags & 2;
  options.order = flags & 4 ? PropertyOrder::kAny : PropertyOrder::kSchema;
  options.white_space = !(flags & 8) ? WhiteSpace::kNone : flags & 64 ? WhiteSpace::kWithin : WhiteSpace::kFlexible;
  if (flags & 16) options.suffix = "\n</call>";
  GrammarLimits limits;
  limits.compile_steps = flags & 32 ? limits.compile_steps : 200'000;
  limits.use_steps = 200'000;

  const WalkVocabulary& vocabulary = WalkVocabulary::get();
  std::vector<SchemaProblem> problems;
  const auto grammar = Grammar::compile(options, vocabulary.tokens, limits, nullptr, problems);
  insist(grammar != nullptr || !problems.empty(), "a rejected grammar has a reason");
  for (const SchemaProblem& problem : problems)
    insist(!problem.what.empty() && problem.what.size() < 1000, "a problem is reported in one line", problem.what);
  if (grammar == nullptr) return;

  const auto n_tokens = static_cast<uint32_t>(vocabulary.tokenizer->n_vocab());
  TokenMask mask(vocabulary.tokens->trie().n_tokens());
  Grammar::Position position = grammar->start();
  std::vector<TokenId> before, forced;
  std::string text;
  choices = choices.substr(0, 64);
  for (size_t i = 0; i < choices.size() && !position.ends; ++i) {
    Fuel fuel(400'000, Fuel::thread_time() + 200'000'000);
    const Outcome allowed = grammar->allowed(position, before, mask, &fuel);
    if (allowed != Outcome::kOk)
      return insist(allowed != Outcome::kRefused, "asking for the allowed tokens is never refused");
    insist(mask.any() || position.accepts, "every text can be continued or may end", text);
    const auto byte = static_cast<uint8_t>(choices[i]);
    // For any token, advance() accepts it if and only if the mask allows it.
    const uint32_t any = byte * 7u % n_tokens;
    Grammar::Position probe = position;
    const Outcome probed = grammar->advance(probe, before, static_cast<TokenId>(any), &fuel);
    if (probed == Outcome::kOk || probed == Outcome::kRefused)
      insist((probed == Outcome::kOk) == mask.has(any), "a token is accepted if and only if the mask has it", text);
    if (byte & 1) {
      const Outcome run = grammar->forced(position, before, *vocabulary.tokenizer, forced, &fuel);
      insist(run != Outcome::kRefused, "asking for the forced tokens is never refused");
      insist(forced.size() <= Grammar::kMaxForced, "the number of forced tokens is limited");
      if (run == Outcome::kOk && !forced.empty()) {
        insist(mask.has(static_cast<uint32_t>(forced[0])), "forced tokens are allowed", text);
        insist(!position.accepts, "no token is forced where the text may end", text);
      }
    }
    if (byte == 0xFF) grammar->shrink();
    if (!mask.any()) break;
    uint32_t chosen = byte % n_tokens;
    while (!mask.has(chosen)) chosen = (chosen + 1) % n_tokens;
    const Outcome moved = grammar->advance(position, before, static_cast<TokenId>(chosen), &fuel);
    if (moved == Outcome::kFailed || moved == Outcome::kOutOfBudget) return;
    insist(moved == Outcome::kOk, "a token in the mask is accepted", text);
    before.push_back(static_cast<TokenId>(chosen));
    text += vocabulary.tokenizer->bytes(static_cast<TokenId>(chosen));
  }
  const bool is_json = options.kind == GrammarOptions::Kind::kJsonSchema || options.kind == GrammarOptions::Kind::kJson;
  if (position.accepts && is_json && options.suffix.empty() && !options.spelling && options.lead.most == 0) {
    json::Document document;
    json::Id root;
    std::string error;
    insist(document.parse(text, root, error), "a text that matches a schema is JSON", text);
  }
  if (before.size() > 1) ++n_reached();
}

}  // namespace monolith::fuzzing
