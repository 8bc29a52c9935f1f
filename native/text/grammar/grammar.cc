#include "text/grammar/grammar.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace monolith::grammar {
namespace {

constexpr uint64_t kStepsOfACut = 64;  // Fuel steps charged for tokenizing one short text.

}  // namespace

std::string GrammarOptions::key() const {
  std::string key{static_cast<char>(kind), static_cast<char>(strict), static_cast<char>(one_of_as_any_of),
                  static_cast<char>(order), static_cast<char>(white_space)};
  const auto add = [&](const std::string& part) { key += std::to_string(part.size()) + ':' + part; };
  add(text);
  add(suffix);
  add(std::string(lead.letters ? "a" : "0") + std::to_string(lead.least) + ',' + std::to_string(lead.most) +
      lead.close);
  if (spelling) {
    key += 's';
    for (const std::string* part :
         {&spelling->name_open, &spelling->text_open, &spelling->json_open, &spelling->value_close,
          &spelling->separator, &spelling->text_end, &spelling->string_mark, &spelling->item})
      add(*part);
    for (const bool flag : {spelling->nested, spelling->python}) key += static_cast<char>(flag);
    key += static_cast<char>(spelling->others);
    for (const auto& [name, kind] : spelling->kinds) {
      add(name);
      key += static_cast<char>(kind);
    }
    key += 'e';
  }
  for (const std::string& choice : choices) add(choice);
  return key;
}

std::shared_ptr<Grammar> Grammar::compile(const GrammarOptions& options,
                                          std::shared_ptr<const GrammarVocabulary> vocabulary,
                                          const GrammarLimits& limits, const std::atomic<bool>* cancelled,
                                          std::vector<SchemaProblem>& problems) {
  SchemaOptions of_schema;
  of_schema.strict = options.strict;
  of_schema.one_of_as_any_of = options.one_of_as_any_of;
  of_schema.most_expressions = limits.most_expressions;
  of_schema.most_shapes = limits.most_shapes;
  const int64_t deadline = Fuel::thread_time() + int64_t{limits.compile_ms} * 1'000'000;
  of_schema.fuel = Fuel(limits.compile_steps, deadline, cancelled);
  std::optional<Spelling> spelling = options.spelling;
  if (spelling) {
    spelling->mark_text = spelling->string_mark;
    of_schema.spelling = &*spelling;
  }

  std::shared_ptr<Grammar> grammar(new Grammar(std::move(vocabulary), limits));
  switch (options.kind) {
    case GrammarOptions::Kind::kJsonSchema:
      grammar->schema_ = Schema::compile(options.text, of_schema, problems);
      break;
    case GrammarOptions::Kind::kJsonObject: grammar->schema_ = Schema::any_json(true); break;
    case GrammarOptions::Kind::kJson: grammar->schema_ = Schema::any_json(false); break;
    case GrammarOptions::Kind::kRegex: grammar->schema_ = Schema::regex(options.text, of_schema, problems); break;
    case GrammarOptions::Kind::kRules:
      grammar->schema_ = Schema::rules(options.text, of_schema, problems, RuleNotation::kGbnf);
      break;
    case GrammarOptions::Kind::kLark:
      grammar->schema_ = Schema::rules(options.text, of_schema, problems, RuleNotation::kLark);
      break;
    case GrammarOptions::Kind::kChoice: grammar->schema_ = Schema::choice(options.choices, of_schema, problems); break;
  }
  if (!grammar->schema_) return nullptr;
  const auto refuse = [&](SchemaProblem::Kind kind, std::string what) {
    problems.push_back({kind, "", "", std::move(what)});
    return nullptr;
  };
  ExpressionPool& pool = grammar->schema_->expressions();
  pool.keep(limits.most_new_expressions);
  grammar->schema_bytes_ = grammar->schema_->bytes() - pool.bytes();
  AutomatonOptions& of_automaton = grammar->automaton_options_;
  of_automaton.order = options.order;
  of_automaton.white_space = options.white_space;
  of_automaton.suffix = grammar->vocabulary_->symbols(options.suffix);
  of_automaton.lead = options.lead;
  of_automaton.lead.close = grammar->vocabulary_->symbols(options.lead.close);
  if (spelling) {
    for (std::string* part : {&spelling->name_open, &spelling->text_open, &spelling->json_open, &spelling->value_close,
                              &spelling->separator, &spelling->string_mark})
      *part = grammar->vocabulary_->symbols(*part);
    of_automaton.spelling = std::move(spelling);
  }
  of_automaton.most_states = limits.most_states;
  of_automaton.most_rows = limits.most_rows;
  of_automaton.most_places = limits.most_places;
  of_automaton.most_mask_bytes = limits.most_mask_bytes;
  grammar->begin();
  pool.refuel(Fuel(limits.use_steps, deadline, cancelled));
  const TokenMask& first = grammar->automaton_->allowed(grammar->automaton_->start());
  if (grammar->automaton_->failed())
    return refuse(SchemaProblem::Kind::kTooLarge, "computing the first token mask takes too many steps");
  if (first.count() == 0 && !grammar->automaton_->accepts(grammar->automaton_->start()))
    return refuse(SchemaProblem::Kind::kImpossible, "the model has no token that can start such a text");
  grammar->count_bytes();
  return grammar;
}

Grammar::~Grammar() {
  if (memory_) memory_->change(bytes(), 0);
}

void Grammar::count_in(std::shared_ptr<GrammarMemory> memory) {
  const Urgent lock(*this);
  memory_ = std::move(memory);
  memory_->change(0, bytes());
}

// Starts a new automaton. The states of the previous automaton are kept, so that its positions can be imported.
void Grammar::begin() {
  const bool was_incomplete = std::exchange(is_incomplete_, true);
  auto expressions = schema_->expressions().forget_into_past();
  past_ = automaton_ ? automaton_->into_past(std::move(expressions)) : nullptr;
  spent_before_ = std::exchange(spent_, {});
  runs_.clear();
  run_bytes_ = 0;
  schema_->expressions().refuel(Fuel());
  automaton_ = std::make_unique<Automaton>(*schema_, vocabulary_->trie(), automaton_options_);
  ++epoch_;
  is_incomplete_ = was_incomplete;
}

// Like begin(), but discards all states of the previous automaton, which may be incomplete. Each sequence recomputes
// its position from its tokens.
void Grammar::restart() {
  past_ = nullptr;
  spent_.clear();
  spent_before_.clear();
  runs_.clear();
  run_bytes_ = 0;
  schema_->expressions().forget();
  schema_->expressions().refuel(Fuel());
  automaton_ = std::make_unique<Automaton>(*schema_, vocabulary_->trie(), automaton_options_);
  ++epoch_;
  is_incomplete_ = false;
}

void Grammar::shrink() {
  const Urgent lock(*this);
  begin();
  count_bytes();
}

void Grammar::count_bytes() {
  const size_t now =
      schema_bytes_ + automaton_->bytes() + (past_ ? past_->bytes() : 0) + run_bytes_ + schema_->expressions().bytes();
  const size_t before = bytes_.exchange(now, std::memory_order_relaxed);
  if (memory_ && before != now) memory_->change(before, now);
}

// Runs work_within(). If an earlier operation ran out of memory, replaces the automaton first.
template <class Work>
Grammar::Outcome Grammar::bounded(Position& position, std::span<const TokenId> before, Fuel* fuel, Work work) {
  if (is_incomplete_) restart();
  is_incomplete_ = true;
  const Outcome outcome = work_within(position, before, fuel, work);
  is_incomplete_ = false;
  return outcome;
}

// Runs `work` at the position. The work may spend the remaining budget of the position's state, but at most `fuel`. If
// the automaton reaches its memory limit, the work is repeated once in a new automaton.
template <class Work>
Grammar::Outcome Grammar::work_within(Position& position, std::span<const TokenId> before, Fuel* fuel, Work work) {
  ExpressionPool& pool = schema_->expressions();
  if (memory_) used_.store(memory_->use(), std::memory_order_relaxed);
  Fuel left = fuel ? *fuel : Fuel(limits_.use_steps);
  const auto end = [&](Outcome outcome) {
    count_bytes();
    if (fuel) *fuel = left;
    return outcome;
  };
  for (bool is_new = false;;) {
    if (automaton_->failed() && !automaton_->spent()) {
      if (std::exchange(is_new, true)) return end(Outcome::kFailed);
      begin();
    }
    pool.refuel(left);
    renew(position, before);
    left = pool.fuel();
    if (automaton_->failed()) {
      if (automaton_->spent()) return end(fuel ? Outcome::kOutOfBudget : Outcome::kFailed);
      is_new = false;  // Another state filled the automaton, so a new automaton may be tried once more.
      continue;
    }
    const StateId state = position.state;
    const auto known = spent_.find(state);
    const uint64_t before_that = known == spent_.end() ? 0 : known->second;
    const uint64_t most = limits_.use_steps - std::min(before_that, limits_.use_steps);
    pool.refuel(left.within(most));
    const uint64_t had = pool.fuel().left();
    const Outcome outcome = work();
    const uint64_t used = had - pool.fuel().left();
    left.spend(used);
    if (!automaton_->failed()) return end(outcome);
    spent_[state] = before_that + used;
    if (used >= most) return end(Outcome::kFailed);
    if (automaton_->spent()) return end(fuel ? Outcome::kOutOfBudget : Outcome::kFailed);
  }
}

StateId Grammar::read(StateId state, TokenId token) {
  const std::string_view bytes = vocabulary_->bytes(token);
  if (bytes.empty()) return Automaton::kDead;
  for (const char byte : bytes) {
    state = automaton_->step(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) break;
  }
  return state;
}

void Grammar::settle(Position& position, StateId state, size_t n_read) {
  position = {epoch_, state, automaton_->accepts(state), automaton_->ends(state), static_cast<uint32_t>(n_read)};
}

// Imports the position into the current automaton and then advances it past all of `before`. If the fuel runs out, the
// next call resumes.
void Grammar::renew(Position& position, std::span<const TokenId> before) {
  if (position.epoch != epoch_) {
    if (past_ && position.epoch + 1 == epoch_) {
      const StateId state = automaton_->recall(*past_, position.state);
      if (automaton_->failed()) return;
      if (const auto spent = spent_before_.find(position.state); spent != spent_before_.end())
        spent_[state] = spent->second;
      settle(position, state, position.n_read);
    } else {
      settle(position, automaton_->start(), 0);
    }
  }
  while (position.n_read < before.size()) {
    const StateId state = read(position.state, before[position.n_read]);
    if (automaton_->failed()) return;
    settle(position, state, position.n_read + 1);
  }
}

Grammar::Position Grammar::start() {
  const Urgent lock(*this);
  Position position;
  settle(position, automaton_->start(), 0);
  return position;
}

Grammar::Outcome Grammar::advance(Position& position, std::span<const TokenId> before, TokenId token, Fuel* fuel) {
  const Urgent lock(*this);
  return bounded(position, before, fuel, [&] {
    const StateId state = read(position.state, token);
    if (state == Automaton::kDead) return Outcome::kRefused;
    settle(position, state, before.size() + 1);
    return Outcome::kOk;
  });
}

Grammar::Outcome Grammar::allowed(Position& position, std::span<const TokenId> before, TokenMask& out, Fuel* fuel) {
  const Urgent lock(*this);
  return bounded(position, before, fuel, [&] {
    const TokenMask& mask = automaton_->allowed(position.state);
    if (!automaton_->failed()) out.copy(mask);
    return Outcome::kOk;
  });
}

Grammar::Outcome Grammar::forced(Position& position, std::span<const TokenId> before, const Tokenizer& tokenizer,
                                 std::vector<TokenId>& out, Fuel* fuel) {
  out.clear();
  const Urgent lock(*this);
  return bounded(position, before, fuel, [&] {
    const std::vector<TokenId>* run = find_run(position.state, tokenizer);
    if (run && !automaton_->failed()) out.assign(run->begin(), run->end());
    return Outcome::kOk;
  });
}

// Returns null if no byte is forced or if a limit was reached.
const std::vector<TokenId>* Grammar::find_run(StateId state, const Tokenizer& tokenizer) {
  if (automaton_->only_byte(state) == Automaton::kNoByte) return nullptr;
  if (const auto known = runs_.find(state); known != runs_.end()) return &known->second;
  std::vector<TokenId> run = cut_run(state, tokenizer);
  if (automaton_->failed()) return nullptr;
  constexpr size_t kEntry = 64;  // Estimated bytes per hash table entry, including the vector.
  if (run_bytes_ > limits_.most_run_bytes) {
    runs_.clear();
    run_bytes_ = 0;
  }
  run_bytes_ += kEntry + run.capacity() * sizeof(TokenId);
  count_bytes();
  return &runs_.emplace(state, std::move(run)).first->second;
}

std::vector<TokenId> Grammar::cut_run(StateId state, const Tokenizer& tokenizer) {
  std::string text;
  const auto read_on = [&](bool of_symbol) {
    const int byte = automaton_->only_byte(state);
    if (byte == Automaton::kNoByte || (!of_symbol && GrammarVocabulary::begins_symbol(byte))) return false;
    text += static_cast<char>(byte);
    state = automaton_->step(state, static_cast<uint8_t>(byte));
    return state != Automaton::kDead;
  };
  if (GrammarVocabulary::begins_symbol(automaton_->only_byte(state))) {
    while (text.size() < GrammarVocabulary::kSymbolBytes && read_on(true)) continue;
    const TokenId token = vocabulary_->of_symbol(text);
    return token == kNoToken ? std::vector<TokenId>{} : std::vector<TokenId>{token};
  }
  while (text.size() < kMaxForced && read_on(false)) continue;
  if (automaton_->failed() || !schema_->expressions().fuel().spend(kStepsOfACut))
    return schema_->expressions().run_dry(), std::vector<TokenId>{};

  std::vector<TokenId> tokens;
  tokenizer.encode(text, {.continues = true, .verbatim = true}, tokens);
  std::string spelled;
  for (const TokenId token : tokens)
    if (static_cast<size_t>(token) < vocabulary_->trie().n_tokens()) spelled += vocabulary_->bytes(token);
  if (spelled != text) return {};  // The vocabulary lacks some byte, so the tokens do not spell the text.
  // A longer token could start inside this text and continue into the text that follows. The last tokens would then be
  // different, so they are dropped.
  size_t kept = tokens.size();
  for (size_t at = 0; at < text.size() && kept > 0; ++at) {
    if (!schema_->expressions().fuel().spend(kStepsOfACut))
      return schema_->expressions().run_dry(), std::vector<TokenId>{};
    if (!automaton_->goes_on_in_a_token(std::string_view(text).substr(at), state)) continue;
    kept = std::min(kept, tokens_alike(std::string_view(text).substr(0, at), tokenizer, tokens));
  }
  tokens.resize(kept);
  return tokens;
}

// Returns how many tokens at the start of `tokens` are equal to the tokens that result from tokenizing `text`.
size_t Grammar::tokens_alike(std::string_view text, const Tokenizer& tokenizer, std::span<const TokenId> tokens) const {
  std::vector<TokenId> others;
  tokenizer.encode(text, {.continues = true, .verbatim = true}, others);
  const auto [differs, behind] = std::ranges::mismatch(tokens, others);
  return static_cast<size_t>(differs - tokens.begin());
}

std::optional<Grammar::Next> Grammar::follow(std::string_view text) {
  const std::lock_guard lock(mutex_);
  Position position;
  settle(position, automaton_->start(), 0);
  const auto step = [&](uint8_t byte, StateId& next) {
    return bounded(position, {}, nullptr,
                   [&] { return next = automaton_->step(position.state, byte), Outcome::kOk; }) == Outcome::kOk;
  };
  StateId state = position.state;
  for (const char byte : text) {
    if (!step(static_cast<uint8_t>(byte), state) || state == Automaton::kDead) return std::nullopt;
    settle(position, state, 0);
  }
  Next next;
  next.accepts = automaton_->accepts(position.state);
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!step(static_cast<uint8_t>(byte), state)) return std::nullopt;
    next.bytes[byte] = state != Automaton::kDead;
  }
  return next;
}

Grammar::Outcome Grammar::prepare(Position position, const Tokenizer* tokenizer, const Fuel& fuel, TokenId token) {
  if (mutex_.wanted().load(std::memory_order_relaxed)) return Outcome::kOutOfBudget;
  const std::lock_guard lock(mutex_);
  // The position is too old to be imported, so its owner must first recompute it from the sequence's tokens and then
  // call prepare() again.
  if (position.epoch != epoch_ && (!past_ || position.epoch + 1 != epoch_)) return Outcome::kOk;
  Fuel left = fuel.until(mutex_.wanted());
  return bounded(position, {}, &left, [&] {
    if (token == kNoToken)
      find_out(position.state, tokenizer);
    else
      read(position.state, token);
    return Outcome::kOk;
  });
}

Grammar::Outcome Grammar::prepared(Position& position, std::span<const TokenId> before, const Tokenizer* tokenizer,
                                   Fuel* fuel, TokenId token) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Outcome::kOutOfBudget;
  return bounded(position, before, fuel, [&] {
    const auto spent = spent_.find(position.state);
    if (spent != spent_.end() && spent->second >= limits_.use_steps) return Outcome::kFailed;
    const bool is_known = token == kNoToken ? knows(position.state, tokenizer) : knows_read(position.state, token);
    return is_known ? Outcome::kOk : Outcome::kOutOfBudget;
  });
}

void Grammar::find_out(StateId state, const Tokenizer* tokenizer) {
  if (tokenizer) {
    const std::vector<TokenId>* run = find_run(state, *tokenizer);
    if (automaton_->failed() || (run && !run->empty())) return;
  }
  automaton_->allowed(state);
}

bool Grammar::knows_read(StateId state, TokenId token) const {
  for (const char byte : vocabulary_->bytes(token)) {
    if (!automaton_->knows_step(state, static_cast<uint8_t>(byte))) return false;
    state = automaton_->step(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) break;
  }
  return true;
}

bool Grammar::knows(StateId state, const Tokenizer* tokenizer) const {
  if (tokenizer) {
    if (!automaton_->knows_only_byte(state)) return false;
    const auto run = runs_.find(state);
    if (run != runs_.end() && !run->second.empty()) return true;
    if (automaton_->known_only_byte(state) != Automaton::kNoByte && run == runs_.end()) return false;
  }
  return automaton_->knows_allowed(state);
}

}  // namespace monolith::grammar
