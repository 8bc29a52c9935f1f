#include "addon/channel.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "addon/arguments.h"
#include "addon/errors.h"
#include "addon/objects.h"
#include "addon/options.h"
#include "engine/events.h"
#include "engine/loop/channel.h"

namespace monolith::addon {

std::shared_ptr<ChannelCore> ChannelCore::open(Napi::Env env, EngineRef engine, std::shared_ptr<ChannelSet> set,
                                               const Napi::Function& on_events) {
  const std::shared_ptr<ChannelCore> core(new ChannelCore(env));
  // The N-API thread-safe function owns a reference to the core. Its finalizer releases the reference after the last
  // queued wake-up.
  auto* owner = new std::shared_ptr<ChannelCore>(core);
  const auto finalize = [](Napi::Env, std::shared_ptr<ChannelCore>* owned, ChannelCore*) { delete owned; };
  core->wakeups_ = Wakeups::New(env, on_events, "monolith events", 0, 1, core.get(), finalize, owner);
  core->wakeups_.Unref(env);
  core->engine_ = std::move(engine);
  core->set_ = std::move(set);
  core->set_->push_back(core.get());
  core->id_ = core->engine_->engine->open_channel([wakeups = core->wakeups_]() { wakeups.NonBlockingCall(); });
  core->hook_ = std::make_unique<TeardownHook>(
      env, [](void* data) { static_cast<ChannelCore*>(data)->close(); }, core.get());
  return core;
}

Result<RequestId> ChannelCore::submit(GenerationRequest request) {
  const int n = request.n;
  auto id = engine_->engine->submit(id_, std::move(request));
  if (!id) return id;
  const bool is_first = live_.empty();
  try {
    live_.emplace(*id, n);
  } catch (const std::bad_alloc&) {
    engine_->engine->cancel(id_, *id);
    return Error{ErrorCode::kOutOfMemory, "out of memory"};
  }
  if (is_first) wakeups_.Ref(env_);
  return id;
}

void ChannelCore::cancel(RequestId request) {
  if (!live_.contains(request)) return;  // The request has ended or belongs to another channel.
  engine_->engine->cancel(id_, request);
  forget(request);
}

void ChannelCore::finish(RequestId request, int choice) {
  // Does nothing if the request has ended or belongs to another channel.
  if (live_.contains(request)) engine_->engine->finish(request, choice);
}

void ChannelCore::close() {
  if (closed()) return;
  engine_->engine->close_channel(id_);  // The engine queues no wake-ups after this call.
  std::erase(*set_, this);
  set_.reset();
  live_.clear();
  events_ = {};
  hook_->release();
  engine_.reset();
  wakeups_.Release();  // Runs the finalizer in a later event loop iteration; it may destroy this object.
}

void ChannelCore::orphan() {
  orphaned_ = true;
  if (live_.empty()) close();
}

void ChannelCore::forget(RequestId request) {
  live_.erase(request);
  if (live_.empty()) wakeups_.Unref(env_);
}

// Removes the requests that finished or failed, according to the drained event records (format: engine/events.h), from
// `live_`.
void ChannelCore::forget_ended() {
  size_t at = 0;
  while (events_.size() - at >= 12) {
    uint32_t size = 0;
    RequestId request = 0;
    std::memcpy(&size, &events_[at], sizeof size);
    std::memcpy(&request, &events_[at + 4], sizeof request);
    const auto kind = static_cast<EventKind>(events_[at + 8]);
    if (kind == EventKind::kFinished || kind == EventKind::kFailed) {
      const auto found = live_.find(request);
      if (found != live_.end() && (kind == EventKind::kFailed || --found->second == 0)) forget(request);
    }
    if (size < 12) return;
    at += size;
    if (at > events_.size()) return;
  }
}

void ChannelCore::on_wake(Napi::Env env, Napi::Function on_events, ChannelCore* core, void*) {
  if (env == nullptr || core->closed()) return;  // The wake-up was queued before the channel or the environment closed.
  const Napi::HandleScope scope(env);
  catching([&] { core->pass_events(env, on_events); },
           [&](const Error& error) { napi_fatal_exception(env, to_js_error(env, error)); });
}

void ChannelCore::pass_events(Napi::Env env, const Napi::Function& on_events) {
  Clock::time_point since;
  engine_->engine->drain_channel(id_, events_, &since);
  if (events_.empty()) return;
  const Napi::Value events = to_uint8_array(env, events_.data(), events_.size());
  forget_ended();
  // Releases a large buffer, because it may be a long time until the next drain.
  if (events_.capacity() > monolith::Channel::kKeptCapacity) std::vector<std::byte>().swap(events_);
  if (!env.IsExceptionPending()) {
    const std::chrono::duration<double, std::milli> age = Clock::now() - since;
    const napi_value arguments[] = {events, Napi::Number::New(env, age.count())};
    napi_value result = nullptr;
    napi_call_function(env, env.Undefined(), on_events, std::size(arguments), arguments, &result);
  }
  report_pending_exception(env);
  if (orphaned_ && live_.empty()) close();
}

Napi::Function Channel::define(Napi::Env env) {
  return DefineClass(env, "NativeChannel",
                     {
                         InstanceMethod<&Channel::guarded<&Channel::submit>>("submit"),
                         InstanceMethod<&Channel::guarded<&Channel::cancel>>("cancel"),
                         InstanceMethod<&Channel::guarded<&Channel::finish>>("finish"),
                         InstanceMethod<&Channel::guarded<&Channel::close>>("close"),
                     });
}

Napi::Value Channel::create(Napi::Env env, std::shared_ptr<ChannelCore> core) {
  return AddonData::of(env).channel_class.New({Napi::External<std::shared_ptr<ChannelCore>>::New(env, &core)});
}

Channel::Channel(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Channel>(info) {
  if (info.Length() == 1 && info[0].IsExternal()) {
    core_ = *info[0].As<Napi::External<std::shared_ptr<ChannelCore>>>().Data();
  } else {
    napi_throw_type_error(info.Env(), nullptr, "NativeChannel cannot be constructed: use NativeEngine.open()");
  }
}

Channel::~Channel() {
  if (core_) core_->orphan();
}

Napi::Value Channel::submit(const Napi::CallbackInfo& info) {
  if (core_->closed()) return raise_closed(info.Env(), "the channel");
  // Getters in `options` may run arbitrary JavaScript that closes this channel, so keep a reference to the engine and
  // check closed() again afterwards.
  const EngineRef engine = core_->engine();
  Arguments arguments(info);
  GenerationRequest request =
      read_submit_options(arguments, arguments.argument(0, "options"), *engine->engine, engine->vision.get());
  if (!arguments.ok()) return info.Env().Undefined();
  if (core_->closed()) return raise_closed(info.Env(), "the channel");
  auto id = core_->submit(std::move(request));
  if (!id) return raise(info.Env(), id.error());
  return Napi::Number::New(info.Env(), *id);
}

void Channel::cancel(const Napi::CallbackInfo& info) {
  if (core_->closed()) {
    raise_closed(info.Env(), "the channel");
    return;
  }
  Arguments arguments(info);
  const int64_t id = arguments.integer(arguments.argument(0, "request"), 1, std::numeric_limits<uint32_t>::max());
  if (arguments.ok()) core_->cancel(static_cast<RequestId>(id));
}

void Channel::finish(const Napi::CallbackInfo& info) {
  if (core_->closed()) {
    raise_closed(info.Env(), "the channel");
    return;
  }
  Arguments arguments(info);
  const int64_t id = arguments.integer(arguments.argument(0, "request"), 1, std::numeric_limits<uint32_t>::max());
  const int64_t choice = arguments.integer(arguments.argument(1, "choice"), 0, kMaxChoices - 1);
  if (arguments.ok()) core_->finish(static_cast<RequestId>(id), static_cast<int>(choice));
}

void Channel::close(const Napi::CallbackInfo&) { core_->close(); }

}  // namespace monolith::addon
