// Compiles grammars on two low-priority threads, so that inference and serving take precedence. A grammar that takes
// long to compile is moved to the second thread, so that it does not delay grammars that compile quickly.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/output/grammar_cache.h"

namespace monolith {

class GrammarCompiler {
 public:
  using Done = GrammarDone;

  explicit GrammarCompiler(GrammarCache& cache) : cache_(cache) {}
  ~GrammarCompiler();  // Rejects all grammars that are still waiting.

  // Calls `done` exactly once: immediately if the grammar is cached, otherwise on a compiler thread. `done` must not
  // block or destroy the compiler.
  void compile(grammar::GrammarOptions options, Done done);
  // Runs GrammarCache::trim() on the thread for long compilations. Never throws.
  void trim();

 private:
  struct Wanted {
    grammar::GrammarOptions options;
    Done done;
  };
  void enqueue(Wanted& wanted);
  void run(std::deque<Wanted>& queue, int short_ms);

  GrammarCache& cache_;
  std::mutex mutex_;  // Guards the members below.
  std::condition_variable wake_;
  std::deque<Wanted> fresh_, long_;
  bool closing_ = false, trim_ = false;
  std::thread short_thread_, long_thread_;
};

}  // namespace monolith
