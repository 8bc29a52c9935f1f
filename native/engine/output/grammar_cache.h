// LRU cache of an engine's compiled grammars; rejected grammars are cached too. Grammars grow during use, even after
// they have left the cache; trim() limits their total memory. Safe to use from any thread. No thread waits for another
// thread's compilation.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/output/compiled_grammar.h"
#include "text/grammar/grammar.h"

namespace monolith {

class GrammarCache {
 public:
  static constexpr size_t kMaxBytes = 128 << 20, kMaxEntries = 8192;

  // The tokenizer must outlive the cache.
  GrammarCache(const Tokenizer& tokenizer, int n_tokens, const grammar::GrammarLimits& limits = {},
               size_t most_bytes = kMaxBytes, size_t most_entries = kMaxEntries, size_t most_live_bytes = SIZE_MAX);

  // Returns the cached result, if there is one.
  std::optional<CompiledGrammar> find(const grammar::GrammarOptions& options);
  // Compiles a grammar within GrammarLimits; the first call also reads the vocabulary. If `short_ms` > 0, compilation
  // stops after that time; `*is_long` is then set, and the returned rejection must be ignored.
  CompiledGrammar compile(const grammar::GrammarOptions& options, int short_ms = 0, bool* is_long = nullptr);
  // Whether the grammar was compiled for this cache's vocabulary.
  bool owns(const grammar::Grammar& grammar) const {
    return &grammar.vocabulary() == vocabulary_.load(std::memory_order_acquire);
  }
  // Stops running compilations; their grammars are rejected as too large.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // Whether all live grammars, cached or not, use more memory than allowed.
  bool is_over() const { return memory_->bytes() > trim_at_.load(std::memory_order_relaxed); }
  // Frees memory: discards automaton states that were added to grammars during use, starting with the least recently
  // used grammars, until the total is 25% below the limit.
  void trim();

  size_t entries();
  size_t live_bytes() const { return memory_->bytes(); }

 private:
  struct Entry {
    std::string key;
    CompiledGrammar compiled;
    size_t bytes() const { return key.size() + (compiled.grammar ? compiled.grammar->bytes() : 256); }
  };
  std::shared_ptr<const grammar::GrammarVocabulary> vocabulary();
  void make_room();

  const Tokenizer& tokenizer_;
  const int n_tokens_;
  const grammar::GrammarLimits limits_;
  const size_t most_bytes_, most_entries_, most_live_bytes_;
  const std::shared_ptr<grammar::GrammarMemory> memory_ = std::make_shared<grammar::GrammarMemory>();
  std::atomic<size_t> trim_at_;  // Threshold of is_over(), in bytes; above the limit if trim() could not free enough.
  std::atomic<bool> cancelled_{false};
  std::once_flag once_;
  std::shared_ptr<const grammar::GrammarVocabulary> built_;
  std::atomic<const grammar::GrammarVocabulary*> vocabulary_{nullptr};
  std::mutex mutex_;          // Guards the members below.
  std::list<Entry> entries_;  // Most recently used first.
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::vector<std::weak_ptr<grammar::Grammar>> live_;
  size_t live_prune_at_ = 64;
};

}  // namespace monolith
