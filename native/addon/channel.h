// NativeChannel: one consumer's event stream, and the requests that this consumer has submitted.
//
// The engine thread uses only the channel's thread-safe function, to queue one wake-up. Everything else is used only on
// the JavaScript thread of the environment that opened the channel.
#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "addon/addon_data.h"
#include "addon/engine_registry.h"
#include "addon/guard.h"

namespace monolith::addon {

class ChannelCore;
// The open channels of one engine handle. Closing the handle closes the channels.
using ChannelSet = std::vector<ChannelCore*>;

// The state of a channel. Owned jointly by its JavaScript wrapper and its thread-safe function, until the latter is
// finalized.
class ChannelCore : public std::enable_shared_from_this<ChannelCore> {
 public:
  // Opens a channel on `engine` that passes packed events to `on_events`.
  static std::shared_ptr<ChannelCore> open(Napi::Env env, EngineRef engine, std::shared_ptr<ChannelSet> set,
                                           const Napi::Function& on_events);

  bool closed() const { return engine_ == nullptr; }
  const EngineRef& engine() const { return engine_; }

  Result<RequestId> submit(GenerationRequest request);
  void cancel(RequestId request);
  void finish(RequestId request, int choice);
  // Cancels the running requests. `on_events` is not called again. Idempotent.
  void close();
  // Called when the JavaScript wrapper has been garbage-collected. Closes the channel once its last request has ended.
  void orphan();

 private:
  static void on_wake(Napi::Env env, Napi::Function on_events, ChannelCore* core, void* unused);
  void pass_events(Napi::Env env, const Napi::Function& on_events);
  using Wakeups = Napi::TypedThreadSafeFunction<ChannelCore, void, &ChannelCore::on_wake>;

  explicit ChannelCore(Napi::Env env) : env_(env) {}
  void forget_ended();
  void forget(RequestId request);

  Napi::Env env_;
  EngineRef engine_;  // Null after close().
  ChannelId id_ = 0;
  Wakeups wakeups_;
  std::unique_ptr<TeardownHook> hook_;
  std::shared_ptr<ChannelSet> set_;
  std::vector<std::byte> events_;  // Buffer for drained events; its capacity is reused.
  // The number of unfinished choices of each running request. The process stays alive while this map is not empty.
  std::unordered_map<RequestId, int> live_;
  bool orphaned_ = false;
};

class Channel : public Napi::ObjectWrap<Channel> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Value create(Napi::Env env, std::shared_ptr<ChannelCore> core);

  // Called only by create(). The class is not exported, but JavaScript can reach this constructor through an object's
  // `constructor` property.
  explicit Channel(const Napi::CallbackInfo& info);
  ~Channel() override;

 private:
  // Wraps a method so that no C++ exception leaves it.
  template <auto method>
  Napi::Value guarded(const Napi::CallbackInfo& info) {
    return guarded_call(info.Env(), [&] { return (this->*method)(info); });
  }
  Napi::Value submit(const Napi::CallbackInfo& info);
  void cancel(const Napi::CallbackInfo& info);
  void finish(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::shared_ptr<ChannelCore> core_;
};

}  // namespace monolith::addon
