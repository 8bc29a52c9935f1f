// Tests the lifetime of an engine's vision encoder, which must be destroyed before its backend.
#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/forwarding_backend.h"
#include "check.h"
#include "engine/engine.h"
#include "vision/vision.h"

namespace monolith::testing {
namespace {

class LoggedBackend final : public ForwardingBackend {
 public:
  LoggedBackend(Backend& inner, std::string& log) : ForwardingBackend(inner), log_(log) {}
  ~LoggedBackend() override { log_ += "backend "; }

 private:
  std::string& log_;
};

class LoggedEncoder final : public VisionEncoder {
 public:
  explicit LoggedEncoder(std::string& log) : log_(log) {}
  ~LoggedEncoder() override { log_ += "encoder "; }
  std::unique_ptr<EncoderRun> begin(const PreparedPiece&) override { return nullptr; }

 private:
  std::string& log_;
};

TEST(a_vision_encoder_is_destroyed_before_its_backend) {
  auto inner = make_cpu_backend({.threads = 1});
  REQUIRE(inner.ok());
  std::string log;
  const auto made = [&] {
    EngineVision vision;
    vision.backend = std::make_unique<LoggedBackend>(**inner, log);
    vision.encoder = std::make_unique<LoggedEncoder>(log);
    return vision;
  };
  {
    EngineVision vision = made();
    vision = made();
    CHECK_EQ(log, std::string("encoder backend "));
  }
  CHECK_EQ(log, std::string("encoder backend encoder backend "));
}

}  // namespace
}  // namespace monolith::testing
