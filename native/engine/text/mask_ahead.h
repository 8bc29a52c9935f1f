// Finds what a grammar allows next while the forward pass runs, and what takes longer than the engine thread may spend
// on it. Two threads, each begun with the first that needs it: one for what is wanted after the next step, which gives
// each one turn; the other, of low priority, for what is waited for, in turns until it is found, so that nobody's
// long ones hold up another's. Everything but the threads belongs to the engine thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/schedule/sequence.h"

namespace monolith {

class MaskAhead {
 public:
  MaskAhead() = default;
  MaskAhead(const MaskAhead&) = delete;
  MaskAhead& operator=(const MaskAhead&) = delete;

  // This rule's next mask is wanted after the next step; with a tokenizer also what it leaves no choice about.
  void add(const Rule& rule, const Tokenizer* tokenizer) { soon_.gathered.push_back({*rule.grammar, rule.position, tokenizer}); }
  // The same is waited for; with a token where that leads.
  void add_due(const Rule& rule, const Tokenizer* tokenizer, TokenId token) { due_.gathered.push_back({*rule.grammar, rule.position, tokenizer, token}); }
  // What was added since the last call is worked on from now on; what is left of older work is dropped. False: nothing is
  // wanted after the next step.
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
    explicit Worker(bool many_turns) : many_turns_(many_turns) {}
    ~Worker();
    bool start();
    std::vector<Wanted> gathered;

   private:
    void run();

    const bool many_turns_;
    std::mutex mutex_;                     // guards what follows
    std::condition_variable wake_;
    std::vector<Wanted> wanted_, again_;   // those that had a turn and are not done
    size_t next_ = 0;
    uint64_t batch_ = 0;                   // calls of start()
    bool closing_ = false;
    std::thread thread_;
  };

  Worker soon_{false}, due_{true};
};

}  // namespace monolith
