#include "addon/engine_handle.h"

#include <utility>
#include <vector>

#include "addon/arguments.h"
#include "addon/errors.h"
#include "addon/grammar_handle.h"
#include "addon/image_handle.h"
#include "addon/objects.h"
#include "addon/options.h"
#include "addon/promise_work.h"
#include "addon/text.h"
#include "addon/tier_handle.h"
#include "engine/tiers/page_copier.h"
#include "model/kv_layout.h"

namespace monolith::addon {
namespace {

Napi::Value vision_of(Napi::Env env, const LoadedEngine& engine) {
  if (!engine.vision) return env.Null();
  const Napi::Object vision = Napi::Object::New(env);
  vision.Set("projector", to_string(env, engine.vision->projector_type()));
  vision.Set("mostTokens", Napi::Number::New(env, engine.vision->most_tokens()));
  return vision;
}

Napi::Value page_sizes_of(Napi::Env env, const Engine& engine) {
  const PageSizes sizes = engine.page_sizes();
  const Napi::Object object = Napi::Object::New(env);
  object.Set("full", Napi::Number::New(env, static_cast<double>(sizes.full)));
  object.Set("window", Napi::Number::New(env, static_cast<double>(sizes.window)));
  object.Set("snapshot", Napi::Number::New(env, static_cast<double>(sizes.snapshot)));
  object.Set("windowTokens", Napi::Number::New(env, engine.kv_layout().window));
  return object;
}

}  // namespace

Napi::Function EngineHandle::define(Napi::Env env) {
  return DefineClass(env, "NativeEngine",
                     {
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::open>>("open"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::tokenize>>("tokenize"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::tokenize_async>>("tokenizeAsync"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::token_bytes>>("tokenBytes"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::find_token>>("findToken"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::detokenize>>("detokenize"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::compile_grammar>>("compileGrammar"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::plan_image>>("planImage"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::prepare_image>>("prepareImage"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::open_tier>>("openTier"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::positions>>("positions"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::load_adapter>>("loadAdapter"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::unload_adapter>>("unloadAdapter"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::adapters>>("adapters"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::stats>>("stats"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::profile>>("profile"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::configure>>("configure"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::clear_cache>>("clearCache"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::drain>>("drain"),
                         InstanceMethod<&EngineHandle::guarded<&EngineHandle::close>>("close"),
                     });
}

Napi::Value EngineHandle::create(Napi::Env env, EngineRef engine) {
  const Napi::Object handle = AddonData::of(env).engine_class.New({Napi::External<EngineRef>::New(env, &engine)});
  if (handle.IsEmpty()) return handle;  // The JavaScript environment is being torn down.
  const auto fact = [&](const char* key, const Napi::Value& value) {
    return Napi::PropertyDescriptor::Value(key, value, napi_enumerable);  // Read-only.
  };
  handle.DefineProperties({
      fact("info", to_object(env, engine->info)),
      fact("backend", to_object(env, engine->backend)),
      fact("plan", to_object(env, engine->plan)),
      fact("fileHash", to_string(env, engine->file_hash)),
      fact("cacheIdentity", to_string(env, engine->engine->cache_identity())),
      fact("pageSizes", page_sizes_of(env, *engine->engine)),
      fact("maxContext", Napi::Number::New(env, engine->engine->max_context())),
      fact("vision", vision_of(env, *engine)),
      fact("visionProblem", engine->vision_problem.empty() ? env.Null() : to_string(env, engine->vision_problem)),
  });
  return handle;
}

EngineHandle::EngineHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EngineHandle>(info) {
  guarded_call(info.Env(), [&] { channels_ = std::make_shared<ChannelSet>(); });
  if (info.Length() == 1 && info[0].IsExternal()) {
    engine_ = *info[0].As<Napi::External<EngineRef>>().Data();
  } else {
    napi_throw_type_error(info.Env(), nullptr, "NativeEngine cannot be constructed: use load()");
  }
}

EngineRef EngineHandle::engine(Napi::Env env) {
  if (!engine_) raise_closed(env, "the engine");
  return engine_;
}

Napi::Value EngineHandle::open(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  Arguments arguments(info);
  const Napi::Function on_events = arguments.function(arguments.argument(0, "onEvents"));
  if (!arguments.ok()) return info.Env().Undefined();
  return Channel::create(info.Env(), ChannelCore::open(info.Env(), engine, channels_, on_events));
}

Napi::Value EngineHandle::tokenize(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return addon::tokenize(info, engine->engine->tokenizer());
}

Napi::Value EngineHandle::tokenize_async(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  Arguments arguments(info);
  TokenizeOptions options = read_tokenize_options(arguments);
  if (!arguments.ok()) return info.Env().Undefined();
  return promise_of(
      info.Env(),
      [engine, options = std::move(options)]() -> Result<std::vector<TokenId>> {
        std::vector<TokenId> ids;
        engine->engine->tokenizer().encode(options.text, options.encode, ids);
        return ids;
      },
      [](Napi::Env env, std::vector<TokenId>&& ids) { return to_int32_array(env, ids); });
}

Napi::Value EngineHandle::token_bytes(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  const Tokenizer& tokenizer = engine->engine->tokenizer();
  Arguments arguments(info);
  const int64_t token = arguments.integer(arguments.argument(0, "token"), 0, tokenizer.n_vocab() - 1);
  if (!arguments.ok()) return info.Env().Undefined();
  const std::string_view bytes = tokenizer.bytes(static_cast<TokenId>(token));
  return to_uint8_array(info.Env(), bytes.data(), bytes.size());
}

Napi::Value EngineHandle::find_token(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  Arguments arguments(info);
  const std::string spelling = arguments.string(arguments.argument(0, "spelling"), kMaxTextBytes);
  if (!arguments.ok()) return info.Env().Undefined();
  // find() returns kNoToken (-1) if no token has this text.
  return Napi::Number::New(info.Env(), engine->engine->tokenizer().find(spelling));
}

Napi::Value EngineHandle::detokenize(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return addon::detokenize(info, engine->engine->tokenizer());
}

Napi::Value EngineHandle::compile_grammar(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return addon::compile_grammar(info, engine);
}

Napi::Value EngineHandle::plan_image(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return addon::plan_image(info, engine);
}

Napi::Value EngineHandle::prepare_image(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return addon::prepare_image(info, engine);
}

Napi::Value EngineHandle::open_tier(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return TierHandle::create(info, engine);
}

Napi::Value EngineHandle::positions(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return positions_of(info, engine);
}

Napi::Value EngineHandle::load_adapter(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  Arguments arguments(info);
  std::string path = arguments.path(arguments.argument(0, "path"));
  AdapterOptions options = read_adapter_options(arguments, arguments.argument(1, "options"));
  if (!arguments.ok()) return info.Env().Undefined();
  return promise_of(
      info.Env(),
      [engine, path = std::move(path), options = std::move(options)] {
        return engine->engine->load_adapter(path, options);
      },
      [](Napi::Env env, AdapterInfo&& adapter) -> Napi::Value { return to_object(env, adapter); });
}

Napi::Value EngineHandle::unload_adapter(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  Arguments arguments(info);
  const auto id = static_cast<AdapterId>(arguments.integer(arguments.argument(0, "id"), 1, UINT32_MAX));
  if (!arguments.ok()) return info.Env().Undefined();
  return promise_of(
      info.Env(),
      [engine, id]() -> Result<bool> {
        if (Status status = engine->engine->unload_adapter(id); !status) return status.error();
        return true;
      },
      [](Napi::Env env, bool&&) { return env.Undefined(); });
}

Napi::Value EngineHandle::adapters(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return to_array(info.Env(), engine->engine->adapters());
}

Napi::Value EngineHandle::stats(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  return to_object(info.Env(), engine->engine->stats());
}

Napi::Value EngineHandle::profile(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return info.Env().Undefined();
  if (engine->profile == nullptr) return info.Env().Null();
  return to_array(info.Env(), engine->profile->read());
}

void EngineHandle::configure(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return;
  Arguments arguments(info);
  const EngineTunables tunables = read_tunables(arguments, arguments.argument(0, "tunables"));
  if (arguments.ok()) engine->engine->configure(tunables);
}

void EngineHandle::clear_cache(const Napi::CallbackInfo& info) {
  const EngineRef engine = this->engine(info.Env());
  if (!engine) return;
  Arguments arguments(info);
  const Named organization = arguments.argument(0, "organization");
  std::optional<uint64_t> only;
  if (!arguments.is_absent(organization)) only = static_cast<uint64_t>(arguments.integer(organization, 0, UINT32_MAX));
  if (arguments.ok()) engine->engine->clear_cache(only);
}

void EngineHandle::drain(const Napi::CallbackInfo& info) {
  if (const EngineRef engine = this->engine(info.Env())) engine->engine->drain();
}

Napi::Value EngineHandle::close(const Napi::CallbackInfo& info) {
  // A second close() has no effect.
  const ChannelSet channels = *channels_;
  for (ChannelCore* channel : channels) channel->close();
  // Dropping the last reference waits for the engine's current step, so the reference is dropped on a thread of Node's
  // thread pool.
  return promise_of(
      info.Env(),
      [engine = std::exchange(engine_, nullptr)]() mutable -> Result<bool> {
        engine.reset();
        return true;
      },
      [](Napi::Env env, bool&&) { return env.Undefined(); });
}

}  // namespace monolith::addon
