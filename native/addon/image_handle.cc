#include "addon/image_handle.h"

#include <string>
#include <utility>
#include <vector>

#include "addon/addon_data.h"
#include "addon/errors.h"
#include "addon/objects.h"
#include "addon/promise_work.h"

namespace monolith::addon {
namespace {

using ImageRef = std::shared_ptr<const PreparedImage>;

// Type tag that distinguishes NativeImage objects from all other JavaScript objects.
constexpr napi_type_tag kImageTag = {0x6d6f6e6f6c697468u, 0x696d616765212121u};
constexpr int64_t kMaxImageSide = 1 << 24;

constexpr const char* kParts[] = {"image", "tile", "overview"};  // In the order of the PiecePart enum.

void set(Napi::Object object, const char* key, double value) {
  object.Set(key, Napi::Number::New(object.Env(), value));
}

// Sets the members of PlannedImage on a JavaScript object.
void describe(Napi::Env env, const ImagePlan& plan, Napi::Object to) {
  set(to, "tokens", plan.n_tokens());
  set(to, "columns", plan.columns);
  set(to, "rows", plan.rows);
  const Napi::Array pieces = Napi::Array::New(env, plan.pieces.size());
  for (uint32_t i = 0; i < plan.pieces.size(); ++i) {
    const ImagePiece& piece = plan.pieces[i];
    const Napi::Object object = Napi::Object::New(env);
    object.Set("part", Napi::String::New(env, kParts[static_cast<size_t>(piece.part)]));
    set(object, "row", piece.row);
    set(object, "column", piece.column);
    set(object, "width", piece.width);
    set(object, "height", piece.height);
    set(object, "tokens", piece.n_rows);
    pieces.Set(i, object);
  }
  to.Set("pieces", pieces);
}

bool check_sees(Napi::Env env, const EngineRef& engine) {
  if (engine->vision) return true;
  raise(env, Error{ErrorCode::kUnsupported, "this model has no vision encoder"});
  return false;
}

// Returns the elements of a Uint8Array, which must have exactly `expected` bytes.
std::span<const uint8_t> read_pixels(Arguments& arguments, const Named& named, size_t expected) {
  const Napi::Value value(arguments.env(), named.value);
  if (!arguments.ok()) return {};
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    arguments.refuse(named, "a Uint8Array");
    return {};
  }
  const auto array = value.As<Napi::Uint8Array>();
  if (array.ByteLength() != expected || array.Data() == nullptr) {
    arguments.reject(named,
                     "has " + std::to_string(array.ByteLength()) + " bytes, expected " + std::to_string(expected));
    return {};
  }
  return {array.Data(), expected};
}

}  // namespace

Napi::Function ImageHandle::define(Napi::Env env) { return DefineClass(env, "NativeImage", {}); }

ImageHandle::ImageHandle(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ImageHandle>(info) {
  if (info.Length() != 1 || !info[0].IsExternal()) {
    napi_throw_type_error(info.Env(), nullptr, "NativeImage cannot be constructed: use prepareImage()");
    return;
  }
  image_ = *info[0].As<Napi::External<ImageRef>>().Data();
  const Napi::Object self = info.This().As<Napi::Object>();
  napi_type_tag_object(info.Env(), self, &kImageTag);
  describe(info.Env(), image_->plan, self);
  const auto bytes = static_cast<double>(image_->bytes());
  set(self, "bytes", bytes);
  account(info.Env(), static_cast<int64_t>(bytes));
}

void ImageHandle::account(Napi::Env env, int64_t bytes) {
  int64_t all = 0;
  napi_adjust_external_memory(env, bytes - accounted_, &all);
  accounted_ = bytes;
}

ImageRef ImageHandle::read(Arguments& arguments, const Named& named, const VisionModel* model) {
  bool is_ours = false;
  if (!arguments.ok()) return nullptr;
  napi_valuetype type = napi_undefined;
  if (napi_typeof(arguments.env(), named.value, &type) != napi_ok || type != napi_object ||
      napi_check_object_type_tag(arguments.env(), named.value, &kImageTag, &is_ours) != napi_ok || !is_ours) {
    arguments.refuse(named, "a NativeImage from prepareImage()");
    return nullptr;
  }
  const ImageHandle* const handle = Unwrap(Napi::Object(arguments.env(), named.value));
  if (handle == nullptr || !handle->image_ || handle->image_->model.get() != model) {
    arguments.reject(named, "is an image prepared for another engine");
    return nullptr;
  }
  return handle->image_;
}

Napi::Value plan_image(const Napi::CallbackInfo& info, const EngineRef& engine) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const auto width = static_cast<int>(arguments.integer(arguments.argument(0, "width"), 1, kMaxImageSide));
  const auto height = static_cast<int>(arguments.integer(arguments.argument(1, "height"), 1, kMaxImageSide));
  const bool low = arguments.boolean(arguments.argument(2, "low"));
  if (!arguments.ok() || !check_sees(env, engine)) return env.Undefined();
  const auto plan = engine->vision->plan(width, height, {.overview_only = low});
  if (!plan) return raise(env, plan.error());
  if (const Status status = check_markers(*plan, engine->markers); !status) return raise(env, status.error());
  const Napi::Object object = Napi::Object::New(env);
  describe(env, *plan, object);
  return object;
}

Napi::Value prepare_image(const Napi::CallbackInfo& info, const EngineRef& engine) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const auto width = arguments.integer(arguments.argument(1, "width"), 1, kMaxImageSide);
  const auto height = arguments.integer(arguments.argument(2, "height"), 1, kMaxImageSide);
  const bool low = arguments.boolean(arguments.argument(3, "low"));
  const Named pixels = arguments.argument(0, "pixels");
  const std::span<const uint8_t> view =
      read_pixels(arguments, pixels, static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  if (!arguments.ok() || !check_sees(env, engine)) return env.Undefined();
  return promise_of(
      env,
      // The worker gets a copy, because JavaScript may change or transfer the array's memory in the meantime.
      [engine, copy = std::vector<uint8_t>(view.begin(), view.end()), width, height, low]() {
        return monolith::prepare_image(engine->vision, engine->markers,
                                       {static_cast<int>(width), static_cast<int>(height), copy},
                                       {.overview_only = low});
      },
      [](Napi::Env on, PreparedImage&& image) -> Napi::Value {
        ImageRef ref = std::make_shared<const PreparedImage>(std::move(image));
        return AddonData::of(on).image_class.New({Napi::External<ImageRef>::New(on, &ref)});
      });
}

}  // namespace monolith::addon
