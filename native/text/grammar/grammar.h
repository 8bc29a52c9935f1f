// A compiled grammar: what a text has to be, and which tokens may come next in it. Shared by any number of
// sequences, each with a position of its own; any thread. Bounded in memory: an automaton that has grown to its limits
// is begun anew, and recalls where each sequence was; one that has not asked for longer than that reads its own text
// again. Bounded in time: whoever asks says what that may cost (`fuel`, of which it is taken; null: as much as the limits
// say), and what takes more goes on from there when it is asked again, here or on a thread that has the time.
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
#include "text/grammar/grammar_memory.h"
#include "text/grammar/grammar_vocabulary.h"
#include "text/grammar/schema.h"

namespace monolith::grammar {

struct GrammarOptions {
  enum class Kind : uint8_t { kJsonSchema, kJsonObject, kJson, kRegex, kChoice, kRules };
  Kind kind = Kind::kJson;
  std::string text;  // the schema, the pattern or the rules
  std::vector<std::string> choices;
  std::string suffix;  // literal text behind the value; special tokens' spellings are those tokens
  // before it; in its text and the next one's tokens' spellings are those tokens too
  Lead lead;
  std::optional<Spelling> spelling;  // of the value, whose schema is an object's; its mark_text is found from its mark
  bool strict = true;
  bool one_of_as_any_of = false;
  PropertyOrder order = PropertyOrder::kSchema;
  WhiteSpace white_space = WhiteSpace::kNone;

  std::string key() const;  // equal if and only if the options are
};

struct GrammarLimits {
  int compile_ms = 150;
  uint64_t compile_steps = 10'000'000;
  size_t most_expressions = 200'000, most_shapes = 20'000;
  // Of use, from one beginning of the automaton to the next.
  size_t most_new_expressions = 100'000, most_states = 50'000, most_rows = 16'000, most_places = 500'000;
  size_t most_mask_bytes = 8 << 20, most_run_bytes = 1 << 20;
  uint64_t use_steps = 10'000'000;  // for one place in a text, by however many calls
};

class Grammar {
 public:
  // Null with the reason as the last of `problems`; else they are what was left out. `cancelled` may be null.
  ~Grammar();
  static std::shared_ptr<Grammar> compile(const GrammarOptions& options,
                                          std::shared_ptr<const GrammarVocabulary> vocabulary,
                                          const GrammarLimits& limits, const std::atomic<bool>* cancelled,
                                          std::vector<SchemaProblem>& problems);

  // Where a text is.
  struct Position {
    uint32_t epoch = 0;
    StateId state = 0;
    bool accepts = false;  // it may end here
    bool ends = false;     // nothing can follow
    uint32_t n_read = 0;   // tokens since start()
  };
  // kFailed: past the limits; kSpent: the fuel was used up before that was found out, and nothing has changed.
  enum class Outcome : uint8_t { kOk, kRefused, kFailed, kSpent };

  Position start();
  // Reads `token`, or refuses it and changes nothing. `before`: what was read since start().
  Outcome advance(Position& position, std::span<const TokenId> before, TokenId token, Fuel* fuel = nullptr);
  // What may come next into `out`, in which every token of the vocabulary has a bit. Never kRefused.
  Outcome allowed(Position& position, std::span<const TokenId> before, TokenMask& out, Fuel* fuel = nullptr);
  // The tokens the text goes on with whatever the model says, into `out` (cleared first): how `tokenizer`, that of
  // the vocabulary, cuts the bytes that alone may come, without the last tokens where these could be others once
  // more text stands behind them. At most kMostForced, possibly none. Depends on the text so far and on nothing else.
  // Never kRefused.
  Outcome forced(Position& position, std::span<const TokenId> before, const Tokenizer& tokenizer,
                 std::vector<TokenId>& out, Fuel* fuel = nullptr);
  static constexpr size_t kMostForced = 64;
  // Finds in advance what allowed() will need, and forced() too if `tokenizer` is not null. For a thread with nothing
  // better to do; it stops when another wants the grammar. kSpent: there is more to find.
  // With a token, finds what advance() by that token will need.
  Outcome prepare(Position position, const Tokenizer* tokenizer, const Fuel& fuel, TokenId token = kNoToken);
  // Whether that is done: kSpent if not yet. Never waits for it.
  Outcome prepared(Position& position, std::span<const TokenId> before, const Tokenizer* tokenizer, Fuel* fuel,
                   TokenId token = kNoToken);

  // The bytes that may come next behind `text`, for tests. Null if no text begins so, or past the limits.
  struct Next {
    std::bitset<256> bytes;
    bool accepts = false;
  };
  std::optional<Next> follow(std::string_view text);

  // Gives up what use has found and can find again, but for where sequences are; a second time in a row also that, and
  // whoever goes on reads its own text again.
  void shrink();
  // From now on what it takes is part of `memory`; once.
  void count_in(std::shared_ptr<GrammarMemory> memory);
  // By memory's count; 0: not since count_in().
  uint64_t last_used() const { return used_.load(std::memory_order_relaxed); }

  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint32_t epoch() const { return epoch_; }  // for tests

 private:
  Grammar(std::shared_ptr<const GrammarVocabulary> vocabulary, const GrammarLimits& limits)
      : vocabulary_(std::move(vocabulary)), limits_(limits) {}

  // Of a thread that serves: whoever prepares makes room for it.
  class Urgent {
   public:
    explicit Urgent(Grammar& grammar);

   private:
    std::unique_lock<std::mutex> lock_;
  };
  template <class Work>
  Outcome bounded(Position& position, std::span<const TokenId> before, Fuel* fuel, Work work);
  void begin();
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
  std::atomic<bool> urgent_{false};  // somebody waits for the lock who must not wait long
  std::mutex mutex_;                 // guards what follows
  std::shared_ptr<GrammarMemory> memory_;
  std::unique_ptr<Schema> schema_;
  AutomatonOptions automaton_options_;
  std::unique_ptr<Automaton> automaton_;
  std::unique_ptr<Automaton::Past> past_;  // the last epoch's; null: there is none
  // Fuel already spent on states that are not finished, in this epoch and in the last.
  std::unordered_map<StateId, uint64_t> spent_, spent_before_;
  size_t schema_bytes_ = 0, run_bytes_ = 0;
  std::unordered_map<StateId, std::vector<TokenId>> runs_;  // forced(), where a byte alone may come
  uint32_t epoch_ = 0;
};

}  // namespace monolith::grammar
