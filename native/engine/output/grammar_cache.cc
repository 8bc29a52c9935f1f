#include "engine/output/grammar_cache.h"

#include <algorithm>
#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace monolith {
namespace {

// glibc keeps freed memory in the arena of the thread that allocated it. Because several threads allocate grammars, the
// memory is returned to the system explicitly.
void give_back_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

GrammarCache::GrammarCache(const Tokenizer& tokenizer, int n_tokens, const grammar::GrammarLimits& limits,
                           size_t most_bytes, size_t most_entries, size_t most_live_bytes)
    : tokenizer_(tokenizer),
      n_tokens_(n_tokens),
      limits_(limits),
      most_bytes_(most_bytes),
      most_entries_(most_entries),
      most_live_bytes_(most_live_bytes),
      trim_at_(most_live_bytes) {}

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
  const int64_t from = grammar::Fuel::thread_time();
  const bool is_short = short_ms > 0 && short_ms < limits.compile_ms;
  if (is_short) limits.compile_ms = short_ms;
  compiled.grammar = grammar::Grammar::compile(options, vocabulary(), limits, &cancelled_, compiled.problems);
  compiled.ns = grammar::Fuel::thread_time() - from;
  if (cancelled_.load(std::memory_order_relaxed)) return compiled;
  if (is_short && !compiled.grammar && compiled.problems.back().kind == grammar::SchemaProblem::Kind::kTooLarge) {
    if (is_long) *is_long = true;
    return compiled;
  }
  std::string key = options.key();
  if (compiled.grammar) compiled.grammar->count_in(memory_);
  const std::lock_guard lock(mutex_);
  // Another thread may have compiled the same grammar in the meantime.
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second->compiled;
  if (compiled.grammar) {
    if (live_.size() >= live_prune_at_) {
      std::erase_if(live_, [](const auto& grammar) { return grammar.expired(); });
      live_prune_at_ = std::max<size_t>(64, 2 * live_.size());
    }
    live_.push_back(compiled.grammar);
  }
  entries_.push_front({key, {compiled.grammar, compiled.problems}});
  by_key_.emplace(std::move(key), entries_.begin());
  make_room();
  return compiled;
}

// Shrinks the least recently used grammars first. The first round keeps the automaton states that sequences are
// currently in; the second does not.
void GrammarCache::trim() {
  if (!is_over()) return;
  std::vector<std::pair<uint64_t, std::shared_ptr<grammar::Grammar>>> by_use;
  {
    const std::lock_guard lock(mutex_);
    by_use.reserve(live_.size());
    for (const auto& one : live_)
      if (auto grammar = one.lock()) by_use.emplace_back(grammar->last_used(), std::move(grammar));
  }
  std::ranges::sort(by_use, {}, &decltype(by_use)::value_type::first);
  const size_t enough = most_live_bytes_ - most_live_bytes_ / 4;
  for (int round = 0; round < 2; ++round)
    for (const auto& [used, grammar] : by_use)
      if (memory_->bytes() > enough) grammar->shrink();
  by_use.clear();
  trim_at_.store(std::max(most_live_bytes_, memory_->bytes() + most_live_bytes_ / 4), std::memory_order_relaxed);
  give_back_free_memory();
}

// Grammars grow during use, so the sizes of all entries are added up again.
void GrammarCache::make_room() {
  size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.bytes();
  while (entries_.size() > 1 && (bytes > most_bytes_ || entries_.size() > most_entries_)) {
    bytes -= std::min(bytes, entries_.back().bytes());
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

size_t GrammarCache::entries() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace monolith
