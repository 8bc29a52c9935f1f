#include "engine/loop/step_loop.h"

#include <algorithm>
#include <cassert>
#include <random>
#include <stdexcept>

namespace monolith {
namespace {

// Maximum time for image work before the inbox is checked again, if no sequence decodes.
constexpr std::chrono::milliseconds kSeenAlone{50};

bool wants_vector(const StepPlan::Item& item) { return item.sequence->request.params.output == OutputKind::kVector; }

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

int StepLoop::max_context(const Model& model) {
  const ModelLimits& limits = model.limits();
  const int rows = std::min(limits.max_batch_tokens, kMinRowsAlone);
  return static_cast<int>(
      std::min<int64_t>(limits.max_context, model.memory().layout.positions_in(limits.n_pages, rows)));
}

// Some files pad the embedding table beyond the tokenizer's vocabulary. The padding tokens are never sampled.
int StepLoop::vocabulary(const Model& model, const Tokenizer& tokenizer) {
  return std::min(model.params().n_vocab, tokenizer.n_vocab());
}

StepLoop::StepLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options, EngineCounters& counters,
                   Model* draft, VisionEncoder* encoder, std::function<void()> wake)
    : model_(model),
      counters_(counters),
      max_context_(max_context(model)),
      n_vocab_(vocabulary(model, tokenizer)),
      cache_({.n_pages = model.limits().n_pages,
              .seed = random_seed(),
              .layout = model.memory().layout,
              .max_nodes = PrefixCache::nodes_for(model.memory().layout, model.limits().n_pages, max_context_),
              .n_slots = model.memory().slot_bytes > 0 ? model.limits().n_slots : 0}),
      scheduler_(cache_, {.max_rows = model.limits().max_batch_tokens,
                          .max_sequences = model.limits().max_logit_rows - model.limits().draft_rows,
                          .prefix_cache = options.prefix_cache,
                          .max_logit_rows = model.limits().max_logit_rows,
                          .snapshot_tokens = options.snapshot_tokens}),
      tier_(model, cache_, scheduler_),
      pace_(options.step_ms),
      batch_(model.limits(), cache_.layout().tables(), model.params().uses_mrope()),
      grammars_(tokenizer, n_vocab_, options.grammar_steps, std::move(wake)),
      pending_masks_(grammars_),
      drafts_(options, scheduler_, grammars_, counters, model, draft, n_vocab_),
      samples_(model.backend(), grammars_, n_vocab_, model.params().n_vocab, model.limits().max_logit_rows),
      overlaps_(options.overlap && model.backend().is_asynchronous() && samples_.on_backend()),
      gauges_(counters, scheduler_, cache_.pool(), model.kv()),
      images_(encoder, model.params().input_width(), options.embedding_bytes_max, counters),
      requests_(scheduler_, tier_.exporter(), drafts_, images_, {gauges_, counters}),
      texts_(tokenizer, requests_, overlaps_ ? static_cast<size_t>(model.limits().max_logit_rows) : 0),
      acceptor_({tokenizer, scheduler_, grammars_, samples_, drafts_, requests_, texts_, counters}, max_context_,
                model.params().n_vocab, overlaps_, model.pooling_head()) {
  counters.queue.configure(options.queue_max, options.queue_max_tokens);
  configure({options.max_batch_tokens, options.max_sequences, options.step_ms, {}, {}});
  counters_.loaded_batch_tokens.store(scheduler_.max_batch_tokens(), std::memory_order_relaxed);
  gauges_.update();
}

void StepLoop::configure(const EngineTunables& tunables) {
  scheduler_.configure(tunables.max_batch_tokens.value_or(scheduler_.max_batch_tokens()),
                       tunables.max_sequences.value_or(scheduler_.wanted_sequences()));
  if (tunables.step_ms) {
    pace_.aim_at(*tunables.step_ms);
    counters_.step_ms.store(*tunables.step_ms, std::memory_order_relaxed);
  }
  gauges_.note_limits();
}

void StepLoop::add(std::unique_ptr<Request> request) {
  assert(request->layout.full == cache_.layout().full && request->layout.windowed == cache_.layout().windowed);
  requests_.add(std::move(request));
}

void StepLoop::fail_all(FailureCode code, const std::string& message) {
  texts_.drop_waiting();  // A step has failed before its deferred text was written.
  requests_.fail_all(code, message);
}

bool StepLoop::step() {
  // If no requests are left, nothing needs the results of the step in flight, so they are not awaited. A later step is
  // safe, because the device runs it after the step in flight.
  if (idle()) in_flight_ = {};
  const std::optional<Clock::time_point> completed = complete();
  const Clock::time_point now = completed.value_or(Clock::now());
  if (!completed) requests_.expire(now);
  begin(now);
  const bool begun = in_flight_.plan != nullptr;
  // Sampling is normally requested before the text is written, so that the device starts early. If a worker thread is
  // still computing grammar masks, the text is written first.
  const bool finds_masks = in_flight_.finds_masks;
  if (!finds_masks) request_samples();
  texts_.write_waiting();
  if (finds_masks) request_samples();
  if (!overlaps_) complete();
  const Clock::time_point end = Clock::now();
  // Runs after the next step has been submitted, so that the device does not wait for it.
  if (completed) requests_.expire(end);
  // Runs before publishing, so that a client that sees the last request end also sees an idle engine.
  gauges_.note_progress(end, idle());
  note_copies();  // A client that sees a request end also sees that its pages are still to be exported.
  publish();
  // Both calls come after publishing, so that they do not delay tokens.
  const bool seen = run_vision(end - now);
  const bool copied = tier_.advance(end - now, decodes());
  note_copies();
  return completed || begun || seen || copied || scheduler_.ran_out_of_memory();
}

bool StepLoop::decodes() const {
  return std::ranges::any_of(scheduler_.running(),
                             [](const ScheduledSequence* sequence) { return sequence->decoding(); });
}

void StepLoop::note_copies() {
  counters_.pages_exported.store(tier_.exporter().n_exported(), std::memory_order_relaxed);
  counters_.exports_skipped.store(tier_.exporter().n_skipped(), std::memory_order_relaxed);
  counters_.exports_pending.store(tier_.exporter().n_pending(), std::memory_order_relaxed);
  counters_.pages_imported.store(tier_.importer().n_imported(), std::memory_order_relaxed);
}

// Runs the vision encoder for a limited time. While sequences decode, image work may use only the remainder of the
// target step time. Prefill leaves half of that time.
bool StepLoop::run_vision(Clock::duration step) {
  sees_ = images_.advance(decodes() ? pace_.beside_decodes(std::chrono::duration<double, std::milli>(step).count())
                                    : kSeenAlone);
  return sees_;
}

// Plans a step and submits it to the backend. `now`: time when the backend became free.
void StepLoop::begin(Clock::time_point now) {
  scheduler_.preempt_blocked();  // A worker thread starts on their grammar masks immediately.
  grammars_.begin_step();
  const bool has_memory = pending_masks_.update(scheduler_.preempted());
  if (!has_memory || scheduler_.ran_out_of_memory() || images_.ran_out_of_memory()) requests_.fail_out_of_memory();
  tier_.yield_before_step();
  const StepPlan& plan = scheduler_.plan(pace_.prompt_tokens(sees_));
  tier_.yield_after_plan();
  in_flight_ = {};
  requests_.plan_made();
  if (plan.items.empty()) {
    grammars_.start_prefetching();  // Prefetches grammar masks for waiting sequences.
    return;
  }
  requests_.start(plan, now);
  // The gauges are updated before the forward pass, so that if it hangs, its requests are reported as running.
  gauges_.update();
  for (const StepPlan::PageCopy& copy : plan.copies) model_.backend().copy_page(model_.kv(), copy.from, copy.to);
  drafts_.add_to(plan);
  const bool finds_masks = grammars_.start_prefetching();
  const float* const logits = compute(plan);
  in_flight_ = {.plan = &plan, .logits = logits, .begun_at = now, .answered_at = {}, .finds_masks = finds_masks};
  scheduler_.advance();
}

// Runs the forward pass. Returns the logits of the tokens that need them.
const float* StepLoop::compute(const StepPlan& plan) {
  Batch batch = batch_.build(plan, samples_.on_backend());
  batch.hidden = drafts_.feed(plan);
  batch.keeps_hidden_states = std::ranges::any_of(plan.items, wants_vector);
  EngineCounters::add(counters_.prefill_tokens, batch_.prompt_rows());
  const float* logits = model_.forward(batch);
  if (!logits && !batch.logit_rows.empty()) throw std::runtime_error("the forward pass returned no logits");
  return logits;
}

void StepLoop::request_samples() {
  if (in_flight_.plan) samples_.request(*in_flight_.plan, in_flight_.logits);
}

void StepLoop::await() {
  if (!in_flight_.plan || in_flight_.answered) return;
  samples_.await();
  in_flight_.answered = true;
  in_flight_.answered_at = Clock::now();
}

// Accepts the tokens of the step in flight. Returns the time when the step's results arrived, or nullopt if no step is
// in flight.
std::optional<Clock::time_point> StepLoop::complete() {
  await();
  if (!in_flight_.plan) return std::nullopt;
  const InFlight step = in_flight_;
  const float* logits = step.logits;
  // Hidden states of the step's tokens; null if no request of the step needs them.
  const float* states = std::ranges::any_of(step.plan->items, wants_vector) ? model_.hidden_states() : nullptr;
  std::span<const int32_t> tasks = samples_.tasks();
  for (const StepPlan::Item& item : step.plan->items) {
    const auto n_rows = static_cast<size_t>(item.logit_rows());
    requests_.guard(item.sequence->request, [&] {
      if (wants_vector(item)) acceptor_.take_states(item, states);
      take(item, logits, tasks.first(n_rows));
    });
    if (states != nullptr) states += int64_t{item.n_tokens + item.n_drafts} * model_.params().n_embd;
    tasks = tasks.subspan(n_rows);
    logits += n_rows * static_cast<size_t>(model_.params().n_vocab);
  }
  // Without overlapping steps, the host's work is part of the step's duration.
  note_step(*step.plan, (overlaps_ ? step.answered_at : Clock::now()) - step.begun_at);
  in_flight_ = {};
  return step.answered_at;
}

// Processes the results of one plan item. `logits`, `tasks`: the item's logit rows and their sampling tasks.
void StepLoop::take(const StepPlan::Item& item, const float* logits, std::span<const int32_t> tasks) {
  const auto n_scored = static_cast<size_t>(item.n_scored);
  acceptor_.take_scores(item, tasks.first(n_scored));
  if (item.ends() && item.sequence->state != SequenceState::kEnded)
    requests_.finish_all_choices(item.sequence->request, FinishReason::kMaxTokens);
  if (item.wants_logits)
    acceptor_.take(item, logits + n_scored * static_cast<size_t>(model_.params().n_vocab), tasks.subspan(n_scored));
}

// Records the step's duration, which includes drafting, in the statistics and cost models.
void StepLoop::note_step(const StepPlan& plan, Clock::duration duration) {
  gauges_.note_step(plan, duration);
  const double ms = std::max(0.0, std::chrono::duration<double, std::milli>(duration).count() - drafts_.draft_ms());
  if (plan.n_drafts == 0) pace_.note(plan.n_decodes, plan.n_rows - plan.n_decodes, ms);
  drafts_.note_step(plan, ms);
}

void StepLoop::publish() {
  if (idle()) in_flight_ = {};
  requests_.publish(in_flight_.plan != nullptr);
}

}  // namespace monolith
