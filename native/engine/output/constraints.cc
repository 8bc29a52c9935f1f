#include "engine/output/constraints.h"

#include <algorithm>
#include <new>

#include "engine/output/token_director.h"
#include "engine/output/token_text.h"

namespace monolith {
namespace {

constexpr int kMaxSpacesAfterCall = 2;

// Returns whether the tokenizer encodes the text of its own tokens back to the same tokens, checked with a sample of
// about 256 tokens. A tokenizer that does not, for example one from a file without merges, splits text differently from
// the text on which the model was trained.
bool makes_its_tokens(const Tokenizer& tokenizer) {
  constexpr int kLooks = 256;
  const TokenId stride = std::max(1, tokenizer.n_vocab() / kLooks);
  std::vector<TokenId> tokens;
  int n_looked = 0, n_made = 0;
  for (TokenId token = 0; token < tokenizer.n_vocab(); token += stride) {
    if (tokenizer.kind(token) != TokenKind::kNormal || tokenizer.bytes(token).size() < 2) continue;
    tokens.clear();
    tokenizer.encode(tokenizer.bytes(token), {.continues = true, .verbatim = true}, tokens);
    ++n_looked;
    n_made += tokens.size() == 1 && tokens.front() == token;
  }
  return 2 * n_made >= n_looked;
}

}  // namespace

Constraints::Constraints(const Tokenizer& tokenizer, int n_vocab, uint64_t grammar_steps, std::function<void()> wake)
    : tokenizer_(tokenizer),
      n_vocab_(n_vocab),
      grammar_steps_(grammar_steps),
      forces_tokens_(makes_its_tokens(tokenizer)),
      ends_(static_cast<size_t>(n_vocab)),
      mask_ahead_(std::move(wake)) {
  forced_.reserve(grammar::Grammar::kMaxForced);
  scripted_.reserve(kMaxCallPrefixes);
  for (const TokenId token : tokenizer.end_of_generation())
    if (token < n_vocab) {
      ends_.set(static_cast<uint32_t>(token));
      if (tokenizer.kind(token) != TokenKind::kControl) plain_ends_.push_back(token);
    }
}

// Runs grammar work with this step's remaining budget, but at most half of the step's full budget.
template <class Work>
Constraints::Outcome Constraints::within_budget(Work work) {
  grammar::Fuel fuel = grammar_fuel_.within(grammar_steps_ / 2);
  const uint64_t had = fuel.left();
  const Outcome outcome = work(&fuel);
  grammar_fuel_.spend(had - fuel.left());
  return outcome;
}

bool Constraints::see_to_due(const std::vector<ScheduledSequence*>& preempted) {
  grammar_fuel_ = grammar::Fuel(grammar_steps_);
  due_.clear();
  try {
    for (ScheduledSequence* scheduled : preempted)
      if (Sequence& sequence = sequence_of(*scheduled); sequence.output.mask_pending) due_.emplace_back(&sequence, 0);
  } catch (const std::bad_alloc&) {  // The sequences that are missing from the list get their turn in a later step.
  }
  if (due_.empty()) return true;
  std::ranges::rotate(due_, due_.begin() + static_cast<ptrdiff_t>(first_due_++ % due_.size()));
  for (size_t i = 0; i < due_.size(); ++i) {
    const uint64_t organization = due_[i].first->request.params.organization;
    due_[i].second = std::count_if(due_.begin(), due_.begin() + static_cast<ptrdiff_t>(i), [&](const auto& one) {
      return one.first->request.params.organization == organization;
    });
  }
  std::ranges::stable_sort(due_, {}, &std::pair<Sequence*, ptrdiff_t>::second);
  bool has_memory = true;
  for (const auto& [sequence, turn] : due_) {
    try {
      see_to(*sequence);
    } catch (const std::bad_alloc&) {
      sequence->request.out_of_memory = true;
      has_memory = false;
    }
  }
  return has_memory;
}

// Unblocks the sequence if its pending mask is ready, and otherwise queues it for the worker thread.
void Constraints::see_to(Sequence& sequence) {
  GrammarMatcher matcher = matcher_of(sequence);
  const std::span<const TokenId> read =
      sequence.output.matcher.active() ? read_by(matcher, sequence) : std::span<const TokenId>{};
  const Outcome found = within_budget([&](grammar::Fuel* fuel) {
    return (*matcher.grammar)
        ->prepared(matcher.position, read, tokenizer_for(sequence), fuel, sequence.output.pending_token);
  });
  if (sequence.output.matcher.active()) sequence.output.matcher.position = matcher.position;
  if (found == Outcome::kOutOfBudget)
    mask_ahead_.add_due(matcher, tokenizer_for(sequence), sequence.output.pending_token);
  else
    sequence.output.mask_pending = false;
}

// Returns the grammar that determines the next token: the active one, or that of an output format that is about to
// begin.
GrammarMatcher Constraints::matcher_of(const Sequence& sequence) {
  if (sequence.output.matcher.active()) return sequence.output.matcher;
  const GrammarRef& format = sequence.request.params.format;
  return {&format, format->start(), sequence.tokens.size()};
}

// Returns null if forced tokens are not to be inserted, but sampled like all others.
const Tokenizer* Constraints::tokenizer_for(const Sequence& sequence) const {
  return forces_tokens_ && !sequence.request.wants_logprobs() ? &tokenizer_ : nullptr;
}

Constraints::Outcome Constraints::constrain(Sequence& sequence, AllowedTokens& into, TokenConstraint& constraint) {
  sequence.output.script.next(into.list);
  constraint.allowed = into.list;
  if (!into.list.empty()) return Outcome::kOk;
  grammar::TokenMask& mask = into.mask;
  const Request& request = sequence.request;
  const OutputParser& text = sequence.output.text;
  if (GrammarMatcher& matcher = sequence.output.matcher; matcher.active()) {
    const Outcome found = within_budget([&](grammar::Fuel* fuel) {
      return (*matcher.grammar)->allowed(matcher.position, read_by(matcher, sequence), mask, fuel);
    });
    if (found != Outcome::kOk) return found;
    allow_ends(request, matcher.position.accepts, mask);
  } else if (sequence.output.format_due && (text.in_content() || text.undecided())) {
    if (const Outcome found = constrain_beginning(sequence, mask); found != Outcome::kOk) return found;
  } else if (sequence.output.after_call != nullptr && text.in_content()) {
    mask.clear();
    if (sequence.output.spaces_after_call < kMaxSpacesAfterCall)
      mask.add((*sequence.output.after_call)->vocabulary().spaces());
    allow_ends(request, true, mask);
    allow_calls(request, mask);
  } else {
    return Outcome::kOk;
  }
  constraint.mask = mask.words();
  return mask.any() ? Outcome::kOk : Outcome::kFailed;
}

// Determines the allowed tokens where the content must begin with the output format or a tool call. Reasoning may still
// come first.
Constraints::Outcome Constraints::constrain_beginning(Sequence& sequence, grammar::TokenMask& mask) {
  const Request& request = sequence.request;
  const OutputParser& text = sequence.output.text;
  mask.clear();
  if (const auto& heads = request.call_grammars.heads; !heads.empty()) {
    if (!text.in_open_marker())
      for (const std::vector<TokenId>& head : heads) mask.set(static_cast<uint32_t>(head.front()));
  } else if (!text.undecided() || !text.in_open_marker()) {
    const GrammarRef& format = request.params.format;
    grammar::Grammar::Position position = format->start();
    const Outcome found = within_budget([&](grammar::Fuel* fuel) { return format->allowed(position, {}, mask, fuel); });
    if (found != Outcome::kOk) return found;
    allow_ends(request, position.accepts, mask);
    allow_calls(request, mask);
  }
  if (!text.undecided()) return Outcome::kOk;
  if (const TokenId open = request.params.reasoning.open.token; open != kNoToken) {
    mask.set(static_cast<uint32_t>(open));
  } else {
    // This path is rare because the markers in chat templates are normally tokens.
    const char next = text.next_of_open_marker();
    for (TokenId token = 0; token < n_vocab_; ++token) {
      const std::string_view bytes = rendered(tokenizer_, token);
      if (bytes.starts_with(next) && !text.would_begin_content(token, bytes)) mask.set(static_cast<uint32_t>(token));
    }
  }
  return Outcome::kOk;
}

// Allows the tokens that end the turn only where the text may end.
void Constraints::allow_ends(const Request& request, bool allowed, grammar::TokenMask& mask) const {
  for (const TokenId token : request.params.stop_tokens) {
    if (allowed)
      mask.set(static_cast<uint32_t>(token));
    else
      mask.reset(static_cast<uint32_t>(token));
  }
  if (request.params.ignore_eos) return;
  if (allowed)
    mask.add(ends_);
  else
    for (const TokenId token : plain_ends_) mask.reset(static_cast<uint32_t>(token));
}

void Constraints::allow_calls(const Request& request, grammar::TokenMask& mask) {
  for (const std::vector<TokenId>& start : request.params.calls.starts) mask.set(static_cast<uint32_t>(start.front()));
}

bool Constraints::is_open(const Sequence& sequence) {
  if (sequence.output.open_at == sequence.generated()) return true;
  if (TokenDirector::must_direct(sequence)) return false;
  if (sequence.request.wants_logprobs()) return true;
  if (sequence.output.script.active()) {
    sequence.output.script.next(scripted_);
    return scripted_.size() > 1;
  }
  return !forces_tokens_ || (!sequence.output.matcher.active() && !sequence.output.format_due);
}

Constraints::Outcome Constraints::find_forced(Sequence& sequence) {
  forced_.clear();
  const Request& request = sequence.request;
  if (request.wants_logprobs()) return Outcome::kOk;
  if (sequence.output.script.active()) {
    sequence.output.script.next(scripted_);
    if (scripted_.size() == 1) forced_.push_back(scripted_.front());
    return Outcome::kOk;
  }
  if (!forces_tokens_) return Outcome::kOk;
  Outcome found = Outcome::kOk;
  if (GrammarMatcher& matcher = sequence.output.matcher; matcher.active()) {
    found = within_budget([&](grammar::Fuel* fuel) {
      return (*matcher.grammar)->forced(matcher.position, read_by(matcher, sequence), tokenizer_, forced_, fuel);
    });
  } else if (sequence.output.format_due && sequence.output.text.in_content() && request.params.calls.starts.empty()) {
    const GrammarRef& format = request.params.format;
    grammar::Grammar::Position position = format->start();
    found = within_budget([&](grammar::Fuel* fuel) { return format->forced(position, {}, tokenizer_, forced_, fuel); });
  }
  if (found != Outcome::kOk) return found;
  forced_.erase(std::ranges::find_if(forced_, [&](TokenId token) { return !may_be_forced(request, token); }),
                forced_.end());
  return Outcome::kOk;
}

// Tokens that end the turn or that the caller has banned are not forced; the sampler then chooses other tokens for the
// same text.
bool Constraints::may_be_forced(const Request& request, TokenId token) const {
  const auto has = [token](const std::vector<TokenId>& list) { return std::ranges::find(list, token) != list.end(); };
  return !has(request.params.stop_tokens) && !has(request.params.sampling.banned) &&
         (request.params.ignore_eos || !has(plain_ends_)) &&
         std::ranges::none_of(request.params.sampling.logit_bias,
                              [token](const auto& entry) { return entry.first == token && entry.second <= kBanBias; });
}

Constraints::Outcome Constraints::advance(GrammarMatcher& matcher, const Sequence& sequence, TokenId token) {
  return within_budget([&](grammar::Fuel* fuel) {
    return (*matcher.grammar)->advance(matcher.position, read_by(matcher, sequence), token, fuel);
  });
}

size_t Constraints::count_allowed(Sequence& sequence, std::span<const TokenId> drafts) {
  if (!sequence.output.matcher.active()) return drafts.size();
  GrammarMatcher matcher = sequence.output.matcher;
  // Removes the draft tokens again, even if the grammar throws.
  struct Restore {
    std::vector<TokenId>& tokens;
    const size_t length;
    ~Restore() { tokens.resize(length); }
  };
  const Restore restore{sequence.tokens, sequence.tokens.size()};
  size_t n = 0;
  for (; n < drafts.size(); ++n) {
    if (advance(matcher, sequence, drafts[n]) != Outcome::kOk) break;
    sequence.tokens.push_back(drafts[n]);  // If the grammar has to restart, it needs all tokens so far.
    mask_ahead_.add(matcher, nullptr);
  }
  return n;
}

}  // namespace monolith
