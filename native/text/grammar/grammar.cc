#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

namespace monolith::grammar {

std::string GrammarOptions::key() const {
  std::string key{static_cast<char>(kind), static_cast<char>(strict), static_cast<char>(one_of_as_any_of),
                  static_cast<char>(order), static_cast<char>(white_space)};
  const auto add = [&](const std::string& part) { key += std::to_string(part.size()) + ':' + part; };
  add(text);
  add(suffix);
  for (const std::string& choice : choices) add(choice);
  return key;
}

std::shared_ptr<Grammar> Grammar::compile(const GrammarOptions& options, std::shared_ptr<const GrammarVocabulary> vocabulary,
                                          const GrammarLimits& limits, const std::atomic<bool>* cancelled,
                                          std::vector<SchemaProblem>& problems) {
  SchemaOptions of_schema;
  of_schema.strict = options.strict;
  of_schema.one_of_as_any_of = options.one_of_as_any_of;
  of_schema.most_expressions = limits.most_expressions;
  of_schema.most_shapes = limits.most_shapes;
  const int64_t deadline = Fuel::thread_time() + int64_t{limits.compile_ms} * 1'000'000;
  of_schema.fuel = Fuel(limits.compile_steps, deadline, cancelled);

  std::shared_ptr<Grammar> grammar(new Grammar(std::move(vocabulary), limits));
  switch (options.kind) {
    case GrammarOptions::Kind::kJsonSchema: grammar->schema_ = Schema::compile(options.text, of_schema, problems); break;
    case GrammarOptions::Kind::kJsonObject: grammar->schema_ = Schema::any_json(true); break;
    case GrammarOptions::Kind::kJson: grammar->schema_ = Schema::any_json(false); break;
    case GrammarOptions::Kind::kRegex: grammar->schema_ = Schema::regex(options.text, of_schema, problems); break;
    case GrammarOptions::Kind::kRules: grammar->schema_ = Schema::rules(options.text, of_schema, problems); break;
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
  of_automaton.most_states = limits.most_states;
  of_automaton.most_rows = limits.most_rows;
  of_automaton.most_places = limits.most_places;
  of_automaton.most_mask_bytes = limits.most_mask_bytes;
  grammar->begin();
  pool.fuel() = Fuel(limits.use_steps, deadline, cancelled);
  const TokenMask& first = grammar->automaton_->allowed(grammar->automaton_->start());
  if (grammar->automaton_->failed()) return refuse(SchemaProblem::Kind::kTooLarge, "its first token takes too many steps to find");
  if (first.count() == 0 && !grammar->automaton_->accepts(grammar->automaton_->start()))
    return refuse(SchemaProblem::Kind::kImpossible, "the model has no token that such a text begins with");
  grammar->count_bytes();
  return grammar;
}

// A new automaton; positions in the last one are no more.
void Grammar::begin() {
  schema_->expressions().forget();
  schema_->expressions().fuel() = Fuel(limits_.use_steps);
  runs_.clear();
  run_bytes_ = 0;
  automaton_ = std::make_unique<Automaton>(*schema_, vocabulary_->trie(), automaton_options_);
  ++epoch_;
}

// Begins anew if the last use has met a limit: true then. With what one use may cost.
bool Grammar::ready() {
  const bool is_new = automaton_->failed();
  if (is_new) begin();
  schema_->expressions().fuel() = Fuel(limits_.use_steps);
  return is_new;
}

// After a limit was met: once more from the beginning, unless that was tried.
bool Grammar::begin_again(bool& is_new) {
  if (is_new) return false;
  begin();
  return is_new = true;
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

void Grammar::settle(Position& position, StateId state) {
  position = {epoch_, state, automaton_->accepts(state), automaton_->ends(state)};
}

// Makes the position one of the present automaton; false if that takes more than there may be.
bool Grammar::renew(Position& position, std::span<const TokenId> before) {
  if (position.epoch == epoch_) return true;
  StateId state = automaton_->start();
  for (const TokenId token : before) state = read(state, token);
  if (state == Automaton::kDead) return false;
  settle(position, state);
  return true;
}

Grammar::Position Grammar::start() {
  const std::lock_guard lock(mutex_);
  Position position;
  settle(position, automaton_->start());
  return position;
}

Grammar::Outcome Grammar::advance(Position& position, std::span<const TokenId> before, TokenId token) {
  const std::lock_guard lock(mutex_);
  bool is_new = ready();
  do {
    if (!renew(position, before)) continue;
    const StateId state = read(position.state, token);
    if (automaton_->failed()) continue;
    count_bytes();
    if (state == Automaton::kDead) return Outcome::kRefused;
    settle(position, state);
    return Outcome::kOk;
  } while (begin_again(is_new));
  return Outcome::kFailed;
}

Grammar::Outcome Grammar::allowed(Position& position, std::span<const TokenId> before, TokenMask& out) {
  const std::lock_guard lock(mutex_);
  bool is_new = ready();
  do {
    if (!renew(position, before)) continue;
    const TokenMask& mask = automaton_->allowed(position.state);
    if (automaton_->failed()) continue;
    out.copy(mask);
    count_bytes();
    return Outcome::kOk;
  } while (begin_again(is_new));
  return Outcome::kFailed;
}

Grammar::Outcome Grammar::forced(Position& position, std::span<const TokenId> before, const Tokenizer& tokenizer,
                                 std::vector<TokenId>& out) {
  out.clear();
  const std::lock_guard lock(mutex_);
  bool is_new = ready();
  do {
    if (!renew(position, before)) continue;
    const std::vector<TokenId>* run = find_run(position.state, tokenizer);
    if (automaton_->failed()) continue;
    if (run) out.assign(run->begin(), run->end());
    return Outcome::kOk;
  } while (begin_again(is_new));
  return Outcome::kFailed;
}

// Null: none, or a limit was met.
const std::vector<TokenId>* Grammar::find_run(StateId state, const Tokenizer& tokenizer) {
  if (automaton_->only_byte(state) == Automaton::kNoByte) return nullptr;
  if (const auto known = runs_.find(state); known != runs_.end()) return &known->second;
  std::vector<TokenId> run = cut_run(state, tokenizer);
  if (automaton_->failed()) return nullptr;
  constexpr size_t kEntry = 64;   // of a hash table, with the vector
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
    schema_->expressions().fuel() = Fuel(limits_.use_steps);   // each byte may cost what a use may
    const int byte = automaton_->only_byte(state);
    if (byte == Automaton::kNoByte || (!of_symbol && GrammarVocabulary::begins_symbol(byte))) return false;
    text += static_cast<char>(byte);
    state = automaton_->step(state, static_cast<uint8_t>(byte));
    return true;
  };
  if (GrammarVocabulary::begins_symbol(automaton_->only_byte(state))) {
    while (text.size() < GrammarVocabulary::kSymbolBytes && read_on(true)) continue;
    const TokenId token = vocabulary_->of_symbol(text);
    return token == kNoToken ? std::vector<TokenId>{} : std::vector<TokenId>{token};
  }
  while (text.size() < kMostForced && read_on(false)) continue;
  if (automaton_->failed()) return {};

  std::vector<TokenId> tokens;
  tokenizer.encode(text, {.continues = true}, tokens);
  std::string spelled;
  for (const TokenId token : tokens)
    if (static_cast<size_t>(token) < vocabulary_->trie().n_tokens()) spelled += vocabulary_->bytes(token);
  if (spelled != text) return {};   // a vocabulary without some byte
  // Where a token could begin that ends in what follows, these tokens may end as well as others.
  size_t kept = tokens.size();
  for (size_t at = 0; at < text.size() && kept > 0; ++at) {
    if (!automaton_->goes_on_in_a_token(std::string_view(text).substr(at), state)) continue;
    kept = std::min(kept, tokens_alike(std::string_view(text).substr(0, at), tokenizer, tokens));
  }
  tokens.resize(kept);
  return tokens;
}

// How many of the first of `tokens` are those of `text`, too.
size_t Grammar::tokens_alike(std::string_view text, const Tokenizer& tokenizer, std::span<const TokenId> tokens) const {
  std::vector<TokenId> others;
  tokenizer.encode(text, {.continues = true}, others);
  const auto [differs, behind] = std::ranges::mismatch(tokens, others);
  return static_cast<size_t>(differs - tokens.begin());
}

std::optional<Grammar::Next> Grammar::follow(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (automaton_->failed()) begin();
  schema_->expressions().fuel() = Fuel(limits_.use_steps);
  StateId state = automaton_->start();
  for (const char byte : text) {
    state = automaton_->step(state, static_cast<uint8_t>(byte));
    if (state == Automaton::kDead) return std::nullopt;
  }
  Next next;
  next.accepts = automaton_->accepts(state);
  for (size_t byte = 0; byte < 256; ++byte) next.bytes[byte] = automaton_->step(state, static_cast<uint8_t>(byte)) != Automaton::kDead;
  if (automaton_->failed()) return std::nullopt;
  return next;
}

void Grammar::prepare(const Position& position) {
  const std::lock_guard lock(mutex_);
  if (position.epoch != epoch_ || automaton_->failed() || automaton_->knows_allowed(position.state)) return;
  schema_->expressions().fuel() = Fuel(limits_.use_steps);
  automaton_->allowed(position.state);
  if (!automaton_->failed()) count_bytes();
}

}  // namespace monolith::grammar
