// simulate_engine --steps N --seed N: runs scenarios of that seed until N steps have been computed. A failed scenario
// is run again, reduced, and printed with the command that reproduces the failure; the exit code is then 1. Started by
// scripts/simulate.mjs.
//
//   --part N          run only scenario N of the seed
//   --only N,N,...    run only these actions of the scenario
//   --quiet           do not print the line of statistics
//   --loses-copies    inject a fault that the simulation must find: page copies are dropped
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "backend/cpu/cpu_backend.h"
#include "simulation/world.h"
#include "text/tokenizer/support.h"

namespace monolith::simulation {
namespace {

constexpr int kMaxShrinkingRuns = 1500;

// Reduces a failing scenario by omitting actions as long as it still fails. `fails` returns whether a run with the
// selected actions fails. Returns the smallest selection found within `most_runs` runs. Uses simple delta debugging
// (Zeller and Hildebrandt 2002): each round omits runs of consecutive actions that are shorter than in the previous
// round.
std::vector<bool> shrink(size_t n_actions, const std::function<bool(const std::vector<bool>&)>& fails, int most_runs) {
  std::vector<size_t> kept(n_actions);
  for (size_t i = 0; i < n_actions; ++i) kept[i] = i;
  const auto mask = [&](const std::vector<size_t>& of) {
    std::vector<bool> mask(n_actions, false);
    for (const size_t i : of) mask[i] = true;
    return mask;
  };
  int runs = 0;
  for (size_t length = std::max<size_t>(1, kept.size() / 2); runs < most_runs;) {
    bool shorter = false;
    // Starts at the end of the list, because later actions may depend on earlier ones.
    for (size_t end = kept.size(); end > 0 && runs < most_runs;) {
      const size_t begin = end > length ? end - length : 0;
      std::vector<size_t> without(kept.begin(), kept.begin() + static_cast<ptrdiff_t>(begin));
      without.insert(without.end(), kept.begin() + static_cast<ptrdiff_t>(end), kept.end());
      ++runs;
      if (fails(mask(without))) {
        kept = std::move(without);
        shorter = true;
      }
      end = begin;
    }
    if (length > 1)
      length = std::max<size_t>(1, length / 2);
    else if (!shorter)
      break;
  }
  return mask(kept);
}

struct Options {
  int64_t steps = 1'000'000;
  uint64_t seed = 1;
  std::optional<uint64_t> part;
  std::vector<size_t> only;
  bool quiet = false, loses_copies = false;
};

template <typename T>
bool read_number(std::string_view text, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_list(std::string_view text, std::vector<size_t>& into) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    size_t number = 0;
    if (!read_number(text.substr(0, comma), number)) return false;
    into.push_back(number);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

bool read_options(int n, char** arguments, Options& options) {
  for (int i = 1; i < n; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--quiet") {
      options.quiet = true;
      continue;
    }
    if (name == "--loses-copies") {
      options.loses_copies = true;
      continue;
    }
    const std::string_view value = i + 1 < n ? arguments[++i] : "";
    uint64_t part = 0;
    if (name == "--steps" && read_number(value, options.steps)) continue;
    if (name == "--seed" && read_number(value, options.seed)) continue;
    if (name == "--only" && read_list(value, options.only)) continue;
    if (name == "--part" && read_number(value, part)) {
      options.part = part;
      continue;
    }
    std::fprintf(stderr, "simulate_engine: invalid option: %s %s\n", arguments[i - 1], arguments[i]);
    return false;
  }
  return true;
}

// The command that repeats the current scenario. It is printed if an assertion fails, because the process then ends
// before the scenario can be reduced.
char again[160];

void say_what_ran(int) { static_cast<void>(!write(STDOUT_FILENO, again, std::strlen(again))); }

void note_what_runs(uint64_t seed, uint64_t part) {
  std::snprintf(again, sizeof again,
                "FAILED: an assertion in part %llu\nagain: npm run simulate -- --seed %llu --part %llu\n",
                static_cast<unsigned long long>(part), static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(part));
}

std::unique_ptr<const Tokenizer> make_tokenizer() {
  testing::VocabularyFile file = testing::VocabularyFile::byte_level();
  file.tokens.clear(), file.types.clear(), file.scores.clear();
  for (char letter = 'a'; letter <= 'z'; ++letter) file.add(std::string(1, letter));
  for (const char* sign : {"[", "]", "_", ",", "."}) file.add(sign);
  const TokenId end = file.add("</s>", TokenKind::kControl);
  testing::GgufBuilder builder = file.builder();
  builder.scalar("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end));
  auto tokenizer = testing::load(builder);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return std::move(*tokenizer);
}

struct Outcome {
  std::string failure;  // Empty if there was no failure.
  int64_t step = 0;
  uint64_t trace = 0;
  Figures figures;
};

class Simulation {
 public:
  explicit Simulation(const Options& options) : options_(options), tokenizer_(make_tokenizer()) {
    auto backend = make_cpu_backend({.threads = 1});
    if (!backend) throw std::runtime_error(backend.error().message);
    backend_ = std::move(*backend);
  }

  int run() {
    Figures sum;
    uint64_t trace = options_.seed;
    for (uint64_t part = options_.part.value_or(0); sum.steps < options_.steps; ++part) {
      Scenario scenario = make_scenario(options_.seed, part);
      scenario.setup.loses_copies = options_.loses_copies;
      note_what_runs(options_.seed, part);
      const Outcome outcome = run_one(scenario, selection(scenario));
      sum.add(outcome.figures);
      trace = fold(trace, outcome.trace);
      if (!outcome.failure.empty()) {
        report(scenario, part, outcome);
        return 1;
      }
      if (options_.part) break;
    }
    if (!options_.quiet) print(sum);
    std::printf("trace %016llx\n", static_cast<unsigned long long>(trace));
    return 0;
  }

 private:
  std::vector<bool> selection(const Scenario& scenario) const {
    if (options_.only.empty()) return {};
    std::vector<bool> kept(scenario.actions.size(), false);
    for (const size_t number : options_.only)
      if (number < kept.size()) kept[number] = true;
    return kept;
  }

  Outcome run_one(const Scenario& scenario, std::vector<bool> kept) const {
    Outcome outcome;
    World world(scenario, std::move(kept), *tokenizer_, *backend_);
    try {
      world.run();
    } catch (const std::exception& error) {
      outcome.failure = error.what();
    }
    outcome.step = world.step();
    outcome.trace = world.trace();
    outcome.figures = world.figures();
    return outcome;
  }

  void report(const Scenario& scenario, uint64_t part, const Outcome& outcome) const {
    std::printf("FAILED at step %lld of part %llu: %s\n", static_cast<long long>(outcome.step),
                static_cast<unsigned long long>(part), outcome.failure.c_str());
    std::fflush(stdout);
    // While the scenario is being reduced, any failure counts, because the same bug can show up in many ways.
    std::vector<bool> kept = shrink(
        scenario.actions.size(),
        [&](const std::vector<bool>& some) { return !run_one(scenario, some).failure.empty(); }, kMaxShrinkingRuns);
    Outcome least = run_one(scenario, kept);
    // If the reduced scenario does not fail when run again, report the original failure with all actions.
    if (least.failure.empty()) least = outcome, kept.assign(kept.size(), true);
    std::printf("smallest failing scenario fails at step %lld: %s\n  %s\n", static_cast<long long>(least.step),
                least.failure.c_str(), to_text(scenario.setup).c_str());
    std::string only;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i]) continue;
      std::printf("  %zu: %s\n", i, to_text(scenario.actions[i]).c_str());
      only += (only.empty() ? "" : ",") + std::to_string(i);
    }
    std::printf("again: npm run simulate -- --seed %llu --part %llu%s%s\n",
                static_cast<unsigned long long>(options_.seed), static_cast<unsigned long long>(part),
                only.empty() ? "" : " --only ", only.c_str());
  }

  static void print(const Figures& f) {
    const auto number = [](int64_t value) { return static_cast<long long>(value); };
    std::printf(
        "engine: %lld steps of %lld tokens, %lld requests (%lld rejected, %lld cancelled), %lld tokens generated, %lld "
        "read from "
        "the prefix cache, "
        "%lld preemptions, %lld draft tokens (%lld accepted), %lld pages exported, %lld imported, %lld engines; "
        "longest wait %lld steps, longest without a "
        "slot %lld "
        "(%lld with a slot available)\n",
        number(f.steps), number(f.rows), number(f.requests), number(f.refused), number(f.cancelled), number(f.tokens),
        number(f.cached_tokens), number(f.preemptions), number(f.drafted), number(f.accepted_draft_tokens),
        number(f.exported), number(f.imported), number(f.restarts), number(f.longest_wait), number(f.longest_without),
        number(f.longest_easily));
  }

  const Options options_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace
}  // namespace monolith::simulation

int main(int n, char** arguments) {
  using namespace monolith::simulation;
  Options options;
  if (!read_options(n, arguments, options)) return 2;
  std::signal(SIGABRT, say_what_ran);
  try {
    return Simulation(options).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "simulate_engine: %s\n", error.what());
    return 2;
  }
}
