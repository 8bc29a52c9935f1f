#include "engine/debug/debug_logits.h"

#include <cstring>
#include <string>

#include "check.h"
#include "model/all_cases.h"
#include "support/golden.h"
#include "support/network_run.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

constexpr const char* kModel = "models/llama.q8_0.gguf";

DebugLogitsOptions exact(int max_batch_tokens) {
  return {{.threads = 1, .arithmetic = Arithmetic::kExact}, KvType::kF32, max_batch_tokens};
}

void check_refused(std::vector<int32_t> ids, std::vector<int32_t> positions, int continue_tokens, ErrorCode code,
                   const std::string& part) {
  const auto result = debug_logits(check::vectors_path(kModel), exact(64), ids, positions, continue_tokens);
  if (result) return check::fail(__FILE__, __LINE__, "accepted, expected an error about " + part);
  CHECK_EQ(static_cast<int>(result.error().code), static_cast<int>(code));
  if (result.error().message.find(part) == std::string::npos) {
    check::fail(__FILE__, __LINE__, "expected '" + part + "' in: " + result.error().message);
  }
}

}  // namespace

TEST(debug_logits_match_the_golden_vectors) {
  if (check::vectors_path(kModel).empty()) return check::skip("golden vectors not found");
  const auto golden = Golden::read(check::vectors_path("models/llama.q8_0.json"));
  REQUIRE(golden.has_value());
  const Tolerance& tolerance = *golden->tolerance("f32");
  for (const GoldenPrompt& prompt : golden->prompts) {
    if (prompt.tokens.size() > 120) continue;
    // The positions are requested in a different order than they are computed, and one is requested twice.
    std::vector<int32_t> positions;
    for (const GoldenLogits& at : prompt.positions) positions.insert(positions.begin(), at.position);
    positions.push_back(positions.front());
    const int n = static_cast<int>(prompt.greedy.size());
    const auto result = debug_logits(check::vectors_path(kModel), exact(16), prompt.tokens, positions, n);
    REQUIRE(result.ok());
    REQUIRE(result->positions.size() == positions.size());
    for (size_t i = 0; i + 1 < positions.size(); ++i) {
      const GoldenLogits& expected = prompt.positions[prompt.positions.size() - 1 - i];
      CHECK_EQ(result->positions[i].position, expected.position);
      CHECK(distance(result->positions[i].logits, expected.exact, tolerance).within(tolerance));
    }
    CHECK(result->positions.back().logits == result->positions.front().logits);

    REQUIRE(result->continuation.has_value());
    const auto& continuation = *result->continuation;
    REQUIRE(continuation.tokens.size() == prompt.greedy.size() && continuation.logits.size() == prompt.greedy.size());
    CHECK_EQ(continuation.last.position, prompt.last.position);
    CHECK_EQ(argmax(continuation.last.logits), continuation.tokens.back());
    CHECK_EQ(*std::ranges::max_element(continuation.last.logits), continuation.logits.back());
    // The generated tokens may deviate only where the margin in exact arithmetic shows a near tie.
    size_t same = 0;
    while (same < prompt.greedy.size() && continuation.tokens[same] == prompt.greedy[same]) ++same;
    if (same == prompt.greedy.size()) {
      CHECK(distance(continuation.last.logits, prompt.last.exact, tolerance).within(tolerance));
    } else {
      CHECK(prompt.exact_margins[same] < 2 * tolerance.max * standard_deviation(continuation.last.logits));
    }
  }
}

TEST(debug_logits_do_not_depend_on_the_chunk_size) {
  if (check::vectors_path(kModel).empty()) return check::skip("golden vectors not found");
  std::vector<int32_t> ids, positions;
  for (int i = 0; i < 40; ++i) {
    ids.push_back(3 + i * 7);
    positions.push_back(i);
  }
  const auto whole = debug_logits(check::vectors_path(kModel), exact(256), ids, positions, 0);
  const auto pieces = debug_logits(check::vectors_path(kModel), exact(7), ids, positions, 0);
  REQUIRE(whole.ok() && pieces.ok());
  CHECK(!whole->continuation.has_value());
  for (size_t i = 0; i < positions.size(); ++i) {
    CHECK_EQ(whole->positions[i].position, positions[i]);
    CHECK(whole->positions[i].logits == pieces->positions[i].logits);
  }
}

TEST(debug_logits_rejects_invalid_arguments) {
  if (check::vectors_path(kModel).empty()) return check::skip("golden vectors not found");
  check_refused({}, {}, 0, ErrorCode::kInvalidArgument, "ids is empty");
  check_refused({1, 640}, {}, 0, ErrorCode::kInvalidArgument, "ids[1] is 640");
  check_refused({-1}, {}, 0, ErrorCode::kInvalidArgument, "ids[0] is -1");
  check_refused({1, 2}, {0, 2}, 0, ErrorCode::kInvalidArgument, "positions[1] is 2");
  check_refused({1, 2}, {-1}, 0, ErrorCode::kInvalidArgument, "positions[0] is -1");
  check_refused({1}, {}, -1, ErrorCode::kInvalidArgument, "continue_tokens is -1");
  check_refused({1}, {}, 4096, ErrorCode::kTooLong, "context of 4096");
  const auto absent = debug_logits("/nonexistent.gguf", exact(64), std::vector<int32_t>{1}, {}, 0);
  CHECK(!absent.ok() && absent.error().code == ErrorCode::kIo);
}

TEST(debug_logits_file_errors_start_with_the_path) {
  const ModelFile file(TinyModel("unheard-of"));
  const std::string& path = file.path();
  const auto result = debug_logits(path, exact(64), std::vector<int32_t>{1}, {}, 0);
  REQUIRE(!result.ok());
  CHECK(result.error().code == ErrorCode::kUnsupported);
  CHECK(result.error().message.starts_with(path + ": architecture 'unheard-of' is not supported"));
}

// LongRoPE uses different frequencies for long contexts. The context length specified when the file is opened
// determines which frequencies are used.
TEST(debug_logits_uses_the_requested_context) {
  // Reference networks for the same file, one for short and one for long contexts.
  const Case short_case = phi3(64, 1.5), long_case = phi3(64, 6);
  const ModelFile file(short_case.model);
  const Tokens tokens = some_tokens(12);
  for (const auto& [max_context, expected] :
       {std::pair{0, &short_case}, std::pair{64, &short_case}, std::pair{65, &long_case}}) {
    DebugLogitsOptions options = exact(8);
    options.max_context = max_context;
    const std::vector<int32_t> positions = {11};
    const auto result = debug_logits(file.path(), options, tokens, positions, 0);
    if (!result) return check::fail(__FILE__, __LINE__, result.error().message);
    const Row row = expected->network(Mlp(expected->model), tokens).back();
    double worst = 0;
    for (size_t i = 0; i < row.size(); ++i) worst = std::max(worst, std::abs(result->positions[0].logits[i] - row[i]));
    if (!(worst < 1e-3))
      check::fail(__FILE__, __LINE__,
                  "max_context " + std::to_string(max_context) + ": off by " + std::to_string(worst));
  }
  DebugLogitsOptions options = exact(8);
  options.max_context = 11;
  const auto result = debug_logits(file.path(), options, tokens, {}, 0);
  REQUIRE(!result.ok());
  CHECK(result.error().message.find("12 ids and 0 tokens of continuation exceed max_context, 11") != std::string::npos);
}

TEST(split_models_give_the_same_logits_as_the_whole_file) {
  const TinyModel whole;
  const ModelFile file(whole);  // Only its path is used, as the base for the names of the split model's parts.
  TinyModel first = whole, second = whole;
  second.keys.clear();
  for (const auto& [name, tensor] : whole.tensors) (name < "blk.1" ? second : first).tensors.erase(name);
  for (const auto& [part, number] : {std::pair{&first, 0u}, std::pair{&second, 1u}}) {
    part->keys["split.no"] = number;
    part->keys["split.count"] = 2u;
    const Bytes bytes = part->build();
    std::ofstream(file.path() + (number == 0 ? "-00001" : "-00002") + "-of-00002.gguf", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  const std::vector<int32_t> positions = {11};
  const auto want = debug_logits(file.path(), exact(8), some_tokens(12), positions, 0);
  const auto got = debug_logits(file.path() + "-00001-of-00002.gguf", exact(8), some_tokens(12), positions, 0);
  for (const char* number : {"-00001", "-00002"}) std::filesystem::remove(file.path() + number + "-of-00002.gguf");
  if (!want || !got) return check::fail(__FILE__, __LINE__, want ? got.error().message : want.error().message);
  CHECK(want->positions[0].logits == got->positions[0].logits);
}

}  // namespace monolith
