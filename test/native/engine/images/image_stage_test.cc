// Which requests the limit of waiting holds for while images are seen: for those in line, not for one whose piece is being computed.
#include "engine/images/image_stage.h"

#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "engine/loop/channel.h"
#include "engine/loop/engine_counters.h"
#include "vision/tiny_vision.h"

namespace monolith {
namespace {

using namespace testing;

constexpr Clock::duration kOnePart{0};   // the least that advance() computes

struct Sight {
  ParsedModel parsed{TinyVision("qwen3vl_merger")};
  std::shared_ptr<const VisionModel> model;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<VisionTower> tower;

  Sight() {
    auto loaded = VisionModel::load(*parsed.file, {});
    auto made = make_cpu_backend({.threads = 1});
    REQUIRE(loaded.ok() && made.ok());
    model = std::move(*loaded);
    backend = std::move(*made);
    auto of_file = VisionTower::load(*parsed.file, model, *backend);
    REQUIRE(of_file.ok());
    tower = std::move(*of_file);
  }

  // A request with a square picture of each of these sides, that has waited for an hour.
  std::unique_ptr<Request> request(RequestId id, std::initializer_list<int> sides) const {
    GenerationRequest generation;
    generation.organization = 1;
    for (const int side : sides) {
      const std::vector<uint8_t> pixels = striped_picture(side, side);
      const auto plan = model->plan(side, side);
      auto pieces = model->prepare(*plan, {side, side, pixels});
      if (!pieces) return check::fail(__FILE__, __LINE__, pieces.error().message), nullptr;
      InputSpan span{.first = static_cast<int>(generation.prompt.size()), .n_rows = plan->pieces[0].n_rows, .hash = (*pieces)[0].hash};
      span.piece = std::make_shared<const PreparedPiece>(std::move((*pieces)[0]));
      generation.prompt.insert(generation.prompt.end(), static_cast<size_t>(span.n_rows), 1);
      generation.spans.push_back(std::move(span));
    }
    auto made = std::make_unique<Request>(id, std::make_shared<Channel>([] {}, 1 << 20), std::move(generation), 100, 100'000);
    made->waits_since -= std::chrono::hours(1);
    return made;
  }
};

bool waits_for_an_hour(const Request& request) { return Clock::now() - request.waits_since >= std::chrono::hours(1); }
bool has_rows(const Request& request, size_t span) { return request.params.spans[span].rows != nullptr; }

}  // namespace

TEST(an_image_in_line_counts_as_waiting_and_one_that_is_computed_does_not) {
  const Sight sight;
  EngineCounters counters;
  ImageStage stage(sight.tower.get(), sight.model->row_width(), size_t{1} << 24, counters);
  const auto first = sight.request(1, {32, 128}), second = sight.request(2, {40});
  REQUIRE(first && second);
  stage.add(*first);
  stage.add(*second);
  CHECK(waits_for_an_hour(*first) && waits_for_an_hour(*second));
  CHECK(stage.advance(kOnePart));
  CHECK(has_rows(*first, 0) && !first->inputs_ready);
  CHECK(!waits_for_an_hour(*first));   // one of its images has been seen
  CHECK(waits_for_an_hour(*second));
  // The larger one is computed in many parts, after each of which it has waited for nothing.
  int parts = 0;
  const Clock::time_point from = Clock::now();
  const Clock::duration seen = first->tower_time;
  Clock::duration computed = seen;
  CHECK(computed > Clock::duration::zero());
  for (; !first->inputs_ready; ++parts) {
    first->waits_since -= std::chrono::hours(1);
    CHECK(stage.advance(kOnePart));
    CHECK(!waits_for_an_hour(*first));
    CHECK(waits_for_an_hour(*second));
    CHECK(first->tower_time > computed);   // each part is its own time, and nobody else's
    computed = first->tower_time;
    CHECK(second->tower_time == Clock::duration::zero());
  }
  const Clock::duration passed = Clock::now() - from;
  CHECK(first->tower_time - seen <= passed);
  CHECK(parts > 3);
  while (!second->inputs_ready) CHECK(stage.advance(kOnePart));
  CHECK(!waits_for_an_hour(*second));
  CHECK(second->tower_time > Clock::duration::zero() && first->tower_time == computed);
  CHECK(!stage.advance(kOnePart));
  for (Request* request : {first.get(), second.get()}) stage.forget(*request);
  CHECK_EQ(stage.held_bytes(), size_t{0});
}

TEST(an_image_that_is_known_is_waited_for_until_its_turn) {
  const Sight sight;
  EngineCounters counters;
  ImageStage stage(sight.tower.get(), sight.model->row_width(), size_t{1} << 24, counters);
  const auto first = sight.request(1, {48}), again = sight.request(2, {48});
  REQUIRE(first && again);
  stage.add(*first);
  stage.add(*again);
  CHECK(stage.advance(kOnePart) && first->inputs_ready);
  CHECK(waits_for_an_hour(*again));
  CHECK(!stage.advance(kOnePart));   // nothing to compute
  CHECK(again->inputs_ready && !waits_for_an_hour(*again));
  CHECK(first->tower_time > Clock::duration::zero() && again->tower_time == Clock::duration::zero());   // what is known takes none
  CHECK_EQ(counters.image_pieces_cached.load(), 1u);
}

}  // namespace monolith
