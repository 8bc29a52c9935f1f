// The parts of an engine under simulation: its step loop and the objects that the loop works on.
#pragma once

#include "engine/loop/step_loop.h"
#include "simulation/scenario.h"
#include "simulation/sim_model.h"

namespace monolith::simulation {

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

// A restart of the engine constructs a new Machine.
struct Machine {
  // `inner` is a backend that is never asked to compute.
  Machine(const Setup& setup, const Tokenizer& tokenizer, Backend& inner)
      : backend(inner, setup), model(setup, backend), loop(model, tokenizer, options_of(setup), counters) {}

  SimBackend backend;
  SimModel model;
  EngineCounters counters;
  StepLoop loop;
};

}  // namespace monolith::simulation
