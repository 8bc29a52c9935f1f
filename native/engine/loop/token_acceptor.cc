#include "engine/loop/token_acceptor.h"

#include <array>

#include "engine/output/marker_bans.h"
#include "engine/output/token_text.h"

namespace monolith {
namespace {

constexpr int kMaxAtOnce = 64;  // Maximum forced tokens appended to a sequence without a step in between.

void append(Sequence& sequence, TokenId token) {
  if (sequence.generated() == 0) sequence.first_token_at = Clock::now();
  sequence.output.repetition.add(sequence.answer(), token);
  sequence.tokens.push_back(token);
  if (!sequence.counts.empty()) sequence.counts.add_generated(token);
}

// True if nothing constrains the next token: no forced sequence, grammar, reasoning budget or required call. Only the
// open marker of a tool call may change that.
bool is_plain(const Sequence& sequence) {
  const GenerationRequest& params = sequence.request.params;
  return sequence.generated() > 0 && sequence.state == SequenceState::kRunning && !Constraints::may_hold(sequence) &&
         !sequence.output.call_due && !(params.marker_bans.any() && sequence.output.text.undecided()) &&
         (params.calls.open.text.empty() || params.calls.open.token != kNoToken) &&
         (params.reasoning.budget < 0 || sequence.output.text.in_content() || sequence.output.text.in_call());
}

}  // namespace

void TokenAcceptor::take(const StepPlan::Item& item, const float* logits, std::span<const int32_t> tasks) {
  Sequence& sequence = sequence_of(*item.sequence);
  // A choice of the same request failed, which ended the whole request.
  if (sequence.state == SequenceState::kEnded) return;
  Request& request = sequence.request;
  Rows rows{.logits = logits, .tasks = tasks, .drafts = {}};
  if (item.n_drafts > 0)
    rows.drafts = sequence.drafts->last(item.n_drafts);
  else
    rows.writes_later = writes_later(sequence, tasks.front());
  // Writes the deferred text of the request's other choices first, so that records are in plan order.
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
  if (rows.tasks.front() == SampleRequests::kGrammarFailed)
    return stop_by_grammar(sequence, Constraints::Outcome::kFailed);
  if (rows.tasks.front() == SampleRequests::kMaskPending)
    return stop_by_grammar(sequence, Constraints::Outcome::kOutOfBudget);
  const auto n_drafts = static_cast<int>(rows.drafts.size());
  EventWriter writer(parts_.requests.records_of(request), request.id, sequence.choice);
  const bool goes_on = take_all(sequence, rows, writer);
  if (n_drafts > 0) parts_.drafts.record_acceptance(sequence, n_drafts, rows.n_accepted, rows.next_rejected);
  if (!goes_on) return;
  if (sequence.state == SequenceState::kRunning) sequence.n_ahead = sequence.remaining() - 1;
  parts_.constraints.look_ahead(sequence);
}

// Takes the sequence's next token, then further tokens as long as draft tokens are accepted, then all forced tokens.
// Forced tokens are computed together in the next step. Returns false if the sequence has ended or waits for a grammar
// mask.
bool TokenAcceptor::take_all(Sequence& sequence, Rows& rows, EventWriter& writer) {
  bool is_open = rows.tasks.front() >= 0;  // No token is forced, and the first row has a sampling task.
  for (const int most = sequence.generated() + kMaxAtOnce; rows.logits || sequence.generated() < most;
       is_open = false) {
    if (!is_open && !rows.writes_later) {
      TokenDirector::direct(sequence, writer);
      const Constraints::Outcome found = parts_.constraints.find_forced(sequence);
      // The grammar ran out of budget: it is checked again after the next step.
      if (found == Constraints::Outcome::kOutOfBudget && !rows.logits) break;
      if (found != Constraints::Outcome::kOk) return stop_by_grammar(sequence, found), false;
      for (const TokenId token : parts_.constraints.forced())
        if (!accept(sequence, token, nullptr, rows, writer)) return false;
      if (!parts_.constraints.forced().empty()) continue;
    }
    if (!rows.logits) {
      sequence.output.open_at = sequence.generated();
      break;
    }
    const SampleResult* const chosen = sample(sequence, rows, is_open, writer);
    if (!chosen) return false;
    if (!accept(sequence, chosen->token, sequence.request.wants_logprobs() ? chosen : nullptr, rows, writer))
      return false;
  }
  return true;
}

// The grammar failed or ran out of budget. On budget: drop these logits, preempt the sequence until a worker has the
// mask, then recompute. Keeping the logits would take a row of the vocabulary's size on the device.
void TokenAcceptor::stop_by_grammar(Sequence& sequence, Constraints::Outcome outcome, TokenId token) {
  if (outcome != Constraints::Outcome::kOutOfBudget) return parts_.requests.fail_by_grammar(sequence.request);
  sequence.output.mask_pending = true;
  sequence.output.pending_token = token;
}

// Samples from the logits of the newest token. `is_open`: the sampling task already used the current grammar mask;
// otherwise it used none. Returns null if the request has failed or waits for a grammar mask.
const SampleResult* TokenAcceptor::sample(Sequence& sequence, const Rows& rows, bool is_open, EventWriter& writer) {
  using Outcome = Constraints::Outcome;
  const int32_t task = rows.tasks[static_cast<size_t>(rows.n_accepted)];
  const SampleResult* const known = task >= 0 ? parts_.samples.result(task) : nullptr;
  const SampleResult* chosen = known;
  Outcome found = Outcome::kOk;
  if (!known || !is_open) found = parts_.samples.sample(sequence, rows.logits, known, chosen);
  if (found == Outcome::kOk && chosen->token != kNoToken && director_.redirect(sequence, chosen->token, writer))
    found = parts_.samples.sample(sequence, rows.logits, nullptr, chosen);
  if (found == Outcome::kOk && chosen->token != kNoToken) return chosen;
  if (found != Outcome::kOk)
    stop_by_grammar(sequence, found);
  else
    parts_.requests.fail(sequence.request, FailureCode::kEngineError, "the model computed non-finite logits");
  return nullptr;
}

// Appends `token` to the sequence. Returns false if the sequence has ended with this token, or if it waits for a
// grammar mask and the token was not appended.
bool TokenAcceptor::accept(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, Rows& rows,
                           EventWriter& writer) {
  const GenerationRequest& params = sequence.request.params;
  const auto ended = [&](FinishReason reason, int stop_index = -1) {
    parts_.requests.finish(sequence, reason, stop_index);
    return false;
  };
  const bool is_right = rows.logits && !rows.drafts.empty() && rows.drafts.front() == token;
  rows.next_rejected |= rows.logits && !rows.drafts.empty() && !is_right;
  rows.drafts = is_right ? rows.drafts.subspan(1) : std::span<const TokenId>{};
  rows.logits = is_right ? rows.logits + row_width_ : nullptr;
  rows.n_accepted += is_right;

  const bool ends =
      !rows.writes_later && !sequence.output.script.active() && ends_generation(parts_.tokenizer, params, token);
  Constraints::Outcome read = Constraints::Outcome::kOk;
  if (!rows.writes_later && !ends) TokenDirector::settle_marker(sequence, token, writer);
  if (!rows.writes_later && !sequence.output.script.active() && !ends)
    read = TokenDirector::read(sequence, token, parts_.constraints);
  if (read == Constraints::Outcome::kOutOfBudget) return stop_by_grammar(sequence, read, token), false;
  const bool loops = !sequence.output.script.active() && sequence.output.repetition.completes(sequence.answer(), token);
  append(sequence, token);
  EngineCounters::add(parts_.counters.decode_tokens, 1);
  if (params.return_tokens) writer.token(token);
  if (is_right) parts_.scheduler.keep_draft(sequence);
  if (rows.writes_later) return parts_.texts.write_later(sequence, token, logprobs), true;

  if (ends) return ended(FinishReason::kEndOfTurn);
  if (read != Constraints::Outcome::kOk) return stop_by_grammar(sequence, Constraints::Outcome::kFailed), false;
  const TokenDirector::Before before = TokenDirector::before(sequence);
  const int stop = parts_.texts.write(sequence, token, logprobs, writer);
  const bool is_over = before.scripted && TokenDirector::advance_script(sequence, token, before, writer);
  if (stop >= 0) return ended(FinishReason::kStopString, stop);
  if (is_over) return ended(FinishReason::kEndOfTurn);
  if (sequence.output.matcher.active() && sequence.output.matcher.position.ends &&
      TokenDirector::end_grammar(sequence, writer))
    return ended(FinishReason::kEndOfTurn);
  if (loops) return ended(FinishReason::kRepetition);
  if (sequence.generated() >= params.max_tokens) return ended(FinishReason::kMaxTokens);
  if (sequence.length() >= max_context_) return ended(FinishReason::kContextFull);
  TokenDirector::follow(sequence, token, before);
  return true;
}

// True if the token's text can be deferred, because the sequence continues regardless of the text.
bool TokenAcceptor::writes_later(const Sequence& sequence, int32_t task) const {
  if (!may_write_later_ || task < 0 || !is_plain(sequence)) return false;
  const GenerationRequest& params = sequence.request.params;
  const SampleResult* const chosen = parts_.samples.result(task);
  if (!chosen || chosen->token == kNoToken || chosen->token == params.calls.open.token) return false;
  if (params.marker_bans.any() && is_marker(params, chosen->token)) return false;
  if (sequence.output.repetition.completes(sequence.answer(), chosen->token)) return false;
  if (ends_generation(parts_.tokenizer, params, chosen->token)) return false;
  return sequence.generated() + 1 < params.max_tokens && sequence.length() + 1 < max_context_;
}

}  // namespace monolith
