// Prefetches grammar masks on two worker threads while the forward pass runs; also computes masks that exceed the
// engine thread's budget. Each thread is started on first use. The first thread computes masks for the step after the
// next and gives each sequence one turn. The second thread, at low priority, works for the blocked sequences in turns
// until each of them has its mask, so that a long computation delays no other sequence. When the second thread has
// finished a mask, it wakes the engine, which may be idle. Everything except the threads belongs to the engine thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/output/grammar_matcher.h"

namespace monolith {

class MaskPrefetcher {
 public:
  // `wake` is called on a worker thread when a mask requested with add_due() is ready. It must not block.
  explicit MaskPrefetcher(std::function<void()> wake) : due_(true, std::move(wake)) {}
  MaskPrefetcher(const MaskPrefetcher&) = delete;
  MaskPrefetcher& operator=(const MaskPrefetcher&) = delete;

  // Requests the mask that this grammar needs after the next step and, if a tokenizer is given, the forced tokens. The
  // request is dropped if there is no memory for it, because prefetching is only an optimization.
  void add(const GrammarMatcher& matcher, const Tokenizer* tokenizer) {
    soon_.add({*matcher.grammar, matcher.position, tokenizer});
  }
  // Requests the mask of a blocked sequence or, if a token is given, the grammar state after that token. This request
  // may be dropped too, because the caller repeats it in each step.
  void add_due(const GrammarMatcher& matcher, const Tokenizer* tokenizer, TokenId token) {
    due_.add({*matcher.grammar, matcher.position, tokenizer, token});
  }
  // Starts all work requested since the last call, and drops older unfinished work. Returns false if nothing was
  // requested for the step after next.
  bool start();

 private:
  struct Wanted {
    GrammarRef grammar;
    grammar::Grammar::Position position;
    const Tokenizer* tokenizer;
    TokenId token = kNoToken;
  };
  class Worker {
   public:
    explicit Worker(bool many_turns, std::function<void()> wake = nullptr)
        : many_turns_(many_turns), wake_engine_(std::move(wake)) {}
    ~Worker();
    void add(Wanted wanted);
    bool start();

   private:
    void run();

    std::vector<Wanted> gathered_;  // Used by the engine thread only.

    const bool many_turns_;
    const std::function<void()> wake_engine_;  // Called after each finished mask; null if nothing waits for the masks.
    std::mutex mutex_;                         // Guards the members below.
    std::condition_variable wake_;
    std::vector<Wanted> wanted_, again_;  // again_: requests that have had a turn but are not finished.
    size_t next_ = 0;
    uint64_t batch_ = 0;  // Number of calls to start().
    bool closing_ = false;
    std::thread thread_;
  };

  Worker soon_{false}, due_{true};
};

}  // namespace monolith
