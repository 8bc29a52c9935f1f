// Finds what a grammar allows next while the forward pass runs: one thread, begun with the first grammar.
// Whoever needs a mask before it is found waits for the grammar's lock or finds it itself; so nothing here is
// ever waited for. Everything but the thread belongs to the engine thread.
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
  ~MaskAhead();

  // This rule's next mask is wanted after the next step.
  void add(const Rule& rule) { gathered_.push_back({*rule.grammar, rule.position}); }
  // What was added since the last call is worked on from now on; what is left of older work is dropped. False: there is
  // nothing to do.
  bool start();

 private:
  struct Wanted {
    GrammarRef grammar;
    grammar::Grammar::Position position;
  };
  void run();

  std::vector<Wanted> gathered_;
  std::mutex mutex_;            // guards what follows
  std::condition_variable wake_;
  std::vector<Wanted> wanted_;
  size_t next_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace monolith
