// One run of a scenario: the real loop of an engine (scheduler, pages, prefix cache, sequences, sampling, events), without
// its threads, over the simulated model and clock; and after each step all that must be true of it. One thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "simulation/machine.h"
#include "simulation/scenario.h"
#include "simulation/witness.h"

namespace monolith::simulation {

// What a run came to. Sums over runs are of use too.
struct Figures {
  int64_t steps = 0, rows = 0, requests = 0, refused = 0, tokens = 0, cached_tokens = 0, preemptions = 0, guessed = 0,
          guessed_right = 0;
  int64_t cancelled = 0, timeouts = 0, restarts = 0;
  int64_t longest_wait = 0;     // steps until a request has started
  int64_t longest_without = 0;  // steps that an organization was without a place beside one with two
  int64_t longest_easily = 0;   // the same while nothing stood in the way
  void add(const Figures& other);
};

class World {
 public:
  // `inner`: a backend that is never asked to compute. `kept`: which actions happen; empty: all.
  World(const Scenario& scenario, std::vector<bool> kept, const Tokenizer& tokenizer, Backend& inner);

  // Throws Violation. step() says when.
  void run();
  int64_t step() const { return step_; }
  const Figures& figures() const { return figures_; }
  uint64_t trace() const;

 private:
  struct Line {  // a channel and whoever reads it
    std::shared_ptr<Channel> channel;
    int64_t stalled_until = 0;
  };

  void start();
  void take_in(size_t first, size_t end);
  void act(size_t number);
  void submit(size_t number, const Ask& ask);
  void cancel(RequestId id);
  void cancel_meanwhile();
  void take_in_cancelled();
  void close(Line& line);
  void shut_down();
  void die();
  void restart();
  bool compute();
  void pass_time(const Batch& batch);
  void read_channels(bool all);
  void read(Line& line);
  void retire();
  const Sequence& sequence_of(const Segment& segment) const;

  void check();
  void look();
  const Request* find(RequestId id) const;
  void check_pages();
  void check_queue() const;
  void check_progress(bool computed);
  void check_deadlines(int64_t begun_ns) const;
  void check_places();
  void check_idle() const;

  const Scenario& scenario_;
  const Setup& setup_;
  const std::vector<bool> kept_;
  const Tokenizer& tokenizer_;
  Backend& inner_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Witness> witness_;
  std::vector<Line> lines_;
  std::map<size_t, RequestId> ids_;  // by the action that has asked
  static constexpr size_t kMostOrganizations = 8;
  std::array<int64_t, kMostOrganizations> without_{}, easily_{};  // steps without a place, though one could be given
  std::vector<RequestId> meanwhile_;                              // to be cancelled while the next step is computed
  std::vector<std::pair<RequestId, std::shared_ptr<Channel>>> cancelled_;  // of which the engine does not know yet
  RequestId next_id_ = 1;
  int64_t step_ = 0;
  int stuck_ = 0;  // steps in which nothing was computed though something could be
  uint64_t trace_ = 0;
  bool breaks_ = false;  // the next forward pass
  std::vector<std::byte> drained_;
  std::vector<int32_t> references_;  // scratch of check_pages
  std::vector<Request*> requests_;   // see look()
  Figures figures_;
};

}  // namespace monolith::simulation
