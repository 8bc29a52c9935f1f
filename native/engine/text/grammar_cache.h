// An engine's grammars: compiled once and kept, the least recently asked for leave first. Refusals are kept too. Grammars
// grow while they are used, whoever has them: what all of them take together is bounded by trim().
// Any thread; nobody waits for another's compilation.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/text/compiled_grammar.h"
#include "text/grammar/grammar.h"

namespace monolith {

class GrammarCache {
 public:
  static constexpr size_t kMostBytes = 64 << 20, kMostEntries = 512;

  // The tokenizer outlives the cache.
  GrammarCache(const Tokenizer& tokenizer, int n_tokens, const grammar::GrammarLimits& limits = {},
               size_t most_bytes = kMostBytes, size_t most_entries = kMostEntries, size_t most_live_bytes = SIZE_MAX);

  // What is kept of it, if it is.
  std::optional<CompiledGrammar> find(const grammar::GrammarOptions& options);
  // Takes as long as GrammarLimits say, and the first time as long as the vocabulary takes to read. With `short_ms`
  // no longer than that: then `*is_long` is set, and the refusal is worth nothing.
  CompiledGrammar compile(const grammar::GrammarOptions& options, int short_ms = 0, bool* is_long = nullptr);
  // Whether a grammar is of this cache's vocabulary.
  bool owns(const grammar::Grammar& grammar) const {
    return &grammar.vocabulary() == vocabulary_.load(std::memory_order_acquire);
  }
  // Those being compiled are refused, as too large.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // All that were compiled and are not gone, kept here or not, take more than they may.
  bool is_over() const { return memory_->bytes() > trim_at_.load(std::memory_order_relaxed); }
  // Then the least recently used give up what use has found, until they take a quarter less than they may.
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
  std::atomic<size_t> trim_at_;  // grows with what cannot be given up
  std::atomic<bool> cancelled_{false};
  std::once_flag once_;
  std::shared_ptr<const grammar::GrammarVocabulary> built_;
  std::atomic<const grammar::GrammarVocabulary*> vocabulary_{nullptr};
  std::mutex mutex_;          // guards what follows
  std::list<Entry> entries_;  // the most recent first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::vector<std::weak_ptr<grammar::Grammar>> live_;
  size_t live_prune_at_ = 64;
};

}  // namespace monolith
