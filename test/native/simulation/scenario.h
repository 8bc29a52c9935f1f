// What happens in one run of the simulated engine, all of it known before the run: how the engine is set up, and a list of
// what is done to it and when. Nothing in the list depends on what the engine does, so that parts of it can be left out.
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
  size_t channel_bytes = 1 << 20;
  int queue_max = 16, queue_max_tokens = 100'000;
  int most_model_ms = 5;      // of a step
  int n_steps = 500;          // in which something is done to the engine; then it comes to an end
  bool loses_copies = false;  // the device does: a fault that must be found
  uint64_t chance = 0;        // decides what is nobody's choice: how long a step takes, when a reader reads
};

struct Span {
  int first, n_rows, content;
  bool bidirectional;
};

// A request. Prompts of one family begin alike.
struct Ask {
  uint64_t organization = 0;
  int channel = 0;
  int family = 0, n_shared = 0, n_own = 1, own = 0;  // tokens of the prompt: the family's, then its own
  std::vector<Span> spans;
  OutputKind output = OutputKind::kTokens;
  int n = 1, max_tokens = 1, min_tokens = 0;
  float temperature = 0;
  uint64_t seed = 0;
  bool logprobs = false, ignore_end = false, use_cache = true;
  int prompt_logprobs = -1;
  int stop = -1;      // a stop string of two letters
  int budget = -1;    // of tokens of reasoning, in which the answer then begins
  int n_closing = 1;  // tokens that end it
  uint32_t queue_wait_ms = 0, generation_ms = 0;
};

enum class Act : uint8_t {
  kSubmit,     // a request; the others name one by its number among the actions, or a channel
  kCancel,     // of request `target`; `more`: while the step is computed
  kFinish,     // choice `amount` of request `target`
  kClose,      // channel `target`: its reader is gone, and another comes in its place
  kStall,      // the reader of channel `target` reads nothing for `amount` steps
  kConfigure,  // `amount` rows and `more` sequences
  kNotFinite,  // logits of the next step
  kBreak,      // the next forward pass throws; the engine is started anew
  kHold,       // the clock goes on by `amount` ms between two steps
  kShutDown,   // an orderly end; the engine is started anew
};

struct Action {
  int at;  // before this step
  Act act;
  int target = 0, amount = 0, more = 0;
  Ask ask = {};
};

struct Scenario {
  Setup setup;
  std::vector<Action> actions;  // in the order of their times
};

// Part `number` of the simulation with that seed.
Scenario make_scenario(uint64_t seed, uint64_t number);

std::vector<TokenId> prompt_of(const Ask& ask);
std::vector<float> rows_of(const Span& span);

// For people, a line each.
std::string to_text(const Setup& setup);
std::string to_text(const Action& action);

}  // namespace monolith::simulation
