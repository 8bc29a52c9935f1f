#include "engine/loop/step_loop.h"

#include <algorithm>
#include <cassert>
#include <random>
#include <stdexcept>

namespace monolith {
namespace {

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

float milliseconds(Clock::duration duration) { return std::chrono::duration<float, std::milli>(duration).count(); }

bool passed(Clock::time_point since, uint32_t limit_ms, Clock::time_point now) {
  return now - since >= std::chrono::milliseconds(limit_ms);
}

// Whether the tokenizer makes the tokens of its vocabulary out of their texts, as far as a few hundred of them tell. One
// that does not (a file without its merges, say) cuts texts in another way than the model has learned to write them.
bool makes_its_tokens(const Tokenizer& tokenizer) {
  constexpr int kLooks = 256;
  const TokenId stride = std::max(1, tokenizer.n_vocab() / kLooks);
  std::vector<TokenId> tokens;
  int n_looked = 0, n_made = 0;
  for (TokenId token = 0; token < tokenizer.n_vocab(); token += stride) {
    if (tokenizer.kind(token) != TokenKind::kNormal || tokenizer.bytes(token).size() < 2) continue;
    tokens.clear();
    tokenizer.encode(tokenizer.bytes(token), {.continues = true}, tokens);
    ++n_looked;
    n_made += tokens.size() == 1 && tokens.front() == token;
  }
  return 2 * n_made >= n_looked;
}

}  // namespace

int StepLoop::max_context(const Model& model) {
  const ModelLimits& limits = model.limits();
  const int rows = std::min(limits.max_batch_tokens, kLeastRowsAlone);
  return static_cast<int>(std::min<int64_t>(limits.max_context, model.memory().layout.positions_in(limits.n_pages, rows)));
}

// Files may pad the embedding table beyond the tokenizer's vocabulary: such tokens are never chosen.
int StepLoop::vocabulary(const Model& model, const Tokenizer& tokenizer) {
  return std::min(model.params().n_vocab, tokenizer.n_vocab());
}

StepLoop::StepLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options, EngineCounters& counters, Model* draft)
    : model_(model),
      tokenizer_(tokenizer),
      counters_(counters),
      max_context_(max_context(model)),
      n_vocab_(vocabulary(model, tokenizer)),
      forces_rules_(makes_its_tokens(tokenizer)),
      cache_(model.limits().n_pages, random_seed(), ~uint64_t{0}, model.memory().layout,
             PrefixCache::names_for(model.memory().layout, model.limits().n_pages, max_context_)),
      speculation_(options.speculation),
      pace_(options.step_ms),
      scheduler_(cache_, {.max_rows = model.limits().max_batch_tokens,
                          .max_sequences = model.limits().max_logit_rows - model.limits().guess_rows,
                          .prefix_cache = options.prefix_cache,
                          .max_logit_rows = model.limits().max_logit_rows}),
      sampler_(model.backend(), model.backend(), n_vocab_, model.limits().max_logit_rows),
      overlaps_(options.overlap && model.backend().is_asynchronous() && sampler_.samples_on_backend()),
      allowance_(n_vocab_),
      ends_(static_cast<size_t>(n_vocab_)),
      rule_steps_(options.rule_steps) {
  const auto rows = static_cast<size_t>(model.limits().max_batch_tokens);
  tokens_.reserve(rows);
  logit_rows_.reserve(static_cast<size_t>(model.limits().max_logit_rows));
  segments_.reserve(rows * static_cast<size_t>(cache_.layout().tables()));
  ahead_.reserve(std::max(static_cast<size_t>(model.limits().max_logit_rows), size_t{kMaxChoices}));
  if (draft) draft_ = std::make_unique<DraftModel>(*draft, n_vocab_);
  if (overlaps_) {
    unsaid_.reserve(static_cast<size_t>(model.limits().max_logit_rows));
    unsaid_logprobs_.reserve(static_cast<size_t>(model.limits().max_logit_rows));
  }
  wishes_.reserve(DraftModel::kMostSequences);
  wish_items_.reserve(DraftModel::kMostSequences);
  forced_.reserve(grammar::Grammar::kMostForced);
  for (const TokenId token : tokenizer.end_of_generation())
    if (token < n_vocab_) {
      ends_.set(static_cast<uint32_t>(token));
      if (tokenizer.kind(token) != TokenKind::kControl) plain_ends_.push_back(token);
    }
  counters.queue.configure(options.queue_max, options.queue_max_tokens);
  counters_.most_batch_tokens.store(scheduler_.most_batch_tokens(), std::memory_order_relaxed);
  counters_.most_sequences.store(scheduler_.most_sequences(), std::memory_order_relaxed);
  configure({options.max_batch_tokens, options.max_sequences, options.step_ms, {}, {}});
  counters_.loaded_batch_tokens.store(scheduler_.max_batch_tokens(), std::memory_order_relaxed);
  update_gauges();
}

void StepLoop::configure(const EngineTunables& tunables) {
  scheduler_.configure(tunables.max_batch_tokens.value_or(scheduler_.max_batch_tokens()),
                       tunables.max_sequences.value_or(scheduler_.wanted_sequences()));
  if (tunables.step_ms) {
    pace_.aim_at(*tunables.step_ms);
    counters_.step_ms.store(*tunables.step_ms, std::memory_order_relaxed);
  }
  counters_.max_batch_tokens.store(scheduler_.max_batch_tokens(), std::memory_order_relaxed);
  counters_.max_sequences.store(scheduler_.max_sequences(), std::memory_order_relaxed);
}

void StepLoop::add(std::unique_ptr<Request> request) {
  Request& added = *request;
  assert(added.layout.full == cache_.layout().full && added.layout.windowed == cache_.layout().windowed);
  requests_.emplace(added.id, std::move(request));
  scheduler_.add(added);
  ++waiting_seen_;
  waiting_tokens_seen_ += added.params.prompt.size();
}

bool StepLoop::step() { return overlaps_ ? step_in_flight() : step_in_order(); }

bool StepLoop::step_in_order() {
  const Clock::time_point start = Clock::now();
  expire(start);
  mind_rules();
  const StepPlan& plan = scheduler_.plan(pace_.prompt_tokens());
  if (plan.items.empty()) mask_ahead_.start();
  if (!plan.items.empty()) {
    start_requests(plan, start);
    update_gauges();   // what hangs in the forward pass is seen to be running
    guess(plan);
    mask_ahead_.start();
    const float* logits = compute(plan);
    // Else such a step would be taken for as short as it is asked for.
    if (logit_rows_.empty()) model_.backend().wait();
    scheduler_.advance();
    ask_ahead(plan, logits);
    sampler_.run();
    std::span<const int32_t> ahead = ahead_;
    for (const StepPlan::Item& item : plan.items) {
      if (!item.wants_logits) continue;
      const auto n_rows = static_cast<size_t>(1 + item.n_guesses);
      // A failed choice takes its whole request with it.
      if (item.sequence->state != SequenceState::kEnded) take_row(*item.sequence, logits, item.n_guesses, ahead.first(n_rows));
      ahead = ahead.subspan(n_rows);
      logits += n_rows * static_cast<size_t>(model_.params().n_vocab);
    }
    note_step(plan, Clock::now() - start);
  }
  const bool computed = !plan.items.empty();
  note_progress(Clock::now());
  publish();
  return computed;
}

// A step of the model is over, which took `duration`, drafts included.
void StepLoop::note_step(const StepPlan& plan, Clock::duration duration) {
  EngineCounters::add(counters_.steps, 1);
  EngineCounters::add(counters_.step_rows, static_cast<uint64_t>(plan.n_rows));
  const double ms = std::max(0.0, milliseconds(duration) - draft_ms_);   // of the model itself
  if (plan.n_guesses == 0) pace_.note(plan.n_decodes, plan.n_rows - plan.n_decodes, ms);
  if (plan.n_rows == plan.n_decodes + plan.n_guesses) {
    guess_pace_.note(plan.n_decodes, plan.n_guesses, ms);
    draft_pace_.note_step(ms);
  }
  EngineCounters::add(counters_.step_ns, static_cast<uint64_t>(duration.count()));
}

// Before publishing: whoever learns of the last end finds an idle engine.
void StepLoop::note_progress(Clock::time_point now) {
  if (idle()) counters_.note_idle();
  else counters_.note_progress(now);
}

// Who has waited or generated for too long. A request waits until a step computes something of it: until then the one
// limit holds for it, wherever it stands, and from then on the other.
void StepLoop::expire(Clock::time_point now) {
  const auto out_of_time = [now](const Sequence& sequence) {
    const Request& request = sequence.request;
    const uint32_t limit_ms = request.started() ? request.params.generation_ms : request.params.queue_wait_ms;
    return limit_ms > 0 && passed(request.started_at.value_or(request.submitted_at), limit_ms, now);
  };
  found_.clear();
  scheduler_.waiting_queue().collect(out_of_time, found_);
  for (const auto* sequences : {&scheduler_.running(), &scheduler_.preempted()}) {
    for (const Sequence* sequence : *sequences) {
      if (!out_of_time(*sequence)) continue;
      Request& request = sequence->request;
      if (std::find(found_.begin(), found_.end(), &request) == found_.end()) found_.push_back(&request);
    }
  }
  for (Request* request : found_) {
    if (request->started()) finish_all_choices(*request, FinishReason::kTimeLimit);
    else fail(*request, FailureCode::kQueueTimeout, "waited too long for a free place");
  }
}

void StepLoop::start_requests(const StepPlan& plan, Clock::time_point now) {
  for (const StepPlan::Item& item : plan.items) {
    Request& request = item.sequence->request;
    if (request.started()) continue;
    request.started_at = now;
    EngineCounters::add(counters_.prompt_tokens, static_cast<uint64_t>(item.sequence->n_prompt));
    EngineCounters::add(counters_.prompt_tokens_cached, static_cast<uint64_t>(item.sequence->n_computed));
    EventWriter(records_of(request), request.id, 0)
        .started(static_cast<uint32_t>(item.sequence->n_prompt), static_cast<uint32_t>(item.sequence->n_computed),
                 milliseconds(now - request.submitted_at));
  }
}

// Guesses for the decodes of a step that has nothing else to do.
void StepLoop::guess(const StepPlan& plan) {
  draft_ms_ = 0;
  if (speculation_ == Speculation::kOff || static_cast<int>(plan.items.size()) != plan.n_decodes) return;
  const bool always = speculation_ == Speculation::kAlways;
  if (!always && (plan.n_decodes > GuessPace::kMostDecodes || guess_pace_.wants_plain(plan.n_decodes))) return;
  const double price = always ? 0 : guess_pace_.price(plan.n_decodes);
  n_decodes_ = plan.n_decodes;
  const bool drafts = draft_ && (always || draft_pace_.may_draft());
  const double draft_price = always ? 0 : price + draft_pace_.step_ms(plan.n_decodes) / guess_pace_.base_ms(plan.n_decodes);
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = *item.sequence;
    const int most = std::min(Guesses::kMost, sequence.request.max_length - sequence.length() - 1);
    if (!item.wants_logits || sequence.script.active() || most <= 0) continue;
    if (!sequence.guesses) sequence.guesses = std::make_unique<Guesses>(sequence.request.max_length, draft_pace_.chance());
    std::span<const TokenId> guesses = sequence.guesses->guess(sequence.tokens, price, most);
    guesses = guesses.first(cut_by_rule(sequence, guesses));
    if (!guesses.empty()) {
      add_guesses(item, guesses);
    } else if (drafts && wishes_.size() < size_t{DraftModel::kMostSequences}) {
      const std::span<TokenId> place = sequence.guesses->place_for_draft(draft_price, most);
      if (place.empty()) continue;
      wishes_.push_back({&sequence, sequence.tokens, place});
      wish_items_.push_back(&item);
    }
  }
  if (!wishes_.empty()) draft();
}

void StepLoop::add_guesses(const StepPlan::Item& item, std::span<const TokenId> guesses) {
  const int n = scheduler_.add_guesses(item, static_cast<int>(guesses.size()));
  EngineCounters::add(counters_.guessed_tokens, static_cast<uint64_t>(n));
  if (item.sequence->guesses->drafted()) EngineCounters::add(counters_.drafted_tokens, static_cast<uint64_t>(n));
}

// Guesses of the draft for the sequences in wishes_.
void StepLoop::draft() {
  draft_ms_ = draft_->draft(wishes_, draft_pace_);
  draft_pace_.earn(-draft_ms_);
  for (size_t i = 0; i < wishes_.size(); ++i) {
    Sequence& sequence = *wish_items_[i]->sequence;
    const std::span<const TokenId> guesses = wishes_[i].out.first(static_cast<size_t>(wishes_[i].n));
    const size_t n = cut_by_rule(sequence, guesses);
    if (n > 0) add_guesses(*wish_items_[i], guesses.first(n));
    else if (!guesses.empty()) sequence.guesses->settle(0, true);   // the rule refuses the first
  }
  wishes_.clear();
  wish_items_.clear();
}

// The forward pass. Returns the logits of the items that want them, in their order, guesses' behind each one's.
const float* StepLoop::compute(const StepPlan& plan) {
  for (const StepPlan::PageCopy& copy : plan.copies) model_.backend().copy_page(model_.kv(), copy.from, copy.to);
  tokens_.clear();
  segments_.clear();
  logit_rows_.clear();
  uint64_t prompt_rows = 0;
  for (const StepPlan::Item& item : plan.items) {
    const Sequence& sequence = *item.sequence;
    const auto first_row = static_cast<int>(tokens_.size());
    const auto first = sequence.tokens.begin() + sequence.n_computed;
    tokens_.insert(tokens_.end(), first, first + item.n_tokens);
    if (item.n_guesses > 0) {
      const std::span<const TokenId> guesses = sequence.guesses->last(item.n_guesses);
      tokens_.insert(tokens_.end(), guesses.begin(), guesses.end());
    }
    segments_.push_back({first_row, item.n_tokens + item.n_guesses, sequence.n_computed, sequence.table(0)});
    if (item.wants_logits)
      for (int i = 0; i <= item.n_guesses; ++i) logit_rows_.push_back(first_row + item.n_tokens - 1 + i);
    if (!sequence.decoding()) prompt_rows += static_cast<uint64_t>(item.n_tokens);
  }
  for (int table = 1; table < cache_.layout().tables(); ++table) {
    for (size_t i = 0; i < plan.items.size(); ++i) {
      segments_.push_back(segments_[i]);
      segments_.back().pages = plan.items[i].sequence->table(table);
    }
  }
  EngineCounters::add(counters_.prefill_tokens, prompt_rows);
  const float* logits = model_.forward({tokens_, segments_, logit_rows_, sampler_.samples_on_backend()});
  if (!logits && !logit_rows_.empty()) throw std::runtime_error("the forward pass gave no logits");
  return logits;
}

void StepLoop::finish(Sequence& sequence, FinishReason reason, int stop_index) {
  Request& request = sequence.request;
  EventWriter writer(records_of(request), request.id, sequence.choice);
  if (const int stop = sequence.text.finish(writer); stop >= 0) {
    reason = FinishReason::kStopString;
    stop_index = stop;
  }
  const Clock::time_point now = Clock::now();
  const Clock::time_point first = sequence.first_token_at.value_or(now);
  writer.finished(reason, static_cast<uint32_t>(sequence.generated()),
                  static_cast<uint32_t>(sequence.text.reasoning_tokens()), stop_index,
                  milliseconds(first - request.started_at.value_or(first)), milliseconds(now - first));
  scheduler_.remove(sequence);
  if (draft_) draft_->forget(&sequence);
  if (--request.live_choices == 0) {
    EngineCounters::add(counters_.finished, 1);
    end(request);
  }
}

void StepLoop::finish_all_choices(Request& request, FinishReason reason) {
  const auto forked = static_cast<int>(request.choices.size());
  for (int choice = forked; choice < request.params.n; ++choice) {
    EventWriter(records_of(request), request.id, choice).finished(reason, 0, 0, -1, 0, 0);
    --request.live_choices;
  }
  for (int choice = 0; choice < forked; ++choice) {
    Sequence& sequence = *request.choices[static_cast<size_t>(choice)];
    if (sequence.state != SequenceState::kEnded) finish(sequence, reason);
  }
}

void StepLoop::fail(Request& request, FailureCode code, std::string_view message) {
  EventWriter(records_of(request), request.id, 0).failed(code, message);
  EngineCounters::add(counters_.failed_requests, 1);
  end(request);
}

void StepLoop::end(Request& request) {
  for (const auto& choice : request.choices) {
    scheduler_.remove(*choice);
    if (draft_) draft_->forget(choice.get());
  }
  ended_.push_back(request.id);
  const auto at = requests_.find(request.id);
  assert(at != requests_.end());
  graveyard_.push_back(std::move(at->second));
  requests_.erase(at);
}

void StepLoop::cancel(RequestId id) {
  const auto at = requests_.find(id);
  if (at == requests_.end()) return;
  Request& request = *at->second;
  const bool generating = request.choices.size() > 1 || request.choices[0]->generated() > 0;
  EngineCounters::add(!request.started() ? counters_.cancelled_queued
                      : generating       ? counters_.cancelled_decode
                                         : counters_.cancelled_prefill,
                      1);
  end(request);
  update_gauges();
}

void StepLoop::finish_choice(RequestId id, int choice) {
  const auto at = requests_.find(id);
  if (at == requests_.end() || choice < 0 || choice >= at->second->params.n) return;
  Request& request = *at->second;
  const auto index = static_cast<size_t>(choice);
  // The choices come into being together; until then one of them may not take the prompt from the others.
  if (index >= request.choices.size() || request.choices[index]->generated() == 0) {
    request.finishing.set(index);
    return;
  }
  Sequence& sequence = *request.choices[index];
  if (sequence.state != SequenceState::kEnded) finish(sequence, FinishReason::kEndOfTurn);
}

void StepLoop::cancel_channel(const Channel& channel) {
  std::vector<RequestId> ids;
  for (const auto& [id, request] : requests_)
    if (request->channel.get() == &channel) ids.push_back(id);
  for (const RequestId id : ids) cancel(id);
}

void StepLoop::drain() {
  std::vector<Request*> all;
  for (const auto& [id, request] : requests_) all.push_back(request.get());
  for (Request* request : all) {
    if (request->started()) {
      finish_all_choices(*request, FinishReason::kTimeLimit);
    } else {
      fail(*request, FailureCode::kShutdown, "the engine is shutting down");
    }
  }
}

void StepLoop::fail_all(FailureCode code, const std::string& message) {
  unsaid_.clear();   // a step has failed before it came to that
  while (!requests_.empty()) fail(*requests_.begin()->second, code, message);
}

void StepLoop::publish() {
  if (requests_.empty()) flight_ = {};
  forgotten_.clear();
  if (!flight_.plan) graveyard_.clear();
  update_gauges();   // before the consumer can learn of an end, its pages are counted as back
  for (const auto& channel : touched_) channel->publish();
  touched_.clear();
}

std::vector<std::byte>& StepLoop::records_of(Request& request) {
  std::vector<std::byte>& records = request.channel->step_records();
  if (records.empty() &&
      std::find(touched_.begin(), touched_.end(), request.channel) == touched_.end()) {
    touched_.push_back(request.channel);
  }
  return records;
}

void StepLoop::update_gauges() {
  const size_t waiting = scheduler_.waiting(), tokens = scheduler_.waiting_tokens();
  counters_.queue.give_back(waiting_seen_ - waiting, waiting_tokens_seen_ - tokens);
  waiting_seen_ = waiting;
  waiting_tokens_seen_ = tokens;
  counters_.running.store(static_cast<int>(scheduler_.running().size()), std::memory_order_relaxed);
  counters_.pages_total.store(cache_.pool().size(), std::memory_order_relaxed);
  counters_.pages_free.store(cache_.pool().free(), std::memory_order_relaxed);
  counters_.pages_cached.store(cache_.pool().cached(), std::memory_order_relaxed);
  counters_.preemptions.store(scheduler_.preemptions(), std::memory_order_relaxed);
  counters_.cached_tokens.store(scheduler_.cached_tokens(), std::memory_order_relaxed);
}

}  // namespace monolith
