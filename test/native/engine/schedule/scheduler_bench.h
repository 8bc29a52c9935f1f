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
#include "engine/sequence.h"

namespace monolith {

inline constexpr int kVocabulary = 1000;

struct Bench {
  PrefixCache cache;
  Scheduler scheduler;
  std::shared_ptr<Channel> channel = std::make_shared<Channel>(nullptr, 100);
  std::vector<std::unique_ptr<Request>> requests;
  int max_ahead = 0;

  // Simulated contents of the page pool: for each position, a hash of the prefix for which it was computed.
  std::vector<uint64_t> contents;

  std::vector<uint64_t> states;  // Simulated recurrent state by slot: the same kind of hash.
  std::mt19937 random{1};
  int most_drafts = 0;

  Bench(int64_t n_pages, int max_rows, int max_sequences, bool prefix_cache = true, const KvLayout& layout = {},
        int n_slots = 0, int snapshot_tokens = 64)
      : cache({.n_pages = n_pages,
               .seed = 1,
               .layout = layout,
               .max_nodes = PrefixCache::nodes_for(layout, n_pages, 2000),
               .n_slots = n_slots}),
        scheduler(cache, {.max_rows = max_rows,
                          .max_sequences = max_sequences,
                          .prefix_cache = prefix_cache,
                          .max_logit_rows = n_slots > 0 ? max_rows : 0,
                          .snapshot_tokens = snapshot_tokens}),
        contents(static_cast<size_t>(n_pages) * kPageTokens),
        states(static_cast<size_t>(n_slots)) {}

  // Maximum length of a sequence that has all pages to itself.
  int max_length() const {
    return static_cast<int>(
        std::min<int64_t>(2000, cache.layout().positions_in(cache.pool().size(), scheduler.batch_tokens_limit())));
  }

  Request& add(std::vector<TokenId> prompt, uint64_t organization = 1, int max_tokens = 50, int n = 1,
               std::vector<InputSpan> spans = {}, OutputKind output = OutputKind::kTokens) {
    GenerationRequest params;
    params.output = output;
    params.spans = std::move(spans);
    params.n = n;
    params.prompt = std::move(prompt);
    params.organization = organization;
    params.max_tokens = max_tokens;
    return submit(std::move(params));
  }

  Request& add_background(std::vector<TokenId> prompt, uint64_t organization = 1, int max_tokens = 50, int n = 1) {
    GenerationRequest params;
    params.n = n;
    params.prompt = std::move(prompt);
    params.organization = organization;
    params.background = true;
    params.max_tokens = max_tokens;
    return submit(std::move(params));
  }

  Request& submit(GenerationRequest params) {
    requests.push_back(std::make_unique<Request>(static_cast<RequestId>(requests.size() + 1), channel,
                                                 std::move(params), kVocabulary, max_length(), cache.layout()));
    scheduler.add(*requests.back()->choices[0]);
    return *requests.back();
  }

  bool works() const {
    return !scheduler.running().empty() || !scheduler.preempted().empty() || scheduler.any_waiting();
  }

  // From time to time, appends several forced tokens.
  void write_ahead(ScheduledSequence& sequence) {
    const int most = std::min(max_ahead, sequence.request.max_length - sequence.length());
    if (most <= 0 || sequence.generated() % 5 != 0) return;
    sequence.tokens.insert(sequence.tokens.end(), static_cast<size_t>(most), 8);
    if (sequence.state == SequenceState::kRunning) sequence.n_ahead = sequence.remaining() - 1;
  }

  // Creates the choices at the end of a prompt, as the engine does.
  void fork_choices(ScheduledSequence& lead) {
    Request& request = lead.request;
    while (static_cast<int>(request.choices.size()) < request.params.n) {
      request.choices.push_back(std::make_unique<Sequence>(request, static_cast<int>(request.choices.size())));
      scheduler.fork(lead, *request.choices.back());
      request.choices.back()->tokens.push_back(7);
    }
  }

  uint64_t& content(const PageId* pages, int position) {
    const PageId page = pages[position / kPageTokens];
    CHECK(page >= 0 && page < cache.pool().size());
    return contents[static_cast<size_t>(page) * kPageTokens + static_cast<size_t>(position % kPageTokens)];
  }

  // Simulates the model: writes the keys and values of the computed positions, and checks the keys and values at all
  // visible positions.
  void compute(const StepPlan& plan) {
    for (const auto& [from, to] : plan.copies)
      std::copy_n(contents.begin() + from * kPageTokens, kPageTokens, contents.begin() + to * kPageTokens);
    const KvLayout& layout = cache.layout();
    for (const StepPlan::Item& item : plan.items) {
      const ScheduledSequence& sequence = *item.sequence;
      int end = sequence.kv.n_computed + item.n_tokens;
      std::vector<uint64_t> prefixes{1};  // Hash of the prefix before each position, and of the whole text.
      for (int p = 0; p < end; ++p) {
        auto input = static_cast<uint64_t>(sequence.tokens[static_cast<size_t>(p)]);
        for (const InputSpan& span : sequence.request.params.spans)
          if (p >= span.first && p < span.end())
            input = span.hash.high * 1000 + span.hash.low + static_cast<uint64_t>(p - span.first);
        prefixes.push_back(behind(prefixes.back(), input));
      }
      for (int i = 0; i < item.n_drafts; ++i, ++end)
        prefixes.push_back(behind(prefixes.back(), i < n_right_of(item) ? 7 : 9));
      if (!states.empty()) carry_on(plan, item, prefixes);
      for (int table = 0; table < layout.tables(); ++table) {
        const PageId* pages = sequence.kv.table(table, layout);
        const auto expected = [&](int p) {
          return prefixes[static_cast<size_t>(p) + 1] + static_cast<uint64_t>(table);
        };
        for (int p = sequence.kv.n_computed; p < end; ++p) content(pages, p) = expected(p);
        const int first_seen = table < layout.full ? 0 : std::max(0, sequence.kv.n_computed - layout.window + 1);
        for (int p = first_seen; p < end; ++p)
          if (content(pages, p) != expected(p))
            return check::fail(__FILE__, __LINE__, "wrong keys at " + std::to_string(p));
      }
    }
  }

  static uint64_t behind(uint64_t prefix, uint64_t input) { return (prefix + input) * 0x9E3779B97F4A7C15u; }

  // Simulates a step's effect on the recurrent state of the item's sequence, from the slot that it reads to the slot
  // that it writes.
  void carry_on(const StepPlan& plan, const StepPlan::Item& item, const std::vector<uint64_t>& prefixes) {
    const ScheduledSequence& sequence = *item.sequence;
    auto at = static_cast<size_t>(sequence.kv.n_computed);
    REQUIRE(item.n_chunks > 0);
    const auto state = [&](SlotId slot) -> uint64_t& {
      CHECK(cache.slots().ref_count(slot) > 0);
      return states[static_cast<size_t>(slot)];
    };
    for (const StepPlan::Chunk& chunk : plan.chunks_of(item)) {
      CHECK(chunk.n_tokens > 0);
      if (chunk.from == kNoSlot)
        CHECK_EQ(at, size_t{0});
      else if (state(chunk.from) != prefixes[at])
        return check::fail(__FILE__, __LINE__, "wrong state at " + std::to_string(at));
      // A slot may be written only if it has a single owner.
      if (chunk.to == chunk.from) CHECK_EQ(cache.slots().ref_count(chunk.to), 1);
      at += static_cast<size_t>(chunk.n_tokens);
      state(chunk.to) = prefixes[at];
    }
    CHECK_EQ(at, static_cast<size_t>(sequence.kv.n_computed + item.n_tokens));
    if (item.n_drafts > 0) state(sequence.kv.draft_slot) = prefixes.back();
  }
  // Returns the number of accepted draft tokens, which varies by sequence and position. In this simulation, all tokens
  // have the ID 7.
  int n_right_of(const StepPlan::Item& item) const {
    return static_cast<int>((item.sequence->order() + static_cast<uint64_t>(item.sequence->length())) %
                            static_cast<uint64_t>(item.n_drafts + 1));
  }
  void add_drafts(const StepPlan& plan) {
    for (const StepPlan::Item& item : plan.items) {
      const int room = item.sequence->request.max_length - item.sequence->length() - 1;
      const int n = std::min(static_cast<int>(random() % static_cast<uint32_t>(most_drafts + 1)), room);
      if (item.wants_logits && item.sequence->decoding() && n > 0) scheduler.add_drafts(item, n);
    }
  }

  // Runs one step. A sequence whose last token is computed gets the next token, unless it has reached max_length.
  const StepPlan& step(bool check_consistency = true) {
    const StepPlan& plan = scheduler.plan();
    if (most_drafts > 0) add_drafts(plan);
    int rows = 0;
    for (const StepPlan::Item& item : plan.items) {
      rows += item.n_tokens + item.n_drafts;
      CHECK(item.n_tokens > 0);
      const bool wants_tokens = item.sequence->request.params.output == OutputKind::kTokens;
      CHECK_EQ(item.wants_logits, wants_tokens && item.n_tokens == item.sequence->remaining());
      CHECK(!span_across(item.sequence->request.params.spans, item.sequence->kv.n_computed));
      CHECK(!span_across(item.sequence->request.params.spans, item.sequence->kv.n_computed + item.n_tokens));
      const int last = item.sequence->kv.n_computed + item.n_tokens - 1;
      const auto check_writable = [&](const PageTable& pages) {
        CHECK(static_cast<int>(pages.size()) > last / kPageTokens);
        for (int p = item.sequence->kv.n_computed / kPageTokens; p <= last / kPageTokens; ++p)
          // A page may be written only if it has a single owner.
          CHECK_EQ(cache.pool().ref_count(pages[static_cast<size_t>(p)]), 1);
      };
      if (cache.layout().full > 0) check_writable(item.sequence->kv.pages);
      if (cache.layout().windowed > 0) check_writable(item.sequence->kv.window_pages);
      item.sequence->request.started_at = Clock::now();
    }
    CHECK_EQ(rows, plan.n_rows);
    compute(plan);
    scheduler.advance();
    for (const StepPlan::Item& item : plan.items) {
      if (!item.wants_logits) {
        if (item.ends()) scheduler.remove(*item.sequence);  // No more output is wanted.
        continue;
      }
      if (item.sequence->choice == 0) fork_choices(*item.sequence);
      for (int i = item.n_drafts > 0 ? n_right_of(item) : 0; i > 0; --i) {
        item.sequence->tokens.push_back(7);
        scheduler.keep_draft(*item.sequence);
      }
      item.sequence->tokens.push_back(7);
      if (item.sequence->state == SequenceState::kRunning) item.sequence->n_ahead = item.sequence->remaining() - 1;
      write_ahead(*item.sequence);
      if (item.sequence->length() >= item.sequence->request.max_length) scheduler.remove(*item.sequence);
    }
    if (check_consistency) CHECK(scheduler.consistent());
    return plan;
  }
};

inline std::vector<TokenId> prompt_of(int n, int first = 1) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((first + i * 7) % kVocabulary);
  return tokens;
}

inline const Sequence& only(const Request& request) { return *request.choices[0]; }

// Runs random requests on a small page pool; with two of five seeds, half of them are background requests. Every
// request must end with all its tokens, no page may leak, and no step may omit a decoding sequence.
inline void check_random_load(const KvLayout& layout, uint32_t n_seeds, bool has_slots = false) {
  for (uint32_t seed = 0; seed < n_seeds; ++seed) {
    std::mt19937 random(seed);
    const int64_t n_pages = (6 + static_cast<int64_t>(random() % 20)) * layout.tables();
    const int rows = 1 + static_cast<int>(random() % 40), sequences = 1 + static_cast<int>(random() % 8);
    Bench bench(n_pages, rows, sequences, seed % 4 != 3, layout, has_slots ? 2 + static_cast<int>(random() % 12) : 0,
                16 * (1 + static_cast<int>(random() % 8)));
    if (has_slots && seed % 2 == 1) bench.most_drafts = 6;
    const int most = std::min(bench.max_length(), 600);
    bench.max_ahead = seed % 3 == 0 ? 0 : static_cast<int>(random() % 40);
    int added = 0, first_tokens_at = -100;
    for (int i = 0; i < 20'000; ++i) {
      if (added < 40 && random() % 4 == 0) {
        ++added;
        GenerationRequest params;
        params.prompt = prompt_of(1 + static_cast<int>(random() % static_cast<uint32_t>(most - 1)), random() % 3);
        params.organization = random() % 3;
        params.max_tokens = 1 + static_cast<int>(random() % 60);
        params.n = random() % 4 ? 1 : 1 + static_cast<int>(random() % 12);
        params.background = seed % 5 >= 3 && random() % 2 == 0;
        bench.submit(std::move(params));
      }
      std::vector<std::pair<ScheduledSequence*, int>> decodes;  // Each with its progress so far.
      for (ScheduledSequence* sequence : bench.scheduler.running())
        if (sequence->decoding()) decodes.emplace_back(sequence, sequence->kv.n_computed);
      const StepPlan& plan = bench.step(i % 16 == 0);
      for (const auto& [sequence, computed] : decodes)
        CHECK(sequence->kv.n_computed > computed || sequence->state == SequenceState::kPreempted || plan.first_tokens ||
              has_slots);
      // Between two steps reserved for first tokens, all other sequences get a token.
      if (plan.first_tokens) CHECK(i - first_tokens_at > PrefillPlanner::kStepsBetween);
      if (plan.first_tokens) first_tokens_at = i;
      const bool left = bench.works();
      if (left) REQUIRE(!plan.items.empty());  // Some sequence can always continue.
      if (random() % 50 == 0 && !bench.requests.empty()) {
        const Request& removed = *bench.requests[random() % bench.requests.size()];
        bench.scheduler.remove(*removed.choices[random() % removed.choices.size()]);
      }
      if (!left && added == 40) break;
    }
    for (const auto& request : bench.requests)
      for (const auto& choice : request->choices) CHECK(choice->state == SequenceState::kEnded);
    CHECK_EQ(bench.cache.available(), bench.cache.pool().size());
  }
}

}  // namespace monolith
