// NativeChannel: one consumer's event stream and the requests it submitted.
//
// The engine's thread touches one thing of a channel: its thread-safe function, to queue one wake-up. All
// else belongs to the JavaScript thread of the environment that opened it.
#pragma once

#include <napi.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "addon/addon_data.h"
#include "addon/engine_registry.h"

namespace monolith::addon {

class ChannelCore;
// The open channels of one engine handle; closing the handle closes them.
using ChannelSet = std::vector<ChannelCore*>;

// The channel itself. Owned by its thread-safe function until that is finalized, and by the wrapper.
class ChannelCore : public std::enable_shared_from_this<ChannelCore> {
 public:
  // Opens a channel on `engine` that hands packed events to `on_events`.
  static std::shared_ptr<ChannelCore> open(Napi::Env env, EngineRef engine, std::shared_ptr<ChannelSet> set,
                                           const Napi::Function& on_events);

  bool closed() const { return engine_ == nullptr; }
  const EngineRef& engine() const { return engine_; }

  Result<RequestId> submit(GenerationRequest request);
  void cancel(RequestId request);
  void finish(RequestId request, int choice);
  // Cancels what runs; `on_events` is not called again. Idempotent.
  void close();
  // Nobody can reach the channel from JavaScript any more: closes it after its last request.
  void orphan();

 private:
  static void on_wake(Napi::Env env, Napi::Function on_events, ChannelCore* core, void* unused);
  using Wakeups = Napi::TypedThreadSafeFunction<ChannelCore, void, &ChannelCore::on_wake>;

  explicit ChannelCore(Napi::Env env) : env_(env) {}
  void forget_ended();
  void forget(RequestId request);

  Napi::Env env_;
  EngineRef engine_;  // null once closed
  ChannelId id_ = 0;
  Wakeups wakeups_;
  std::unique_ptr<TeardownHook> hook_;
  std::shared_ptr<ChannelSet> set_;
  std::vector<std::byte> events_;            // drained into, capacity kept
  std::unordered_map<RequestId, int> live_;  // choices still running. While not empty the process stays alive
  bool orphaned_ = false;
};

class Channel : public Napi::ObjectWrap<Channel> {
 public:
  static Napi::Function define(Napi::Env env);
  static Napi::Value create(Napi::Env env, std::shared_ptr<ChannelCore> core);

  // Called by create() alone: the class is not exported, but `constructor` leads here.
  explicit Channel(const Napi::CallbackInfo& info);
  ~Channel() override;

 private:
  Napi::Value submit(const Napi::CallbackInfo& info);
  void cancel(const Napi::CallbackInfo& info);
  void finish(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::shared_ptr<ChannelCore> core_;
};

}  // namespace monolith::addon
