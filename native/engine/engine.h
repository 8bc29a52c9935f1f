// Public interface of the engine: one engine per model, with one thread that runs steps (continuous batching). Front
// ends such as the Node addon include only this header. It depends on no tensor, kernel or file format.
//
//   submit() ──► waiting ──► prefill ──► decode ──► finished
//                  │ ▲           │  │        │
//                  │ └─preempted─┘──┼────────┘        (recomputes when pages are free again)
//                  └──► cancelled / failed ◄┘          (before the next step)
//
// Threads: every public function may be called from any thread until destruction. None of them waits for a step.
// Sequences, pages and the model are used by the engine thread only.
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
#include "engine/adapter_info.h"
#include "engine/events.h"
#include "engine/request.h"
#include "engine/output/compiled_grammar.h"

namespace monolith {

class Backend;
class Model;
class TierOutbox;
struct ImportedPage;
struct KvLayout;
struct PageImport;
struct PageSizes;
class Tokenizer;
class VisionEncoder;
namespace grammar {
struct GrammarOptions;
}

// Whether steps use speculative decoding. Does not affect the output. kAuto: only where measurements show a gain.
// kAlways: regardless of the cost, for tests.
enum class Speculation : uint8_t { kOff, kAuto, kAlways };

struct EngineOptions {
  int max_batch_tokens = 256;  // Maximum tokens per step, decodes first; can be changed at run time.
  int max_sequences = 32;      // Maximum running sequences; can be changed at run time.
  // Target duration in ms of a step with decoding sequences. The number of prompt tokens in such a step is limited
  // accordingly. 0 = no limit.
  int step_ms = 0;
  int queue_max = 512;               // Maximum waiting requests; can be changed at run time.
  int queue_max_tokens = 4'000'000;  // Maximum prompt tokens of waiting requests; can be changed at run time.
  bool prefix_cache = true;
  // For models with recurrent state: the distance in tokens between the state snapshots that are stored along a prompt.
  // Other requests can continue from a snapshot.
  int snapshot_tokens = 1024;
  Speculation speculation = Speculation::kOff;
  // Speculative decoding with the model's MTP layer, if the model was loaded with one and there is no draft model.
  // Ignored if `speculation` is off.
  Speculation mtp = Speculation::kAuto;
  // Maximum bytes of the image-embedding cache. The embeddings of active requests may use up to the same amount in
  // addition.
  size_t embedding_bytes_max = 256 << 20;
  size_t adapter_bytes_max = size_t{4} << 30;  // Maximum memory of all LoRA adapters, in bytes.
  // Maximum undrained event bytes per channel. Above it, the channel's sequences are preempted until it is drained.
  size_t channel_bytes_max = 64 << 20;
  // Maximum bytes of all compiled grammars, cached or in use. Temporary memory of the compiler is not included.
  size_t grammar_bytes_max = 256 << 20;
  // Grammar work the engine thread may do per step, in automaton steps of about 0.1 us. One sequence may use at most
  // half of this budget. A worker thread does the remaining work while the sequence waits. Does not affect the output.
  uint64_t grammar_steps = 40'000;
  // With an asynchronous backend, the host prepares one step while the device computes another. Does not affect the
  // output. If false, the host and the device take turns (for tests).
  bool overlap = true;
  // While no sequence can be scheduled, the engine checks the time limits of requests at this interval in ms. It wakes
  // up earlier when a channel is drained or a grammar mask is ready.
  int stalled_wait_ms = 20;

  bool operator==(const EngineOptions&) const = default;
};

// The engine's vision encoder, and the encoder's backend if it differs from the model's.
struct EngineVision {
  EngineVision();
  EngineVision(EngineVision&&) noexcept;
  EngineVision& operator=(EngineVision&&) noexcept;
  ~EngineVision();
  std::unique_ptr<Backend> backend;  // If null, the vision encoder uses the model's backend.
  std::unique_ptr<VisionEncoder> encoder;
};

// Settings that can be changed while the engine runs; absent values stay unchanged.
struct EngineTunables {
  std::optional<int> max_batch_tokens, max_sequences, step_ms;
  std::optional<int> queue_max, queue_max_tokens;
};

struct EngineStats {
  // Gauges: values at the time of the call.
  int waiting = 0, running = 0;  // Waiting: queued requests. Running: sequences that hold pages.
  int64_t waiting_tokens = 0;    // Prompt tokens of the waiting requests.
  // KV pages of 16 positions; a page covers all layers or a subset (KvLayout). Cached pages are unreferenced but
  // reusable.
  int64_t pages_total = 0, pages_free = 0, pages_cached = 0;
  uint64_t kv_used_bytes = 0;  // Bytes of the KV pages that were ever used; on a device, the whole pool.
  // Milliseconds since the last step ended, or since work arrived at an idle engine if that was later. 0 when idle.
  double last_step_age_ms = 0;
  // The limits currently in effect.
  int max_batch_tokens = 0, max_sequences = 0, step_ms = 0, queue_max = 0, queue_max_tokens = 0;
  int loaded_batch_tokens = 0;  // max_batch_tokens at load time.
  // The sizes allocated at load, which are the upper limits for max_batch_tokens and max_sequences.
  int batch_tokens_limit = 0, sequences_limit = 0;
  bool failed = false;  // The engine thread has stopped because of an internal error.
  std::string note;     // Text of Backend::note().
  // Bytes of weights that are known to be in huge pages. Not set while weights are still being moved to huge pages.
  std::optional<uint64_t> huge_page_bytes = 0;
  // Counters since start.
  uint64_t steps = 0, step_rows = 0, prefill_tokens = 0, decode_tokens = 0, cached_tokens = 0;
  // Number of prompt tokens of started requests, and number of these tokens found in the prefix cache.
  uint64_t prompt_tokens = 0, prompt_tokens_cached = 0;
  uint64_t draft_tokens = 0, accepted_draft_tokens = 0;  // Draft tokens computed, and draft tokens accepted.
  // Number of draft tokens from a draft model, an MTP layer or an EAGLE-3 head, and number of these tokens that were
  // accepted.
  uint64_t drafter_tokens = 0, accepted_drafter_tokens = 0;
  // Image tiles computed by the vision encoder, and tiles found in the embedding cache.
  uint64_t image_pieces = 0, image_pieces_cached = 0;
  uint64_t requests = 0, finished = 0, failed_requests = 0, preemptions = 0;
  uint64_t cancelled_queued = 0, cancelled_prefill = 0, cancelled_decode = 0;
  // KV pages exported to and imported from the storage tier, and pages that could not be exported.
  uint64_t pages_exported = 0, pages_imported = 0, exports_skipped = 0;
  uint64_t exports_pending = 0;  // Pages that have not been exported to the storage tier yet.
  double step_seconds = 0;       // Sum of step durations in seconds.
  // Total duration in seconds of the prefill-heavy steps, and total number of tokens in them. A prefill-heavy step has
  // at least min(64, max_batch_tokens / 2) tokens in addition to one token per decoding sequence.
  double prompt_step_seconds = 0;
  uint64_t prompt_step_rows = 0;
  std::vector<AdapterStats> adapters;
};

using RequestId = uint32_t;  // A request id is never 0 and is unique among the engine's live requests.
using ChannelId = uint32_t;

class Engine {
 public:
  // Takes ownership of the parts and starts the engine thread. `draft`: a draft model on the same backend (see
  // StepLoop). `sight`: a vision encoder that fits the model (VisionModel::fit()). Without a vision encoder, requests
  // with images are rejected.
  static Result<std::unique_ptr<Engine>> start(std::unique_ptr<Model> model, std::unique_ptr<Backend> backend,
                                               std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                               std::unique_ptr<Model> draft = nullptr, EngineVision sight = {});
  virtual ~Engine() = default;  // The destructor cancels all requests and joins the thread.

  // Opens a channel: one consumer's event stream. The engine thread calls `wake` at most once per step, and only if the
  // channel has been drained since the last call to `wake`. `wake` must not block or call back into the engine.
  virtual ChannelId open_channel(std::function<void()> wake) = 0;
  // Swaps the channel's pending records into `out`, which is cleared first; the capacity of `out` is reused. If there
  // are records, `since` is set to the time when the first of them was published.
  virtual void drain_channel(ChannelId channel, std::vector<std::byte>& out, Clock::time_point* since = nullptr) = 0;
  // Cancels the channel's requests. `wake` is not called after this function has returned.
  virtual void close_channel(ChannelId channel) = 0;

  // Queues a request. Errors are returned immediately: kQueueFull, kTooLong, kInvalidArgument and kUnsupported (both
  // name the field), kClosed, kOutOfMemory.
  virtual Result<RequestId> submit(ChannelId channel, GenerationRequest request) = 0;
  // Cancels a request of this channel. On return its undrained records are removed, and it ends before the next step.
  // Unknown ids are ignored.
  virtual void cancel(ChannelId channel, RequestId id) = 0;
  // Ends one choice with kEndOfTurn before its next step, even if it has no tokens yet. Its held-back text and its
  // kFinished record follow. Unknown ids and finished choices are ignored.
  virtual void finish(RequestId id, int choice) = 0;

  // Compiles a grammar for requests of this engine and passes the grammar or the error to `done`
  // (GrammarCompiler::compile()).
  virtual void compile_grammar(grammar::GrammarOptions options, GrammarDone done) = 0;
  virtual bool owns_grammar(const grammar::Grammar& grammar) const = 0;

  // Connects the storage tier's consumer. After this call, sequences with GenerationRequest::retain are exported to
  // `outbox`, which also receives the results of imports. Replaces an earlier consumer; null disconnects it.
  virtual void open_tier(std::shared_ptr<TierOutbox> outbox) = 0;
  // Exports all previously exported pages again. Called when the consumer has dropped pages.
  virtual void forget_exports() = 0;
  // Commits some memory of a page pool that has not been used yet, so that the first import is fast; see
  // PageTier::touch_pool().
  virtual void touch_pool() = 0;
  // Imports pages; see PageImporter. The consumer receives two results per import: when the import has been opened, and
  // when its pages have been written.
  virtual void open_import(PageImport import) = 0;
  virtual void write_import(uint64_t id, std::vector<ImportedPage> pages, std::shared_ptr<const void> owner) = 0;
  virtual void close_import(uint64_t id) = 0;
  // Evicts the prefix cache of one organization, or of all organizations if `organization` is nullopt. Keeps the pages
  // that running requests and open imports use, whether or not the pages are pinned.
  virtual void clear_cache(std::optional<uint64_t> organization) = 0;
  // Returns the sizes in bytes of a page's parts, in the order in which the parts occur in exports and imports.
  virtual PageSizes page_sizes() const = 0;
  virtual const KvLayout& kv_layout() const = 0;
  virtual const std::string& cache_identity() const = 0;  // See tiers/cache_identity.h.

  // Loads a LoRA adapter from a GGUF file or a PEFT folder. Runs on the calling thread while the engine thread
  // computes. For an invalid file, the error message names the key or tensor.
  virtual Result<AdapterInfo> load_adapter(const std::string& path, const AdapterOptions& options) = 0;
  // Makes submit() reject new requests that name the adapter. The adapter is freed when the last request that uses it
  // has ended. Returns kInvalidArgument if no adapter with this id is loaded.
  virtual Status unload_adapter(AdapterId id) = 0;
  // Returns the loaded adapters in load order, except for adapters passed to unload_adapter().
  virtual std::vector<AdapterInfo> adapters() const = 0;

  virtual EngineStats stats() const = 0;
  // Takes effect at the next step or submission. Values are clamped to the sizes allocated at load; stats() reports the
  // values in effect.
  virtual void configure(const EngineTunables& tunables) = 0;
  // Ends running generations with kTimeLimit and rejects new requests.
  virtual void drain() = 0;
  // Maximum length of prompt plus output of a sequence, limited by the context length and by the page pool.
  virtual int max_context() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
};

}  // namespace monolith
