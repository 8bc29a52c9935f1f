// Tests that the engine rejects invalid requests with an error that names the field and the position.
#include "engine/request_check.h"

#include <cmath>
#include <functional>
#include <memory>

#include "backend/kv_cache.h"
#include "check.h"
#include "engine/sampling/logit_processors.h"
#include "vision/vision.h"

namespace monolith {
namespace {

constexpr RequestBounds kBounds{.n_vocab = 100, .max_context = 200, .input_width = 4, .most_bidirectional_rows = 8};

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

TEST(request_check_accepts_ordered_spans_within_the_prompt) {
  CHECK(check_request(request_of({span_of(0, 8, true), span_of(8, 20), span_of(49, 1)}), kBounds).ok());
}

TEST(request_check_names_the_invalid_span) {
  const auto refused = [](std::vector<InputSpan> spans, const char* message) {
    const Status status = check_request(request_of(std::move(spans)), kBounds);
    if (status.ok()) return check::fail(__FILE__, __LINE__, message);
    CHECK(status.error().code == ErrorCode::kInvalidArgument);
    CHECK_EQ(status.error().message, std::string(message));
  };
  refused({span_of(0, 0)}, "spans[0] has 0 rows from position 0; the prompt has 50 positions");
  refused({span_of(-1, 2)}, "spans[0] has 2 rows from position -1; the prompt has 50 positions");
  refused({span_of(0, 4), span_of(48, 3)}, "spans[1] has 3 rows from position 48; the prompt has 50 positions");
  refused({span_of(4, 4), span_of(7, 3)}, "spans[1] starts at position 7, before the end of the previous span");
  InputSpan narrow = span_of(4, 4), none = narrow;
  narrow.rows = std::make_shared<const std::vector<float>>(15);
  none.rows = nullptr;
  refused({narrow}, "spans[0] has 15 values, expected 4 rows of 4");
  refused({none}, "spans[0] has 0 values, expected 4 rows of 4");
  refused({span_of(4, 9, true)}, "spans[0] has 9 rows with bidirectional attention; one step computes at most 8");
}

TEST(request_check_names_the_invalid_rope_position) {
  RequestBounds bounds = kBounds;
  bounds.uses_mrope = true;
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
  refused(span(square, 0), "spans[0] advances the rotary position by 0, expected 1 to 4");
  refused(span(square, 5), "spans[0] advances the rotary position by 5, expected 1 to 4");
  refused(span(square, 1), "spans[0] has a rotary position at row 1 outside the range 0 to 0");
  refused(span({{0, 0, 0}, {0, 0, 1}, {0, -1, 0}, {0, 1, 1}}, 2),
          "spans[0] has a rotary position at row 2 outside the range 0 to 1");
  bounds.uses_mrope = false;
  refused(span(square, 2), "spans[0] has M-RoPE positions, but this model does not use M-RoPE");
}

// The limit of a field: one edit sets the largest or smallest valid value, and the other one sets the next value, which
// must be rejected with an error that names the field.
struct Edge {
  const char* name;  // Expected part of the message.
  std::function<void(GenerationRequest&)> taken, refused;
};

void check_edges(const std::vector<Edge>& edges, ErrorCode code = ErrorCode::kInvalidArgument) {
  for (const Edge& edge : edges) {
    GenerationRequest inside = request_of({}), outside = request_of({});
    edge.taken(inside);
    edge.refused(outside);
    if (const Status status = check_request(inside, kBounds); !status.ok())
      check::fail(__FILE__, __LINE__, std::string(edge.name) + ": " + status.error().message);
    const Status status = check_request(outside, kBounds);
    if (status.ok()) {
      check::fail(__FILE__, __LINE__, std::string(edge.name) + " is accepted");
      continue;
    }
    CHECK(status.error().code == code);
    if (status.error().message.find(edge.name) == std::string::npos)
      check::fail(__FILE__, __LINE__, std::string(edge.name) + ": " + status.error().message);
  }
}

using R = GenerationRequest;
constexpr TokenId kLast = 99;  // The last token of the vocabulary.

TEST(request_check_limits_of_prompt_and_counts) {
  check_edges({
      {"at least one token", [](R& r) { r.prompt = {0}; }, [](R& r) { r.prompt.clear(); }},
      {"prompt[1] is token 100",
       [](R& r) {
         r.prompt = {0, kLast};
       },
       [](R& r) {
         r.prompt = {0, kLast + 1};
       }},
      {"prompt[0] is token -1", [](R& r) { r.prompt = {0}; }, [](R& r) { r.prompt = {-1}; }},
      {"n must be", [](R& r) { r.n = kMaxChoices; }, [](R& r) { r.n = kMaxChoices + 1; }},
      {"n must be", [](R& r) { r.n = 1; }, [](R& r) { r.n = 0; }},
      {"max_tokens must be at least 1", [](R& r) { r.max_tokens = 1; }, [](R& r) { r.max_tokens = 0; }},
      {"max_tokens must be 0 if no output", [](R& r) { r.output = OutputKind::kNothing, r.max_tokens = 0; },
       [](R& r) { r.output = OutputKind::kNothing; }},
      {"max_tokens must be 0 if only the prompt's",
       [](R& r) { r.output = OutputKind::kLogprobs, r.max_tokens = 0, r.sampling.prompt_logprobs = 0; },
       [](R& r) { r.output = OutputKind::kLogprobs, r.sampling.prompt_logprobs = 0; }},
      {"prompt_logprobs must be at least 0",
       [](R& r) { r.output = OutputKind::kLogprobs, r.max_tokens = 0, r.sampling.prompt_logprobs = 0; },
       [](R& r) { r.output = OutputKind::kLogprobs, r.max_tokens = 0; }},
      {"min_tokens must be", [](R& r) { r.min_tokens = 1; }, [](R& r) { r.min_tokens = 2; }},
      {"min_tokens must be", [](R& r) { r.min_tokens = 0; }, [](R& r) { r.min_tokens = -1; }},
      {"max_repeats must be", [](R& r) { r.max_repeats = kMaxRepeats; }, [](R& r) { r.max_repeats = kMaxRepeats + 1; }},
      {"max_repeats must be", [](R& r) { r.max_repeats = 0; }, [](R& r) { r.max_repeats = -1; }},
      {"format_head has more", [](R& r) { r.format_head.assign(kMaxCallTokens, 0); },
       [](R& r) { r.format_head.assign(kMaxCallTokens + 1, 0); }},
      {"format_head[0]", [](R& r) { r.format_head = {kLast}; }, [](R& r) { r.format_head = {kLast + 1}; }},
  });
  check_edges({{"at most 199", [](R& r) { r.prompt.assign(199, 1); }, [](R& r) { r.prompt.assign(200, 1); }}},
              ErrorCode::kTooLong);
  check_edges({{"does not compute embeddings", [](R&) {}, [](R& r) { r.output = OutputKind::kVector; }},
               {"prompts with images or embeddings", [](R& r) { r.spans = {span_of(0, 1)}; },
                [](R& r) { r.spans = {span_of(0, 1)}, r.sampling.prompt_logprobs = 0; }}},
              ErrorCode::kUnsupported);
}

TEST(request_check_limits_of_sampling_parameters) {
  const auto range = [](const char* name, float SamplingParams::*field, float least, float most, float step) {
    return std::vector<Edge>{
        {name, [=](R& r) { r.sampling.*field = most; }, [=](R& r) { r.sampling.*field = most + step; }},
        {name, [=](R& r) { r.sampling.*field = least; }, [=](R& r) { r.sampling.*field = least - step; }},
        {name, [=](R& r) { r.sampling.*field = least; }, [=](R& r) { r.sampling.*field = std::nanf(""); }}};
  };
  check_edges(range("temperature must be from 0 to 100", &SamplingParams::temperature, 0, 100, 0.01f));
  check_edges(range("top_p must be from 0 to 1", &SamplingParams::top_p, 0, 1, 0.01f));
  check_edges(range("min_p must be from 0 to 1", &SamplingParams::min_p, 0, 1, 0.01f));
  check_edges(
      range("repetition_penalty must be from 0.01 to 100", &SamplingParams::repetition_penalty, 0.01f, 100, 0.005f));
  check_edges(
      range("frequency_penalty must be from -100 to 100", &SamplingParams::frequency_penalty, -100, 100, 0.01f));
  check_edges(range("presence_penalty must be from -100 to 100", &SamplingParams::presence_penalty, -100, 100, 0.01f));
  const auto biased = [](int n, float bias) {
    return [=](R& r) { r.sampling.logit_bias.assign(static_cast<size_t>(n), {TokenId{1}, bias}); };
  };
  const auto banned = [](int n) {
    return [=](R& r) {
      for (TokenId token = 0; token < n; ++token) r.sampling.logit_bias.push_back({token, kBanBias});
    };
  };
  check_edges({
      {"top_k must be", [](R& r) { r.sampling.top_k = 0; }, [](R& r) { r.sampling.top_k = -1; }},
      {"top_logprobs must be", [](R& r) { r.sampling.top_logprobs = kMaxTopLogprobs; },
       [](R& r) { r.sampling.top_logprobs = kMaxTopLogprobs + 1; }},
      {"top_logprobs must be", [](R& r) { r.sampling.top_logprobs = -1; }, [](R& r) { r.sampling.top_logprobs = -2; }},
      {"prompt_logprobs must be", [](R& r) { r.sampling.prompt_logprobs = kMaxTopLogprobs; },
       [](R& r) { r.sampling.prompt_logprobs = kMaxTopLogprobs + 1; }},
      {"prompt_logprobs must be", [](R& r) { r.sampling.prompt_logprobs = -1; },
       [](R& r) { r.sampling.prompt_logprobs = -2; }},
      {"logit_bias has more", biased(kMaxLogitBias, 1), biased(kMaxLogitBias + 1, 1)},
      {"logit_bias must be", biased(1, 1000), biased(1, 1000.5f)},
      {"logit_bias must be", biased(1, -1000), biased(1, -1000.5f)},
      {"logit_bias has token 100",
       [](R& r) {
         r.sampling.logit_bias = {{kLast, 1.0f}};
       },
       [](R& r) {
         r.sampling.logit_bias = {{kLast + 1, 1.0f}};
       }},
      {"logit_bias has token -1",
       [](R& r) {
         r.sampling.logit_bias = {{0, 1.0f}};
       },
       [](R& r) {
         r.sampling.logit_bias = {{-1, 1.0f}};
       }},
      {"bans the whole", banned(kLast), banned(kLast + 1)},
      {"bans the whole",
       [&](R& r) {
         banned(kLast)(r), r.sampling.banned = {0, 1};
       },
       [&](R& r) { banned(kLast)(r), r.sampling.banned = {kLast}; }},
      {"banned has more", [](R& r) { r.sampling.banned.assign(kMaxBanned, 1); },
       [](R& r) { r.sampling.banned.assign(kMaxBanned + 1, 1); }},
      {"banned[1]",
       [](R& r) {
         r.sampling.banned = {0, kLast};
       },
       [](R& r) {
         r.sampling.banned = {0, kLast + 1};
       }},
  });
}

TEST(request_check_limits_of_stops_markers_and_calls) {
  const auto lists = [](std::vector<std::vector<TokenId>> CallParams::*field, size_t n, size_t length) {
    return [=](R& r) { (r.calls.*field).assign(n, std::vector<TokenId>(length, 1)); };
  };
  const auto grammar = [](R& r, size_t n) { r.calls.grammars.assign(n, nullptr); };
  std::vector<Edge> edges = {
      {"stop has more", [](R& r) { r.stop.assign(kMaxStopStrings, "a"); },
       [](R& r) { r.stop.assign(kMaxStopStrings + 1, "a"); }},
      {"stop[1] must have",
       [](R& r) {
         r.stop = {"a", std::string(kMaxStopBytes, 'a')};
       },
       [](R& r) {
         r.stop = {"a", std::string(kMaxStopBytes + 1, 'a')};
       }},
      {"stop[0] must have", [](R& r) { r.stop = {"a"}; }, [](R& r) { r.stop = {""}; }},
      {"stop[0] is not UTF-8", [](R& r) { r.stop = {"\xc3\xbc"}; }, [](R& r) { r.stop = {"\xbc"}; }},
      {"stop_tokens has more", [](R& r) { r.stop_tokens.assign(kMaxStopTokens, 1); },
       [](R& r) { r.stop_tokens.assign(kMaxStopTokens + 1, 1); }},
      {"stop_tokens[0]", [](R& r) { r.stop_tokens = {kLast}; }, [](R& r) { r.stop_tokens = {kLast + 1}; }},
      {"reasoning.budget", [](R& r) { r.reasoning.budget = -1; }, [](R& r) { r.reasoning.budget = -2; }},
      {"close_sequence has more", [](R& r) { r.reasoning.close_sequence.assign(kMaxCloseTokens, 1); },
       [](R& r) { r.reasoning.close_sequence.assign(kMaxCloseTokens + 1, 1); }},
      {"reasoning.close_sequence[0]", [](R& r) { r.reasoning.close_sequence = {0}; },
       [](R& r) { r.reasoning.close_sequence = {kLast + 1}; }},
      {"calls.open is not UTF-8", [](R& r) { r.calls.open.text = "\xc3\xbc"; },
       [](R& r) { r.calls.open.text = "\xc3"; }},
      {"calls.close is not UTF-8", [](R& r) { r.calls.close.text = "\xc3\xbc"; },
       [](R& r) { r.calls.close.text = "a\xff"; }},
      {"calls.answer has more", [](R& r) { r.calls.answer.assign(kMaxCallTokens, 1), r.calls.answer_start = {1}; },
       [](R& r) { r.calls.answer.assign(kMaxCallTokens + 1, 1), r.calls.answer_start = {1}; }},
      {"calls.answer_start[0]", [](R& r) { r.calls.answer = {1}, r.calls.answer_start = {kLast}; },
       [](R& r) { r.calls.answer = {1}, r.calls.answer_start = {kLast + 1}; }},
      {"calls.answer_start require each other", [](R&) {}, [](R& r) { r.calls.answer = {1}; }},
      {"calls.answer_start require each other", [](R&) {}, [](R& r) { r.calls.answer_start = {1}; }},
      {"calls.end has more",
       [=](R& r) { r.calls.end.assign(kMaxCallTokens, 1), r.calls.starts = {{1}}, grammar(r, 1); },
       [=](R& r) { r.calls.end.assign(kMaxCallTokens + 1, 1), r.calls.starts = {{1}}, grammar(r, 1); }},
      {"calls.end[0]", [=](R& r) { r.calls.end = {kLast}, r.calls.starts = {{1}}, grammar(r, 1); },
       [=](R& r) { r.calls.end = {kLast + 1}, r.calls.starts = {{1}}, grammar(r, 1); }},
      {"calls.next requires calls.end",
       [=](R& r) { r.calls.next = {{1}}, r.calls.end = {1}, r.calls.starts = {{1}}, grammar(r, 1); },
       [=](R& r) { r.calls.next = {{1}}, r.calls.starts = {{1}}, grammar(r, 1); }},
      {"calls.end requires calls.grammars", [](R&) {}, [](R& r) { r.calls.end = {1}; }},
      {"one entry for each prefix",
       [=](R& r) {
         r.calls.prefixes = {{1}, {2}}, grammar(r, 2);
       },
       [=](R& r) {
         r.calls.prefixes = {{1}, {2}}, grammar(r, 1);
       }},
      {"one entry for each prefix", [=](R& r) { r.calls.starts = {{1}}, r.calls.required = {{1}}, grammar(r, 1); },
       [=](R& r) {
         r.calls.starts = {{1}}, r.calls.required = {{1}, {2}}, grammar(r, 1);
       }},
      {"requires calls.prefixes or calls.starts", [=](R& r) { r.calls.starts = {{1}}, grammar(r, 1); },
       [=](R& r) { r.calls.required = {{1}}, grammar(r, 1); }},
  };
  for (const auto& [name, field] : {std::pair{"calls.prefixes", &CallParams::prefixes},
                                    {"calls.required", &CallParams::required},
                                    {"calls.starts", &CallParams::starts}}) {
    edges.push_back({name, lists(field, kMaxCallPrefixes, 1), lists(field, kMaxCallPrefixes + 1, 1)});
    edges.push_back({name, lists(field, 1, kMaxCallTokens), lists(field, 1, kMaxCallTokens + 1)});
    edges.push_back({name, lists(field, 1, 1), lists(field, 1, 0)});
  }
  for (const auto& [name, marker] : {std::pair<const char*, std::function<Marker&(R&)>>{
                                         "reasoning.open", [](R& r) -> Marker& { return r.reasoning.open; }},
                                     {"reasoning.close", [](R& r) -> Marker& { return r.reasoning.close; }},
                                     {"calls.open", [](R& r) -> Marker& { return r.calls.open; }},
                                     {"calls.close", [](R& r) -> Marker& { return r.calls.close; }}}) {
    const auto at = marker;
    edges.push_back({name, [=](R& r) { at(r).text.assign(kMaxMarkerBytes, 'a'); },
                     [=](R& r) { at(r).text.assign(kMaxMarkerBytes + 1, 'a'); }});
    edges.push_back({name, [=](R& r) { at(r).token = kLast; }, [=](R& r) { at(r).token = kLast + 1; }});
    edges.push_back({name, [=](R& r) { at(r).token = kNoToken; }, [=](R& r) { at(r).token = kNoToken - 1; }});
  }
  check_edges(edges);
}

TEST(request_check_accepts_images_only_with_a_vision_encoder) {
  RequestBounds has_vision = kBounds;
  has_vision.has_vision = true;
  InputSpan piece = span_of(4, 4), both = span_of(4, 4);
  piece.rows = nullptr;
  piece.piece = both.piece = std::make_shared<const PreparedPiece>();
  CHECK(check_request(request_of({piece}), has_vision).ok());
  CHECK(check_request(request_of({both}), kBounds).ok());  // Its rows have already been computed.
  const Status status = check_request(request_of({piece}), kBounds);
  CHECK(!status.ok() && status.error().code == ErrorCode::kUnsupported);
  CHECK(check_request(request_of({span_of(42, 8)}), kBounds).ok());  // Ends at the end of the prompt.
}

}  // namespace
}  // namespace monolith
