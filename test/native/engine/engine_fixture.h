// Test fixture: an engine over a tiny golden model, and a reader for its event stream.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "formats/gguf/tokenizer.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/cuda_backend.h"
#include "base/clock.h"
#include "check.h"
#include "engine/speculation/draft_model.h"
#include "engine/engine.h"
#include "engine/sampling/sampler.h"
#include "support/asynchronous_backend.h"
#include "support/drafting_model.h"

namespace monolith::testing {

// Sets the engine's clock, which then advances normally. The destructor restores it.
class ClockAt {
 public:
  explicit ClockAt(Clock::duration since_its_zero) { Clock::set(Clock::time_point(since_its_zero)); }
  ~ClockAt() { Clock::set(Clock::time_point(ahead_ + std::chrono::steady_clock::now().time_since_epoch())); }
  ClockAt(const ClockAt&) = delete;
  ClockAt& operator=(const ClockAt&) = delete;

 private:
  const Clock::duration ahead_ = Clock::now().time_since_epoch() - std::chrono::steady_clock::now().time_since_epoch();
};

struct EngineSetup {
  std::string model = "models/llama.q8_0.gguf";
  ModelLimits limits{
      .max_batch_tokens = 256, .max_logit_rows = 16, .max_context = 512, .n_pages = 256, .kv_type = KvType::kF16};
  EngineOptions options{};
  int threads = 1;
  bool asynchronous = false;  // Make the CPU backend asynchronous like a device, so that steps overlap.
  std::string draft;          // Draft model file; empty means none.
  int64_t draft_pages = 256;
  std::function<void(LooseModel&)> change = {};       // Applied to the model before it is loaded.
  std::function<Bytes(const LooseModel&)> head = {};  // Builds an EAGLE-3 head's file for the changed model.

  bool has_drafter() const { return !draft.empty() || limits.mtp_layer || head; }
  void make_room_for_drafts() {
    limits.draft_rows = SequenceDrafts::kMax;
    limits.max_logit_rows = 16 + limits.draft_rows;
  }
  // Appends MTP layers to the model. `also` makes further changes to each of them.
  void give_mtp_layer(const std::function<void(LooseModel&, const std::string& block)>& also = {}, int n_layers = 1) {
    limits.mtp_layer = true;
    make_room_for_drafts();
    change = [also, n_layers](LooseModel& loose) {
      for (int i = 0; i < n_layers; ++i) {
        const std::string block = "blk." + std::to_string(add_mtp_layer(loose)) + ".";
        if (also) also(loose, block);
      }
    };
  }
};

struct EngineParts {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model, draft;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// Returns null parts and marks the test as skipped if the golden models are missing.
inline EngineParts load_parts(const EngineSetup& setup) {
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
#ifdef MONOLITH_TEST_CUDA
  auto backend = make_cuda_backend({});
#else
  auto backend = make_cpu_backend({.threads = setup.threads});
#endif
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

// One choice's output as a client would see it.
struct ChoiceOutcome {
  std::string content, reasoning, calls;
  std::vector<std::string> call_pieces;  // Deltas of calls in order of arrival; "" if another section came in between.
  std::vector<std::pair<TokenId, float>> logprobs;  // The tokens' logprobs, each followed by its top entries.
  std::vector<TokenId> tokens;                      // Filled if the request asks for token ids.
  int pieces = 0, piece_tokens = 0;
  bool finished = false;
  FinishReason reason{};
  uint32_t completion_tokens = 0, reasoning_tokens = 0;
  int32_t stop_index = -1;
};

struct Outcome {
  int started = 0;
  uint32_t prompt_tokens = 0, cached_tokens = 0;
  float encoder_ms = 0;
  std::vector<std::pair<TokenId, float>> prompt;  // Prompt tokens except the first, each followed by its top entries.
  int prompt_entries = 0;
  std::map<int, ChoiceOutcome> choices;
  bool failed = false;
  FailureCode code{};
  std::string message;
  int n = 1;  // Number of choices to wait for.
  bool ended() const {
    int finished = 0;
    for (const auto& [index, choice] : choices) finished += choice.finished;
    return failed || finished == n;
  }
};

// Parses event records as src/engine/events.ts does. The test fails on malformed records and on records after the end.
class EventReader {
 public:
  explicit EventReader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void read_into(std::map<RequestId, Outcome>& outcomes) {
    while (at_ < bytes_.size()) read_record(outcomes);
  }

 private:
  template <typename T>
  T get() {
    T value{};
    if (at_ + sizeof value > bytes_.size()) {
      check::fail(__FILE__, __LINE__, "the record is truncated");
      at_ = bytes_.size();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string get_text() {
    const auto n = get<uint32_t>();
    std::string text(n, '\0');
    for (char& c : text) c = get<char>();
    at_ += (4 - n % 4) % 4;
    return text;
  }

  int get_logprobs(std::vector<std::pair<TokenId, float>>& into) {
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

  void read_record(std::map<RequestId, Outcome>& outcomes) {
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
    CHECK(kind == EventKind::kFailed || !choice.finished);  // A failure ends the request, whatever has finished.
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
      case EventKind::kFinished:
        choice.finished = true;
        choice.reason = static_cast<FinishReason>(section);
        choice.completion_tokens = get<uint32_t>();
        choice.reasoning_tokens = get<uint32_t>();
        choice.stop_index = get<int32_t>();
        CHECK(get<float>() >= 0);
        CHECK(get<float>() >= 0);
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

  const std::vector<std::byte>& bytes_;
  size_t at_ = 0;
};

// A consumer with one channel. The waiting thread drains the channel after every wake-up.
class Consumer {
 public:
  explicit Consumer(Engine& engine) : engine_(engine) {
    channel_ = engine.open_channel([this] {
      std::lock_guard lock(mutex_);
      woken_ = true;
      condition_.notify_one();
    });
  }
  ~Consumer() { engine_.close_channel(channel_); }

  ChannelId channel() const { return channel_; }
  std::map<RequestId, Outcome>& outcomes() { return outcomes_; }

  RequestId submit(const GenerationRequest& request) {
    auto id = engine_.submit(channel_, request);
    if (!id) {
      check::fail(__FILE__, __LINE__, id.error().message);
      return 0;
    }
    outcomes_[*id].n = request.n;
    return *id;
  }

  // Waits for one wake-up and drains the channel. Returns false after `limit`.
  bool pump(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    {
      std::unique_lock lock(mutex_);
      if (!condition_.wait_for(lock, limit, [this] { return woken_; })) return false;
      woken_ = false;
    }
    engine_.drain_channel(channel_, buffer_);
    EventReader(buffer_).read_into(outcomes_);
    return true;
  }

  // Pumps until `done` returns true. The test fails if no event arrives for 20 seconds.
  template <typename Done>
  void pump_until(Done&& done) {
    while (!done()) {
      if (!pump()) {
        check::fail(__FILE__, __LINE__, "the engine sent no event for 20 s");
        return;
      }
    }
  }
  void pump_until_ended(RequestId id) {
    pump_until([&] { return outcomes_[id].ended(); });
  }

 private:
  Engine& engine_;
  ChannelId channel_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
  std::map<RequestId, Outcome> outcomes_;
  std::vector<std::byte> buffer_;
};

inline std::unique_ptr<Engine> start_engine(const EngineSetup& setup) {
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

// Compares text, counts and logprobs bit for bit.
inline void check_same(const ChoiceOutcome& got, const ChoiceOutcome& expected, const std::string& what) {
  if (got.content != expected.content || got.reasoning != expected.reasoning || got.calls != expected.calls ||
      got.reasoning_tokens != expected.reasoning_tokens || got.completion_tokens != expected.completion_tokens ||
      got.reason != expected.reason)
    check::fail(__FILE__, __LINE__, what + ": the text differs");
  if (got.logprobs.size() != expected.logprobs.size() ||
      (!got.logprobs.empty() &&
       std::memcmp(got.logprobs.data(), expected.logprobs.data(), got.logprobs.size() * sizeof got.logprobs[0]) != 0))
    check::fail(__FILE__, __LINE__, what + ": the logprobs differ");
}

// A prompt of `n` tokens without special tokens. Prompts in the same `family` share a prefix.
inline std::vector<TokenId> test_prompt(int n, int family) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(10 + (family * 131 + i * (7 + family)) % 300);
  return tokens;
}

// Waits until no page is referenced any more. Returns false if the time limit is reached first.
inline bool pages_come_back(const Engine& engine) {
  for (int i = 0; i < 2000; ++i) {
    const EngineStats stats = engine.stats();
    if (stats.pages_free + stats.pages_cached == stats.pages_total && stats.running == 0 && stats.waiting == 0)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace monolith::testing
