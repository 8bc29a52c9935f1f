// NativeImage: a picture prepared for one engine's tower, in JavaScript's hands; planImage() and prepareImage().
#pragma once

#include <napi.h>

#include <memory>

#include "addon/arguments.h"
#include "addon/engine_registry.h"
#include "engine/images/prompt_images.h"

namespace monolith::addon {

class ImageHandle : public Napi::ObjectWrap<ImageHandle> {
 public:
  static Napi::Function define(Napi::Env env);

  explicit ImageHandle(const Napi::CallbackInfo& info);  // called by prepare_image() alone
  void Finalize(Napi::Env env) override { account(env, 0); }

  // Null if it is none, or another engine's: then a TypeError is pending.
  static std::shared_ptr<const PreparedImage> read(Arguments& arguments, const Named& named, const VisionModel* model);

 private:
  // What it keeps outside of JavaScript's heap: told to V8, which else sees no reason to let go of it.
  void account(Napi::Env env, int64_t bytes);

  std::shared_ptr<const PreparedImage> image_;
  int64_t accounted_ = 0;
};

// (width, height, low) => PlannedImage
Napi::Value plan_image(const Napi::CallbackInfo& info, const EngineRef& engine);
// (pixels, width, height, low) => Promise<NativeImage>
Napi::Value prepare_image(const Napi::CallbackInfo& info, const EngineRef& engine);

}  // namespace monolith::addon
