// Finds the tokens that grammars allow next, while the forward pass runs, and those that take longer to find than the
// engine thread may spend. Two threads, each started on first use. One works for the step after the next and gives each
// sequence one turn. The other, of low priority, works for sequences that wait, in turns until each has its mask, so that
// a long search holds up nobody else. Everything but the threads belongs to the engine thread.
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
  void add(const Rule& rule, const Tokenizer* tokenizer) {
    soon_.gathered.push_back({*rule.grammar, rule.position, tokenizer});
  }
  // The same for a sequence that waits; with a token, the state that the token leads to.
  void add_due(const Rule& rule, const Tokenizer* tokenizer, TokenId token) {
    due_.gathered.push_back({*rule.grammar, rule.position, tokenizer, token});
  }
  // Starts work on everything added since the last call, and drops older work that is not done. False: nothing was added
  // for the step after the next.
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
    std::mutex mutex_;  // guards what follows
    std::condition_variable wake_;
    std::vector<Wanted> wanted_, again_;  // those that had a turn and are not done
    size_t next_ = 0;
    uint64_t batch_ = 0;  // calls of start()
    bool closing_ = false;
    std::thread thread_;
  };

  Worker soon_{false}, due_{true};
};

}  // namespace monolith
