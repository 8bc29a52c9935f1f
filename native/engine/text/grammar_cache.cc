#include "engine/text/grammar_cache.h"

#include <algorithm>
#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace monolith {
namespace {

// The allocator keeps what was freed for the thread that had it, and compiles come and go on several.
void give_back_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

GrammarCache::GrammarCache(const Tokenizer& tokenizer, int n_tokens, const grammar::GrammarLimits& limits, size_t most_bytes,
                           size_t most_entries)
    : tokenizer_(tokenizer), n_tokens_(n_tokens), limits_(limits), most_bytes_(most_bytes), most_entries_(most_entries) {}

std::shared_ptr<const grammar::GrammarVocabulary> GrammarCache::vocabulary() {
  std::call_once(once_, [&] {
    built_ = std::make_shared<const grammar::GrammarVocabulary>(tokenizer_, n_tokens_);
    vocabulary_.store(built_.get(), std::memory_order_release);
  });
  return built_;
}

std::optional<CompiledGrammar> GrammarCache::find(const grammar::GrammarOptions& options) {
  const std::string key = options.key();
  const std::lock_guard lock(mutex_);
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->compiled;
}

CompiledGrammar GrammarCache::compile(const grammar::GrammarOptions& options, int short_ms, bool* is_long) {
  if (auto known = find(options)) return *known;
  CompiledGrammar compiled;
  grammar::GrammarLimits limits = limits_;
  const bool is_short = short_ms > 0 && short_ms < limits.compile_ms;
  if (is_short) limits.compile_ms = short_ms;
  compiled.grammar = grammar::Grammar::compile(options, vocabulary(), limits, &cancelled_, compiled.problems);
  if (cancelled_.load(std::memory_order_relaxed)) return compiled;
  if (is_short && !compiled.grammar && compiled.problems.back().kind == grammar::SchemaProblem::Kind::kTooLarge) {
    if (is_long) *is_long = true;
    return compiled;
  }
  std::string key = options.key();
  std::vector<std::shared_ptr<grammar::Grammar>> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second->compiled;   // meanwhile
    entries_.push_front({key, compiled});
    by_key_.emplace(std::move(key), entries_.begin());
    make_room();
    std::swap(dropped, dropped_);
  }
  // Without the lock: nobody waits for it who only looks for a grammar.
  for (const auto& grammar : dropped) grammar->shrink();
  if (!dropped.empty()) {
    dropped.clear();
    give_back_free_memory();
  }
  return compiled;
}

// Grammars grow while they are used: all are counted anew.
void GrammarCache::make_room() {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.bytes();
  while (entries_.size() > 1 && (bytes > most_bytes_ || entries_.size() > most_entries_)) {
    bytes -= std::min(bytes, entries_.back().bytes());
    if (entries_.back().compiled.grammar) dropped_.push_back(std::move(entries_.back().compiled.grammar));
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

size_t GrammarCache::entries() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace monolith
