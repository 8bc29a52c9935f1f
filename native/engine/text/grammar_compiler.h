// Compiles grammars on two threads of its own, of low priority: whoever computes or serves goes first. One that takes
// long goes on to the second, so that it holds up none that does not.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/text/grammar_cache.h"

namespace monolith {

class GrammarCompiler {
 public:
  using Done = GrammarDone;

  explicit GrammarCompiler(GrammarCache& cache) : cache_(cache) {}
  ~GrammarCompiler();  // what still waits is refused

  // `done` is called once: at once if the grammar is known, else on the compiling thread. It must not block, nor
  // destroy this.
  void compile(grammar::GrammarOptions options, Done done);
  // Has the cache trimmed, on the thread for what takes long. Never throws.
  void trim();

 private:
  struct Wanted {
    grammar::GrammarOptions options;
    Done done;
  };
  void enqueue(Wanted& wanted);
  void run(std::deque<Wanted>& queue, int short_ms);

  GrammarCache& cache_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Wanted> fresh_, long_;
  bool closing_ = false, trim_ = false;
  std::thread short_thread_, long_thread_;
};

}  // namespace monolith
