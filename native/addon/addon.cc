// Entry point of the Node.js addon; implements the `Addon` interface in src/engine/addon-types.ts. The functions here
// check their arguments, call the engine and convert results to JavaScript. They contain no inference logic.
#include <napi.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "formats/gguf/tokenizer.h"
#include "addon/addon_data.h"
#include "addon/arguments.h"
#include "addon/channel.h"
#include "addon/functions.h"
#include "addon/engine_handle.h"
#include "addon/errors.h"
#include "addon/grammar_handle.h"
#include "addon/guard.h"
#include "addon/image_handle.h"
#include "addon/load_request.h"
#include "addon/objects.h"
#include "addon/options.h"
#include "addon/promise_work.h"
#include "addon/text.h"
#include "addon/tier_handle.h"
#include "engine/tiers/cache_identity.h"
#include "backend/cpu/machine/peak.h"
#include "backend/registry/registry.h"
#include "base/machine_memory.h"
#include "base/memory_bandwidth.h"
#include "encoder/text_encoder_weights.h"
#include "engine/debug/debug_logits.h"
#include "engine/debug/inspect.h"
#include "engine/load/load_engine.h"
#include "formats/gguf/gguf.h"
#include "formats/hf/model_file.h"
#include "model/weights.h"

namespace monolith::addon {
namespace {

constexpr size_t kMaxNameBytes = 4096;  // Large enough for a file path.

Napi::Object vision_object(Napi::Env env, const InspectedVision& vision) {
  const Napi::Object object = Napi::Object::New(env);
  object.Set("projector", to_string(env, vision.projector));
  object.Set("weightBytes", Napi::Number::New(env, static_cast<double>(vision.weight_bytes)));
  object.Set("workBytes", Napi::Number::New(env, static_cast<double>(vision.work_bytes)));
  const Napi::Array sizes = Napi::Array::New(env, vision.image_tokens.size());
  for (uint32_t i = 0; i < vision.image_tokens.size(); ++i) {
    const Napi::Object size = Napi::Object::New(env);
    size.Set("width", Napi::Number::New(env, vision.image_tokens[i].width));
    size.Set("height", Napi::Number::New(env, vision.image_tokens[i].height));
    size.Set("tokens", Napi::Number::New(env, vision.image_tokens[i].tokens));
    sizes.Set(i, size);
  }
  object.Set("imageTokens", sizes);
  object.Set("problem", vision.problem.empty() ? env.Null() : to_string(env, vision.problem));
  return object;
}

// Reading a large model's tokenizer takes up to a second, so it runs on a thread of Node's thread pool.
Napi::Value js_inspect(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  std::string path = arguments.path(arguments.argument(0, "path"));
  LoadOptions options = read_load_options(arguments, arguments.argument(1, "options"));
  if (!arguments.ok()) return env.Undefined();
  return promise_of(
      env, [path = std::move(path), options = std::move(options)] { return inspect_files(path, options); },
      [](Napi::Env env, InspectedFiles&& found) -> Napi::Value {
        Napi::Object object = to_object(env, found.model);
        object.Set("vision", found.vision ? Napi::Value(vision_object(env, *found.vision)) : env.Null());
        return object;
      });
}

// Returns the numeric sampling defaults stored in a GGUF file. The caller checks whether the values are in range.
Napi::Value js_recommended_sampling(const Napi::CallbackInfo& info) {
  static constexpr std::pair<const char*, std::string_view> kKeys[] = {
      {"temperature", "general.sampling.temp"},
      {"top_p", "general.sampling.top_p"},
      {"top_k", "general.sampling.top_k"},
      {"min_p", "general.sampling.min_p"},
      {"repetition_penalty", "general.sampling.penalty_repeat"}};
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const std::string path = arguments.path(arguments.argument(0, "path"));
  if (!arguments.ok()) return env.Undefined();
  const auto file = GgufFile::open(path);
  if (!file) return raise(env, file.error());
  const Napi::Object object = Napi::Object::New(env);
  for (const auto& [name, key] : kKeys) {
    const auto value = (*file)->number(key);
    if (value && value->has_value()) object.Set(name, Napi::Number::New(env, **value));
  }
  return object;
}

Napi::Value js_wanted_tensors(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const std::string path = arguments.path(arguments.argument(0, "path"));
  if (!arguments.ok()) return env.Undefined();
  const auto wanted = read_model_file(path, {}, [](const GgufFile& file) -> Result<std::vector<WantedTensor>> {
    if (!is_text_encoder(file)) return wanted_tensors(file);
    auto params = TextEncoderParams::read(file, 0);
    if (!params) return params.error();
    return wanted_encoder_tensors(*params);
  });
  if (!wanted) return raise(env, wanted.error());
  return to_array(env, *wanted);
}

Napi::Value js_load_tokenizer(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const std::string path = arguments.path(arguments.argument(0, "path"));
  if (!arguments.ok()) return env.Undefined();
  auto tokenizer = read_model_file(path, {}, load_tokenizer);
  if (!tokenizer) return raise(env, tokenizer.error());
  return TokenizerHandle::create(env, std::move(*tokenizer));
}

Napi::Value js_load(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::string name = arguments.string(arguments.argument(0, "name"), kMaxNameBytes);
  const std::string path = arguments.path(arguments.argument(1, "path"));
  const LoadOptions options = read_load_options(arguments, arguments.argument(2, "options"));
  const Napi::Function on_progress = arguments.function(arguments.argument(3, "onProgress"));
  if (!arguments.ok()) return info.Env().Undefined();
  return LoadRequest::start(info.Env(), name, path, options, on_progress);
}

Napi::Value js_debug_logits(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::string path = arguments.path(arguments.argument(0, "path"));
  const LoadOptions options = read_load_options(arguments, arguments.argument(1, "options"));
  const auto continue_tokens =
      static_cast<int>(arguments.integer(arguments.argument(4, "continueTokens"), 0, kMaxTokens));
  const auto copy = [&](size_t index, const char* name) {
    const std::span<const int32_t> values = arguments.int32_array(arguments.argument(index, name), kMaxTokens);
    return std::vector<int32_t>(values.begin(), values.end());
  };
  std::vector<int32_t> ids = copy(2, "ids");
  std::vector<int32_t> positions = copy(3, "positions");
  if (!arguments.ok()) return info.Env().Undefined();
  return promise_of(
      info.Env(),
      [=]() {
        auto backend = make_backend(options.backend);
        if (!backend) return Result<DebugLogits>(backend.error());
        const DebugLogitsOptions debug{.backend = options.cpu(),
                                       .kv_type = options.kv_type,
                                       .max_batch_tokens = for_backend(options, **backend).engine.max_batch_tokens,
                                       .max_context = options.max_context,
                                       .file = options.file()};
        return debug_logits(path, **backend, debug, ids, positions, continue_tokens);
      },
      [ids](Napi::Env env, DebugLogits&& logits) -> Napi::Value { return to_object(env, logits, ids); });
}

// This process's memory in bytes: total, currently free, and the part of the free memory that models have reserved but
// not yet used.
Napi::Value js_memory(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const MachineMemory memory = machine_memory();
  const Napi::Object object = Napi::Object::New(env);
  object.Set("total", Napi::Number::New(env, static_cast<double>(memory.total)));
  object.Set("available", Napi::Number::New(env, static_cast<double>(memory.available)));
  object.Set("claimed", Napi::Number::New(env, static_cast<double>(MemoryClaim::all())));
  return object;
}

Napi::Value js_read_bandwidth(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto threads = static_cast<int>(arguments.integer(arguments.argument(0, "threads"), 1, 1024));
  const auto bytes = static_cast<size_t>(arguments.integer(arguments.argument(1, "bytes"), 4096, int64_t{1} << 36));
  const auto repeats = static_cast<int>(arguments.integer(arguments.argument(2, "repeats"), 1, 1000));
  if (!arguments.ok()) return info.Env().Undefined();
  return promise_of(
      info.Env(), [=]() { return read_bandwidth(threads, bytes, repeats); },
      [](Napi::Env env, double&& rate) -> Napi::Value { return Napi::Number::New(env, rate); });
}

Napi::Value js_arithmetic_peak(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const std::string name = arguments.string(arguments.argument(0, "isa"), kMaxNameBytes);
  const auto threads = static_cast<int>(arguments.integer(arguments.argument(1, "threads"), 1, 1024));
  const auto repeats = static_cast<int>(arguments.integer(arguments.argument(2, "repeats"), 1, 1000));
  if (!arguments.ok()) return env.Undefined();
  const std::vector<CpuIsa> available = available_cpu_isas();
  const auto isa = std::ranges::find(available, name, cpu_isa_name);
  if (isa == available.end())
    return raise(env, Error{ErrorCode::kInvalidArgument, "isa: '" + name + "' is not supported by this processor"});
  return promise_of(
      env, [=, isa = *isa]() -> Result<ArithmeticPeak> { return measure_peak(isa, threads, repeats); },
      [](Napi::Env env, ArithmeticPeak&& peak) -> Napi::Value {
        const Napi::Object object = Napi::Object::New(env);
        object.Set("integer8", Napi::Number::New(env, peak.integer8));
        object.Set("float32", Napi::Number::New(env, peak.float32));
        return object;
      });
}

Napi::Object start(Napi::Env env, Napi::Object exports) {
  auto* data = new AddonData;  // Owned by the JavaScript environment.
  env.SetInstanceData(data);
  data->engine_class = Napi::Persistent(EngineHandle::define(env));
  data->channel_class = Napi::Persistent(Channel::define(env));
  data->grammar_class = Napi::Persistent(GrammarHandle::define(env));
  data->image_class = Napi::Persistent(ImageHandle::define(env));
  data->tier_class = Napi::Persistent(TierHandle::define(env));
  data->tokenizer_class = Napi::Persistent(TokenizerHandle::define(env));

  const std::vector<CpuIsa> available = available_cpu_isas();
  const Napi::Array isas = Napi::Array::New(env, available.size());
  for (uint32_t i = 0; i < available.size(); ++i) isas.Set(i, to_string(env, cpu_isa_name(available[i])));
  exports.Set("version", Napi::String::New(env, MONOLITH_VERSION));
  exports.Set("isas", isas);
  exports.Set("numericsVersion", Napi::Number::New(env, kNumericsVersion));
  exports.Set("inspect", Napi::Function::New<guarded<js_inspect>>(env, "inspect"));
  exports.Set("recommendedSampling", Napi::Function::New<guarded<js_recommended_sampling>>(env, "recommendedSampling"));
  exports.Set("wantedTensors", Napi::Function::New<guarded<js_wanted_tensors>>(env, "wantedTensors"));
  exports.Set("loadTokenizer", Napi::Function::New<guarded<js_load_tokenizer>>(env, "loadTokenizer"));
  exports.Set("load", Napi::Function::New<guarded<js_load>>(env, "load"));
  exports.Set("guardLmdbErrors", Napi::Function::New<guarded<js_guard_lmdb_errors>>(env, "guardLmdbErrors"));
  exports.Set("lockFile", Napi::Function::New<guarded<js_lock_file>>(env, "lockFile"));
  exports.Set("debugLogits", Napi::Function::New<guarded<js_debug_logits>>(env, "debugLogits"));
  exports.Set("debugVision", Napi::Function::New<guarded<js_debug_vision>>(env, "debugVision"));
  exports.Set("arithmeticPeak", Napi::Function::New<guarded<js_arithmetic_peak>>(env, "arithmeticPeak"));
  exports.Set("memory", Napi::Function::New<guarded<js_memory>>(env, "memory"));
  exports.Set("readBandwidth", Napi::Function::New<guarded<js_read_bandwidth>>(env, "readBandwidth"));
  return exports;
}

}  // namespace
}  // namespace monolith::addon

namespace {
Napi::Object init(Napi::Env env, Napi::Object exports) { return monolith::addon::start(env, exports); }
}  // namespace

NODE_API_MODULE(monolith, init)
