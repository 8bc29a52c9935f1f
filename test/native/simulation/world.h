// Runs one scenario with an engine's real step loop (scheduler, pages, prefix cache, sequences, sampling, events), but
// without its threads and with a simulated model and clock. After each step, all invariants are checked.
// Single-threaded.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "engine/loop/step_loop.h"
#include "simulation/disk.h"
#include "simulation/scenario.h"
#include "simulation/sim_model.h"
#include "simulation/witness.h"

namespace monolith::simulation {

// Statistics of one run, which can be added to the statistics of other runs.
struct Figures {
  int64_t steps = 0, rows = 0, requests = 0, refused = 0, tokens = 0, cached_tokens = 0, preemptions = 0, drafted = 0,
          accepted_draft_tokens = 0;
  int64_t cancelled = 0, timeouts = 0, restarts = 0;
  int64_t exported = 0, imported = 0;  // Pages exported to and imported from the disk.
  int64_t longest_wait = 0;            // Maximum number of steps until a request started.
  // Maximum number of steps for which an organization with work had no sequence slot while another organization had
  // two.
  int64_t longest_without = 0;
  int64_t longest_easily = 0;  // Like longest_without, but only for steps in which a slot was available.
  void add(const Figures& other);
};

inline EngineOptions options_of(const Setup& setup) {
  EngineOptions options;
  options.max_batch_tokens = setup.max_rows;
  options.max_sequences = setup.max_sequences;
  options.step_ms = setup.step_ms;
  options.queue_max = setup.queue_max;
  options.queue_max_tokens = setup.queue_max_tokens;
  options.prefix_cache = setup.prefix_cache;
  options.snapshot_tokens = setup.snapshot_tokens;
  options.speculation = setup.speculation;
  options.overlap = setup.overlaps;
  return options;
}

// The parts of an engine that are simulated: its step loop and the objects used by the loop. To simulate a restart of
// the engine, a new Machine is constructed.
struct Machine {
  // `inner` is a backend that is never used for computation.
  Machine(const Setup& setup, const Tokenizer& tokenizer, Backend& inner)
      : backend(inner, setup), model(setup, backend), loop(model, tokenizer, options_of(setup), counters) {}

  SimBackend backend;
  SimModel model;
  EngineCounters counters;
  StepLoop loop;
};

class World {
 public:
  // `inner` is a backend that is never used for computation. `kept` selects the actions to run; empty means all
  // actions.
  World(const Scenario& scenario, std::vector<bool> kept, const Tokenizer& tokenizer, Backend& inner);

  // Throws Violation on failure; step() then returns the number of the step in which the violation occurred.
  void run();
  int64_t step() const { return step_; }
  const Figures& figures() const { return figures_; }
  uint64_t trace() const;

 private:
  struct Line {  // A channel and its reader.
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
  std::unique_ptr<Disk> disk_;  // Null in half of the scenarios.
  std::unique_ptr<Witness> witness_;
  std::vector<Line> lines_;
  std::map<size_t, RequestId> ids_;  // Request IDs by the number of the action that submitted them.
  static constexpr size_t kMaxOrganizations = 8;
  // For each organization, the number of consecutive steps in which it had no sequence slot although it could have been
  // given one.
  std::array<int64_t, kMaxOrganizations> without_{}, easily_{};
  std::vector<RequestId> meanwhile_;  // Requests to cancel while the next step is being computed.
  // Requests whose cancellation the engine has not processed yet.
  std::vector<std::pair<RequestId, std::shared_ptr<Channel>>> cancelled_;
  RequestId next_id_ = 1;
  int64_t step_ = 0;
  int stuck_ = 0;  // Consecutive steps in which nothing was computed although something could have been.
  uint64_t trace_ = 0;
  bool breaks_ = false;  // The next forward pass throws.
  std::vector<std::byte> drained_;
  std::vector<int32_t> references_;  // Scratch buffer for check_pages(): references per page.
  std::vector<Request*> requests_;   // Result of look(): all requests known to the scheduler.
  Figures figures_;
};

}  // namespace monolith::simulation
