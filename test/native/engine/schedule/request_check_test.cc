// What the engine refuses of spans, each by its name and place.
#include "engine/schedule/request_check.h"

#include <functional>

#include "backend/kv_cache.h"
#include "check.h"

namespace monolith {
namespace {

constexpr RequestBounds kBounds{
    .n_vocab = 100, .max_context = 200, .input_width = 4, .most_bidirectional_rows = 8};

InputSpan span_of(int first, int n_rows, bool bidirectional = false) {
  return {.first = first,
          .n_rows = n_rows,
          .hash = {1, 2},
          .rows = std::make_shared<const std::vector<float>>(static_cast<size_t>(std::max(0, n_rows)) * 4),
          .bidirectional = bidirectional};
}

GenerationRequest request_of(std::vector<InputSpan> spans) {
  GenerationRequest request;
  request.prompt.assign(50, 7);
  request.spans = std::move(spans);
  request.max_tokens = 1;
  return request;
}

TEST(request_check_takes_spans_in_order_within_the_prompt) {
  CHECK(check_request(request_of({span_of(0, 8, true), span_of(8, 20), span_of(49, 1)}), kBounds).ok());
}

TEST(request_check_names_the_span_that_does_not_fit) {
  const auto refused = [](std::vector<InputSpan> spans, const char* message) {
    const Status status = check_request(request_of(std::move(spans)), kBounds);
    if (status.ok()) return check::fail(__FILE__, __LINE__, message);
    CHECK(status.error().code == ErrorCode::kInvalidArgument);
    CHECK_EQ(status.error().message, std::string(message));
  };
  refused({span_of(0, 0)}, "spans[0] has 0 rows from position 0; the prompt has 50 positions");
  refused({span_of(-1, 2)}, "spans[0] has 2 rows from position -1; the prompt has 50 positions");
  refused({span_of(0, 4), span_of(48, 3)}, "spans[1] has 3 rows from position 48; the prompt has 50 positions");
  refused({span_of(4, 4), span_of(7, 3)}, "spans[1] begins at position 7, before the end of the one before it");
  InputSpan narrow = span_of(4, 4), none = narrow;
  narrow.rows = std::make_shared<const std::vector<float>>(15);
  none.rows = nullptr;
  refused({narrow}, "spans[0] has 15 values, expected 4 rows of 4");
  refused({none}, "spans[0] has 0 values, expected 4 rows of 4");
  refused({span_of(4, 9, true)}, "spans[0] has 9 rows that see one another; one step computes at most 8");
}

TEST(request_check_names_the_rotary_position_that_does_not_fit) {
  RequestBounds bounds = kBounds;
  bounds.turns_by_three = true;
  const auto span = [](std::vector<RopePosition> offsets, int n_positions) {
    InputSpan span = span_of(2, 4);
    span.rope_offsets = std::make_shared<const std::vector<RopePosition>>(std::move(offsets));
    span.n_rope_positions = n_positions;
    return span;
  };
  const std::vector<RopePosition> square = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}};
  CHECK(check_request(request_of({span(square, 2)}), bounds).ok());
  const auto refused = [&](InputSpan one, const char* message) {
    const Status status = check_request(request_of({std::move(one)}), bounds);
    if (status.ok()) return check::fail(__FILE__, __LINE__, message);
    CHECK_EQ(status.error().message, std::string(message));
  };
  refused(span({{0, 0, 0}}, 2), "spans[0] has 1 rotary positions, expected one for each of its 4 rows");
  refused(span(square, 0), "spans[0] moves the count of positions on by 0, expected 1 to 4");
  refused(span(square, 5), "spans[0] moves the count of positions on by 5, expected 1 to 4");
  refused(span(square, 1), "spans[0] has a rotary position at row 1 that is not from 0 to 0");
  refused(span({{0, 0, 0}, {0, 0, 1}, {0, -1, 0}, {0, 1, 1}}, 2), "spans[0] has a rotary position at row 2 that is not from 0 to 1");
  bounds.turns_by_three = false;
  refused(span(square, 2), "spans[0] has rotary positions of three numbers, which this model has not");
}

}  // namespace
}  // namespace monolith
