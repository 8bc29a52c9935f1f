#include "simulation/scenario.h"

#include <algorithm>
#include <sstream>

#include "engine/kv/page_table.h"
#include "engine/speculation/speculation.h"

namespace monolith::simulation {
namespace {

KvLayout make_layout(Random& random) {
  KvLayout layout;
  switch (random.below(6)) {
    case 0:
    case 1: break;  // The model has one page table for all layers.
    case 2: layout.full = 2; break;
    case 3: layout.windowed = 1, layout.window = random.from(2, 40); break;
    case 4: layout.windowed = random.from(2, 3), layout.window = random.from(10, 33); break;
    default: layout.full = 0, layout.windowed = random.from(1, 2), layout.window = random.from(4, 40);
  }
  return layout;
}

Setup make_setup(Random& random) {
  Setup setup;
  KvLayout& layout = setup.shape.layout;
  layout = make_layout(random);
  setup.max_rows = random.one_in(3) ? random.from(1, 12) : random.from(8, 96);
  setup.max_sequences = random.from(1, 10);
  setup.shape.has_state = random.one_in(3);
  if (setup.shape.has_state) setup.n_slots = random.from(2, setup.max_sequences + 8);
  setup.snapshot_tokens = random.from(1, 100);
  // At least enough pages for one sliding window and one step of a sequence that runs alone.
  const int64_t least =
      layout.tables() + layout.windowed * layout.window_pages(std::min(setup.max_rows, kMinRowsAlone));
  setup.n_pages = least + layout.tables() * random.from(2, random.one_in(3) ? 60 : 16);
  setup.max_context = random.from(20, 300);
  setup.prefix_cache = !random.one_in(6);
  setup.overlaps = random.one_in(3);
  setup.speculation = random.among({Speculation::kOff, Speculation::kAuto, Speculation::kAlways});
  setup.step_ms = random.one_in(2) ? 0 : random.from(1, 20);
  setup.n_organizations = random.from(1, 5);
  setup.n_channels = random.from(1, 3);
  setup.channel_bytes = random.one_in(2) ? size_t{1} << 20 : static_cast<size_t>(random.from(50, 3000));
  setup.queue_max = random.from(1, 40);
  if (random.one_in(3)) setup.queue_max_tokens = random.from(50, 2000);
  setup.most_model_ms = random.from(1, 30);
  setup.n_steps = random.from(50, 800);
  if (random.one_in(3)) setup.n_background = random.from(1, 3);
  setup.chance = random.next();
  return setup;
}

void make_spans(Random& random, const Setup& setup, Ask& ask) {
  const bool may_see_one_another = !setup.shape.has_state && setup.max_rows >= 8;
  const int end = ask.n_shared + ask.n_own - 1;  // The last position of a prompt must be a token.
  for (int at = random.from(0, 12); at < end && ask.spans.size() < 3; at += random.from(1, 20)) {
    Span span{at, random.from(1, std::min(12, setup.max_rows)), random.below(3),
              may_see_one_another && random.one_in(2)};
    if (span.first + span.n_rows > end) break;
    ask.spans.push_back(span);
    at += span.n_rows;
  }
}

Ask make_ask(Random& random, const Setup& setup) {
  Ask ask;
  ask.organization = static_cast<uint64_t>(random.below(setup.n_organizations));
  if (random.one_in(2)) ask.organization = 0;  // One organization sends more requests than all others.
  ask.channel = random.below(setup.n_channels);
  ask.family = random.below(3);
  const int most = random.one_in(4) ? setup.max_context - 1 : std::min(setup.max_context - 1, random.from(2, 80));
  ask.n_shared = random.from(0, most - 1);
  ask.n_own = random.one_in(3) ? 1 : random.from(1, most - ask.n_shared);
  ask.own = random.below(1000);
  if (random.one_in(6)) make_spans(random, setup, ask);
  if (random.one_in(12)) ask.output = random.one_in(2) ? OutputKind::kLogprobs : OutputKind::kNothing;
  if (random.one_in(5)) ask.n = random.from(2, 6);
  ask.max_tokens = random.one_in(5) ? random.from(1, 200) : random.from(1, 40);
  if (random.one_in(6)) ask.min_tokens = random.from(1, ask.max_tokens);
  ask.background = setup.n_background > 0 && random.one_in(setup.n_background);
  if (random.one_in(3)) ask.temperature = random.among({0.5f, 1.0f, 2.0f});
  ask.seed = random.next();
  ask.logprobs = random.one_in(3);
  ask.ignore_end = random.one_in(5);
  ask.use_cache = !random.one_in(8);
  if (random.one_in(10) || ask.output == OutputKind::kLogprobs) ask.prompt_logprobs = 0;
  if (ask.min_tokens == 0 && random.one_in(6)) ask.stop = random.below(25);
  if (random.one_in(6)) ask.budget = random.from(0, 20), ask.n_closing = random.from(1, 40);
  if (random.one_in(8)) ask.queue_wait_ms = static_cast<uint32_t>(random.from(1, 1000));
  if (random.one_in(10)) ask.generation_ms = static_cast<uint32_t>(random.from(1, 1000));
  if (ask.output != OutputKind::kTokens) {
    ask.n = 1, ask.max_tokens = ask.min_tokens = 0, ask.stop = ask.budget = -1;
    ask.logprobs = false;
  }
  if (ask.prompt_logprobs >= 0) ask.spans.clear();
  return ask;
}

Action make_action(Random& random, const Setup& setup, int at, int n_actions, bool gentle) {
  Action action{.at = at, .act = Act::kSubmit};
  const int draw = random.below(gentle ? 60 : 100);
  action.target = n_actions == 0 ? 0 : n_actions - 1 - random.below(std::min(n_actions, 24));
  if (draw >= 94) {
    action.act = Act::kStall, action.target = random.below(setup.n_channels), action.amount = random.from(1, 60);
  } else if (draw >= 90) {
    action.act = Act::kClose, action.target = random.below(setup.n_channels);
  } else if (draw >= 74) {
    action.act = Act::kCancel, action.more = random.below(2);
  } else if (draw >= 68) {
    action.act = Act::kFinish, action.amount = random.below(4);
  } else if (draw >= 65) {
    action.act = Act::kConfigure, action.amount = random.from(1, setup.max_rows),
    action.more = random.from(1, setup.max_sequences);
  } else if (draw >= 63) {
    action.act = Act::kHold, action.amount = random.from(1, 2000);
  } else if (draw >= 62) {
    action.act = Act::kNotFinite;
  } else if (draw >= 60 && random.one_in(12)) {
    action.act = random.one_in(2) ? Act::kBreak : Act::kShutDown;
  }
  if (action.act == Act::kSubmit) action.ask = make_ask(random, setup);
  return action;
}

}  // namespace

Scenario make_scenario(uint64_t seed, uint64_t number) {
  Random random(seed, number);
  Scenario scenario{.setup = make_setup(random), .actions = {}};
  const Setup& setup = scenario.setup;
  const bool gentle = random.one_in(8);    // The scenario only submits requests.
  const int between = random.from(1, 16);  // Approximate number of steps between two actions.
  const bool bursts = random.one_in(3);
  for (int at = 0; at < setup.n_steps;) {
    for (int n = bursts && random.one_in(6) ? random.from(2, 20) : 1; n > 0; --n)
      scenario.actions.push_back(make_action(random, setup, at, static_cast<int>(scenario.actions.size()), gentle));
    at += random.below(2 * between + 1);
  }
  return scenario;
}

std::vector<TokenId> prompt_of(const Ask& ask) {
  std::vector<TokenId> tokens;
  Random shared(static_cast<uint64_t>(ask.family) + 77), own(static_cast<uint64_t>(ask.own) + 1'000'000);
  for (int i = 0; i < ask.n_shared; ++i) tokens.push_back(shared.below(5));
  for (int i = 0; i < ask.n_own; ++i) tokens.push_back(own.below(5));
  return tokens;
}

std::vector<float> rows_of(const Span& span) {
  Random random(static_cast<uint64_t>(span.content) + 500);
  std::vector<float> rows;
  for (int i = 0; i < span.n_rows; ++i) rows.push_back(static_cast<float>(random.below(1 << 20)));
  return rows;
}

std::string to_text(const Setup& s) {
  std::ostringstream out;
  const KvLayout& l = s.shape.layout;
  out << "tables " << l.full << " + " << l.windowed << " with a sliding window of " << l.window << ", slots "
      << s.n_slots << " (snapshots every " << s.snapshot_tokens << "), pages " << s.n_pages << ", rows " << s.max_rows
      << ", sequences " << s.max_sequences << ", context " << s.max_context << ", cache " << s.prefix_cache
      << ", overlaps " << s.overlaps << ", guesses " << static_cast<int>(s.speculation) << ", step_ms " << s.step_ms
      << ", organizations " << s.n_organizations << ", channels " << s.n_channels << " of " << s.channel_bytes
      << " bytes, queue " << s.queue_max << " requests, " << s.queue_max_tokens << " tokens, steps " << s.n_steps;
  return out.str();
}

std::string to_text(const Action& a) {
  std::ostringstream out;
  out << "before step " << a.at << ": ";
  switch (a.act) {
    case Act::kSubmit: {
      const Ask& k = a.ask;
      out << (k.background ? "background " : "") << "request of organization " << k.organization << ", channel "
          << k.channel << ", prompt " << k.n_shared << " of family " << k.family << " + " << k.n_own << " own tokens ("
          << k.own << "), output " << static_cast<int>(k.output) << ", n " << k.n << ", tokens " << k.min_tokens
          << " to " << k.max_tokens << ", temperature " << k.temperature << ", logprobs " << k.logprobs
          << ", prompt_logprobs " << k.prompt_logprobs << ", ignore_end " << k.ignore_end << ", cache " << k.use_cache
          << ", stop " << k.stop << ", budget " << k.budget << ", waits " << k.queue_wait_ms << " ms, generates "
          << k.generation_ms << " ms";
      for (const Span& s : k.spans)
        out << ", span at " << s.first << " of " << s.n_rows << " (" << s.content
            << (s.bidirectional ? ", bidirectional)" : ")");
      break;
    }
    case Act::kCancel:
      out << "cancel the request of action " << a.target << (a.more ? ", while the step is computed" : "");
      break;
    case Act::kFinish: out << "finish choice " << a.amount << " of the request of action " << a.target; break;
    case Act::kClose: out << "channel " << a.target << " closes"; break;
    case Act::kStall: out << "no reader on channel " << a.target << " for " << a.amount << " steps"; break;
    case Act::kConfigure: out << "configure " << a.amount << " rows, " << a.more << " sequences"; break;
    case Act::kNotFinite: out << "logits are not finite"; break;
    case Act::kBreak: out << "the forward pass throws"; break;
    case Act::kHold: out << a.amount << " ms pass"; break;
    case Act::kShutDown: out << "orderly shutdown and restart"; break;
  }
  return out.str();
}

}  // namespace monolith::simulation
