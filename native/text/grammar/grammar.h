// A compiled grammar: which strings are valid, and which tokens may come next. One grammar is shared by any number of
// sequences, each with its own `Position`. All functions may be called from any thread.
// - Memory is bounded. When the automaton reaches its limits, a new automaton is started, and it imports the positions
//   of the previous one. A position from an even older automaton is recomputed from the sequence's own tokens.
// - An operation that runs out of memory throws std::bad_alloc. The automaton is then replaced before the next
//   operation.
// - Time is bounded. The caller passes a budget in `fuel`, which is reduced by the steps used (null = the grammar's own
//   limits apply). An operation that exceeds its budget can be repeated later, on any thread, and resumes where it
//   stopped.
#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/schema.h"
#include "text/grammar/urgent_mutex.h"

namespace monolith::grammar {

// Counts the total memory used by an engine's grammars. Also counts uses, to order the grammars by last use.
class GrammarMemory {
 public:
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Records that the size of one grammar has changed from `before` bytes to `now` bytes.
  void change(size_t before, size_t now) { bytes_.fetch_add(now - before, std::memory_order_relaxed); }
  // Returns a use number that is higher than all numbers returned before.
  uint64_t use() { return uses_.fetch_add(1, std::memory_order_relaxed) + 1; }

 private:
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> uses_{0};
};

struct GrammarOptions {
  enum class Kind : uint8_t { kJsonSchema, kJsonObject, kJson, kRegex, kChoice, kRules, kLark };
  Kind kind = Kind::kJson;
  std::string text;  // The schema, the pattern or the rules.
  std::vector<std::string> choices;
  std::string suffix;  // Literal text after the value. A special token's spelling stands for that token.
  // Prefix before the value. If the prefix or `spelling` contains the spelling of a special token, that part stands for
  // the token.
  Lead lead;
  // The value's syntax if it is not JSON. In that case, the schema must be an object schema. `mark_text` is derived
  // from `string_mark`.
  std::optional<Spelling> spelling;
  bool strict = true;
  bool one_of_as_any_of = false;
  PropertyOrder order = PropertyOrder::kSchema;
  WhiteSpace white_space = WhiteSpace::kNone;

  std::string key() const;  // Cache key: two keys are equal if and only if the options are.
};

struct GrammarLimits {
  int compile_ms = 150;
  uint64_t compile_steps = 10'000'000;
  size_t most_expressions = 200'000, most_shapes = 20'000;
  // Limits for a single automaton; when it reaches them, a new automaton replaces it.
  size_t most_new_expressions = 100'000, most_states = 50'000, most_rows = 16'000, most_places = 500'000;
  size_t most_mask_bytes = 8 << 20, most_run_bytes = 1 << 20;
  uint64_t use_steps = 10'000'000;  // Maximum number of steps for one position in a text, across all calls.
};

class Grammar {
 public:
  // Compiles a grammar. Returns null on failure, with the reason as the last entry of `problems`. On success,
  // `problems` lists the keywords that were ignored. `cancelled` may be null.
  ~Grammar();
  static std::shared_ptr<Grammar> compile(const GrammarOptions& options,
                                          std::shared_ptr<const GrammarVocabulary> vocabulary,
                                          const GrammarLimits& limits, const std::atomic<bool>* cancelled,
                                          std::vector<SchemaProblem>& problems);

  // A position in a text: the automaton's state after the tokens read so far.
  struct Position {
    uint32_t epoch = 0;
    StateId state = 0;
    bool accepts = false;  // The text may end here.
    bool ends = false;     // Nothing can follow.
    uint32_t n_read = 0;   // Tokens read since start().
  };
  // kRefused: the token is not allowed. kFailed: a limit was exceeded. kOutOfBudget: the fuel ran out before the result
  // was known; the position is unchanged.
  enum class Outcome : uint8_t { kOk, kRefused, kFailed, kOutOfBudget };

  Position start();
  // Reads `token`. If the token is not allowed, returns kRefused and changes nothing. `before`: the tokens read since
  // start().
  Outcome advance(Position& position, std::span<const TokenId> before, TokenId token, Fuel* fuel = nullptr);
  // Sets `out` to the mask of the tokens that may come next, with one bit per vocabulary token. Never returns kRefused.
  Outcome allowed(Position& position, std::span<const TokenId> before, TokenMask& out, Fuel* fuel = nullptr);
  // Replaces the contents of `out` with the forced tokens, which follow regardless of the model's prediction because
  // only one byte sequence is allowed. `tokenizer` splits these bytes into tokens; it must be the tokenizer of the
  // vocabulary. Trailing tokens are omitted if they could be split differently once more text follows. There are at
  // most kMaxForced tokens, possibly none. The result depends only on the text so far. Never returns kRefused.
  Outcome forced(Position& position, std::span<const TokenId> before, const Tokenizer& tokenizer,
                 std::vector<TokenId>& out, Fuel* fuel = nullptr);
  static constexpr size_t kMaxForced = 64;
  // Precomputes the result of allowed(), and also of forced() if `tokenizer` is not null. If `token` is given,
  // precomputes advance() by that token instead. Intended for background threads: stops as soon as a thread that serves
  // requests needs the grammar. Returns kOutOfBudget if there is more to compute.
  Outcome prepare(Position position, const Tokenizer* tokenizer, const Fuel& fuel, TokenId token = kNoToken);
  // Returns kOk if prepare() has finished for this position, otherwise kOutOfBudget. Never blocks on the lock.
  Outcome prepared(Position& position, std::span<const TokenId> before, const Tokenizer* tokenizer, Fuel* fuel,
                   TokenId token = kNoToken);

  // Returns the bytes that may come next after `text`. Returns nullopt if no valid text starts with `text` or a limit
  // is exceeded. For tests.
  struct Next {
    std::bitset<256> bytes;
    bool accepts = false;
  };
  std::optional<Next> follow(std::string_view text);

  // Frees all states that can be recomputed, except the states at the sequences' current positions. A second
  // consecutive call frees these too, and each sequence then recomputes its position from its own tokens.
  void shrink();
  // Adds the size of this grammar to `memory` and keeps that total up to date. May be called only once.
  void count_in(std::shared_ptr<GrammarMemory> memory);
  // The use number (GrammarMemory::use()) of the last use; 0 if the grammar has not been used since count_in().
  uint64_t last_used() const { return used_.load(std::memory_order_relaxed); }

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint32_t epoch() const { return epoch_; }  // For tests.

 private:
  Grammar(std::shared_ptr<const GrammarVocabulary> vocabulary, const GrammarLimits& limits)
      : vocabulary_(std::move(vocabulary)), limits_(limits) {}

  // The lock as taken by a thread that serves requests. A background thread in prepare() releases the lock for such a
  // thread.
  class Urgent {
   public:
    explicit Urgent(Grammar& grammar) : mutex_(grammar.mutex_) { mutex_.lock_urgent(); }
    ~Urgent() { mutex_.unlock(); }
    Urgent(const Urgent&) = delete;
    Urgent& operator=(const Urgent&) = delete;

   private:
    UrgentMutex& mutex_;
  };
  template <class Work>
  Outcome bounded(Position& position, std::span<const TokenId> before, Fuel* fuel, Work work);
  template <class Work>
  Outcome work_within(Position& position, std::span<const TokenId> before, Fuel* fuel, Work work);
  void begin();
  void restart();
  StateId read(StateId state, TokenId token);
  void renew(Position& position, std::span<const TokenId> before);
  void find_out(StateId state, const Tokenizer* tokenizer);
  bool knows(StateId state, const Tokenizer* tokenizer) const;
  bool knows_read(StateId state, TokenId token) const;
  void settle(Position& position, StateId state, size_t n_read);
  const std::vector<TokenId>* find_run(StateId state, const Tokenizer& tokenizer);
  std::vector<TokenId> cut_run(StateId state, const Tokenizer& tokenizer);
  size_t tokens_alike(std::string_view text, const Tokenizer& tokenizer, std::span<const TokenId> tokens) const;
  void count_bytes();

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  const GrammarLimits limits_;
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> used_{0};
  UrgentMutex mutex_;  // Guards all members below.
  std::shared_ptr<GrammarMemory> memory_;
  std::unique_ptr<Schema> schema_;
  AutomatonOptions automaton_options_;
  std::unique_ptr<Automaton> automaton_;
  std::unique_ptr<Automaton::Past> past_;  // States of the previous epoch; null if there is none.
  // Fuel spent so far on states that are not finished, in this epoch and in the previous one.
  std::unordered_map<StateId, uint64_t> spent_, spent_before_;
  size_t schema_bytes_ = 0, run_bytes_ = 0;
  // Cached results of forced(), for states with a single next byte.
  std::unordered_map<StateId, std::vector<TokenId>> runs_;
  uint32_t epoch_ = 0;
  bool is_incomplete_ = false;  // A failed allocation has interrupted a change of the automaton or the expressions.
};

}  // namespace monolith::grammar
