// Test fixture: an engine that runs a tiny golden model, and a reader for the engine's event stream.
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
#include "base/clock.h"
#include "check.h"
#include "engine/speculation/draft_model.h"
#include "engine/engine.h"
#include "engine/sampling/sampler.h"
#include "support/asynchronous_backend.h"
#include "support/drafting_model.h"

namespace monolith::testing {

// Sets the engine's clock, which then advances normally. The destructor restores the original clock.
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
  void make_room_for_drafts();
  // Appends MTP layers to the model. `also` is called for each new layer and can make further changes to it.
  void give_mtp_layer(const std::function<void(LooseModel&, const std::string& block)>& also = {}, int n_layers = 1);
};

// Function that creates the backend on which engines run. If it is null, a CPU backend is used.
inline Result<std::unique_ptr<Backend>> (*test_backend)() = nullptr;

struct EngineParts {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model, draft;
  std::shared_ptr<const Tokenizer> tokenizer;
};

// If the golden models are missing, marks the test as skipped, and the members of the result are null.
EngineParts load_parts(const EngineSetup& setup);

// One choice's output as a client would see it.
struct ChoiceOutcome {
  std::string content, reasoning, calls;
  std::vector<std::string> call_pieces;  // Deltas of calls in order of arrival; "" if another section came in between.
  std::vector<std::pair<TokenId, float>> logprobs;  // The tokens' logprobs, each followed by its top entries.
  std::vector<TokenId> tokens;                      // Filled if the request asks for token ids.
  int pieces = 0, piece_tokens = 0;
  bool finished = false;
  FinishReason reason{};
  uint32_t completion_tokens = 0, reasoning_tokens = 0, predicted_tokens = 0;
  int32_t stop_index = -1;
};

struct Outcome {
  int started = 0;
  uint32_t prompt_tokens = 0, cached_tokens = 0;
  float encoder_ms = 0;
  std::vector<std::pair<TokenId, float>> prompt;  // Prompt tokens except the first, each followed by its top entries.
  int prompt_entries = 0;
  std::vector<float> vector;  // The result of a request for an embedding or scores.
  std::map<int, ChoiceOutcome> choices;
  bool failed = false;
  FailureCode code{};
  std::string message;
  int n = 1;  // Number of choices to wait for.
  bool ended() const;
};

// Parses event records in the same way as src/engine/events.ts. The test fails if a record is malformed or follows the
// end record.
class EventReader {
 public:
  explicit EventReader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  void read_into(std::map<RequestId, Outcome>& outcomes);

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
  std::string get_text();

  int get_logprobs(std::vector<std::pair<TokenId, float>>& into);

  void read_record(std::map<RequestId, Outcome>& outcomes);

  const std::vector<std::byte>& bytes_;
  size_t at_ = 0;
};

// A consumer with one channel. The thread that waits for events drains the channel after every wake-up.
class Consumer {
 public:
  explicit Consumer(Engine& engine);
  ~Consumer() { engine_.close_channel(channel_); }

  ChannelId channel() const { return channel_; }
  std::map<RequestId, Outcome>& outcomes() { return outcomes_; }

  RequestId submit(const GenerationRequest& request);

  // Waits for one wake-up and drains the channel. Returns false if no wake-up happens within `limit`.
  bool pump(std::chrono::milliseconds limit = std::chrono::seconds(20));

  // Reads events until `done` returns true. The test fails if no event arrives for 20 seconds.
  template <typename Done>
  void pump_until(Done&& done) {
    while (!done()) {
      if (!pump()) {
        check::fail(__FILE__, __LINE__, "the engine sent no event for 20 s");
        return;
      }
    }
  }
  void pump_until_ended(RequestId id);

 private:
  Engine& engine_;
  ChannelId channel_;
  std::mutex mutex_;
  std::condition_variable condition_;
  bool woken_ = false;
  std::map<RequestId, Outcome> outcomes_;
  std::vector<std::byte> buffer_;
};

std::unique_ptr<Engine> start_engine(const EngineSetup& setup);

// Compares texts, token counts and logprobs bit for bit.
void check_same(const ChoiceOutcome& got, const ChoiceOutcome& expected, const std::string& what);

// Returns a prompt of `n` tokens without special tokens. Prompts of the same `family` share a prefix.
std::vector<TokenId> test_prompt(int n, int family);

// Waits until no page is referenced. Returns false if a page is still referenced when the time limit is reached.
bool pages_come_back(const Engine& engine);

}  // namespace monolith::testing
