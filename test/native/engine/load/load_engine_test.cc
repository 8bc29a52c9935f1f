// Loads models together with everything needed to serve them, as a frontend does. Also checks that
// docs/internals/load-options.md lists all options. To update that file, run this test with MONOLITH_WRITE_DOCS=1.
#include "engine/load/load_engine.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "check.h"
#include "engine/engine_fixture.h"

namespace monolith {
namespace {

using namespace testing;

LoadOptions small_options() {
  LoadOptions options;
  options.backend.device = "cpu";
  options.backend.threads = 1;
  options.max_context = 256;
  options.kv_bytes = 16 << 20;
  options.engine.max_sequences = 4;
  options.engine.max_batch_tokens = 64;
  return options;
}

// Returns the text that an engine generates greedily for a fixed prompt.
std::string generate(Engine& engine) {
  GenerationRequest request;
  request.prompt = test_prompt(20, 1);
  request.max_tokens = 12;
  request.sampling.temperature = 0;
  Consumer consumer(engine);
  const RequestId id = consumer.submit(request);
  consumer.pump_until_ended(id);
  CHECK(!consumer.outcomes()[id].failed);
  return consumer.outcomes()[id].choices[0].content;
}

std::string text_of(const LoadOption& option, const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return text->empty() ? "none" : *text;
  const int64_t number = std::get<int64_t>(value);
  if (option.type != LoadOption::Type::kChoice) return std::to_string(number);
  return number < 0 ? "none" : std::string(option.choices[static_cast<size_t>(number)]);
}

std::string values_of(const LoadOption& option) {
  switch (option.type) {
    case LoadOption::Type::kInteger: return std::to_string(option.low) + " to " + std::to_string(option.high);
    case LoadOption::Type::kBoolean: return "true, false";
    case LoadOption::Type::kPath: return "a path";
    case LoadOption::Type::kDevice: return "a device";
    case LoadOption::Type::kChoice: break;
  }
  std::string list;
  for (const std::string_view choice : option.choices) list += (list.empty() ? "" : ", ") + std::string(choice);
  return list;
}

std::string document() {
  std::string text =
      "# Load options\n\nThe addon's options for loading a model, as `native/engine/load/load_options.cc` "
      "defines them. The engine's\nsettings ([settings.md](../reference/settings.md)) set them. This page is "
      "generated.\n\n| option | values | default | meaning |\n|---|---|---|---|\n";
  const LoadOptions defaults;
  for (const LoadOption& option : load_options())
    text += "| `" + std::string(option.name) + "` | " + values_of(option) + " | " +
            (option.required ? "required" : text_of(option, option.get(defaults))) + " | " +
            std::string(option.meaning) + " |\n";
  return text;
}

}  // namespace

TEST(a_model_is_loaded_and_generates) {
  const std::string path = check::vectors_path("models/llama.q8_0.gguf");
  if (path.empty()) return check::skip("golden models not found");
  float progress = -1;
  auto loaded = open_engine(path, small_options(), [&](float fraction) {
    CHECK(fraction >= progress);
    progress = fraction;
  });
  REQUIRE(loaded.ok());
  CHECK_EQ(progress, 1.0f);
  CHECK_EQ((*loaded)->backend.name, std::string("cpu"));
  CHECK_EQ((*loaded)->info.context_length > 0, true);
  CHECK((*loaded)->profile == nullptr && (*loaded)->vision == nullptr);
  CHECK_EQ((*loaded)->engine->stats().max_sequences, 4);
  CHECK(!generate(*(*loaded)->engine).empty());
}

TEST(a_draft_model_shares_the_memory_plan_and_leaves_the_output_unchanged) {
  const std::string path = check::vectors_path("models/llama.q8_0.gguf"),
                    draft = check::vectors_path("models/llama.q4_k_m.gguf");
  if (path.empty()) return check::skip("golden models not found");
  LoadOptions options = small_options();
  auto alone = open_engine(path, options);
  REQUIRE(alone.ok());
  options.draft_path = draft;
  options.engine.speculation = Speculation::kAlways;
  auto drafted = open_engine(path, options);
  REQUIRE(drafted.ok());
  CHECK((*drafted)->plan.memory.weight_bytes > (*alone)->plan.memory.weight_bytes);
  CHECK_EQ(generate(*(*drafted)->engine), generate(*(*alone)->engine));
  CHECK((*drafted)->engine->stats().drafter_tokens > 0);
  // With speculation off, the draft model is not loaded.
  options.engine.speculation = Speculation::kOff;
  auto off = open_engine(path, options);
  REQUIRE(off.ok());
  CHECK_EQ((*off)->plan.memory.weight_bytes, (*alone)->plan.memory.weight_bytes);
}

TEST(a_draft_model_with_another_vocabulary_is_refused_by_its_path) {
  const std::string path = check::vectors_path("models/llama.q8_0.gguf");
  if (path.empty()) return check::skip("golden models not found");
  LoadOptions options = small_options();
  options.draft_path = check::vectors_path("models/qwen3.f16.gguf");
  options.engine.speculation = Speculation::kAlways;
  const auto loaded = open_engine(path, options);
  REQUIRE(!loaded.ok());
  CHECK_EQ(loaded.error().message.find(path + ": " + options.draft_path + ": a draft model must have the vocabulary"),
           size_t{0});
}

TEST(a_context_that_does_not_fit_is_refused_with_a_reason) {
  const std::string path = check::vectors_path("models/llama.q8_0.gguf");
  if (path.empty()) return check::skip("golden models not found");
  LoadOptions options = small_options();
  options.kv_bytes = 1024;
  const auto loaded = open_engine(path, options);
  REQUIRE(!loaded.ok());
  CHECK(!loaded.error().message.empty());
  CHECK(loaded.error().code == ErrorCode::kOutOfMemory || loaded.error().code == ErrorCode::kInvalidArgument);
}

TEST(devices_are_refused_by_name_and_with_a_reason) {
  CHECK_EQ(device_names(), std::string("auto, cpu, cuda or cuda:N"));
  for (const std::string_view name : {"auto", "cpu", "cuda", "cuda:3"}) CHECK(is_device(name));
  for (const std::string_view name : {"", "metal", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cudas"})
    CHECK(!is_device(name));
  const auto missing = make_backend({.device = "cuda:1"});
  REQUIRE(!missing.ok());
  CHECK(missing.error().message.starts_with("device cuda:1: this build has no CUDA backend"));
  const auto unknown = make_backend({.device = "metal"});
  REQUIRE(!unknown.ok());
  CHECK_EQ(unknown.error().message, std::string("device metal: must be auto, cpu, cuda or cuda:N"));
  const auto chosen = make_backend({.threads = 1});
  REQUIRE(chosen.ok());
  CHECK_EQ((*chosen)->info().name, std::string("cpu"));
}

TEST(every_load_option_is_stored_and_returned) {
  for (const LoadOption& option : load_options()) {
    LoadOptions options;
    OptionValue value = int64_t{option.high};
    if (option.type == LoadOption::Type::kChoice) value = static_cast<int64_t>(option.choices.size()) - 1;
    if (option.type == LoadOption::Type::kBoolean) value = !std::get<bool>(option.get(options));
    if (option.type == LoadOption::Type::kPath || option.type == LoadOption::Type::kDevice) value = "some text";
    option.set(options, value);
    if (option.get(options) != value || options == LoadOptions())
      check::fail(__FILE__, __LINE__, std::string(option.name) + " is not stored");
  }
}

TEST(the_document_lists_every_load_option) {
  const std::string path = check::data_path("../../docs/internals/load-options.md");
  std::ifstream in(path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (text == document()) return;
  if (std::getenv("MONOLITH_WRITE_DOCS") == nullptr)
    return check::fail(__FILE__, __LINE__, path + " is out of date; MONOLITH_WRITE_DOCS=1 writes it");
  std::ofstream(path) << document();
}

}  // namespace monolith
