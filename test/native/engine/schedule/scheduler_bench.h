// Test bench for the scheduler, without a model: it simulates the execution of plans and checks every guarantee in
// scheduler.h.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "engine/schedule/scheduler.h"

namespace monolith {

inline constexpr int kVocabulary = 1000;

struct Bench {
  PrefixCache cache;
  Scheduler scheduler;
  std::shared_ptr<Channel> channel = std::make_shared<Channel>(nullptr, 100);
  std::vector<std::unique_ptr<Request>> requests;
  int max_ahead = 0;

  // Simulated contents of the page pool, by position: a hash of the prefix at the time of computation.
  std::vector<uint64_t> contents;

  std::vector<uint64_t> states;  // Simulated recurrent state by slot: the same kind of hash.
  std::mt19937 random{1};
  int most_drafts = 0;

  Bench(int64_t n_pages, int max_rows, int max_sequences, bool prefix_cache = true, const KvLayout& layout = {},
        int n_slots = 0, int snapshot_tokens = 64);

  // Maximum length of a sequence that has all the pages to itself.
  int max_length() const;

  Request& add(std::vector<TokenId> prompt, uint64_t organization = 1, int max_tokens = 50, int n = 1,
               std::vector<InputSpan> spans = {}, OutputKind output = OutputKind::kTokens);

  bool works() const;

  // Appends several forced tokens at a time, every now and then.
  void write_ahead(Sequence& sequence);

  // Creates the choices at the end of a prompt, as the engine does.
  void fork_choices(Sequence& lead);

  uint64_t& content(const PageId* pages, int position);

  // Simulates the model: writes the keys and values of the computed positions, and checks those at all visible
  // positions.
  void compute(const StepPlan& plan);

  static uint64_t behind(uint64_t prefix, uint64_t input) { return (prefix + input) * 0x9E3779B97F4A7C15u; }

  // Moves the recurrent state of the item's sequence through its slots.
  void carry_on(const StepPlan& plan, const StepPlan::Item& item, const std::vector<uint64_t>& prefixes);
  // Number of accepted draft tokens, which varies by sequence and position. All tokens in the bench have the ID 7.
  int n_right_of(const StepPlan::Item& item) const;
  void add_drafts(const StepPlan& plan);

  // Runs one step. A sequence that reaches its last token gets the next one, unless it ends at max_length.
  const StepPlan& step(bool check_consistency = true);
};

std::vector<TokenId> prompt_of(int n, int first = 1);

const Sequence& only(const Request& request);

// Random load on a small pool: every request ends with all its tokens, no page leaks, and no step leaves out a running
// decode.
void check_random_load(const KvLayout& layout, uint32_t n_seeds, bool has_slots = false);

}  // namespace monolith
