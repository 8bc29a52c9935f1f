// Tests the order in which request images are encoded within the memory limit, and which requests count as waiting. A
// request in the queue counts as waiting, whereas a request whose image is being encoded does not.
#include "engine/images/image_stage.h"

#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "check.h"
#include "engine/allocation_hook.h"
#include "engine/loop/channel.h"
#include "engine/loop/engine_counters.h"
#include "vision/tiny_vision.h"

namespace monolith {
namespace {

using namespace testing;

constexpr Clock::duration kOnePart{0};  // advance() then computes the minimum.

struct Sight {
  ParsedModel parsed{TinyVision("qwen3vl_merger")};
  std::shared_ptr<const VisionModel> model;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<VisionEncoder> encoder;

  Sight() {
    auto loaded = VisionModel::load(*parsed.file, {});
    auto made = make_cpu_backend({.threads = 1});
    REQUIRE(loaded.ok() && made.ok());
    model = std::move(*loaded);
    backend = std::move(*made);
    auto of_file = VisionEncoder::load(*parsed.file, model, *backend);
    REQUIRE(of_file.ok());
    encoder = std::move(*of_file);
  }

  // Creates a request that has waited for an hour and has one square image per entry in `sides`.
  std::unique_ptr<Request> request(RequestId id, std::initializer_list<int> sides, uint64_t organization = 1) const {
    GenerationRequest generation;
    generation.organization = organization;
    for (const int side : sides) {
      const std::vector<uint8_t> pixels = striped_picture(side, side);
      const auto plan = model->plan(side, side);
      auto pieces = model->prepare(*plan, {side, side, pixels});
      if (!pieces) return check::fail(__FILE__, __LINE__, pieces.error().message), nullptr;
      InputSpan span{.first = static_cast<int>(generation.prompt.size()),
                     .n_rows = plan->pieces[0].n_rows,
                     .hash = (*pieces)[0].hash};
      span.piece = std::make_shared<const PreparedPiece>(std::move((*pieces)[0]));
      generation.prompt.insert(generation.prompt.end(), static_cast<size_t>(span.n_rows), 1);
      generation.spans.push_back(std::move(span));
    }
    auto made =
        std::make_unique<Request>(id, std::make_shared<Channel>([] {}, 1 << 20), std::move(generation), 100, 100'000);
    made->waits_since -= std::chrono::hours(1);
    return made;
  }
};

bool waits_for_an_hour(const Request& request) { return Clock::now() - request.waits_since >= std::chrono::hours(1); }
bool has_rows(const Request& request, size_t span) { return request.params.spans[span].rows != nullptr; }

}  // namespace

TEST(queued_images_count_as_waiting_and_running_ones_do_not) {
  const Sight sight;
  EngineCounters counters;
  ImageStage stage(sight.encoder.get(), sight.model->row_width(), size_t{1} << 24, counters);
  const auto first = sight.request(1, {32, 128}), second = sight.request(2, {40});
  REQUIRE(first && second);
  stage.add(*first);
  stage.add(*second);
  CHECK(waits_for_an_hour(*first) && waits_for_an_hour(*second));
  CHECK(stage.advance(kOnePart));
  CHECK(has_rows(*first, 0) && !first->inputs_ready);
  CHECK(!waits_for_an_hour(*first));  // One of its images has been encoded.
  CHECK(waits_for_an_hour(*second));
  // The larger image is encoded in many parts. After each part, the waiting time of the request is zero.
  int parts = 0;
  const Clock::time_point from = Clock::now();
  const Clock::duration seen = first->encoder_time;
  Clock::duration computed = seen;
  CHECK(computed > Clock::duration::zero());
  for (; !first->inputs_ready; ++parts) {
    first->waits_since -= std::chrono::hours(1);
    CHECK(stage.advance(kOnePart));
    CHECK(!waits_for_an_hour(*first));
    CHECK(waits_for_an_hour(*second));
    CHECK(first->encoder_time > computed);  // Each part adds only to its own request's time.
    computed = first->encoder_time;
    CHECK(second->encoder_time == Clock::duration::zero());
  }
  const Clock::duration passed = Clock::now() - from;
  CHECK(first->encoder_time - seen <= passed);
  CHECK(parts > 3);
  while (!second->inputs_ready) CHECK(stage.advance(kOnePart));
  CHECK(!waits_for_an_hour(*second));
  CHECK(second->encoder_time > Clock::duration::zero() && first->encoder_time == computed);
  CHECK(!stage.advance(kOnePart));
  for (Request* request : {first.get(), second.get()}) stage.forget(*request);
  CHECK_EQ(stage.held_bytes(), size_t{0});
}

// Repeats the test so that each allocation fails once.
TEST(failed_allocation_marks_only_the_request_whose_image_is_encoded) {
  const Sight sight;
  int n = 0;
  for (bool fails = true; fails; ++n) {
    EngineCounters counters;
    ImageStage stage(sight.encoder.get(), sight.model->row_width(), size_t{1} << 24, counters);
    const auto first = sight.request(1, {48, 32}), second = sight.request(2, {40}, 2);
    REQUIRE(first && second);
    stage.add(*first);
    stage.add(*second);
    Request* marked = nullptr;
    until_failure = n;
    while (stage.advance(kOnePart)) {
      if (!stage.ran_out_of_memory()) continue;
      CHECK(marked == nullptr && first->out_of_memory != second->out_of_memory);
      marked = first->out_of_memory ? first.get() : second.get();
      stage.forget(*marked);
    }
    fails = until_failure < 0;
    until_failure = -1;
    CHECK_EQ(marked != nullptr, fails);
    for (Request* request : {first.get(), second.get()}) {
      if (request == marked) continue;
      CHECK(request->inputs_ready && has_rows(*request, 0));
      stage.forget(*request);
    }
    CHECK_EQ(stage.held_bytes(), size_t{0});
  }
  CHECK(n > 5);
}

TEST(a_cached_image_waits_for_its_turn) {
  const Sight sight;
  EngineCounters counters;
  ImageStage stage(sight.encoder.get(), sight.model->row_width(), size_t{1} << 24, counters);
  const auto first = sight.request(1, {48}), again = sight.request(2, {48});
  REQUIRE(first && again);
  stage.add(*first);
  stage.add(*again);
  CHECK(stage.advance(kOnePart) && first->inputs_ready);
  CHECK(waits_for_an_hour(*again));
  CHECK(!stage.advance(kOnePart));  // Nothing is left to compute.
  CHECK(again->inputs_ready && !waits_for_an_hour(*again));
  // A cached image needs no encoder time.
  CHECK(first->encoder_time > Clock::duration::zero() && again->encoder_time == Clock::duration::zero());
  CHECK_EQ(counters.image_pieces_cached.load(), 1u);
}

// Small images are encoded in one part each.
TEST(organizations_take_turns_image_by_image) {
  const Sight sight;
  EngineCounters counters;
  ImageStage stage(sight.encoder.get(), sight.model->row_width(), size_t{1} << 24, counters);
  const auto many = sight.request(1, {16, 24, 32}, 1), few = sight.request(2, {28}, 2),
             late = sight.request(3, {36}, 1), third = sight.request(4, {20}, 3);
  REQUIRE(many && few && late && third);
  for (Request* request : {many.get(), few.get(), late.get(), third.get()}) stage.add(*request);
  const auto seen = [&] {
    std::string text;
    for (const Request* request : {many.get(), few.get(), late.get(), third.get()})
      for (const InputSpan& span : request->params.spans) text += span.rows ? '+' : '-';
    return text;
  };
  for (const char* expected : {"+-----", "+--+--", "+--+-+", "++-+-+", "++++-+", "++++++"}) {
    CHECK(stage.advance(kOnePart));
    CHECK_EQ(seen(), std::string(expected));
  }
  CHECK(!stage.advance(kOnePart));
  CHECK(many->inputs_ready && few->inputs_ready && late->inputs_ready && third->inputs_ready);
}

TEST(a_leaving_request_does_not_change_the_turns_of_others) {
  const Sight sight;
  EngineCounters counters;
  ImageStage stage(sight.encoder.get(), sight.model->row_width(), size_t{1} << 24, counters);
  const auto first = sight.request(1, {128}, 1), second = sight.request(2, {24}, 2),
             third = sight.request(3, {32, 40}, 3), fourth = sight.request(4, {28}, 4);
  REQUIRE(first && second && third && fourth);
  for (Request* request : {first.get(), second.get(), third.get(), fourth.get()}) stage.add(*request);
  CHECK(stage.advance(kOnePart) && !has_rows(*first, 0));  // The image is encoded in parts.
  stage.forget(*first);
  CHECK(stage.advance(kOnePart) && has_rows(*second, 0));
  CHECK(stage.advance(kOnePart) && has_rows(*third, 0));
  stage.forget(*second);  // The request is ready and no longer in the queue.
  stage.forget(*third);
  CHECK(stage.advance(kOnePart) && has_rows(*fourth, 0));
  CHECK(!has_rows(*first, 0) && !has_rows(*third, 1));
  CHECK(!stage.advance(kOnePart));
  stage.forget(*fourth);
  CHECK_EQ(stage.held_bytes(), size_t{0});

  // Removes a request whose turn is over. The later requests move up, but the third request is still next.
  std::vector<std::unique_ptr<Request>> all;
  for (uint64_t i = 0; i < 4; ++i) {
    const int side = 16 + 4 * static_cast<int>(i);  // Distinct images that are not cached.
    all.push_back(sight.request(5 + i, {side, side + 2}, i));
    stage.add(*all.back());
  }
  CHECK(stage.advance(kOnePart) && has_rows(*all[0], 0));
  CHECK(stage.advance(kOnePart) && has_rows(*all[1], 0));
  stage.forget(*all[0]);
  CHECK(stage.advance(kOnePart) && has_rows(*all[2], 0));
  CHECK(stage.advance(kOnePart) && has_rows(*all[3], 0));
  CHECK(!has_rows(*all[1], 1));
}

// Embeddings are stored until their request ends. A single request may exceed the limit.
TEST(images_wait_for_memory_until_other_requests_end) {
  const Sight sight;
  const auto first = sight.request(1, {48}, 1), second = sight.request(2, {64}, 2);
  REQUIRE(first && second);
  const auto bytes_of = [&](const Request& request) {
    return static_cast<size_t>(request.params.spans[0].n_rows) * static_cast<size_t>(sight.model->row_width()) *
           sizeof(float);
  };
  for (const bool both_fit : {true, false}) {
    const auto one = sight.request(3, {48}, 1), other = sight.request(4, {64}, 2), third = sight.request(5, {64}, 2);
    EngineCounters counters;
    ImageStage stage(sight.encoder.get(), sight.model->row_width(),
                     bytes_of(*first) + bytes_of(*second) - (both_fit ? 0 : 1), counters);
    for (Request* request : {one.get(), other.get(), third.get()}) stage.add(*request);
    while (stage.advance(kOnePart)) {
    }
    CHECK(one->inputs_ready);
    CHECK_EQ(other->inputs_ready, both_fit);
    CHECK(!third->inputs_ready);
    CHECK_EQ(stage.held_bytes(), bytes_of(*first) + (both_fit ? bytes_of(*second) : 0));
    stage.forget(*one);
    while (stage.advance(kOnePart)) {
    }
    CHECK(other->inputs_ready);
    stage.forget(*other);
    while (stage.advance(kOnePart)) {
    }
    CHECK(third->inputs_ready);
    stage.forget(*third);
    CHECK_EQ(stage.held_bytes(), size_t{0});
  }
  EngineCounters counters;
  ImageStage tight(sight.encoder.get(), sight.model->row_width(), 1, counters);
  tight.add(*first);
  while (tight.advance(kOnePart)) {
  }
  CHECK(first->inputs_ready);
}

}  // namespace monolith
