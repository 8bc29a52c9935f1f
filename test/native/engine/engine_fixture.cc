#include "engine/engine_fixture.h"

#include "formats/gguf/tokenizer.h"

namespace monolith::testing {

void EngineSetup::make_room_for_drafts() {
  limits.draft_rows = SequenceDrafts::kMax;
  limits.max_logit_rows = 16 + limits.draft_rows;
}

void EngineSetup::give_mtp_layer(const std::function<void(LooseModel&, const std::string& block)>& also, int n_layers) {
  limits.mtp_layer = true;
  make_room_for_drafts();
  change = [also, n_layers](LooseModel& loose) {
    for (int i = 0; i < n_layers; ++i) {
      const std::string block = "blk." + std::to_string(add_mtp_layer(loose)) + ".";
      if (also) also(loose, block);
    }
  };
}

EngineParts load_parts(const EngineSetup& setup) {
  const std::string path = check::vectors_path(setup.model);
  if (path.empty()) {
    check::skip("golden models not found");
    return {};
  }
  EngineParts parts;
  const auto failed = [&](const Error& error) {
    check::fail(__FILE__, __LINE__, error.message);
    return EngineParts{};
  };
  auto file = GgufFile::open(path);
  if (!file) return failed(file.error());
  Bytes image, head_image;
  std::unique_ptr<const GgufFile> head;
  if (setup.change || setup.head) {
    LooseModel loose(**file);
    if (setup.change) setup.change(loose);
    if (setup.head) {
      head_image = setup.head(loose);
      auto parsed = GgufFile::parse(head_image);
      if (!parsed) return failed(parsed.error());
      head = std::move(*parsed);
    }
    image = loose.build();
    file = GgufFile::parse(image);
    if (!file) return failed(file.error());
  }
  auto backend = test_backend != nullptr ? test_backend() : make_cpu_backend({.threads = setup.threads});
  if (!backend) return failed(backend.error());
  parts.backend = std::move(*backend);
  if (setup.asynchronous) parts.backend = std::make_unique<AsynchronousBackend>(std::move(parts.backend));
  auto model = Model::load(**file, *parts.backend, setup.limits, {}, head.get());
  if (!model) return failed(model.error());
  parts.model = std::move(*model);
  auto tokenizer = load_tokenizer(**file);
  if (!tokenizer) return failed(tokenizer.error());
  parts.tokenizer = std::move(*tokenizer);
  if (setup.draft.empty()) return parts;
  auto draft_file = GgufFile::open(check::vectors_path(setup.draft));
  if (!draft_file) return failed(draft_file.error());
  auto limits = DraftModel::choose_limits(**draft_file, *parts.backend, setup.limits, uint64_t{1} << 40);
  if (!limits) return failed(limits.error());
  limits->n_pages = setup.draft_pages;
  auto draft = Model::load(**draft_file, *parts.backend, *limits, {});
  if (!draft) return failed(draft.error());
  parts.draft = std::move(*draft);
  return parts;
}

bool Outcome::ended() const {
  int finished = 0;
  for (const auto& [index, choice] : choices) finished += choice.finished;
  return failed || finished == n;
}

void EventReader::read_into(std::map<RequestId, Outcome>& outcomes) {
  while (at_ < bytes_.size()) read_record(outcomes);
}

std::string EventReader::get_text() {
  const auto n = get<uint32_t>();
  std::string text(n, '\0');
  for (char& c : text) c = get<char>();
  at_ += (4 - n % 4) % 4;
  return text;
}

int EventReader::get_logprobs(std::vector<std::pair<TokenId, float>>& into) {
  const auto n = get<uint32_t>();
  for (uint32_t i = 0; i < n; ++i) {
    const auto token = get<TokenId>();
    into.emplace_back(token, get<float>());
    for (auto n_top = get<uint32_t>(); n_top > 0; --n_top) {
      const auto top = get<TokenId>();
      into.emplace_back(top, get<float>());
    }
  }
  return static_cast<int>(n);
}

void EventReader::read_record(std::map<RequestId, Outcome>& outcomes) {
  const size_t begin = at_;
  const auto size = get<uint32_t>();
  const auto id = get<uint32_t>();
  const auto kind = static_cast<EventKind>(get<uint8_t>());
  const auto index = get<uint8_t>();
  const auto section = get<uint8_t>();
  const auto flags = get<uint8_t>();
  Outcome& outcome = outcomes[id];
  CHECK(!outcome.failed);
  ChoiceOutcome& choice = outcome.choices[index];
  CHECK(kind == EventKind::kFailed || !choice.finished);  // A failure ends all choices, finished or not.
  switch (kind) {
    case EventKind::kStarted:
      ++outcome.started;
      outcome.prompt_tokens = get<uint32_t>();
      outcome.cached_tokens = get<uint32_t>();
      CHECK(get<float>() >= 0);
      outcome.encoder_ms = get<float>();
      break;
    case EventKind::kText: {
      CHECK_EQ(outcome.started, 1);
      ++choice.pieces;
      choice.piece_tokens += static_cast<int>(get<uint32_t>());
      const std::string text = get_text();
      CHECK(section <= 2);
      (section == 0 ? choice.content : section == 1 ? choice.reasoning : choice.calls) += text;
      choice.call_pieces.push_back(section == 2 ? text : "");
      CHECK(section == 0 || !(flags & 1));
      if (!(flags & 1)) break;
      get_logprobs(choice.logprobs);
      break;
    }
    case EventKind::kPrompt: {
      CHECK_EQ(outcome.started, 1);
      CHECK_EQ(choice.pieces, 0);
      CHECK_EQ(get<uint32_t>(), static_cast<uint32_t>(outcome.prompt_entries) + 1);
      outcome.prompt_entries += get_logprobs(outcome.prompt);
      break;
    }
    case EventKind::kTokens:
      for (auto n = get<uint32_t>(); n > 0; --n) choice.tokens.push_back(get<TokenId>());
      break;
    case EventKind::kVector:
      for (auto n = get<uint32_t>(); n > 0; --n) outcome.vector.push_back(get<float>());
      break;
    case EventKind::kFinished:
      choice.finished = true;
      choice.reason = static_cast<FinishReason>(section);
      choice.completion_tokens = get<uint32_t>();
      choice.reasoning_tokens = get<uint32_t>();
      choice.stop_index = get<int32_t>();
      CHECK(get<float>() >= 0);
      CHECK(get<float>() >= 0);
      choice.predicted_tokens = get<uint32_t>();
      break;
    case EventKind::kFailed:
      outcome.failed = true;
      outcome.code = static_cast<FailureCode>(section);
      outcome.message = get_text();
      outcome.choices.erase(index);
      break;
    default: check::fail(__FILE__, __LINE__, "the record type is unknown");
  }
  CHECK_EQ(at_ - begin, size_t{size});
  CHECK_EQ(size % 4, 0u);
  at_ = begin + std::max<size_t>(size, 12);
}

Consumer::Consumer(Engine& engine) : engine_(engine) {
  channel_ = engine.open_channel([this] {
    std::lock_guard lock(mutex_);
    woken_ = true;
    condition_.notify_one();
  });
}

RequestId Consumer::submit(const GenerationRequest& request) {
  auto id = engine_.submit(channel_, request);
  if (!id) {
    check::fail(__FILE__, __LINE__, id.error().message);
    return 0;
  }
  outcomes_[*id].n = request.n;
  return *id;
}

bool Consumer::pump(std::chrono::milliseconds limit) {
  {
    std::unique_lock lock(mutex_);
    if (!condition_.wait_for(lock, limit, [this] { return woken_; })) return false;
    woken_ = false;
  }
  engine_.drain_channel(channel_, buffer_);
  EventReader(buffer_).read_into(outcomes_);
  return true;
}

void Consumer::pump_until_ended(RequestId id) {
  pump_until([&] { return outcomes_[id].ended(); });
}

std::unique_ptr<Engine> start_engine(const EngineSetup& setup) {
  EngineParts parts = load_parts(setup);
  if (!parts.model) return nullptr;
  auto engine = Engine::start(std::move(parts.model), std::move(parts.backend), parts.tokenizer, setup.options,
                              std::move(parts.draft));
  if (!engine) {
    check::fail(__FILE__, __LINE__, engine.error().message);
    return nullptr;
  }
  return std::move(*engine);
}

void check_same(const ChoiceOutcome& got, const ChoiceOutcome& expected, const std::string& what) {
  if (got.content != expected.content || got.reasoning != expected.reasoning || got.calls != expected.calls ||
      got.reasoning_tokens != expected.reasoning_tokens || got.completion_tokens != expected.completion_tokens ||
      got.reason != expected.reason)
    check::fail(__FILE__, __LINE__, what + ": the text differs");
  if (got.logprobs.size() != expected.logprobs.size() ||
      (!got.logprobs.empty() &&
       std::memcmp(got.logprobs.data(), expected.logprobs.data(), got.logprobs.size() * sizeof got.logprobs[0]) != 0))
    check::fail(__FILE__, __LINE__, what + ": the logprobs differ");
}

std::vector<TokenId> test_prompt(int n, int family) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(10 + (family * 131 + i * (7 + family)) % 300);
  return tokens;
}

bool pages_come_back(const Engine& engine) {
  for (int i = 0; i < 2000; ++i) {
    const EngineStats stats = engine.stats();
    if (stats.pages_free + stats.pages_cached == stats.pages_total && stats.running == 0 && stats.waiting == 0)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace monolith::testing
