// The engine's thread and its inbox: callers post requests and commands, and the step loop takes them between steps.
//
// `mutex_` guards the inbox, the channels and the live ids. The mutex is held only for look-ups and swaps, never during
// a step, so callers do not wait for the model. It is never held together with a channel's own lock.
//
// States: open → draining → closed, or failed if a step could not be computed. In all states but open, submit() returns
// kClosed, and requests that are still in the inbox end with a failure record.
#include "engine/engine.h"

#include <algorithm>
#include <bitset>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <unordered_map>

#if defined(__linux__)
#include <pthread.h>
#endif

#include "engine/adapters/adapter_set.h"
#include "engine/huge_page_collapse.h"
#include "engine/loop/step_loop.h"
#include "engine/request_check.h"
#include "engine/tiers/cache_identity.h"
#include "engine/output/grammar_compiler.h"
#include "engine/output/section_bans.h"
#include "vision/vision.h"

namespace monolith {
namespace {

// Inbox: everything that callers have posted since the last step. The step loop swaps it out as a whole. Its size is
// bounded: submissions by the queue limits, one cancellation per live request, one finish per choice, and one close per
// channel.
struct Inbox {
  struct Cancellation {
    RequestId request;
    std::shared_ptr<Channel> channel;
  };
  struct Finish {
    RequestId request;
    int choice;
  };
  std::vector<std::unique_ptr<Request>> submitted;
  std::vector<Cancellation> cancelled;
  std::vector<Finish> finished;
  std::vector<std::shared_ptr<Channel>> closed;
  std::vector<std::function<void(PageTier&)>> tier;  // Bounded by the consumer of the storage tier.
  std::vector<std::function<void()>> calls;          // Functions that the engine thread calls between two steps.
  EngineTunables tunables;
  bool tuned = false;
  bool drain = false;
  bool close = false;
  // Set when a full channel was drained or a pending grammar mask is ready, so that blocked sequences are checked
  // again.
  bool wake = false;

  bool empty() const {
    return submitted.empty() && cancelled.empty() && finished.empty() && closed.empty() && tier.empty() &&
           calls.empty() && !tuned && !drain && !close && !wake;
  }
  void clear() {
    submitted.clear();
    cancelled.clear();
    finished.clear();
    closed.clear();
    tier.clear();
    calls.clear();
    tunables = {};
    tuned = drain = close = wake = false;
  }
};

// The state of a live request that the threads of callers may read.
struct Live {
  std::shared_ptr<Channel> channel;
  std::bitset<kMaxChoices> finishing;  // Choices for which finish() was called.
};

RequestBounds bounds_of(const Model& model, int n_vocab, int max_context, bool has_vision) {
  const ModelLimits& limits = model.limits();
  const KvLayout layout = model.memory().layout;
  // A sequence that runs alone always has pages for steps of kMinRowsAlone tokens. In many configurations it also has
  // pages for steps of max_batch_tokens tokens.
  const bool has_pages = layout.pages_at_once(max_context, limits.max_batch_tokens) <= limits.n_pages;
  // Models with a sparse-attention indexer or block attention do not support bidirectional spans.
  const bool chooses =
      model.params().latents.index.most > 0 || std::ranges::any_of(model.params().layers, [](const LayerParams& layer) {
        return layer.mixer == MixerKind::kBlockAttention;
      });
  return {.n_vocab = n_vocab,
          .max_context = max_context,
          .has_vision = has_vision,
          .input_width = model.params().input_width(),
          .most_bidirectional_rows = chooses     ? 0
                                     : has_pages ? limits.max_batch_tokens
                                                 : std::min(limits.max_batch_tokens, kMinRowsAlone),
          .has_pooling = model.pooling_head() != nullptr,
          .uses_mrope = model.params().uses_mrope()};
}

class ThreadedEngine final : public Engine {
 public:
  ThreadedEngine(std::unique_ptr<Model> model, std::unique_ptr<Backend> backend,
                 std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options, std::unique_ptr<Model> draft,
                 EngineVision sight)
      : backend_(std::move(backend)),
        model_(std::move(model)),
        sight_(std::move(sight)),
        draft_(std::move(draft)),
        tokenizer_(std::move(tokenizer)),
        channel_bytes_max_(options.channel_bytes_max),
        max_context_(StepLoop::max_context(*model_)),
        n_vocab_(StepLoop::vocabulary(*model_, *tokenizer_)),
        bounds_(bounds_of(*model_, n_vocab_, max_context_, sight_.encoder != nullptr)),
        grammars_(*tokenizer_, n_vocab_, {}, GrammarCache::kMaxBytes, GrammarCache::kMaxEntries,
                  options.grammar_bytes_max),
        stalled_wait_(options.stalled_wait_ms),
        page_sizes_(PageCopier(*model_).sizes()),
        cache_identity_(monolith::cache_identity(*model_)),
        adapters_(*model_, options.adapter_bytes_max),
        loop_(*model_, *tokenizer_, options, counters_, draft_.get(), sight_.encoder.get(),
              [this] { post([](Inbox& inbox) { inbox.wake = true; }); }) {}

  ~ThreadedEngine() override {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      intake_.close = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void start_thread() {
    thread_ = std::thread([this] {
#if defined(__linux__)
      pthread_setname_np(pthread_self(), "monolith-engine");
#endif
      run();
    });
    collapse_.emplace(std::vector<Model*>{model_.get(), draft_.get()});
  }

  ChannelId open_channel(std::function<void()> wake) override {
    auto channel = std::make_shared<Channel>(std::move(wake), channel_bytes_max_);
    std::lock_guard lock(mutex_);
    const ChannelId id = next_channel_++;
    channels_.emplace(id, std::move(channel));
    return id;
  }

  void drain_channel(ChannelId id, std::vector<std::byte>& out, Clock::time_point* since) override {
    const std::shared_ptr<Channel> channel = find_channel(id);
    if (!channel) {
      out.clear();
      return;
    }
    if (channel->drain(out, since)) post([](Inbox& inbox) { inbox.wake = true; });
  }

  void close_channel(ChannelId id) override {
    std::shared_ptr<Channel> channel;
    {
      std::lock_guard lock(mutex_);
      const auto at = channels_.find(id);
      if (at == channels_.end()) return;
      intake_.closed.push_back(at->second);
      channel = std::move(at->second);
      channels_.erase(at);
    }
    wake_.notify_one();
    channel->close();
  }

  Result<RequestId> submit(ChannelId channel_id, GenerationRequest params) override try {
    if (Status status = check_request(params, bounds_); !status) return status.error();
    if (Status status = check_grammars(params); !status) return status.error();
    if (Error refusal; refuses(refusal)) return refusal;
    const std::shared_ptr<Channel> channel = find_channel(channel_id);
    if (!channel) return Error{ErrorCode::kInvalidArgument, "channel is not open"};
    if (params.adapter != kNoAdapter) {
      auto use = adapters_.use(params.adapter);
      if (!use) return use.error();
      params.adapter_use = std::move(*use);
    }
    params.bans = make_bans(params, *tokenizer_);
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
    // The request is built without holding the lock, because this copies the prompt and compiles the stop strings.
    auto request =
        std::make_unique<Request>(0, channel, std::move(params), n_vocab_, max_context_, model_->memory().layout);
    RequestId id;
    {
      std::lock_guard lock(mutex_);
      if (closed_ || draining_) return Error{ErrorCode::kClosed, "the engine is closing"};
      do {
        id = next_request_++;
      } while (id == 0 || live_.contains(id));
      request->id = id;
      const auto live = live_.emplace(id, Live{channel, {}}).first;
      try {
        intake_.submitted.push_back(std::move(request));
      } catch (...) {
        live_.erase(live);
        throw;
      }
    }
    place.hand_over();  // The step loop returns the reservation when the request leaves the queue.
    EngineCounters::add(counters_.requests, 1);
    wake_.notify_one();
    return id;
  } catch (const std::bad_alloc&) {
    // The message fits in std::string's inline buffer, so it needs no allocation.
    return Error{ErrorCode::kOutOfMemory, "no memory"};
  }

  void cancel(ChannelId channel_id, RequestId id) override {
    std::shared_ptr<Channel> channel;
    bool was_live = false;
    {
      std::lock_guard lock(mutex_);
      const auto of = channels_.find(channel_id);
      if (of == channels_.end()) return;
      channel = of->second;
      if (const auto at = live_.find(id); at != live_.end()) {
        if (at->second.channel != channel) return;
        was_live = true;
      }
    }
    // The request has already ended. Its last record is published but may not be drained yet.
    if (!was_live) return channel->discard(id);
    // If one of these calls runs out of memory, the caller can retry the cancellation.
    channel->forget(id);
    post([&](Inbox& inbox) {
      inbox.cancelled.push_back({id, std::move(channel)});
      live_.erase(id);  // A second call of cancel() for the same id then has no effect.
    });
  }

  void finish(RequestId id, int choice) override {
    if (choice < 0 || choice >= kMaxChoices) return;
    const auto index = static_cast<size_t>(choice);
    {
      std::lock_guard lock(mutex_);
      const auto at = live_.find(id);
      // Repeated finish() calls for the same choice have no effect.
      if (at == live_.end() || at->second.finishing[index]) return;
      intake_.finished.push_back({id, choice});
      at->second.finishing.set(index);
    }
    wake_.notify_one();
  }

  void compile_grammar(grammar::GrammarOptions options, GrammarDone done) override {
    compiler_.compile(std::move(options), std::move(done));
  }
  bool owns_grammar(const grammar::Grammar& grammar) const override { return grammars_.owns(grammar); }

  void open_tier(std::shared_ptr<TierOutbox> outbox) override {
    post_to_tier([outbox = std::move(outbox)](PageTier& tier) { tier.open(outbox); });
  }
  void touch_pool() override {
    post_to_tier([](PageTier& tier) { tier.touch_pool(); });
  }
  void forget_exports() override {
    post_to_tier([](PageTier& tier) { tier.forget_exports(); });
  }
  void open_import(PageImport import) override {
    post_to_tier([import = std::move(import)](PageTier& tier) mutable { tier.open_import(std::move(import)); });
  }
  void write_import(uint64_t id, std::vector<ImportedPage> pages, std::shared_ptr<const void> owner) override {
    post_to_tier([id, pages = std::move(pages), owner = std::move(owner)](PageTier& tier) mutable {
      tier.write_import(id, std::move(pages), std::move(owner));
    });
  }
  void close_import(uint64_t id) override {
    post_to_tier([id](PageTier& tier) { tier.close_import(id); });
  }
  void clear_cache(std::optional<uint64_t> organization) override {
    post_to_tier([organization](PageTier& tier) { tier.clear_cache(organization); });
  }
  PageSizes page_sizes() const override { return page_sizes_; }
  const std::string& cache_identity() const override { return cache_identity_; }
  const KvLayout& kv_layout() const override { return model_->memory().layout; }

  Result<AdapterInfo> load_adapter(const std::string& path, const AdapterOptions& options) override {
    return adapters_.load(path, options, [this](int rank) { return reserve_adapters(rank); });
  }
  Status unload_adapter(AdapterId id) override { return adapters_.unload(id); }
  std::vector<AdapterInfo> adapters() const override { return adapters_.list(); }

  EngineStats stats() const override {
    EngineStats stats = counters_.snapshot(Clock::now());
    stats.note = backend_->note();
    if (collapse_) stats.huge_page_bytes = collapse_->bytes();
    stats.adapters = adapters_.stats();
    return stats;
  }

  void configure(const EngineTunables& tunables) override {
    post([&](Inbox& inbox) {
      counters_.queue.configure(tunables.queue_max.value_or(counters_.queue.max_requests()),
                                tunables.queue_max_tokens.value_or(counters_.queue.max_tokens()));
      if (tunables.max_batch_tokens) inbox.tunables.max_batch_tokens = tunables.max_batch_tokens;
      if (tunables.max_sequences) inbox.tunables.max_sequences = tunables.max_sequences;
      if (tunables.step_ms) inbox.tunables.step_ms = tunables.step_ms;
      inbox.tuned = true;
    });
  }

  void drain() override {
    post([this](Inbox& inbox) {
      draining_ = true;
      inbox.drain = true;
    });
  }

  int max_context() const override { return max_context_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }

 private:
  template <typename Change>
  void post(Change&& change) {
    {
      std::lock_guard lock(mutex_);
      change(intake_);
    }
    wake_.notify_one();
  }

  void post_to_tier(std::function<void(PageTier&)> command) {
    post([&](Inbox& inbox) { inbox.tier.push_back(std::move(command)); });
  }

  // Calls Model::reserve_adapters() on the engine thread and waits for the result.
  Status reserve_adapters(int rank) {
    const auto answer = std::make_shared<std::promise<Status>>();
    std::future<Status> reserved = answer->get_future();
    post([&](Inbox& inbox) {
      inbox.calls.push_back([this, answer, rank] { answer->set_value(model_->reserve_adapters(rank)); });
    });
    return reserved.get();
  }

  std::shared_ptr<Channel> find_channel(ChannelId id) {
    std::lock_guard lock(mutex_);
    const auto at = channels_.find(id);
    return at == channels_.end() ? nullptr : at->second;
  }

  Status check_grammars(const GenerationRequest& params) const {
    const auto foreign = [&](const GrammarRef& grammar) { return grammar != nullptr && !grammars_.owns(*grammar); };
    if (foreign(params.format)) return Error{ErrorCode::kInvalidArgument, "format is a grammar of another engine"};
    if (std::ranges::any_of(params.calls.grammars, foreign))
      return Error{ErrorCode::kInvalidArgument, "calls.grammars has a grammar of another engine"};
    return {};
  }

  bool refuses(Error& refusal) {
    if (counters_.failed.load(std::memory_order_relaxed)) {
      refusal = {ErrorCode::kClosed, "the engine has stopped on an internal error"};
      return true;
    }
    std::lock_guard lock(mutex_);
    if (closed_ || draining_) refusal = {ErrorCode::kClosed, "the engine is closing"};
    return closed_ || draining_;
  }

  // Main function of the engine thread.
  void run() {
    bool computed = false;
    for (;;) {
      try {
        loop_.await();  // Requests that arrive while this call waits are part of the next step.
      } catch (const std::exception& error) {
        computed = false;
        fail_engine(error.what());
      }
      const bool closing = take_intake(computed);
      try {
        apply_intake();
        if (closing) loop_.fail_all(FailureCode::kShutdown, "the engine was closed");
        if (counters_.failed.load(std::memory_order_relaxed)) {
          loop_.fail_all(FailureCode::kEngineError, "the engine has stopped on an internal error");
          loop_.tier().open(nullptr);
          computed = false;
          counters_.note_idle();
          loop_.publish();
        } else {
          // If there is nothing to compute, this call still publishes the records that apply_intake() has written.
          computed = loop_.step();
        }
        retire_ended();
        if (grammars_.is_over()) compiler_.trim();
        check_accounts();
      } catch (const std::exception& error) {
        computed = false;
        fail_engine(error.what());
      } catch (...) {
        computed = false;
        fail_engine("unknown exception");
      }
      if (closing) return;
    }
  }

  // Waits until there is something to do, then swaps out the inbox. Returns true if the engine must close.
  bool take_intake(bool computed) {
    taken_.clear();
    std::unique_lock lock(mutex_);
    const auto arrived = [this] { return !intake_.empty(); };
    if (loop_.idle() && !loop_.has_unpublished() && !loop_.tier().pending()) {
      wake_.wait(lock, arrived);
      counters_.note_progress(Clock::now());
    } else if (!computed) {
      wake_.wait_for(lock, stalled_wait_, arrived);
    }
    std::swap(intake_, taken_);
    return taken_.close;
  }

  void apply_intake() {
    if (taken_.tuned) loop_.configure(taken_.tunables);
    for (const auto& call : taken_.calls) call();
    for (const auto& command : taken_.tier) command(loop_.tier());
    for (auto& request : taken_.submitted) loop_.add(std::move(request));
    for (const Inbox::Cancellation& cancellation : taken_.cancelled) {
      loop_.cancel(cancellation.request);
      cancellation.channel->remember(cancellation.request);
    }
    for (const Inbox::Finish& finish : taken_.finished) loop_.finish_choice(finish.request, finish.choice);
    for (const auto& channel : taken_.closed) loop_.cancel_channel(*channel);
    if (taken_.drain) loop_.drain();
  }

  void retire_ended() {
    if (loop_.ended().empty()) return;
    std::lock_guard lock(mutex_);
    for (const RequestId id : loop_.ended()) live_.erase(id);
    loop_.ended().clear();
  }

  // Checks that all pages have been released while the engine is idle. Runs at most once per second, because it reads
  // the entry of every page.
  void check_accounts() {
    const Clock::time_point now = Clock::now();
    if (!loop_.idle() || (checked_at_ && now - *checked_at_ < std::chrono::seconds(1))) return;
    checked_at_ = now;
    try {
      if (!loop_.consistent()) throw std::logic_error("KV page reference counts do not agree");
    } catch (const std::bad_alloc&) {  // There is no memory for the check. A later one follows.
    }
  }

  // After a failure the state of sequences and pages is no longer trusted, so nothing more is computed.
  void fail_engine(const char* what) {
    counters_.failed.store(true, std::memory_order_relaxed);
    counters_.note_idle();
    for (auto& request : taken_.submitted)  // Requests not yet added when the exception was thrown.
      if (request) loop_.refuse(std::move(request), FailureCode::kEngineError, "the engine has stopped");
    try {
      loop_.fail_all(FailureCode::kEngineError, std::string("internal error: ") + what);
      loop_.publish();
      retire_ended();
    } catch (...) {
      // Even the failure record could not be written, because memory is exhausted. stats().failed still reports it.
    }
  }

  const std::unique_ptr<Backend> backend_;  // Declared first, because it must outlive the models.
  const std::unique_ptr<Model> model_;
  EngineVision sight_;
  const std::unique_ptr<Model> draft_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const size_t channel_bytes_max_;
  const int max_context_;
  const int n_vocab_;
  const RequestBounds bounds_;
  GrammarCache grammars_;
  GrammarCompiler compiler_{grammars_};
  EngineCounters counters_;
  const std::chrono::milliseconds stalled_wait_;
  const PageSizes page_sizes_;
  const std::string cache_identity_;
  AdapterSet adapters_;

  std::mutex mutex_;  // Guards the members below, up to the next empty line.
  std::condition_variable wake_;
  Inbox intake_;
  std::unordered_map<ChannelId, std::shared_ptr<Channel>> channels_;
  std::unordered_map<RequestId, Live> live_;  // Requests that were submitted and have neither ended nor been cancelled.
  ChannelId next_channel_ = 1;
  RequestId next_request_ = 1;
  bool draining_ = false, closed_ = false;

  // Declared after the inbox, because the step loop's worker threads post to the inbox. After the engine thread has
  // started, only that thread uses the step loop.
  StepLoop loop_;
  Inbox taken_;                                  // Used by the engine thread only, once that thread runs.
  std::optional<Clock::time_point> checked_at_;  // Used by the engine thread only, once that thread runs.

  std::thread thread_;
  // Created when the engine thread has started, and not changed afterwards. Declared last, so that its thread ends
  // before the models are destroyed.
  std::optional<HugePageCollapse> collapse_;
};

}  // namespace

EngineVision::EngineVision() = default;
EngineVision::EngineVision(EngineVision&&) noexcept = default;
EngineVision& EngineVision::operator=(EngineVision&& other) noexcept {
  encoder = std::move(other.encoder);  // The old vision encoder must be destroyed before its backend.
  backend = std::move(other.backend);
  return *this;
}
EngineVision::~EngineVision() { encoder.reset(); }  // The vision encoder must be destroyed before its backend.

Result<std::unique_ptr<Engine>> Engine::start(std::unique_ptr<Model> model, std::unique_ptr<Backend> backend,
                                              std::shared_ptr<const Tokenizer> tokenizer, const EngineOptions& options,
                                              std::unique_ptr<Model> draft, EngineVision sight) {
  try {
    auto engine = std::make_unique<ThreadedEngine>(std::move(model), std::move(backend), std::move(tokenizer), options,
                                                   std::move(draft), std::move(sight));
    engine->start_thread();
    return std::unique_ptr<Engine>(std::move(engine));
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "not enough memory for the engine's tables"};
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kInternal, std::string("cannot start the engine thread: ") + error.what()};
  }
}

}  // namespace monolith
