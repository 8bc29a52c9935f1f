#include "engine/loop/token_acceptor.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace monolith {
namespace {

using NextKind = OutputState::Next::Kind;

constexpr int kMaxAtOnce = 64;  // Maximum forced tokens appended to a sequence without a step in between.

void append(Sequence& sequence, TokenId token) {
  if (sequence.generated() == 0) sequence.first_token_at = Clock::now();
  sequence.tokens.push_back(token);
  if (sequence.prediction) sequence.prediction->follow(sequence.answer());
  if (!sequence.counts.empty()) sequence.counts.add_generated(token);
}

}  // namespace

void TokenAcceptor::take(const StepPlan::Item& item, const float* logits, std::span<const int32_t> tasks) {
  Sequence& sequence = sequence_of(*item.sequence);
  // Another choice of the same request may have failed, which ends the whole request.
  if (sequence.state == SequenceState::kEnded) return;
  Request& request = sequence.request;
  Rows rows{.logits = logits, .tasks = tasks, .drafts = {}};
  if (item.n_drafts > 0)
    rows.drafts = sequence.drafts->last(item.n_drafts);
  else
    rows.writes_later = writes_later(sequence, tasks.front());
  // First writes the deferred text of the request's other choices, so that the records are in plan order.
  if (!rows.writes_later && request.params.n > 1) parts_.texts.write_waiting_of(request);
  if (sequence.state == SequenceState::kEnded) return;  // Writing the text has failed, which ended the whole request.
  if (sequence.choice == 0 && static_cast<int>(request.choices.size()) < request.params.n)
    take_first_tokens(request, logits);
  else
    take_tokens(sequence, rows);
}

void TokenAcceptor::take_scores(const StepPlan::Item& item, std::span<const int32_t> tasks) {
  Sequence& sequence = sequence_of(*item.sequence);
  if (tasks.empty() || sequence.state == SequenceState::kEnded) return;
  scores_.clear();
  for (const int32_t task : tasks) {
    const SampleResult* const found = task >= 0 ? parts_.samples.result(task) : nullptr;
    if (!found || found->token == kNoToken)
      return parts_.requests.fail(sequence.request, FailureCode::kEngineError, "the model computed non-finite logits");
    scores_.push_back(found);
  }
  EventWriter(parts_.requests.records_of(sequence.request), sequence.request.id, 0)
      .prompt(sequence.n_scored + 1, scores_);
  sequence.n_scored += item.n_scored;
}

void TokenAcceptor::take_states(const StepPlan::Item& item, const float* states) {
  Sequence& sequence = sequence_of(*item.sequence);
  if (sequence.state == SequenceState::kEnded) return;
  sequence.pooled.add(*pooling_, states, item.first_position, item.n_tokens, sequence.n_prompt);
  if (!item.is_last) return;
  const std::vector<float> vector = std::move(sequence.pooled).finish(*pooling_);
  if (!std::ranges::all_of(vector, [](float value) { return std::isfinite(value); }))
    return parts_.requests.fail(sequence.request, FailureCode::kEngineError, "the model computed non-finite values");
  EventWriter(parts_.requests.records_of(sequence.request), sequence.request.id, 0).vector(vector);
}

// Forks the request's choices and takes their first tokens. All forks reference the prompt's pages before any choice
// can end and release them.
void TokenAcceptor::take_first_tokens(Request& request, const float* logits) {
  const auto n = static_cast<size_t>(request.params.n);
  request.choices.reserve(n);  // The scheduler refers to a fork as soon as fork() returns, so adding it must not fail.
  while (request.choices.size() < n) {
    auto fork = std::make_unique<Sequence>(request, static_cast<int>(request.choices.size()));
    parts_.scheduler.fork(*request.choices.front(), *fork);
    request.choices.push_back(std::move(fork));
  }
  std::array<int32_t, kMaxChoices> tasks;
  parts_.samples.request_choices(request, logits, std::span(tasks).first(n));
  for (size_t i = 0; i < n; ++i)
    if (request.choices[i]->state != SequenceState::kEnded)
      take_tokens(*request.choices[i], {.logits = logits, .tasks = {&tasks[i], 1}, .drafts = {}});
}

void TokenAcceptor::take_tokens(Sequence& sequence, Rows rows) {
  Request& request = sequence.request;
  if (sequence.generated() == 0 && request.finishing[static_cast<size_t>(sequence.choice)])
    return parts_.requests.finish(sequence, FinishReason::kEndOfTurn);
  if (rows.tasks.front() == SampleRequests::kGrammarFailed) return stop_by_grammar(sequence, NextKind::kFailed);
  if (rows.tasks.front() == SampleRequests::kMaskPending) return stop_by_grammar(sequence, NextKind::kPending);
  const auto n_drafts = static_cast<int>(rows.drafts.size());
  EventWriter writer(parts_.requests.records_of(request), request.id, sequence.choice);
  const bool goes_on = take_all(sequence, rows, writer);
  if (n_drafts > 0) parts_.drafts.record_acceptance(sequence, n_drafts, rows.n_accepted, rows.next_rejected);
  if (!goes_on) return;
  if (sequence.state == SequenceState::kRunning) sequence.n_ahead = sequence.remaining() - 1;
  sequence.output.prefetch(parts_.grammars);
}

// Takes the sequence's next token, then further tokens as long as draft tokens are accepted, then all forced tokens.
// Forced tokens are computed together in the next step. Returns false if the sequence has ended or waits for a grammar
// mask.
bool TokenAcceptor::take_all(Sequence& sequence, Rows& rows, EventWriter& writer) {
  bool is_open = rows.tasks.front() >= 0;  // No token is forced, and the first row has a sampling task.
  for (const int most = sequence.generated() + kMaxAtOnce; rows.logits || sequence.generated() < most;
       is_open = false) {
    if (!is_open && !rows.writes_later) {
      const OutputState::Next next = sequence.output.next(parts_.grammars, sequence.tokens, writer);
      // Advancing the grammar exceeded the budget. It is tried again after the next step.
      if (next.kind == NextKind::kPending && !rows.logits) break;
      if (!OutputState::Next::is_known(next.kind)) return stop_by_grammar(sequence, next.kind), false;
      for (const TokenId token : next.tokens)
        if (!accept(sequence, token, nullptr, rows, writer)) return false;
      if (next.kind == NextKind::kForced) continue;
    }
    if (!rows.logits) break;
    const SampleResult* const chosen = sample(sequence, rows, is_open, writer);
    if (!chosen) return false;
    if (!accept(sequence, chosen->token, sequence.request.wants_logprobs() ? chosen : nullptr, rows, writer))
      return false;
  }
  return true;
}

// The grammar failed or ran out of budget. If it ran out of budget, these logits are dropped, the sequence is preempted
// until a worker thread has computed the mask, and then the logits are recomputed. Keeping the logits would take a row
// of device memory as long as the vocabulary.
void TokenAcceptor::stop_by_grammar(Sequence& sequence, NextKind kind) {
  if (kind != NextKind::kPending) return parts_.requests.fail_by_grammar(sequence.request);
  sequence.output.block();
}

// Samples from the logits of the newest token. `is_open`: the sampling task already used the current grammar mask;
// otherwise it used none. Returns null if the request has failed or waits for a grammar mask.
const SampleResult* TokenAcceptor::sample(Sequence& sequence, const Rows& rows, bool is_open, EventWriter& writer) {
  const int32_t task = rows.tasks[static_cast<size_t>(rows.n_accepted)];
  const SampleResult* const known = task >= 0 ? parts_.samples.result(task) : nullptr;
  const SampleResult* chosen = known;
  NextKind kind = NextKind::kOpen;
  if (!known || !is_open) kind = parts_.samples.sample(sequence, rows.logits, known, chosen);
  if (OutputState::Next::is_known(kind) && chosen->token != kNoToken &&
      sequence.output.replaces(parts_.tokenizer, chosen->token, writer))
    kind = parts_.samples.sample(sequence, rows.logits, nullptr, chosen);
  if (!OutputState::Next::is_known(kind)) return stop_by_grammar(sequence, kind), nullptr;
  if (chosen->token != kNoToken) return chosen;
  parts_.requests.fail(sequence.request, FailureCode::kEngineError, "the model computed non-finite logits");
  return nullptr;
}

// Appends `token` to the sequence. Returns false if the sequence has ended with this token, or if it waits for a
// grammar mask and the token was not appended.
bool TokenAcceptor::accept(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, Rows& rows,
                           EventWriter& writer) {
  using StepKind = OutputState::Step::Kind;
  const bool is_right = rows.logits && !rows.drafts.empty() && rows.drafts.front() == token;
  rows.next_rejected |= rows.logits && !rows.drafts.empty() && !is_right;
  rows.drafts = is_right ? rows.drafts.subspan(1) : std::span<const TokenId>{};
  rows.logits = is_right ? rows.logits + row_width_ : nullptr;
  rows.n_accepted += is_right;

  OutputState::Step step;
  if (rows.writes_later)
    sequence.output.accept_deferred(sequence.tokens, token, writer);
  else
    step = sequence.output.accept(parts_.grammars, sequence.tokens, token, logprobs, writer);
  if (step.kind == StepKind::kPending) return false;
  append(sequence, token);
  EngineCounters::add(parts_.counters.decode_tokens, 1);
  if (is_right) parts_.scheduler.keep_draft(sequence);
  if (rows.writes_later) return parts_.texts.write_later(sequence, token, logprobs), true;
  if (step.kind == StepKind::kFailed) return stop_by_grammar(sequence, NextKind::kFailed), false;
  if (step.kind == StepKind::kContinues && sequence.generated() >= sequence.request.params.max_tokens)
    step = {StepKind::kEnds, FinishReason::kMaxTokens};
  if (step.kind == StepKind::kContinues && sequence.length() >= max_context_)
    step = {StepKind::kEnds, FinishReason::kContextFull};
  if (step.kind == StepKind::kContinues) return true;
  parts_.requests.finish(sequence, step.reason, step.stop_index);
  return false;
}

// True if the token's text can be deferred, because the sequence continues regardless of the text.
bool TokenAcceptor::writes_later(const Sequence& sequence, int32_t task) const {
  if (!may_write_later_ || task < 0 || sequence.generated() == 0 || sequence.state != SequenceState::kRunning)
    return false;
  const SampleResult* const chosen = parts_.samples.result(task);
  if (!chosen || chosen->token == kNoToken) return false;
  return sequence.generated() + 1 < sequence.request.params.max_tokens && sequence.length() + 1 < max_context_ &&
         sequence.output.may_defer(parts_.tokenizer, sequence.tokens, chosen->token);
}

}  // namespace monolith
