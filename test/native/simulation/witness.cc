#include "simulation/witness.h"

#include <bit>
#include <cstring>

#include "engine/events.h"
#include "engine/output/token_text.h"
#include "simulation/sim_clock.h"
#include "simulation/sim_model.h"

namespace monolith::simulation {
namespace {

[[noreturn]] void fail(RequestId id, const std::string& what) {
  throw Violation("request " + std::to_string(id) + ": " + what);
}

}  // namespace

std::vector<TokenId> closing_of(const Ask& ask) {
  std::vector<TokenId> tokens(static_cast<size_t>(ask.n_closing), kSpace);
  tokens.back() = kClose;
  return tokens;
}

std::string stop_of(const Ask& ask) {
  return {static_cast<char>('a' + ask.stop % 5), static_cast<char>('a' + ask.stop / 5)};
}

// Parses one record of a channel from its start.
class Witness::Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value{};
    if (at_ + sizeof value > bytes_.size()) throw Violation("a record is too short");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string text() {
    const auto n = get<uint32_t>();
    if (at_ + n > bytes_.size()) throw Violation("a record is too short");
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += (n + 3) / 4 * 4;
    return text;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

void Witness::submitted(RequestId id, const Ask& ask, int64_t step) {
  const int64_t now = SimClock::now();
  Known known{.ask = &ask,
              .channel = ask.channel,
              .submitted_ns = now,
              .deadline_ns = 0,
              .submitted_step = step,
              .finishing = {},
              .prompt = {},
              .choices = {}};
  if (ask.queue_wait_ms > 0) known.deadline_ns = now + int64_t{ask.queue_wait_ms} * 1'000'000;
  if (!known_.emplace(id, std::move(known)).second) fail(id, "its ID belongs to another request");
}

Witness::Known* Witness::find(RequestId id) {
  const auto at = known_.find(id);
  return at == known_.end() ? nullptr : &at->second;
}

void Witness::forget(RequestId id) {
  if (Known* known = find(id)) known->forgotten = true;
}

void Witness::retired(RequestId id) {
  Known* known = find(id);
  if (!known) fail(id, "the engine ends an unknown request");
  if (std::exchange(known->retired, true)) fail(id, "ends twice");
}

void Witness::drop_finished() {
  std::erase_if(known_, [](const auto& entry) {
    return entry.second.retired && (entry.second.forgotten || entry.second.over());
  });
}

Alone& Witness::prompt_of_known(Known& known) {
  if (!known.prompt) known.prompt = std::make_unique<Alone>(setup_, *known.ask);
  return *known.prompt;
}

void Witness::read(std::span<const std::byte> records) {
  while (!records.empty()) {
    uint32_t size = 0;
    if (records.size() >= sizeof size) std::memcpy(&size, records.data(), sizeof size);
    if (size < 12 || size % 4 != 0 || size > records.size())
      throw Violation("a record of " + std::to_string(size) + " bytes");
    for (size_t i = 0; i < size; i += 4) {
      uint32_t word;
      std::memcpy(&word, records.data() + i, sizeof word);
      trace_ = fold(trace_, word);
    }
    Record record(records.first(size));
    records = records.subspan(size);
    record.get<uint32_t>();
    const auto id = record.get<RequestId>();
    const auto kind = static_cast<EventKind>(record.get<uint8_t>());
    const int choice = record.get<uint8_t>();
    const auto section = record.get<uint8_t>();
    const auto flags = record.get<uint8_t>();
    Known* known = find(id);
    if (!known) fail(id, "a record of an unknown or ended request");
    if (known->forgotten) fail(id, "a record after the cancellation");
    if (known->over()) fail(id, "a record after the end");
    if (choice >= known->ask->n) fail(id, "a record of a choice that was not requested");
    if (kind != EventKind::kStarted && kind != EventKind::kFailed && !known->started)
      fail(id, "a record before the start");
    if (const auto at = known->choices.find(choice);
        at != known->choices.end() && at->second.finished && kind != EventKind::kFailed)
      fail(id, "a record of a choice after its end");
    switch (kind) {
      case EventKind::kStarted: read_started(id, *known, record); break;
      case EventKind::kText: read_text(id, *known, choice, (flags & 1) != 0, record); break;
      case EventKind::kFinished: read_finished(id, *known, choice, static_cast<FinishReason>(section), record); break;
      case EventKind::kFailed:
        record.text();
        read_failed(id, *known, static_cast<FailureCode>(section));
        break;
      case EventKind::kPrompt: read_prompt(id, *known, record); break;
      case EventKind::kTokens: read_tokens(id, *known, choice, record); break;
      default: fail(id, "a record of unknown type");
    }
    if (!record.at_end()) fail(id, "a record is longer than its content");
  }
}

void Witness::read_started(RequestId id, Known& known, Record& record) {
  if (std::exchange(known.started, true)) fail(id, "starts twice");
  const auto prompt = record.get<uint32_t>(), cached = record.get<uint32_t>();
  const float queue_ms = record.get<float>(), encoder_ms = record.get<float>();
  const Ask& ask = *known.ask;
  if (prompt != static_cast<uint32_t>(ask.n_shared + ask.n_own)) fail(id, "reports a wrong number of prompt tokens");
  if (cached >= prompt || (cached > 0 && !(ask.use_cache && setup_.prefix_cache)))
    fail(id, "has " + std::to_string(cached) + " tokens from the cache");
  if (cached % kPageTokens != 0) fail(id, "has part of a page from the cache");
  if (queue_ms < 0) fail(id, "has a negative queue time");
  if (encoder_ms != 0) fail(id, "has a vision time without images");
  known.started_ns = known.submitted_ns + static_cast<int64_t>(queue_ms * 1e6f);
}

void Witness::read_tokens(RequestId id, Known& known, int choice, Record& record) {
  for (auto n = record.get<uint32_t>(); n > 0; --n) take(id, known, choice, record.get<TokenId>());
}

void Witness::take(RequestId id, Known& known, int index, TokenId token) {
  const Ask& ask = *known.ask;
  if (ask.output != OutputKind::kTokens) fail(id, "a token that was not requested");
  Choice& choice = known.choices[index];
  if (!choice.alone) choice.alone = std::make_unique<Alone>(prompt_of_known(known));
  ++n_tokens_;
  const SampleResult& expected = choice.alone->next(index);
  if (token != expected.token) {
    // The tokens that close the reasoning may have been inserted by the engine, but only once.
    const bool closes = ask.budget >= 0 && (token == kSpace || token == kClose) && ++choice.n_closing <= ask.n_closing;
    if (!closes)
      fail(id, "token " + std::to_string(choice.tokens.size()) + " of choice " + std::to_string(index) + " is " +
                   std::to_string(token) + ", alone it is " + std::to_string(expected.token));
  }
  choice.tokens.push_back(token);
  choice.logprobs.push_back(expected.logprob);
  choice.alone->read(token);
  if (static_cast<int>(choice.tokens.size()) > ask.max_tokens) fail(id, "more tokens than requested");
}

void Witness::read_text(RequestId id, Known& known, int index, bool has_logprobs, Record& record) {
  Choice& choice = known.choices[index];
  record.get<uint32_t>();
  choice.text += record.text();
  if (!has_logprobs) return;
  if (!known.ask->logprobs) fail(id, "logprobs that were not requested");
  for (auto n = record.get<uint32_t>(); n > 0; --n) {
    const auto token = record.get<TokenId>();
    const auto logprob = record.get<float>();
    if (record.get<uint32_t>() != 0) fail(id, "more logprobs than requested");
    if (known.ask->budget >= 0) continue;  // Tokens in the forced closing sequence have no logprobs.
    // An end-of-generation token that is ignored has no text and therefore no logprobs entry.
    while (choice.n_entries < choice.tokens.size() && choice.tokens[choice.n_entries] == kEnd) ++choice.n_entries;
    const size_t at = choice.n_entries++;
    if (at >= choice.tokens.size() || choice.tokens[at] != token) fail(id, "logprobs of another token");
    if (std::bit_cast<uint32_t>(choice.logprobs[at]) != std::bit_cast<uint32_t>(logprob))
      fail(id, "a different logprob than alone");
  }
}

void Witness::read_prompt(RequestId id, Known& known, Record& record) {
  if (known.ask->prompt_logprobs < 0) fail(id, "reports prompt logprobs that were not requested");
  if (!known.choices.empty()) fail(id, "reports prompt logprobs after the response has started");
  const auto& scores = prompt_of_known(known).scores();
  if (record.get<uint32_t>() != known.n_scores + 1) fail(id, "reports prompt logprobs out of order");
  for (auto n = record.get<uint32_t>(); n > 0; --n) {
    const auto token = record.get<TokenId>();
    const auto logprob = record.get<float>();
    if (record.get<uint32_t>() != 0) fail(id, "more logprobs than requested");
    if (known.n_scores >= scores.size()) fail(id, "reports more prompt tokens than there are");
    const Alone::Scored& expected = scores[known.n_scores++];
    if (expected.token != token) fail(id, "reports a different prompt token");
    if (std::bit_cast<uint32_t>(expected.logprob) != std::bit_cast<uint32_t>(logprob))
      fail(id, "reports different prompt logprobs than alone");
  }
}

void Witness::check_text(RequestId id, const Known& known, const Choice& choice, FinishReason reason) const {
  // With a reasoning budget, the text contains line breaks and markers, which output_parser_test.cc covers.
  if (known.ask->budget >= 0) return;
  std::string text;
  for (size_t i = 0; i < choice.tokens.size(); ++i) {
    const TokenId token = choice.tokens[i];
    if (token == kEnd && !known.ask->ignore_end) {
      if (i + 1 != choice.tokens.size()) fail(id, "continues after the end");
      break;
    }
    text += rendered(tokenizer_, token);
  }
  const size_t stop = known.ask->stop < 0 ? std::string::npos : text.find(stop_of(*known.ask));
  if ((stop != std::string::npos) != (reason == FinishReason::kStopString)) fail(id, "stops at the wrong place");
  if (stop != std::string::npos) text.resize(stop);
  if (choice.text != text) fail(id, "its text is \"" + choice.text + "\", its tokens give \"" + text + "\"");
}

void Witness::read_finished(RequestId id, Known& known, int index, FinishReason reason, Record& record) {
  const Ask& ask = *known.ask;
  Choice& choice = known.choices[index];
  const auto n_tokens = record.get<uint32_t>();
  record.get<uint32_t>();
  const auto stop = record.get<int32_t>();
  const float prefill_ms = record.get<float>(), decode_ms = record.get<float>();
  if (record.get<uint32_t>() != 0) fail(id, "reports tokens of a prediction that it does not have");
  if (prefill_ms < 0 || decode_ms < 0) fail(id, "has a negative duration");
  if (n_tokens != choice.tokens.size())
    fail(id,
         "counts " + std::to_string(n_tokens) + " tokens, " + std::to_string(choice.tokens.size()) + " were received");
  if ((stop >= 0) != (reason == FinishReason::kStopString)) fail(id, "reports a stop string without stopping at one");
  const bool ended = !choice.tokens.empty() && choice.tokens.back() == kEnd && !ask.ignore_end;
  const bool late =
      ask.generation_ms > 0 && SimClock::now() - known.submitted_ns >= int64_t{ask.generation_ms} * 1'000'000;
  bool right = false;
  switch (reason) {
    case FinishReason::kEndOfTurn: right = ended || known.finishing[static_cast<size_t>(index)]; break;
    case FinishReason::kStopString: right = ask.stop >= 0; break;
    case FinishReason::kMaxTokens:
      right = static_cast<int>(n_tokens) == ask.max_tokens || ask.output != OutputKind::kTokens;
      break;
    case FinishReason::kContextFull:
      right = ask.n_shared + ask.n_own + static_cast<int>(n_tokens) == max_context_;
      break;
    case FinishReason::kTimeLimit: right = late || (shuts_ && in_order_); break;
    case FinishReason::kRepetition: break;
  }
  if (!right)
    fail(id, "ends after " + std::to_string(n_tokens) + " tokens for reason " +
                 std::to_string(static_cast<int>(reason)) + ", which is wrong");
  if (ended && reason != FinishReason::kEndOfTurn && reason != FinishReason::kStopString)
    fail(id, "continues after the end");
  if (known.finishing.none() && reason == FinishReason::kEndOfTurn && static_cast<int>(n_tokens) < ask.min_tokens &&
      !ask.ignore_end)
    fail(id, "ends too early");
  if (ask.prompt_logprobs >= 0 && reason == FinishReason::kMaxTokens &&
      known.n_scores != prompt_of_known(known).scores().size())
    fail(id, "ends before all prompt logprobs are reported");
  if (ask.output == OutputKind::kTokens) check_text(id, known, choice, reason);
  choice.finished = true;
  choice.alone.reset();
  ++known.n_finished;
}

void Witness::read_failed(RequestId id, Known& known, FailureCode code) {
  bool right = false;
  switch (code) {
    case FailureCode::kQueueTimeout:
      right = !known.started && known.deadline_ns > 0 && SimClock::now() >= known.deadline_ns;
      break;
    case FailureCode::kEngineError: right = known.spoilt || (shuts_ && !in_order_); break;
    case FailureCode::kShutdown: right = shuts_ && in_order_ && !known.started; break;
  }
  if (!right) fail(id, "fails with code " + std::to_string(static_cast<int>(code)) + ", without a cause");
  known.failed = true;
}

}  // namespace monolith::simulation
