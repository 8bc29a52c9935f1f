// A compiled grammar: what a text has to be, and which tokens may come next in it. Shared by any number of
// sequences, each with a position of its own; any thread. Bounded: an automaton that has grown to its limits is
// begun anew, and each sequence reads its own text again.
#pragma once

#include <atomic>
#include <bitset>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/schema.h"

namespace monolith::grammar {

struct GrammarOptions {
  enum class Kind : uint8_t { kJsonSchema, kJsonObject, kJson, kRegex, kChoice, kRules };
  Kind kind = Kind::kJson;
  std::string text;                   // the schema, the pattern or the rules
  std::vector<std::string> choices;
  std::string suffix;                 // literal text behind the value; special tokens' spellings are those tokens
  bool strict = true;
  bool one_of_as_any_of = false;
  PropertyOrder order = PropertyOrder::kSchema;
  WhiteSpace white_space = WhiteSpace::kNone;

  std::string key() const;            // equal if and only if the options are
};

struct GrammarLimits {
  int compile_ms = 150;
  uint64_t compile_steps = 10'000'000;
  size_t most_expressions = 200'000, most_shapes = 20'000;
  // Of use, from one beginning to the next.
  size_t most_new_expressions = 100'000, most_states = 50'000, most_rows = 16'000, most_places = 500'000;
  size_t most_mask_bytes = 8 << 20, most_run_bytes = 1 << 20;
  uint64_t use_steps = 400'000;     // of one call
};

class Grammar {
 public:
  // Null with the reason as the last of `problems`; else they are what was left out. `cancelled` may be null.
  static std::shared_ptr<Grammar> compile(const GrammarOptions& options, std::shared_ptr<const GrammarVocabulary> vocabulary,
                                          const GrammarLimits& limits, const std::atomic<bool>* cancelled,
                                          std::vector<SchemaProblem>& problems);

  // Where a text is.
  struct Position {
    uint32_t epoch = 0;
    StateId state = 0;
    bool accepts = false;             // it may end here
    bool ends = false;                // nothing can follow
  };
  enum class Outcome : uint8_t { kOk, kRefused, kFailed };   // kFailed: past the limits

  Position start();
  // Reads `token`, or refuses it and changes nothing. `before`: what was read since start().
  Outcome advance(Position& position, std::span<const TokenId> before, TokenId token);
  // What may come next into `out`, in which every token of the vocabulary has a bit. Never kRefused.
  Outcome allowed(Position& position, std::span<const TokenId> before, TokenMask& out);
  // The tokens the text goes on with whatever the model says, into `out` (cleared first): how `tokenizer`, that of
  // the vocabulary, cuts the bytes that alone may come, without the last tokens where these could be others once
  // more text stands behind them. At most kMostForced, possibly none. Depends on the text so far and on nothing else.
  // Never kRefused.
  Outcome forced(Position& position, std::span<const TokenId> before, const Tokenizer& tokenizer, std::vector<TokenId>& out);
  static constexpr size_t kMostForced = 64;
  // Sees to it that allowed() need not look: for a thread that has nothing better to do.
  void prepare(const Position& position);

  // The bytes that may come next behind `text`, for tests. Null if no text begins so, or past the limits.
  struct Next {
    std::bitset<256> bytes;
    bool accepts = false;
  };
  std::optional<Next> follow(std::string_view text);

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint32_t epoch() const { return epoch_; }   // for tests

 private:
  Grammar(std::shared_ptr<const GrammarVocabulary> vocabulary, const GrammarLimits& limits) : vocabulary_(std::move(vocabulary)), limits_(limits) {}

  void begin();
  bool ready();
  bool begin_again(bool& is_new);
  StateId read(StateId state, TokenId token);
  bool renew(Position& position, std::span<const TokenId> before);
  void settle(Position& position, StateId state);
  const std::vector<TokenId>* find_run(StateId state, const Tokenizer& tokenizer);
  std::vector<TokenId> cut_run(StateId state, const Tokenizer& tokenizer);
  size_t tokens_alike(std::string_view text, const Tokenizer& tokenizer, std::span<const TokenId> tokens) const;
  void count_bytes() { bytes_.store(schema_bytes_ + automaton_->bytes() + run_bytes_ + schema_->expressions().bytes(), std::memory_order_relaxed); }

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  const GrammarLimits limits_;
  std::atomic<size_t> bytes_{0};
  std::mutex mutex_;                  // guards what follows
  std::unique_ptr<Schema> schema_;
  AutomatonOptions automaton_options_;
  std::unique_ptr<Automaton> automaton_;
  size_t schema_bytes_ = 0, run_bytes_ = 0;
  std::unordered_map<StateId, std::vector<TokenId>> runs_;   // forced(), where a byte alone may come
  uint32_t epoch_ = 0;
};

}  // namespace monolith::grammar
