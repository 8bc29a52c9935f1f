// One run of the simulated engine, fully determined before it starts: the engine's setup, and a list of timed actions.
// No action depends on what the engine does, so any action can be omitted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "simulation/network.h"

namespace monolith::simulation {

struct Setup {
  Shape shape;
  int n_slots = 0, snapshot_tokens = 16;
  int max_rows = 16, max_sequences = 4, max_context = 128;
  int64_t n_pages = 16;
  bool prefix_cache = true, overlaps = false;
  Speculation speculation = Speculation::kOff;
  int step_ms = 0;
  int n_organizations = 1, n_channels = 1;
  int n_background = 0;  // One in this many requests is a background request; 0 = none.
  size_t channel_bytes = 1 << 20;
  int queue_max = 16, queue_max_tokens = 100'000;
  int most_model_ms = 5;      // Maximum time that the model takes for one step, in ms.
  int n_steps = 500;          // Actions occur during this many steps; then the engine runs until it is idle.
  bool loses_copies = false;  // Injects a fault that the simulation must find: the device drops page copies.
  // Seed for everything that is not determined by an action, such as how long a step takes and when a reader reads.
  uint64_t chance = 0;
};

struct Span {
  int first, n_rows, content;
  bool bidirectional;
};

// A request to submit. Prompts of the same family share their first tokens.
struct Ask {
  uint64_t organization = 0;
  bool background = false;
  int channel = 0;
  // The prompt consists of `n_shared` tokens that are common to the family, followed by `n_own` tokens of this request.
  int family = 0, n_shared = 0, n_own = 1, own = 0;
  std::vector<Span> spans;
  OutputKind output = OutputKind::kTokens;
  int n = 1, max_tokens = 1, min_tokens = 0;
  float temperature = 0;
  uint64_t seed = 0;
  bool logprobs = false, ignore_end = false, use_cache = true;
  int prompt_logprobs = -1;
  int stop = -1;      // A stop string of two letters.
  int budget = -1;    // Maximum number of reasoning tokens. If set, the response starts with reasoning.
  int n_closing = 1;  // Number of tokens that close the reasoning.
  uint32_t queue_wait_ms = 0, generation_ms = 0;
};

enum class Act : uint8_t {
  kSubmit,     // Submits a request. Other actions refer to a channel, or to a request by its submit action's number.
  kCancel,     // Cancels request `target`; with `more`, while the step is being computed.
  kFinish,     // Finishes choice `amount` of request `target`.
  kClose,      // Closes channel `target`: its reader disconnects and a new one takes its place.
  kStall,      // The reader of channel `target` reads nothing for `amount` steps.
  kConfigure,  // Changes the limits to `amount` tokens per step and `more` sequences.
  kNotFinite,  // Makes the next step's logits non-finite.
  kBreak,      // Makes the next forward pass throw; the engine is then restarted.
  kHold,       // Advances the clock by `amount` ms between two steps.
  kShutDown,   // Shuts the engine down cleanly and restarts it.
};

struct Action {
  int at;  // The action occurs before this step.
  Act act;
  int target = 0, amount = 0, more = 0;
  Ask ask = {};
};

struct Scenario {
  Setup setup;
  std::vector<Action> actions;  // Sorted by time.
};

// Returns scenario `number` of the simulation with this seed.
Scenario make_scenario(uint64_t seed, uint64_t number);

std::vector<TokenId> prompt_of(const Ask& ask);
std::vector<float> rows_of(const Span& span);

// These functions return human-readable descriptions of one line.
std::string to_text(const Setup& setup);
std::string to_text(const Action& action);

}  // namespace monolith::simulation
