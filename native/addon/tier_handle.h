// NativeTier: the connection between an engine and the storage tier of its KV pages. One JavaScript environment opens
// it; opening a second NativeTier for the same engine disconnects the first.
#pragma once

#include <napi.h>

#include <memory>
#include <vector>

#include "addon/addon_data.h"
#include "addon/engine_registry.h"
#include "addon/guard.h"
#include "engine/tiers/tier_outbox.h"

namespace monolith::addon {

// A connection's state. Owned jointly by its JavaScript wrapper and its thread-safe function.
class TierCore : public std::enable_shared_from_this<TierCore> {
 public:
  static std::shared_ptr<TierCore> open(Napi::Env env, EngineRef engine, size_t max_bytes, size_t min_tokens,
                                        const Napi::Function& on_events);

  const EngineRef& engine() const { return engine_; }
  TierOutbox& outbox() { return *outbox_; }
  bool closed() const { return engine_ == nullptr; }
  // Disconnects the engine. `on_events` is not called again. Idempotent.
  void close();

 private:
  static void on_wake(Napi::Env env, Napi::Function on_events, TierCore* core, void* unused);
  void pass_events(Napi::Env env, const Napi::Function& on_events);
  using Wakeups = Napi::TypedThreadSafeFunction<TierCore, void, &TierCore::on_wake>;

  EngineRef engine_;  // Null after close().
  std::shared_ptr<TierOutbox> outbox_;
  Wakeups wakeups_;
  std::unique_ptr<TeardownHook> hook_;
  std::vector<PageExport> exports_;
  std::vector<ImportReply> replies_;
};

class TierHandle : public Napi::ObjectWrap<TierHandle> {
 public:
  static Napi::Function define(Napi::Env env);
  // JavaScript signature: (maxBytes, minTokens, onEvents) => NativeTier.
  static Napi::Value create(const Napi::CallbackInfo& info, const EngineRef& engine);

  explicit TierHandle(const Napi::CallbackInfo& info);  // Called only by create().
  ~TierHandle() override;

 private:
  template <auto method>
  Napi::Value guarded(const Napi::CallbackInfo& info) {
    return guarded_call(info.Env(), [&] { return (this->*method)(info); });
  }
  void acknowledge(const Napi::CallbackInfo& info);
  void forget(const Napi::CallbackInfo& info);
  void touch_pool(const Napi::CallbackInfo& info);
  void open_import(const Napi::CallbackInfo& info);
  void write_import(const Napi::CallbackInfo& info);
  void close_import(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::shared_ptr<TierCore> core_;
};

// JavaScript signature: (prompt, images) => PositionText: the positions of a prompt after images were inserted.
Napi::Value positions_of(const Napi::CallbackInfo& info, const EngineRef& engine);

}  // namespace monolith::addon
