// WHEN things are computed: one engine per model, one thread of control stepping for ever. This header
// is all that the addon (or any other front end) needs; it depends on no tensor or kernel, nor on who reads a file.
//
//   submit() ──► waiting ──► prefill ──► decode ──► finished
//                  │ ▲           │  │        │
//                  │ └─preempted─┘──┼────────┘        (recomputes when pages are free again)
//                  └──► cancelled / failed ◄┘          (before the next step)
//
// Threads: every public function may be called from any thread at any time until destruction; none
// blocks on a step. Sequences, pages and the model belong to the engine thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/events.h"
#include "engine/request.h"
#include "engine/text/compiled_grammar.h"

namespace monolith {

class Backend;
class Model;
class Tokenizer;
class VisionTower;
namespace grammar {
struct GrammarOptions;
}

// Whether steps compute guesses beside the next tokens: no result depends on it. kAuto: where it pays, as measured.
// kAlways: whatever it costs, for tests.
enum class Speculation : uint8_t { kOff, kAuto, kAlways };

struct EngineOptions {
  int max_batch_tokens = 256;  // tokens per step, decodes first; may be lowered or raised while running
  int max_sequences = 32;      // sequences running at once; the same
  int step_ms = 0;             // aimed-at time of a step that decodes; bounds the prompt tokens in it. 0 = no bound
  int queue_max = 512;         // waiting requests; may be changed while running, like the next
  int queue_max_tokens = 4'000'000;  // tokens of their prompts
  bool prefix_cache = true;
  // Of models with recurrent state: every so many tokens a prompt leaves a snapshot, from which others may go on.
  int snapshot_tokens = 1024;
  Speculation speculation = Speculation::kOff;
  // Of the model's own layer that guesses, where it was loaded with one and no draft is given; nothing with speculation off.
  Speculation own_guesses = Speculation::kAuto;
  // rows of images kept for when they come again; as much may belong to requests
  size_t embedding_bytes_max = 256 << 20;
  size_t channel_bytes_max = 64 << 20;  // undrained events; beyond, the channel's sequences are suspended
  // what grammars in use or kept take together, but for what compiling alone leaves
  size_t grammar_bytes_max = 256 << 20;
  // Steps of grammars that the computing thread may take in one step of the engine, half of them for one sequence at once.
  // Each takes some 0.1 us. Another thread does the rest, and the sequence waits for it: no result depends on this number.
  uint64_t rule_steps = 40'000;
  // Where the backend computes by itself the host prepares one step while it computes another: no result depends on
  // it. False: one after the other, for tests.
  bool overlap = true;
};

// What an engine sees images with: the tower, and what that computes on if it is not the model's backend.
struct EngineSight {
  EngineSight();
  EngineSight(EngineSight&&) noexcept;
  EngineSight& operator=(EngineSight&&) noexcept;
  ~EngineSight();
  std::unique_ptr<Backend> backend;  // null: the model's
  std::unique_ptr<VisionTower> tower;
};

// Settings that may change while the engine runs; absent ones stay as they are.
struct EngineTunables {
  std::optional<int> max_batch_tokens, max_sequences, step_ms;
  std::optional<int> queue_max, queue_max_tokens;
};

struct EngineStats {
  // gauges
  int waiting = 0, running = 0;  // requests queued; sequences holding pages
  int64_t waiting_tokens = 0;    // of the prompts queued
  // Of 16 positions each, of all layers or of some (KvLayout); cached: unreferenced but reusable.
  int64_t pages_total = 0, pages_free = 0, pages_cached = 0;
  uint64_t kv_used_bytes = 0;  // memory of pages that were ever used; on a device all of the pool
  // Since the last step was completed, or since work came to an idle engine if that was later; 0 when idle.
  double last_step_age_ms = 0;
  int max_batch_tokens = 0, max_sequences = 0, step_ms = 0, queue_max = 0, queue_max_tokens = 0;  // in effect
  int loaded_batch_tokens = 0;                    // max_batch_tokens when it was loaded
  int most_batch_tokens = 0, most_sequences = 0;  // allocated: what the first two may be raised to
  bool failed = false;                            // the engine thread has stopped on an internal error
  std::string note;                               // Backend::note()
  // counters since start
  uint64_t steps = 0, step_rows = 0, prefill_tokens = 0, decode_tokens = 0, cached_tokens = 0;
  uint64_t prompt_tokens = 0, prompt_tokens_cached = 0;  // of requests begun; of these, found in the prefix cache
  uint64_t guessed_tokens = 0, guessed_right = 0;        // computed beside next tokens; of these, kept
  uint64_t drafted_tokens = 0, drafted_right = 0;        // of these, guesses of the draft or of the model's own layer
  uint64_t image_pieces = 0, image_pieces_cached = 0;    // computed by the tower; found among those kept
  uint64_t requests = 0, finished = 0, failed_requests = 0, preemptions = 0;
  uint64_t cancelled_queued = 0, cancelled_prefill = 0, cancelled_decode = 0;
  double step_seconds = 0;  // sum of step durations
};

using RequestId = uint32_t;  // never 0; unique among live requests of the engine
using ChannelId = uint32_t;

class Engine {
 public:
  // Takes over the parts; starts the thread. `draft`: see StepLoop; on the same backend. `sight` fits the model
  // (VisionModel::fit()); without a tower images are refused.
  static Result<std::unique_ptr<Engine>> start(std::unique_ptr<Model> model, std::unique_ptr<Backend> backend,
                                               std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                               std::unique_ptr<Model> draft = nullptr, EngineSight sight = {});
  virtual ~Engine() = default;  // closes: cancels everything, joins the thread

  // A channel is one consumer's event stream. `wake` is called from the engine thread at most once per
  // step and only if the channel has not been drained since the last call; it must not block or call
  // back into the engine.
  virtual ChannelId open_channel(std::function<void()> wake) = 0;
  // Swaps the channel's pending records into `out` (cleared first); out's capacity is reused. `since`, where there is
  // any record: when the first of them was published.
  virtual void drain_channel(ChannelId channel, std::vector<std::byte>& out, Clock::time_point* since = nullptr) = 0;
  // Cancels the channel's requests. After return `wake` is not called again.
  virtual void close_channel(ChannelId channel) = 0;

  // Errors at once: kQueueFull, kTooLong, kInvalidArgument and kUnsupported (they name the field), kClosed, kOutOfMemory.
  virtual Result<RequestId> submit(ChannelId channel, GenerationRequest request) = 0;
  // Of a request of this channel: its records that are not drained yet are gone on return, and it ends before the next
  // step if it has not. Unknown ids are ignored.
  virtual void cancel(ChannelId channel, RequestId id) = 0;
  // Ends one choice as kEndOfTurn before its next step, or before its first token if it has none; its text
  // held back and its kFinished record follow. Unknown ids and ended choices are ignored.
  virtual void finish(RequestId id, int choice) = 0;

  // A grammar for requests of this engine, or why there is none, to `done` (GrammarCompiler::compile()).
  virtual void compile_grammar(grammar::GrammarOptions options, GrammarDone done) = 0;
  virtual bool owns_grammar(const grammar::Grammar& grammar) const = 0;

  virtual EngineStats stats() const = 0;
  // From the next step or submission on, clamped to what was allocated at load. stats() tells what came of it.
  virtual void configure(const EngineTunables& tunables) = 0;
  // Ends running generations as kTimeLimit and refuses new ones.
  virtual void drain() = 0;
  // Prompt plus output a sequence may have: the smaller of context and page pool.
  virtual int max_context() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
};

}  // namespace monolith
