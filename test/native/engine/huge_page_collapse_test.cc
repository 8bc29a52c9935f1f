// Tests that a running engine moves its weights to huge pages in the background.
#include "engine/huge_page_collapse.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "engine_fixture.h"
#include "model_around.h"

namespace monolith::testing {
namespace {

constexpr size_t kBytes = size_t{6} << 20;

// The state of a collapse that ends only when the test or the engine ends it.
struct Collapse {
  std::atomic<bool> running{false}, released{false}, was_stopped{false}, alive{true};
};

class CollapsingModel final : public ModelAround {
 public:
  CollapsingModel(std::unique_ptr<Model> model, Collapse& collapse)
      : ModelAround(std::move(model)), collapse_(collapse) {}
  ~CollapsingModel() override { collapse_.alive = false; }
  const float* forward(const Batch& batch) override { return model_->forward(batch); }
  size_t collapse_huge_pages(const Stopped& stopped) override {
    collapse_.running = true;
    while (!stopped() && !collapse_.released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    collapse_.was_stopped = stopped();
    CHECK(collapse_.alive);
    collapse_.running = false;
    return kBytes;
  }

 private:
  Collapse& collapse_;
};

std::unique_ptr<Engine> start(Collapse& collapse) {
  EngineParts parts = load_parts({});
  if (!parts.model) return nullptr;
  auto model = std::make_unique<CollapsingModel>(std::move(parts.model), collapse);
  auto engine = Engine::start(std::move(model), std::move(parts.backend), parts.tokenizer, {});
  return engine.ok() ? std::move(*engine) : nullptr;
}

void wait_until(const auto& done) {
  while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST(an_engine_computes_while_its_weights_move_to_huge_pages) {
  Collapse collapse;
  const std::unique_ptr<Engine> engine = start(collapse);
  REQUIRE(engine != nullptr);
  wait_until([&] { return collapse.running.load(); });
  Consumer consumer(*engine);
  GenerationRequest request;
  request.prompt = test_prompt(10, 0);
  request.max_tokens = 5;
  request.ignore_eos = true;
  consumer.pump_until_ended(consumer.submit(request));
  CHECK(collapse.running);
  CHECK(!engine->stats().huge_page_bytes);
  collapse.released = true;
  wait_until([&] { return engine->stats().huge_page_bytes.has_value(); });
  CHECK_EQ(*engine->stats().huge_page_bytes, uint64_t{kBytes});
  CHECK(!collapse.was_stopped);
}

TEST(closing_an_engine_stops_the_collapse_before_the_model_is_destroyed) {
  Collapse collapse;
  std::unique_ptr<Engine> engine = start(collapse);
  REQUIRE(engine != nullptr);
  wait_until([&] { return collapse.running.load(); });
  engine.reset();
  CHECK(collapse.was_stopped);
  CHECK(!collapse.running && !collapse.alive);
}

TEST(a_loaded_model_counts_its_huge_pages) {
  EngineParts parts = load_parts({});
  if (!parts.model) return;
  const size_t collapsed = parts.model->collapse_huge_pages([] { return false; });
  CHECK(collapsed % (size_t{2} << 20) == 0 && collapsed <= parts.model->memory().weight_bytes);
  CHECK_EQ(parts.model->collapse_huge_pages([] { return true; }), size_t{0});
}

}  // namespace monolith::testing
