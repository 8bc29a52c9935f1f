// Tests that malicious vision files are rejected with an error that states the reason. A file that loads as an encoder
// must be able to process images of any shape.
#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "vision/hostile_vision.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

// Returns null if the file is rejected; `message` then contains the reason.
std::shared_ptr<const VisionModel> load(const GgufFile& file, const VisionBounds& bounds, std::string& message) {
  auto model = VisionModel::load(file, bounds);
  if (model) return *model;
  CHECK(model.error().code != ErrorCode::kInternal);
  message = model.error().message;
  return nullptr;
}

void see(const std::string& name, const GgufFile& file, const std::shared_ptr<const VisionModel>& model, int width,
         int height, std::string_view isa) {
  const auto plan = model->plan(width, height);
  if (!plan) {
    CHECK(plan.error().message.find("narrow") != std::string::npos);
    return;
  }
  const auto pixels = striped_picture(width, height);
  const auto pieces = model->prepare(*plan, {width, height, pixels});
  auto backend = make_cpu_backend({.threads = 1, .isa = isa});
  REQUIRE(pieces && backend);
  auto encoder =
      VisionEncoder::load(file, model, **backend, isa == "plain" ? VisionPrecision::kExact : VisionPrecision::kFast);
  if (!encoder) return check::fail(__FILE__, __LINE__, name + ": " + encoder.error().message);
  const auto run = (*encoder)->begin(pieces->back());
  while (!run->advance(1 << 22)) continue;
  CHECK_EQ(static_cast<int64_t>(run->take_rows().size()), plan->pieces.back().n_rows * model->row_width());
}

}  // namespace

TEST(malicious_vision_files_are_rejected_with_the_reason_or_run) {
  for (const HostileVision& one : hostile_vision()) {
    Bytes image = one.model.build();
    if (one.tamper) one.tamper(image);
    const auto file = GgufFile::parse(image);
    std::string message = file ? "" : file.error().message;
    const auto model = file ? load(**file, {}, message) : nullptr;
    if (one.refused_by.empty() ? model == nullptr : message.find(one.refused_by) == std::string::npos)
      check::fail(__FILE__, __LINE__, one.name + ": " + (message.empty() ? "loads" : message));
    if (!model) continue;
    for (const auto& [width, height] : {std::pair{30, 20}, std::pair{1, 300}, std::pair{300, 1}})
      for (const char* isa : {"plain", "auto"}) see(one.name, **file, model, width, height, isa);
  }
}

TEST(a_vision_file_with_another_projector_name_is_rejected_or_runs) {
  for (const char* type : kProjectorNames)
    for (const char* other : kProjectorNames) {
      TinyVision model(type);
      model.keys["clip.projector_type"] = std::string(other);
      const ParsedModel parsed(model);
      REQUIRE(parsed.file != nullptr);
      for (const VisionResize resize : {VisionResize::kLlamaCpp, VisionResize::kOriginal}) {
        std::string message;
        const auto loaded = load(*parsed.file, {.resize = resize}, message);
        if (loaded)
          see(std::string(type) + " as " + other, *parsed.file, loaded, 40, 30, "auto");
        else
          CHECK(!message.empty());
      }
    }
}
