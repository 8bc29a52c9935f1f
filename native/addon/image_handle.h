// NativeImage, the JavaScript object for an image prepared for one engine's vision encoder; also planImage() and
// prepareImage().
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

  explicit ImageHandle(const Napi::CallbackInfo& info);  // Called only by prepare_image().
  void Finalize(Napi::Env env) override { account(env, 0); }

  // Returns the image. If the value is not an image or belongs to another engine, throws a TypeError and returns null.
  static std::shared_ptr<const PreparedImage> read(Arguments& arguments, const Named& named, const VisionModel* model);

 private:
  // Reports the size of the image's native memory to V8, so that V8 takes it into account when it schedules garbage
  // collections.
  void account(Napi::Env env, int64_t bytes);

  std::shared_ptr<const PreparedImage> image_;
  int64_t accounted_ = 0;
};

// JavaScript signature: (width, height, low) => PlannedImage.
Napi::Value plan_image(const Napi::CallbackInfo& info, const EngineRef& engine);
// JavaScript signature: (pixels, width, height, low) => Promise<NativeImage>.
Napi::Value prepare_image(const Napi::CallbackInfo& info, const EngineRef& engine);

}  // namespace monolith::addon
