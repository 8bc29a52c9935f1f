#include "addon/objects.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace monolith::addon {
namespace {

// Builds a JavaScript object property by property. All of the engine's numbers fit in a double.
class Builder {
 public:
  explicit Builder(Napi::Env env) : env_(env), object_(Napi::Object::New(env)) {}

  template <typename T>
  Builder& number(const char* key, T value) {
    object_.Set(key, Napi::Number::New(env_, static_cast<double>(value)));
    return *this;
  }
  Builder& text(const char* key, std::string_view value) { return set(key, to_string(env_, value)); }
  Builder& text_or_null(const char* key, const std::optional<std::string>& value) {
    return set(key, value ? to_string(env_, *value) : env_.Null());
  }
  Builder& flag(const char* key, bool value) { return set(key, Napi::Boolean::New(env_, value)); }
  Builder& set(const char* key, const Napi::Value& value) {
    object_.Set(key, value);
    return *this;
  }
  // Sets the property to an array that contains make(item) for each item.
  template <typename Items, typename Make>
  Builder& array(const char* key, const Items& items, const Make& make) {
    Napi::Array array = Napi::Array::New(env_, items.size());
    uint32_t i = 0;
    for (const auto& item : items) {
      const Napi::HandleScope scope(env_);
      array.Set(i++, make(item));
    }
    return set(key, array);
  }

  Napi::Object done() const { return object_; }

 private:
  Napi::Env env_;
  Napi::Object object_;
};

Napi::Value to_number(Napi::Env env, double value) { return Napi::Number::New(env, value); }

Napi::Value to_value(Napi::Env env, const InspectedValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return to_string(env, *text);
  if (const auto* number = std::get_if<double>(&value.value)) return to_number(env, *number);
  if (const auto* flag = std::get_if<bool>(&value.value)) return Napi::Boolean::New(env, *flag);
  return env.Null();
}

Napi::Value to_float32_array(Napi::Env env, std::span<const float> values) {
  Napi::Float32Array array = Napi::Float32Array::New(env, values.size());
  if (!array.IsEmpty() && !values.empty()) std::memcpy(array.Data(), values.data(), values.size_bytes());
  return array;
}

Napi::Object to_object(Napi::Env env, const PositionLogits& logits) {
  return Builder(env).number("position", logits.position).set("logits", to_float32_array(env, logits.logits)).done();
}

}  // namespace

Napi::Value to_string(Napi::Env env, std::string_view text) { return Napi::String::New(env, text.data(), text.size()); }

Napi::Value to_int32_array(Napi::Env env, std::span<const int32_t> values) {
  Napi::Int32Array array = Napi::Int32Array::New(env, values.size());
  if (!array.IsEmpty() && !values.empty()) std::memcpy(array.Data(), values.data(), values.size_bytes());
  return array;
}

Napi::Value to_uint8_array(Napi::Env env, const void* bytes, size_t size) {
  Napi::Uint8Array array = Napi::Uint8Array::New(env, size);
  if (!array.IsEmpty() && size != 0) std::memcpy(array.Data(), bytes, size);
  return array;
}

namespace {

Napi::Value to_value(Napi::Env env, const std::optional<EmbeddingInfo>& info) {
  if (!info) return env.Null();
  constexpr std::string_view kPoolings[] = {"none", "mean", "cls", "last", "rank"};
  const auto number = [&](TokenId token) { return to_number(env, token); };
  Builder object(env);
  object.number("dimensions", info->dimensions)
      .text("pooling", kPoolings[static_cast<size_t>(info->pooling)])
      .flag("encoder", info->is_encoder)
      .number("maxTokens", info->max_tokens)
      .array("prefix", info->prefix, number)
      .array("suffix", info->suffix, number)
      .set("separator", info->separator == kNoToken ? env.Null() : to_number(env, info->separator));
  object.array("labels", info->labels, [&](const std::string& text) { return to_string(env, text); });
  return object.done();
}

}  // namespace

Napi::Object to_object(Napi::Env env, const ModelInfo& info) {
  const auto number = [&](TokenId token) { return to_number(env, token); };
  const auto text = [&](const std::string& value) { return to_string(env, value); };
  return Builder(env)
      .text("architecture", info.architecture)
      .text_or_null("name", info.name)
      .number("parameters", info.parameters)
      .number("contextLength", info.context_length)
      .number("layers", info.layers)
      .number("draftLayers", info.mtp_layers)
      .number("heads", info.heads)
      .number("kvHeads", info.kv_heads)
      .number("headDim", info.head_dim)
      .number("embedding", info.embedding)
      .number("feedForward", info.feed_forward)
      .number("experts", info.experts)
      .number("usedExperts", info.used_experts)
      .number("vocabulary", info.vocabulary)
      .text("quantization", info.quantization)
      .text_or_null("chatTemplate", info.chat_template)
      .text_or_null("bos", info.bos)
      .text_or_null("eos", info.eos)
      .array("endOfGeneration", info.end_of_generation, number)
      .array("specialTokens", info.special_tokens, text)
      .set("embeddings", to_value(env, info.embeddings))
      .done();
}

Napi::Object to_object(Napi::Env env, const BackendInfo& backend) {
  return Builder(env)
      .text("name", backend.name)
      .text("isa", backend.isa)
      .number("threads", backend.threads)
      .text("amxProblem", backend.amx_problem)
      .done();
}

Napi::Object to_object(Napi::Env env, const InspectedPlan& plan) {
  return Builder(env)
      .number("weightBytes", plan.memory.weight_bytes)
      .number("draftWeightBytes", plan.memory.draft_weight_bytes)
      .number("kvBytes", plan.memory.kv_bytes)
      .number("kvStartBytes", plan.memory.kv_start_bytes)
      .number("activationBytes", plan.memory.activation_bytes)
      .number("pageBytes", plan.memory.page_bytes)
      .number("pages", plan.pages)
      .number("slotBytes", plan.memory.slot_bytes)
      .number("slots", plan.slots)
      .number("context", plan.context)
      .number("fullPages", plan.memory.layout.full)
      .number("windowPages", plan.memory.layout.windowed)
      .number("window", plan.memory.layout.window)
      .number("pagesFilled", plan.filled)
      .done();
}

Napi::Object to_object(Napi::Env env, const Inspection& inspection) {
  const auto number = [&](int64_t value) { return to_number(env, static_cast<double>(value)); };
  const auto metadata = [&](const InspectedValue& value) {
    return Builder(env)
        .text("key", value.key)
        .text("type", value.type)
        .set("value", to_value(env, value))
        .number("count", value.count)
        .done();
  };
  const auto tensor = [&](const InspectedTensor& tensor) {
    return Builder(env)
        .text("name", tensor.name)
        .text("type", tensor.type)
        .array("shape", tensor.shape, number)
        .number("bytes", tensor.bytes)
        .done();
  };
  return Builder(env)
      .number("fileBytes", inspection.file_bytes)
      .text("fileHash", inspection.file_hash)
      .array("metadata", inspection.metadata, metadata)
      .array("tensors", inspection.tensors, tensor)
      .set("model", inspection.model ? Napi::Value(to_object(env, *inspection.model)) : env.Null())
      .set("reason", inspection.model ? env.Null() : to_string(env, inspection.reason))
      .set("plan", inspection.plan ? Napi::Value(to_object(env, *inspection.plan)) : env.Null())
      .done();
}

Napi::Object to_object(Napi::Env env, const EngineStats& stats) {
  return Builder(env)
      .number("waiting", stats.waiting)
      .number("waitingTokens", stats.waiting_tokens)
      .number("running", stats.running)
      .number("pagesTotal", stats.pages_total)
      .number("pagesFree", stats.pages_free)
      .number("pagesCached", stats.pages_cached)
      .number("kvUsedBytes", static_cast<double>(stats.kv_used_bytes))
      .number("lastStepAgeMs", stats.last_step_age_ms)
      .number("maxBatchTokens", stats.max_batch_tokens)
      .number("maxSequences", stats.max_sequences)
      .number("stepMs", stats.step_ms)
      .number("queueMax", stats.queue_max)
      .number("queueMaxTokens", stats.queue_max_tokens)
      .number("loadedBatchTokens", stats.loaded_batch_tokens)
      .number("mostBatchTokens", stats.batch_tokens_limit)
      .number("mostSequences", stats.sequences_limit)
      .flag("failed", stats.failed)
      .text("note", stats.note)
      .set("hugePageBytes",
           stats.huge_page_bytes ? Napi::Number::New(env, static_cast<double>(*stats.huge_page_bytes)) : env.Null())
      .number("steps", stats.steps)
      .number("stepRows", stats.step_rows)
      .number("prefillTokens", stats.prefill_tokens)
      .number("decodeTokens", stats.decode_tokens)
      .number("cachedTokens", stats.cached_tokens)
      .number("promptTokens", stats.prompt_tokens)
      .number("promptTokensCached", stats.prompt_tokens_cached)
      .number("draftTokens", stats.draft_tokens)
      .number("acceptedTokens", stats.accepted_draft_tokens)
      .number("imagePieces", stats.image_pieces)
      .number("imagePiecesCached", stats.image_pieces_cached)
      .number("requests", stats.requests)
      .number("finished", stats.finished)
      .number("failedRequests", stats.failed_requests)
      .number("preemptions", stats.preemptions)
      .number("cancelledQueued", stats.cancelled_queued)
      .number("cancelledPrefill", stats.cancelled_prefill)
      .number("cancelledDecode", stats.cancelled_decode)
      .number("pagesExported", stats.pages_exported)
      .number("pagesImported", stats.pages_imported)
      .number("exportsSkipped", stats.exports_skipped)
      .number("exportsPending", stats.exports_pending)
      .number("stepSeconds", stats.step_seconds)
      .number("promptStepSeconds", stats.prompt_step_seconds)
      .number("promptStepRows", stats.prompt_step_rows)
      .array("adapters", stats.adapters,
             [&](const AdapterStats& adapter) {
               return Builder(env)
                   .number("id", adapter.id)
                   .text("name", adapter.name)
                   .number("bytes", adapter.bytes)
                   .number("running", adapter.running)
                   .number("waiting", adapter.waiting)
                   .flag("unloading", adapter.unloading)
                   .done();
             })
      .done();
}

std::string hash_digits(const ContentHash& hash) {
  if (hash == ContentHash{}) return {};
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
  return digits;
}

Napi::Object to_object(Napi::Env env, const AdapterInfo& adapter) {
  return Builder(env)
      .number("id", adapter.id)
      .text("name", adapter.name)
      .number("rank", adapter.rank)
      .number("alpha", adapter.alpha)
      .number("scale", adapter.scale)
      .number("bytes", adapter.bytes)
      .array("targets", adapter.targets, [&](const std::string& target) { return to_string(env, target); })
      .text("cacheKey", hash_digits(adapter.hash))
      .done();
}

Napi::Array to_array(Napi::Env env, const std::vector<AdapterInfo>& adapters) {
  Napi::Array array = Napi::Array::New(env, adapters.size());
  uint32_t i = 0;
  for (const AdapterInfo& adapter : adapters) {
    const Napi::HandleScope scope(env);
    array.Set(i++, to_object(env, adapter));
  }
  return array;
}

Napi::Array to_array(Napi::Env env, std::span<const OpFigures> operations) {
  Napi::Array array = Napi::Array::New(env, operations.size());
  uint32_t i = 0;
  for (const OpFigures& figures : operations) {
    const Napi::HandleScope scope(env);
    array.Set(i++, Builder(env)
                       .text("name", figures.name)
                       .number("calls", figures.calls)
                       .number("nanoseconds", figures.nanoseconds)
                       .number("bytes", figures.bytes)
                       .number("operations", figures.operations)
                       .done());
  }
  return array;
}

Napi::Array to_array(Napi::Env env, std::span<const WantedTensor> tensors) {
  Napi::Array array = Napi::Array::New(env, tensors.size());
  uint32_t i = 0;
  for (const WantedTensor& tensor : tensors) {
    const Napi::HandleScope scope(env);
    array.Set(i++, Builder(env)
                       .text("name", tensor.name)
                       .array("shape", tensor.shape, [&](int64_t n) { return to_number(env, static_cast<double>(n)); })
                       .flag("vector", tensor.is_vector)
                       .done());
  }
  return array;
}

Napi::Object to_object(Napi::Env env, const DebugLogits& logits, std::span<const int32_t> ids) {
  const auto number = [&](double value) { return to_number(env, value); };
  const auto position = [&](const PositionLogits& item) { return to_object(env, item); };
  Napi::Value continuation = env.Null();
  if (logits.continuation) {
    continuation = Builder(env)
                       .array("tokens", logits.continuation->tokens, number)
                       .array("logits", logits.continuation->logits, number)
                       .set("last", to_object(env, logits.continuation->last))
                       .done();
  }
  return Builder(env)
      .array("tokens", ids, number)
      .array("positions", logits.positions, position)
      .set("continuation", continuation)
      .done();
}

}  // namespace monolith::addon
