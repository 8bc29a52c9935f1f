// Converts the engine's results to the plain objects of addon-types.ts.
#pragma once

#include <napi.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/profiled_backend.h"
#include "engine/debug/debug_logits.h"
#include "engine/engine.h"
#include "engine/debug/inspect.h"
#include "model/weights.h"

namespace monolith::addon {

Napi::Object to_object(Napi::Env env, const ModelInfo& info);
Napi::Object to_object(Napi::Env env, const BackendInfo& backend);
Napi::Object to_object(Napi::Env env, const InspectedPlan& plan);
Napi::Object to_object(Napi::Env env, const Inspection& inspection);
Napi::Object to_object(Napi::Env env, const EngineStats& stats);
Napi::Object to_object(Napi::Env env, const AdapterInfo& adapter);
Napi::Array to_array(Napi::Env env, const std::vector<AdapterInfo>& adapters);
// Formats a hash as 32 hexadecimal digits. Returns "" for the zero hash, which means no adapter.
std::string hash_digits(const ContentHash& hash);
Napi::Array to_array(Napi::Env env, std::span<const OpFigures> operations);
Napi::Array to_array(Napi::Env env, std::span<const WantedTensor> tensors);
Napi::Object to_object(Napi::Env env, const DebugLogits& logits, std::span<const int32_t> ids);

Napi::Value to_int32_array(Napi::Env env, std::span<const int32_t> values);
Napi::Value to_uint8_array(Napi::Env env, const void* bytes, size_t size);
// Converts UTF-8 to a JavaScript string. If the text is too long for one, throws an exception and returns undefined.
Napi::Value to_string(Napi::Env env, std::string_view text);

}  // namespace monolith::addon
