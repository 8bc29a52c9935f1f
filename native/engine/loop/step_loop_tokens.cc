// The part of StepLoop from a row of logits to a token of a sequence: what may come next, what was chosen,
// and what follows from it.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/loop/step_loop.h"

namespace monolith {
namespace {

// The beginning of the call that is due.
void write_call(Sequence& sequence) {
  sequence.call_due = false;
  sequence.script.start(sequence.request.params.calls.required);
  sequence.script_rules = &sequence.request.call_rules.required;
}

// A call's beginning of which one token was sampled.
void begin_call(Sequence& sequence) {
  sequence.script.start(sequence.request.params.calls.starts);
  sequence.script_rules = &sequence.request.call_rules.starts;
}

std::span<const TokenId> read_so_far(const Sequence& sequence, const Rule& rule) {
  return {sequence.tokens.data() + rule.first, sequence.tokens.size() - rule.first};
}

bool is_over_budget(const Sequence& sequence) {
  const int budget = sequence.request.params.reasoning.budget;
  return budget >= 0 && sequence.text.in_reasoning() && sequence.text.reasoning_tokens() >= budget;
}

constexpr int kMostSpacesAfterCall = 2;
constexpr int kMostAtOnce = 64;   // tokens written without a step, from which on no more are

}  // namespace

// Logits of a sequence's last token: its next token, and at the end of the prompt that of every choice. `ahead`: for
// each of its rows what ask_ahead() found.
void StepLoop::take_row(Sequence& sequence, const float* logits, int n_guesses, std::span<const int32_t> ahead) {
  Request& request = sequence.request;
  const auto n = static_cast<size_t>(request.params.n);
  if (sequence.choice == 0 && request.choices.size() < n) {
    // All forks take their pages before any choice can end and give them back.
    while (request.choices.size() < n) {
      auto fork = std::make_unique<Sequence>(request, static_cast<int>(request.choices.size()));
      scheduler_.fork(sequence, *fork);
      request.choices.push_back(std::move(fork));
    }
    std::array<int32_t, kMaxChoices> of_choices;
    for (size_t i = 0; i < n; ++i)
      of_choices[i] = request.choices[i]->state == SequenceState::kEnded ? kNotAsked : ask_ahead(*request.choices[i], logits);
    sampler_.run();
    for (size_t i = 0; i < n; ++i)
      if (request.choices[i]->state != SequenceState::kEnded) take_tokens(*request.choices[i], logits, {}, {&of_choices[i], 1});
    return;
  }
  take_tokens(sequence, logits, n_guesses > 0 ? sequence.guesses->last(n_guesses) : std::span<const TokenId>{}, ahead);
}

// The sequence's next token, those behind it as long as they are what was guessed, and all that must follow whatever
// the model says: this is computed together in the next step. `logits` are a row behind each guess, too, and what
// must come first needs none.
void StepLoop::take_tokens(Sequence& sequence, const float* logits, std::span<const TokenId> guesses,
                           std::span<const int32_t> ahead) {
  Request& request = sequence.request;
  if (sequence.generated() == 0 && request.finishing[static_cast<size_t>(sequence.choice)])
    return finish(sequence, FinishReason::kEndOfTurn);
  if (ahead.front() == kRuleFailed) return fail_by_rule(request);
  if (ahead.front() == kRuleDue) return wait_for_rule(sequence);
  EventWriter writer(records_of(request), request.id, sequence.choice);
  const size_t n_guesses = guesses.size();
  int n_right = 0;
  bool then_wrong = false;
  bool is_open = ahead.front() >= 0;   // nothing is forced, and the first row has its task
  // Null `logits` from here on: the newest token is not computed.
  const auto take = [&](TokenId token, const TokenLogprobs* logprobs) {
    const bool is_right = logits && !guesses.empty() && guesses.front() == token;
    then_wrong |= logits && !guesses.empty() && !is_right;
    guesses = is_right ? guesses.subspan(1) : std::span<const TokenId>{};
    logits = is_right ? logits + model_.params().n_vocab : nullptr;
    n_right += is_right;
    return accept(sequence, token, is_right, logprobs, writer);
  };
  const bool goes_on = [&] {
    for (const int most = sequence.generated() + kMostAtOnce; logits || sequence.generated() < most; is_open = false) {
      if (!is_open) {
        direct(sequence, writer);
        const RuleOutcome found = find_forced(sequence);
        if (found == RuleOutcome::kSpent) {
          if (!logits) break;   // it is asked again behind the next step
          return wait_for_rule(sequence), false;
        }
        if (found != RuleOutcome::kOk) return fail_by_rule(request), false;
        for (const TokenId token : forced_)
          if (!take(token, nullptr)) return false;
        if (!forced_.empty()) continue;
        if (!logits) {
          sequence.open_at = sequence.generated();
          break;
        }
      }
      const int32_t task = ahead[static_cast<size_t>(n_right)];
      const SampleResult* const chosen = sample(sequence, logits, task >= 0 ? sampler_.result(task) : nullptr, is_open, writer);
      if (!chosen || !take(chosen->token, request.wants_logprobs() ? chosen : nullptr)) return false;
    }
    return true;
  }();
  if (n_guesses > 0) {
    sequence.guesses->settle(n_right, then_wrong);
    EngineCounters::add(counters_.guessed_right, static_cast<uint64_t>(n_right));
    if (sequence.guesses->drafted()) settle_draft(static_cast<int>(n_guesses), n_right, then_wrong);
  }
  if (!goes_on) return;
  if (sequence.state == SequenceState::kRunning) sequence.n_ahead = sequence.remaining() - 1;
  if (sequence.rule.active()) mask_ahead_.add(sequence.rule, tokenizer_for(sequence));
}

// What this thread may still spend on rules, for one of them.
template <class Work>
StepLoop::RuleOutcome StepLoop::by_rule(Work work) {
  grammar::Fuel fuel = rule_fuel_.within(rule_steps_ / 2);
  const uint64_t had = fuel.left();
  const RuleOutcome outcome = work(&fuel);
  rule_fuel_.spend(had - fuel.left());
  return outcome;
}

// The row of logits goes unused: the sequence gives its place up until it is known what may come there, and this row is
// computed again. What it would cost to keep it is a row of the vocabulary's size, on the device.
void StepLoop::wait_for_rule(Sequence& sequence, TokenId token) {
  sequence.rule_due = true;
  sequence.due_token = token;
}

// Before a step: who waits for what its rule allows goes on if that is there, and else it is looked for, for one
// sequence of each organization before another of the same.
void StepLoop::mind_rules() {
  rule_fuel_ = grammar::Fuel(rule_steps_);
  due_.clear();
  for (Sequence* sequence : scheduler_.preempted())
    if (sequence->rule_due) due_.emplace_back(sequence, 0);
  if (due_.empty()) return;
  std::ranges::rotate(due_, due_.begin() + static_cast<ptrdiff_t>(first_due_++ % due_.size()));
  for (size_t i = 0; i < due_.size(); ++i) {
    const uint64_t organization = due_[i].first->request.params.organization;
    due_[i].second = std::count_if(due_.begin(), due_.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const auto& one) { return one.first->request.params.organization == organization; });
  }
  std::ranges::stable_sort(due_, {}, &std::pair<Sequence*, ptrdiff_t>::second);
  for (const auto& [sequence, turn] : due_) {
    Rule rule = rule_of(*sequence);
    const std::span<const TokenId> read = sequence->rule.active() ? read_so_far(*sequence, rule) : std::span<const TokenId>{};
    const RuleOutcome found = by_rule([&](grammar::Fuel* fuel) { return (*rule.grammar)->prepared(rule.position, read, tokenizer_for(*sequence), fuel, sequence->due_token); });
    if (sequence->rule.active()) sequence->rule.position = rule.position;
    if (found == RuleOutcome::kSpent) mask_ahead_.add_due(rule, tokenizer_for(*sequence), sequence->due_token);
    else sequence->rule_due = false;
  }
}

// The rule that says what comes next, and that of a format about to begin.
Rule StepLoop::rule_of(const Sequence& sequence) const {
  if (sequence.rule.active()) return sequence.rule;
  const GrammarRef& format = sequence.request.params.format;
  return {&format, format->start(), sequence.tokens.size()};
}

// Null: what a rule leaves no choice about is sampled like everything else.
const Tokenizer* StepLoop::tokenizer_for(const Sequence& sequence) const {
  return forces_rules_ && !sequence.request.wants_logprobs() ? &tokenizer_ : nullptr;
}

// A right guess saves its sequence's share of a step, and each cost a row.
void StepLoop::settle_draft(int n_guesses, int n_right, bool then_wrong) {
  draft_pace_.earn(n_right * guess_pace_.base_ms(n_decodes_) / n_decodes_ - n_guesses * guess_pace_.row_ms());
  draft_pace_.settle(n_right, then_wrong);
  EngineCounters::add(counters_.drafted_right, static_cast<uint64_t>(n_right));
}

// How many of the guesses a rule lets through. What it allows behind each is looked up ahead.
size_t StepLoop::cut_by_rule(Sequence& sequence, std::span<const TokenId> guesses) {
  if (!sequence.rule.active()) return guesses.size();
  Rule rule = sequence.rule;
  const size_t length = sequence.tokens.size();
  size_t n = 0;
  for (; n < guesses.size(); ++n) {
    const std::span<const TokenId> read = read_so_far(sequence, rule);
    if (by_rule([&](grammar::Fuel* fuel) { return (*rule.grammar)->advance(rule.position, read, guesses[n], fuel); }) != RuleOutcome::kOk) break;
    sequence.tokens.push_back(guesses[n]);   // what the rule has read, should it have to begin anew
    mask_ahead_.add(rule, nullptr);
  }
  sequence.tokens.resize(length);
  return n;
}

// What `ahead`, found for this row if not null, says; `is_open`: with the constraint that holds now, else with none.
// Null: the request has failed, or waits.
const SampleResult* StepLoop::sample(Sequence& sequence, const float* logits, const SampleResult* ahead, bool is_open,
                                     EventWriter& writer) {
  Request& request = sequence.request;
  RuleOutcome by_its_rule = RuleOutcome::kOk;
  const auto draw = [&]() -> const SampleResult* {
    TokenConstraint constraint;
    by_its_rule = constrain(sequence, allowance_, constraint);
    if (by_its_rule != RuleOutcome::kOk) return nullptr;
    if (ahead && constraint.allowed.empty() && constraint.mask.empty()) return ahead;
    return &sampler_.sample(task_of(sequence, logits, 0, constraint));
  };
  const SampleResult* chosen = ahead && is_open ? ahead : draw();
  if (chosen && chosen->token != kNoToken && redirect(sequence, chosen->token, writer)) {
    ahead = nullptr;
    chosen = draw();
  }
  if (chosen && chosen->token != kNoToken) return chosen;
  if (by_its_rule == RuleOutcome::kSpent) wait_for_rule(sequence);
  else if (by_its_rule != RuleOutcome::kOk) fail_by_rule(request);
  else fail(request, FailureCode::kEngineError, "the model computed values that are not finite numbers");
  return nullptr;
}

// The choice of the token `n_behind` places behind the sequence's next one.
SampleTask StepLoop::task_of(const Sequence& sequence, const float* logits, int n_behind, const TokenConstraint& constraint) const {
  const SamplingParams& sampling = sequence.request.params.sampling;
  return sample_task(logits, sampling, sequence.counts, sampling.stream + static_cast<uint32_t>(sequence.choice),
                     static_cast<uint64_t>(sequence.generated() + n_behind), constraint);
}

void StepLoop::fail_by_rule(Request& request) {
  fail(request, FailureCode::kEngineError, "the grammar of the answer has outgrown its limits");
}

// What comes next without a choice, into forced_: the next token of a script, or those of a rule; not where logprobs
// are wanted, which only logits have. kFailed: a grammar has outgrown its limits.
StepLoop::RuleOutcome StepLoop::find_forced(Sequence& sequence) {
  forced_.clear();
  const Request& request = sequence.request;
  if (request.wants_logprobs()) return RuleOutcome::kOk;
  if (sequence.script.active()) {
    sequence.script.next(allowance_.list);
    if (allowance_.list.size() == 1) forced_.push_back(allowance_.list.front());
    return RuleOutcome::kOk;
  }
  if (!forces_rules_) return RuleOutcome::kOk;
  RuleOutcome found = RuleOutcome::kOk;
  if (Rule& rule = sequence.rule; rule.active()) {
    found = by_rule([&](grammar::Fuel* fuel) {
      return (*rule.grammar)->forced(rule.position, read_so_far(sequence, rule), tokenizer_, forced_, fuel);
    });
  } else if (sequence.format_due && sequence.text.in_content() && request.params.calls.starts.empty()) {
    const GrammarRef& format = request.params.format;
    grammar::Grammar::Position position = format->start();
    found = by_rule([&](grammar::Fuel* fuel) { return format->forced(position, {}, tokenizer_, forced_, fuel); });
  }
  if (found != RuleOutcome::kOk) return found;
  // Where the text may not end, what ends it is written in other tokens; and so is what the caller bans.
  const auto is_refused = [&](TokenId token) {
    const auto has = [token](const std::vector<TokenId>& list) { return std::ranges::find(list, token) != list.end(); };
    return has(request.params.stop_tokens) || has(request.params.sampling.banned) || (!request.params.ignore_eos && has(plain_ends_)) ||
           std::ranges::any_of(request.params.sampling.logit_bias,
                               [token](const auto& entry) { return entry.first == token && entry.second <= kBanBias; });
  };
  forced_.erase(std::ranges::find_if(forced_, is_refused), forced_.end());
  return RuleOutcome::kOk;
}

void StepLoop::append(Sequence& sequence, TokenId token) {
  if (sequence.generated() == 0) sequence.first_token_at = Clock::now();
  sequence.tokens.push_back(token);
  if (!sequence.counts.empty()) sequence.counts.add_generated(token);
}

// `token` is the sequence's next one; `is_computed`: it was guessed in this step. False if the sequence has ended with
// it, or waits and has not taken it.
bool StepLoop::accept(Sequence& sequence, TokenId token, bool is_computed, const TokenLogprobs* logprobs, EventWriter& writer) {
  Request& request = sequence.request;
  const auto ended = [&](FinishReason reason, int stop_index = -1) {
    finish(sequence, reason, stop_index);
    return false;
  };
  const bool ends = !sequence.script.active() && ends_generation(request, token);
  const RuleOutcome read = sequence.script.active() || ends ? RuleOutcome::kOk : read_by_rule(sequence, token);
  if (read == RuleOutcome::kSpent) {
    wait_for_rule(sequence, token);
    return false;
  }
  append(sequence, token);
  EngineCounters::add(counters_.decode_tokens, 1);
  if (is_computed) scheduler_.keep_guess(sequence);

  if (ends) return ended(FinishReason::kEndOfTurn);
  if (read != RuleOutcome::kOk) {
    fail_by_rule(request);
    return false;
  }
  const bool scripted = sequence.script.active();
  const bool was_in_reasoning = sequence.text.in_reasoning(), was_in_call = sequence.text.in_call();
  const int stop = push_text(sequence, token, logprobs, writer);
  if (scripted) {
    sequence.script.advance(token);
    if (!sequence.script.active()) end_script(sequence, was_in_reasoning, writer);
  }
  if (stop >= 0) return ended(FinishReason::kStopString, stop);
  if (sequence.rule.active() && sequence.rule.position.ends) {
    const bool is_last = sequence.rule.grammar == &request.params.format || request.params.calls.close.text.empty() ||
                         request.params.calls.at_start;
    if (is_last) return ended(FinishReason::kEndOfTurn);
    end_rule(sequence, writer);
  }
  if (sequence.generated() >= request.params.max_tokens) return ended(FinishReason::kMaxTokens);
  if (sequence.length() >= max_context_) return ended(FinishReason::kContextFull);
  follow(sequence, token, was_in_reasoning && !scripted, was_in_call);
  return true;
}

// What may come next, by script or rule, as `into` has it. kFailed: a grammar has outgrown its limits, or nothing may come.
StepLoop::RuleOutcome StepLoop::constrain(Sequence& sequence, Allowance& into, TokenConstraint& constraint) {
  sequence.script.next(into.list);
  constraint.allowed = into.list;
  if (!into.list.empty()) return RuleOutcome::kOk;
  grammar::TokenMask& mask = into.mask;
  const Request& request = sequence.request;
  const TextStage& text = sequence.text;
  if (Rule& rule = sequence.rule; rule.active()) {
    const RuleOutcome found =
        by_rule([&](grammar::Fuel* fuel) { return (*rule.grammar)->allowed(rule.position, read_so_far(sequence, rule), mask, fuel); });
    if (found != RuleOutcome::kOk) return found;
    add_ends(request, rule.position.accepts, mask);
  } else if (sequence.format_due && (text.in_content() || text.undecided())) {
    if (const RuleOutcome found = constrain_beginning(sequence, mask); found != RuleOutcome::kOk) return found;
  } else if (sequence.after_call != nullptr && text.in_content()) {
    mask.clear();
    if (sequence.spaces_after_call < kMostSpacesAfterCall) mask.add((*sequence.after_call)->vocabulary().spaces());
    add_ends(request, true, mask);
    add_starts(request, mask);
  } else {
    return RuleOutcome::kOk;
  }
  constraint.mask = mask.words();
  return mask.any() ? RuleOutcome::kOk : RuleOutcome::kFailed;
}

// Where content is about to begin that must be the format or a call: these, or before them the reasoning.
StepLoop::RuleOutcome StepLoop::constrain_beginning(Sequence& sequence, grammar::TokenMask& mask) {
  const Request& request = sequence.request;
  const TextStage& text = sequence.text;
  mask.clear();
  if (!text.undecided() || !text.in_open_marker()) {
    const GrammarRef& format = request.params.format;
    grammar::Grammar::Position position = format->start();
    const RuleOutcome found = by_rule([&](grammar::Fuel* fuel) { return format->allowed(position, {}, mask, fuel); });
    if (found != RuleOutcome::kOk) return found;
    add_ends(request, position.accepts, mask);
    add_starts(request, mask);
  }
  if (!text.undecided()) return RuleOutcome::kOk;
  if (const TokenId open = request.params.reasoning.open.token; open != kNoToken) {
    mask.set(static_cast<uint32_t>(open));
  } else {
    // Rare: templates' markers are tokens.
    const char next = text.next_of_open_marker();
    for (TokenId token = 0; token < n_vocab_; ++token) {
      const std::string_view bytes = rendered(token);
      if (bytes.starts_with(next) && !text.would_begin_content(token, bytes)) mask.set(static_cast<uint32_t>(token));
    }
  }
  return RuleOutcome::kOk;
}

// A token that no script has asked for, and that is about to be the sequence's newest: where it leads. kFailed: a grammar
// has outgrown its limits; kSpent: this thread has none of its time left for that, and nothing has changed.
StepLoop::RuleOutcome StepLoop::read_by_rule(Sequence& sequence, TokenId token) {
  const GenerationRequest& params = sequence.request.params;
  TextStage& text = sequence.text;
  if (Rule& rule = sequence.rule; rule.active())
    return by_rule([&](grammar::Fuel* fuel) { return (*rule.grammar)->advance(rule.position, read_so_far(sequence, rule), token, fuel); });
  if (sequence.format_due && (text.in_content() || text.undecided())) {
    if (text.undecided() && (text.in_open_marker() || token == params.reasoning.open.token)) return RuleOutcome::kOk;
    Rule rule{&params.format, params.format->start(), sequence.tokens.size()};
    const RuleOutcome read = by_rule([&](grammar::Fuel* fuel) { return params.format->advance(rule.position, {}, token, fuel); });
    switch (read) {
      case RuleOutcome::kSpent:
      case RuleOutcome::kFailed: return read;
      case RuleOutcome::kOk:
        sequence.rule = rule;
        sequence.format_due = false;
        text.begin_plain_content();
        return read;
      case RuleOutcome::kRefused: break;
    }
    const auto begins = [&](const std::vector<TokenId>& start) { return start.front() == token; };
    if (text.undecided() && std::ranges::none_of(params.calls.starts, begins)) return RuleOutcome::kOk;   // a marker begins
    sequence.format_due = false;
    begin_call(sequence);
  } else if (sequence.after_call != nullptr && text.in_content()) {
    if ((*sequence.after_call)->vocabulary().spaces().has(static_cast<uint32_t>(token))) {
      ++sequence.spaces_after_call;
    } else {
      sequence.after_call = nullptr;
      begin_call(sequence);
    }
  }
  return RuleOutcome::kOk;
}

// What the script has written is there: a call's text follows its prefix.
void StepLoop::end_script(Sequence& sequence, bool was_in_reasoning, EventWriter& writer) const {
  // Whether or not what closes the reasoning spells the marker.
  if (was_in_reasoning) sequence.text.close_reasoning(writer);
  const std::vector<GrammarRef>* rules = std::exchange(sequence.script_rules, nullptr);
  if (rules == nullptr || rules->empty()) return;
  const GrammarRef& grammar = (*rules)[sequence.script.completed()];
  if (grammar == nullptr) return;
  sequence.rule = {&grammar, grammar->start(), sequence.tokens.size()};
  sequence.text.hold_call();
}

// A call's text is complete.
void StepLoop::end_rule(Sequence& sequence, EventWriter& writer) const {
  sequence.text.close_call(writer);
  sequence.after_call = std::exchange(sequence.rule, Rule{}).grammar;
  sequence.spaces_after_call = 0;
}

// The end of the turn, where the text may end, and nowhere else.
void StepLoop::add_ends(const Request& request, bool allowed, grammar::TokenMask& mask) const {
  for (const TokenId token : request.params.stop_tokens) {
    if (allowed) mask.set(static_cast<uint32_t>(token));
    else mask.reset(static_cast<uint32_t>(token));
  }
  if (request.params.ignore_eos) return;
  if (allowed) mask.add(ends_);
  else
    for (const TokenId token : plain_ends_) mask.reset(static_cast<uint32_t>(token));
}

void StepLoop::add_starts(const Request& request, grammar::TokenMask& mask) const {
  for (const std::vector<TokenId>& start : request.params.calls.starts) mask.set(static_cast<uint32_t>(start.front()));
}

// Before a token is sampled: the engine writes the end of the reasoning when the budget is used up, and the
// call that is due when the content begins.
void StepLoop::direct(Sequence& sequence, EventWriter& writer) const {
  if (!must_direct(sequence)) return;
  if (is_over_budget(sequence)) close_reasoning(sequence, writer);
  if (sequence.call_due && sequence.text.in_content() && !sequence.script.active()) write_call(sequence);
}

// Whether direct() has anything to do.
bool StepLoop::must_direct(const Sequence& sequence) {
  return !sequence.script.active() && (is_over_budget(sequence) || (sequence.call_due && sequence.text.in_content()));
}

// True if the engine must write something else than this sampled token, because a call or a format is due: where
// the content would begin without it, or the turn end.
bool StepLoop::redirect(Sequence& sequence, TokenId token, EventWriter& writer) const {
  if (sequence.script.active()) return false;
  if (sequence.format_due && sequence.text.in_reasoning() &&
      (ends_generation(sequence.request, token) || sequence.text.would_spill_into_content(rendered(token)))) {
    close_reasoning(sequence, writer);
    return true;
  }
  if (!sequence.call_due) return false;
  if (!ends_generation(sequence.request, token) && !sequence.text.would_begin_content(token, rendered(token)))
    return false;
  if (sequence.text.in_reasoning()) close_reasoning(sequence, writer);
  if (!sequence.script.active()) write_call(sequence);
  return true;
}

void StepLoop::close_reasoning(Sequence& sequence, EventWriter& writer) const {
  const std::vector<TokenId>& closing = sequence.request.params.reasoning.close_sequence;
  if (closing.empty()) {
    sequence.text.close_reasoning(writer);
  } else {
    sequence.script.start({&closing, 1});
  }
}

// After a token: an open marker is followed by one of the prefixes; the reasoning before a call or format that
// is due, by what the model's own close marker is followed by when the engine writes it.
void StepLoop::follow(Sequence& sequence, TokenId token, bool was_in_reasoning, bool was_in_call) const {
  if (sequence.script.active()) return;
  const GenerationRequest& params = sequence.request.params;
  if (token == params.calls.open.token && sequence.text.in_call() && !was_in_call) {
    sequence.script.start(params.calls.prefixes);
    sequence.script_rules = &sequence.request.call_rules.prefixes;
  } else if (was_in_reasoning && (sequence.call_due || sequence.format_due) && token == params.reasoning.close.token) {
    const std::vector<TokenId>& closing = params.reasoning.close_sequence;
    const auto marker = std::find(closing.begin(), closing.end(), token);
    if (marker != closing.end())
      sequence.script.start({&closing, 1}, static_cast<size_t>(marker - closing.begin()) + 1);
  }
}

bool StepLoop::ends_generation(const Request& request, TokenId token) const {
  const std::vector<TokenId>& stops = request.params.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return true;
  return !request.params.ignore_eos && tokenizer_.is_end_of_generation(token);
}

int StepLoop::push_text(Sequence& sequence, TokenId token, const TokenLogprobs* logprobs, EventWriter& writer) const {
  if (tokenizer_.kind(token) == TokenKind::kControl)
    return sequence.text.push_control(token, tokenizer_.bytes(token), logprobs, writer);
  return sequence.text.push(token, rendered(token), logprobs, writer);
}

// Control tokens, placeholders and the unknown token have no text.
std::string_view StepLoop::rendered(TokenId token) const {
  switch (tokenizer_.kind(token)) {
    case TokenKind::kNormal:
    case TokenKind::kUserDefined:
    case TokenKind::kByte: return tokenizer_.bytes(token);
    default: return {};
  }
}

}  // namespace monolith
