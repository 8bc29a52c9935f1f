#include "engine/embedding/encoder_engine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#if defined(__linux__)
#include <pthread.h>
#endif

#include "base/thread_pool.h"
#include "engine/embedding/encoder_queue.h"
#include "engine/loop/engine_counters.h"
#include "engine/loop/event_writer.h"
#include "engine/output/compiled_grammar.h"
#include "engine/tiers/page_copier.h"
#include "engine/tiers/page_importer.h"
#include "text/grammar/grammar.h"

namespace monolith {
namespace {

using JobPtr = std::unique_ptr<EncoderJob>;

// Maximum interval between two checks of the time limits of waiting texts.
constexpr std::chrono::milliseconds kExpiryInterval{100};

// How long the engine thread waits before it retries a failed memory allocation.
constexpr std::chrono::milliseconds kRetryInterval{10};

// Added to the nice value of the engine's threads. If they compete for a core with the threads of another engine, they
// get about a quarter of its time.
constexpr int kEncoderNice = 5;

constexpr const char* kNoMemory = "there is not enough memory for this request";
constexpr const char* kOnlyVectors = "output: this model is a text encoder: it embeds text and does not generate any";

float milliseconds_of(Clock::duration duration) { return std::chrono::duration<float, std::milli>(duration).count(); }

// Lowers the priority of the calling thread. Further calls on the same thread have no effect.
void lower_own_priority() {
  thread_local bool lowered = false;
  if (std::exchange(lowered, true)) return;
  lower_priority(kEncoderNice);
}

class EncoderEngine final : public Engine {
 public:
  EncoderEngine(std::unique_ptr<TextEncoder> encoder, std::unique_ptr<Backend> backend,
                std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options)
      : backend_(std::move(backend)),
        encoder_(std::move(encoder)),
        tokenizer_(std::move(tokenizer)),
        n_vocab_(std::min(encoder_->params().base.n_vocab, tokenizer_->n_vocab())),
        channel_bytes_max_(options.channel_bytes_max) {
    counters_.queue.configure(options.queue_max, options.queue_max_tokens);
    for (auto* rows : {&counters_.max_batch_tokens, &counters_.loaded_batch_tokens, &counters_.batch_tokens_limit})
      rows->store(encoder_->batch_rows(), std::memory_order_relaxed);
    for (auto* sequences : {&counters_.max_sequences, &counters_.sequences_limit})
      sequences->store(options.max_sequences, std::memory_order_relaxed);
  }

  ~EncoderEngine() override {
    post([](Inbox& inbox) { inbox.close = true; });
    if (thread_.joinable()) thread_.join();
  }

  void start_thread() {
    thread_ = std::thread([this] {
#if defined(__linux__)
      pthread_setname_np(pthread_self(), "monolith-embed");
#endif
      run();
    });
  }

  ChannelId open_channel(std::function<void()> wake) override {
    auto channel = std::make_shared<Channel>(std::move(wake), channel_bytes_max_);
    const std::lock_guard lock(mutex_);
    const ChannelId id = next_channel_++;
    channels_.emplace(id, std::move(channel));
    return id;
  }

  void drain_channel(ChannelId id, std::vector<std::byte>& out, Clock::time_point* since) override {
    const std::shared_ptr<Channel> channel = find_channel(id);
    if (!channel) return out.clear();
    if (channel->drain(out, since)) post([](Inbox& inbox) { inbox.wake = true; });
  }

  void close_channel(ChannelId id) override {
    std::shared_ptr<Channel> channel;
    post([&](Inbox& inbox) {
      const auto at = channels_.find(id);
      if (at == channels_.end()) return;
      inbox.closed.push_back(at->second);
      channel = std::move(at->second);
      channels_.erase(at);
    });
    if (channel) channel->close();
  }

  Result<RequestId> submit(ChannelId channel_id, GenerationRequest params) override try {
    if (Status status = check(params); !status) return status.error();
    const std::shared_ptr<Channel> channel = find_channel(channel_id);
    if (!channel) return Error{ErrorCode::kInvalidArgument, "channel is not open"};
    const size_t n_tokens = params.prompt.size();
    switch (counters_.queue.take(n_tokens)) {
      case QueueRoom::Taken::kTaken: break;
      case QueueRoom::Taken::kTooManyRequests:
        return Error{ErrorCode::kQueueFull,
                     std::to_string(counters_.queue.max_requests()) + " requests are already waiting"};
      case QueueRoom::Taken::kTooManyTokens:
        return Error{ErrorCode::kQueueFull, "the queue already holds the maximum of " +
                                                std::to_string(counters_.queue.max_tokens()) + " prompt tokens"};
    }
    QueuePlace place(counters_.queue, n_tokens);
    auto job = std::make_unique<EncoderJob>();
    job->channel = channel;
    job->tokens = std::move(params.prompt);
    job->organization = params.organization;
    job->queue_wait_ms = params.queue_wait_ms;
    job->generation_ms = params.generation_ms;
    job->submitted_at = Clock::now();
    RequestId id = 0;
    {
      const std::lock_guard lock(mutex_);
      if (inbox_.close || draining_) return Error{ErrorCode::kClosed, "the engine is closing"};
      do {
        id = next_request_++;
      } while (id == 0 || live_.contains(id));
      job->id = id;
      inbox_.submitted.reserve(inbox_.submitted.size() + 1);
      live_.emplace(id, channel);
      inbox_.submitted.push_back(std::move(job));
    }
    place.hand_over();
    EngineCounters::add(counters_.requests, 1);
    wake_.notify_one();
    return id;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "no memory"};
  }

  void cancel(ChannelId channel_id, RequestId id) override {
    std::shared_ptr<Channel> channel;
    bool was_live = false;
    {
      const std::lock_guard lock(mutex_);
      const auto of = channels_.find(channel_id);
      if (of == channels_.end()) return;
      channel = of->second;
      if (const auto at = live_.find(id); at != live_.end()) {
        if (at->second != channel) return;
        was_live = true;
      }
    }
    // The request has already ended. Its last record has been published, but may not have been drained yet.
    if (!was_live) return channel->discard(id);
    channel->forget(id);
    post([&](Inbox& inbox) {
      inbox.cancelled.push_back({id, std::move(channel)});
      live_.erase(id);
    });
  }
  void finish(RequestId, int) override {}  // No effect, because a vector has no output that could end early.

  void compile_grammar(grammar::GrammarOptions, GrammarDone done) override { done({}); }
  bool owns_grammar(const grammar::Grammar&) const override { return false; }

  // An encoder has no KV pages and no prefix cache, so these functions do nothing or return empty values.
  void clear_cache(std::optional<uint64_t>) override {}
  void touch_pool() override {}
  void open_tier(std::shared_ptr<TierOutbox>) override {}
  void forget_exports() override {}
  void open_import(PageImport) override {}
  void write_import(uint64_t, std::vector<ImportedPage>, std::shared_ptr<const void>) override {}
  void close_import(uint64_t) override {}
  PageSizes page_sizes() const override { return {}; }
  const KvLayout& kv_layout() const override { return layout_; }
  const std::string& cache_identity() const override { return cache_identity_; }

  Result<AdapterInfo> load_adapter(const std::string& path, const AdapterOptions&) override {
    return Error{ErrorCode::kUnsupported, path + ": text encoders (architecture '" +
                                              encoder_->params().base.architecture_name +
                                              "') do not support LoRA adapters"};
  }
  Status unload_adapter(AdapterId id) override {
    return Error{ErrorCode::kInvalidArgument, "there is no adapter " + std::to_string(id)};
  }
  std::vector<AdapterInfo> adapters() const override { return {}; }

  EngineStats stats() const override {
    EngineStats stats = counters_.snapshot(Clock::now());
    stats.note = backend_->note();
    return stats;
  }
  void configure(const EngineTunables& tunables) override {
    counters_.queue.configure(tunables.queue_max.value_or(counters_.queue.max_requests()),
                              tunables.queue_max_tokens.value_or(counters_.queue.max_tokens()));
  }
  void drain() override {
    post([this](Inbox& inbox) {
      draining_ = true;
      inbox.drain = true;
    });
  }
  int max_context() const override { return encoder_->params().max_tokens; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }

 private:
  // Messages from other threads to the engine thread. Their number is bounded by the queue limits and the number of
  // channels.
  struct Inbox {
    std::vector<JobPtr> submitted;
    std::vector<std::pair<RequestId, std::shared_ptr<Channel>>> cancelled;
    std::vector<std::shared_ptr<Channel>> closed;
    bool drain = false, close = false, wake = false;
    bool empty() const { return submitted.empty() && cancelled.empty() && closed.empty() && !drain && !close && !wake; }
  };

  template <typename Change>
  void post(Change&& change) {
    {
      const std::lock_guard lock(mutex_);
      change(inbox_);
    }
    wake_.notify_one();
  }

  std::shared_ptr<Channel> find_channel(ChannelId id) {
    const std::lock_guard lock(mutex_);
    const auto at = channels_.find(id);
    return at == channels_.end() ? nullptr : at->second;
  }

  Status check(const GenerationRequest& params) const {
    if (counters_.failed.load(std::memory_order_relaxed))
      return Error{ErrorCode::kClosed, "the engine has stopped on an internal error"};
    if (params.output != OutputKind::kVector) return Error{ErrorCode::kUnsupported, kOnlyVectors};
    if (params.adapter != kNoAdapter)
      return Error{ErrorCode::kInvalidArgument, "adapter: there is no adapter " + std::to_string(params.adapter)};
    if (!params.spans.empty())
      return Error{ErrorCode::kUnsupported, "spans: this model is a text encoder and does not take images"};
    if (params.prompt.empty()) return Error{ErrorCode::kInvalidArgument, "prompt must have at least one token"};
    if (params.prompt.size() > static_cast<size_t>(max_context()))
      return Error{ErrorCode::kTooLong, "prompt has " + std::to_string(params.prompt.size()) +
                                            " tokens; this model takes at most " + std::to_string(max_context())};
    for (size_t i = 0; i < params.prompt.size(); ++i)
      if (params.prompt[i] < 0 || params.prompt[i] >= n_vocab_)
        return Error{ErrorCode::kInvalidArgument, "prompt[" + std::to_string(i) + "] is token " +
                                                      std::to_string(params.prompt[i]) +
                                                      ", outside the vocabulary of " + std::to_string(n_vocab_)};
    if (params.max_tokens != 0 || params.n != 1)
      return Error{ErrorCode::kInvalidArgument, "max_tokens must be 0 and n must be 1 if a vector is requested"};
    return {};
  }

  // Main function of the engine thread.
  void run() {
    Inbox taken;
    for (;;) {
      take_inbox(taken);
      // A failed allocation is reported to clients only in the next iteration, because the report itself may need
      // memory.
      try {
        apply(taken);
        if (taken.close)
          fail_all(FailureCode::kShutdown, "the engine was closed");
        else if (counters_.failed.load(std::memory_order_relaxed))
          fail_all(FailureCode::kEngineError, failure_);
        else
          compute();
        out_of_memory_ = false;
      } catch (const std::bad_alloc&) {
        out_of_memory_ = true;
      } catch (const std::exception& error) {
        note_failure(error.what());
      }
      publish();
      if (taken.close) return;
    }
  }

  void note_failure(const char* what) noexcept {
    counters_.failed.store(true, std::memory_order_relaxed);
    try {
      failure_ = std::string("internal error: ") + what;
    } catch (const std::bad_alloc&) {
      failure_ = "internal error";  // Short enough to be stored without an allocation.
    }
  }

  // Waits for work and moves the inbox into `taken`. If `taken` still has entries that could not be applied, only
  // `close` is copied.
  void take_inbox(Inbox& taken) {
    std::unique_lock lock(mutex_);
    const auto arrived = [this] { return !inbox_.empty(); };
    if (out_of_memory_) {
      wake_.wait_for(lock, kRetryInterval, [this] { return inbox_.close; });
    } else if (batch_.empty() && queue_.empty() && touched_.empty()) {
      counters_.note_idle();
      wake_.wait(lock, arrived);
      counters_.note_progress(Clock::now());
    } else if (batch_.empty() && (blocked_ || queue_.empty())) {
      wake_.wait_for(lock, kExpiryInterval, arrived);
    }
    if (taken.empty())
      std::swap(taken, inbox_);
    else
      taken.close = inbox_.close;
  }

  // Applies the entries of `taken` and removes all of them except `close`. If this throws std::bad_alloc, the entries
  // that have not been applied yet remain, and the next call applies them.
  void apply(Inbox& taken) {
    for (JobPtr& job : taken.submitted) {
      if (!job) continue;  // This job was applied by an earlier call.
      try {
        queue_.add(job);
      } catch (const std::bad_alloc&) {
        fail(*job, FailureCode::kEngineError, kNoMemory);
        leave_queue(*job);
        job.reset();
      }
    }
    taken.submitted.clear();
    for (const auto& [id, channel] : taken.cancelled) {
      cancel_if([&, wanted = id](const EncoderJob& job) { return job.id == wanted; });
      channel->remember(id);
    }
    for (const auto& channel : taken.closed) cancel_if([&](const EncoderJob& job) { return job.channel == channel; });
    taken.cancelled.clear();
    taken.closed.clear();
    taken.wake = false;
    if (taken.drain) fail_all(FailureCode::kShutdown, "the engine is shutting down");
    taken.drain = false;
  }

  template <typename Matches>
  void cancel_if(Matches&& matches) {
    queue_.for_each([&](EncoderJob& job) {
      if (!matches(job)) return;
      EngineCounters::add(counters_.cancelled_queued, 1);
      end(job);
      leave_queue(job);
    });
    for (const JobPtr& job : batch_) {
      if (job->ended || !matches(*job)) continue;
      EngineCounters::add(counters_.cancelled_prefill, 1);
      end(*job);
    }
    end_batch_without_jobs();
  }

  // Computes the next slice. If the previous slice ran out of memory, fails the batch instead.
  void compute() {
    if (std::exchange(slice_failed_, true))
      fail_batch(kNoMemory);
    else
      advance();
    slice_failed_ = false;  // Not reached if an allocation failed.
  }

  // Ends texts that have exceeded their time limits. Starts a batch if none is running, and computes its next slice.
  void advance() {
    const Clock::time_point now = Clock::now();
    const auto passed = [now](Clock::time_point since, uint32_t limit_ms) {
      return limit_ms > 0 && now - since >= std::chrono::milliseconds(limit_ms);
    };
    queue_.for_each([&](EncoderJob& job) {
      if (!passed(job.submitted_at, job.queue_wait_ms)) return;
      fail(job, FailureCode::kQueueTimeout, "the request waited too long for the encoder");
      leave_queue(job);
    });
    for (const JobPtr& job : batch_)
      if (!job->ended && passed(*job->started_at, job->generation_ms)) finish(*job, FinishReason::kTimeLimit, {});
    end_batch_without_jobs();
    if (batch_.empty() && !queue_.empty()) begin_batch(now);
    blocked_ = batch_.empty();
    if (blocked_) return;
    lower_priorities();
    const bool done = encoder_->advance();
    const Clock::time_point end = Clock::now();
    EngineCounters::add(counters_.steps, 1);
    EngineCounters::add(counters_.step_ns, static_cast<uint64_t>((end - now).count()));
    counters_.note_progress(end);
    if (!done) return;
    for (size_t i = 0; i < batch_.size(); ++i)
      if (!batch_[i]->ended) report(*batch_[i], encoder_->take_result(i));
    end_batch();
  }

  void begin_batch(Clock::time_point now) {
    batch_ = queue_.take_batch(TextEncoder::kBatchRows, TextEncoder::rows_of);
    for (const JobPtr& job : batch_) {
      leave_queue(*job);
      job->started_at = now;
    }
    std::vector<std::span<const int32_t>> texts;
    texts.reserve(batch_.size());
    for (const JobPtr& job : batch_) {
      texts.emplace_back(job->tokens);
      const auto n_tokens = static_cast<uint32_t>(job->tokens.size());
      EngineCounters::add(counters_.prompt_tokens, n_tokens);
      EngineCounters::add(counters_.prefill_tokens, n_tokens);
      EngineCounters::add(counters_.step_rows, n_tokens);
      EventWriter(records_of(*job), job->id, 0).started(n_tokens, 0, milliseconds_of(now - job->submitted_at), 0);
    }
    counters_.running.store(static_cast<int>(batch_.size()), std::memory_order_relaxed);
    encoder_->begin(texts);
  }

  void end_batch() {
    batch_.clear();
    encoder_->begin({});
    counters_.running.store(0, std::memory_order_relaxed);
  }

  // Ends the batch early if all of its jobs have already ended, for example because they were cancelled.
  void end_batch_without_jobs() {
    if (!batch_.empty() && std::ranges::all_of(batch_, [](const JobPtr& job) { return job->ended; })) end_batch();
  }

  void report(EncoderJob& job, const std::vector<float>& vector) {
    if (!std::ranges::all_of(vector, [](float value) { return std::isfinite(value); }))
      return fail(job, FailureCode::kEngineError, "the model computed non-finite values");
    finish(job, FinishReason::kMaxTokens, vector);
  }

  // finish() and fail() end a job. If they throw std::bad_alloc, the job has not ended.
  void finish(EncoderJob& job, FinishReason reason, std::span<const float> vector) {
    EventWriter writer(records_of(job), job.id, 0);
    if (!vector.empty()) writer.vector(vector);
    writer.finished(reason, 0, 0, -1, milliseconds_of(Clock::now() - *job.started_at), 0, 0);
    EngineCounters::add(counters_.finished, 1);
    end(job);
  }

  void fail(EncoderJob& job, FailureCode code, std::string_view message) {
    EventWriter(records_of(job), job.id, 0).failed(code, message);
    EngineCounters::add(counters_.failed_requests, 1);
    end(job);
  }

  void fail_batch(std::string_view message, FailureCode code = FailureCode::kEngineError) {
    for (const JobPtr& job : batch_)
      if (!job->ended) fail(*job, code, message);
    end_batch();
  }

  void fail_all(FailureCode code, std::string_view message) {
    queue_.for_each([&](EncoderJob& job) {
      fail(job, code, message);
      leave_queue(job);
    });
    fail_batch(message, code);
  }

  // Frees the job's share of the queue limits. Called exactly once per job: when its batch starts, or when the job ends
  // before that.
  void leave_queue(const EncoderJob& job) { counters_.queue.give_back(1, job.tokens.size()); }

  void end(EncoderJob& job) {
    job.ended = true;
    const std::lock_guard lock(mutex_);
    live_.erase(job.id);
  }

  std::vector<std::byte>& records_of(const EncoderJob& job) {
    if (std::ranges::find(touched_, job.channel) == touched_.end()) touched_.push_back(job.channel);
    return job.channel->step_records();
  }

  void publish() {
    std::erase_if(touched_, [](const auto& channel) { return channel->publish(); });
  }

  // Lowers the priority of all threads that compute. Called for every slice, because a worker thread that receives no
  // task in one call keeps its old priority until a later call.
  void lower_priorities() {
    lower_own_priority();
    backend_->run_on_host(
        int64_t{4} * backend_->host_threads(), [](const void*, int64_t, int) { lower_own_priority(); }, nullptr);
  }

  const std::unique_ptr<Backend> backend_;  // Declared before encoder_, because it must outlive it.
  const std::unique_ptr<TextEncoder> encoder_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int n_vocab_;
  const size_t channel_bytes_max_;
  const KvLayout layout_{.full = 0};
  const std::string cache_identity_;
  EngineCounters counters_;

  std::mutex mutex_;  // Guards the members below, up to the next empty line.
  std::condition_variable wake_;
  Inbox inbox_;
  std::unordered_map<ChannelId, std::shared_ptr<Channel>> channels_;
  std::unordered_map<RequestId, std::shared_ptr<Channel>> live_;
  ChannelId next_channel_ = 1;
  RequestId next_request_ = 1;
  bool draining_ = false;

  // Used by the engine thread only.
  EncoderQueue queue_;
  std::vector<JobPtr> batch_;                      // Jobs of the batch that is being computed.
  std::vector<std::shared_ptr<Channel>> touched_;  // Channels with records that have not been published yet.
  bool blocked_ = false;        // No batch could start, because the queue is empty or its channels are full.
  bool out_of_memory_ = false;  // An allocation failed in the last iteration of run().
  bool slice_failed_ = false;   // An allocation failed during the last slice.
  std::string failure_;         // Message of the error that stopped the engine for good.

  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Engine>> start_encoder_engine(std::unique_ptr<TextEncoder> encoder,
                                                     std::unique_ptr<Backend> backend,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     const EngineOptions& options) {
  try {
    auto engine =
        std::make_unique<EncoderEngine>(std::move(encoder), std::move(backend), std::move(tokenizer), options);
    engine->start_thread();
    return std::unique_ptr<Engine>(std::move(engine));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "not enough memory for the engine's tables"};
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kInternal, std::string("cannot start the engine thread: ") + error.what()};
  }
}

}  // namespace monolith
