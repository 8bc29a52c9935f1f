// Tests LoRA adapters in an engine. A request must produce the same bits alone and in steps with requests that use
// other adapters or no adapter, and must not share KV pages with them. Adapters are loaded and unloaded while requests
// run.
#include <condition_variable>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/machine_memory.h"
#include "engine/adapters/adapter_set.h"
#include "engine/engine_fixture.h"
#include "engine/lora_adapters.h"
#include "engine/tiers/page_importer.h"
#include "engine/tiers/tier_outbox.h"

namespace monolith::testing {
namespace {

constexpr const char* kLlama = "models/llama.q8_0.gguf";

EngineSetup setup_of(const std::string& model) {
  EngineSetup setup;
  setup.model = model;
  return setup;
}

GenerationRequest request_of(std::vector<TokenId> prompt, AdapterId adapter, int max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.adapter = adapter;
  request.max_tokens = max_tokens;
  return request;
}

// kNoAdapter, followed by the ids of the two adapters that load_two() loads.
using AdapterIds = std::array<AdapterId, 3>;

AdapterIds load_two(Engine& engine, const std::string& model) {
  const ScratchFolder folder;
  AdapterIds ids{};
  for (const uint32_t i : {1u, 2u}) {
    const RandomAdapter random(model, i == 1 ? 8 : 5, i);
    const auto loaded = engine.load_adapter(write_bytes(folder, "adapter.gguf", random.gguf()),
                                            {.name = std::to_string(i), .scale = i == 1 ? 1.0f : 0.5f});
    if (!loaded) return check::fail(__FILE__, __LINE__, loaded.error().message), ids;
    ids[i] = loaded->id;
  }
  return ids;
}

// Request i uses ids[i % 3]. Requests 3k, 3k + 1 and 3k + 2 have the same prompt.
std::vector<GenerationRequest> mixed_requests(const AdapterIds& ids) {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 12; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(40 + i / 3 * 23, i / 3 % 2);
    request.adapter = ids[static_cast<size_t>(i % 3)];
    request.max_tokens = 20 + i;
    request.ignore_eos = true;
    request.sampling.seed = 77;
    request.sampling.temperature = i % 4 == 0 ? 0.0f : 0.8f;
    request.sampling.top_logprobs = 2;
    if (i % 2 == 0) request.sampling.logit_bias = {{50, 20.0f}, {120, 20.0f}};  // Repetitive: yields drafts.
    requests.push_back(request);
  }
  return requests;
}

std::vector<ChoiceOutcome> run_all(Engine& engine, const std::vector<GenerationRequest>& requests, bool together) {
  Consumer consumer(engine);
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests) {
    ids.push_back(consumer.submit(request));
    if (!together) consumer.pump_until_ended(ids.back());
  }
  std::vector<ChoiceOutcome> outcomes;
  for (const RequestId id : ids) {
    consumer.pump_until_ended(id);
    CHECK(!consumer.outcomes()[id].failed);
    outcomes.push_back(consumer.outcomes()[id].choices[0]);
  }
  return outcomes;
}

void check_setup(EngineSetup setup, const std::vector<ChoiceOutcome>& expected, int rounds, const std::string& what) {
  auto engine = start_engine(setup);
  REQUIRE(engine);
  const auto requests = mixed_requests(load_two(*engine, setup.model));
  for (int round = 0; round < rounds; ++round) {
    const auto outcomes = run_all(*engine, requests, true);
    for (size_t i = 0; i < outcomes.size(); ++i)
      check_same(outcomes[i], expected[i],
                 what + ", round " + std::to_string(round) + ", request " + std::to_string(i));
  }
  if (setup.options.speculation == Speculation::kAlways) CHECK(engine->stats().draft_tokens > 20);
  CHECK(pages_come_back(*engine));
}

void check_invariance(EngineSetup setup) {
  setup.options.prefix_cache = false;
  setup.make_room_for_drafts();
  std::vector<ChoiceOutcome> expected;
  {
    EngineSetup plain = setup;
    plain.options.speculation = Speculation::kOff;
    auto engine = start_engine(plain);
    if (!engine) return;
    expected = run_all(*engine, mixed_requests(load_two(*engine, setup.model)), false);
  }
  // Each adapter must change the output. Requests 0, 1 and 2 have the same prompt and seed.
  CHECK(expected[1].logprobs != expected[0].logprobs && expected[1].logprobs != expected[2].logprobs);
  check_setup(setup, expected, 1, "together");
  setup.options.prefix_cache = true;
  setup.threads = 2;
  check_setup(setup, expected, 3, "with cached prefixes and two threads");
  setup.options.max_batch_tokens = 24;
  setup.limits.n_pages = 24;
  check_setup(setup, expected, 2, "with small steps and few pages");
}

Error error_of(Engine& engine, const std::string& path) {
  const auto loaded = engine.load_adapter(path, {.name = "bad"});
  CHECK(!loaded);
  return loaded ? Error{} : loaded.error();
}

// Tries to load a file with these bytes. Loading must fail with this code and a message that starts with the file's
// path and contains `part`.
void check_refused(Engine& engine, const Bytes& bytes, ErrorCode code, const std::string& part) {
  const ScratchFolder folder;
  const std::string path = write_bytes(folder, "bad.gguf", bytes);
  const Error error = error_of(engine, path);
  if (error.code != code || error.message.find(part) == std::string::npos || !error.message.starts_with(path))
    check::fail(__FILE__, __LINE__, "expected '" + part + "', not: " + error.message);
}

void check_folder_refused(Engine& engine, const ScratchFolder& folder, ErrorCode code, const std::string& part) {
  const Error error = error_of(engine, folder.path());
  if (error.code != code || error.message.find(part) == std::string::npos)
    check::fail(__FILE__, __LINE__, "expected '" + part + "', not: " + error.message);
}

}  // namespace

TEST(adapters_give_the_same_bits_alone_and_together) { check_invariance(setup_of(kLlama)); }
TEST(adapters_give_the_same_bits_with_k_quants) { check_invariance(setup_of("models/llama.q4_k_m.gguf")); }
TEST(adapters_give_the_same_bits_with_recurrent_layers) {
  EngineSetup setup = setup_of("models/qwen35.f16.gguf");
  setup.limits.n_slots = 64;
  setup.options.snapshot_tokens = 32;
  check_invariance(setup);
}
TEST(adapters_give_the_same_bits_with_an_f16_model) { check_invariance(setup_of("models/qwen3.f16.gguf")); }

TEST(adapters_give_the_same_bits_with_draft_tokens) {
  EngineSetup setup = setup_of(kLlama);
  setup.options.speculation = Speculation::kAlways;
  check_invariance(setup);
  setup.draft = kLlama;
  check_invariance(setup);
}

TEST(adapters_give_the_same_bits_with_an_mtp_layer) {
  EngineSetup setup = setup_of("models/qwen35.f16.gguf");
  setup.limits.n_slots = 64;
  setup.give_mtp_layer();
  setup.options.mtp = Speculation::kAlways;
  setup.options.speculation = Speculation::kAlways;
  check_invariance(setup);
}

TEST(adapters_do_not_share_pages) {
  auto engine = start_engine(setup_of(kLlama));
  if (!engine) return;
  const AdapterIds ids = load_two(*engine, kLlama);
  Consumer consumer(*engine);
  for (const bool again : {false, true})
    for (const AdapterId id : ids) {
      const RequestId sent = consumer.submit(request_of(test_prompt(100, 1), id, 1));
      consumer.pump_until_ended(sent);
      CHECK_EQ(consumer.outcomes()[sent].cached_tokens, again ? 96u : 0u);
    }
  // The same weights and scale produce the same hash, so pages can be reused after the adapter is reloaded. A different
  // scale produces a different hash.
  const ScratchFolder folder;
  const std::string path = write_bytes(folder, "adapter.gguf", RandomAdapter(kLlama, 8, 1).gguf());
  const auto same = engine->load_adapter(path, {.name = "same"}), other = engine->load_adapter(path, {"other", 0.9f});
  REQUIRE(same && other);
  CHECK(same->hash == engine->adapters()[0].hash && !(other->hash == same->hash));
}

TEST(exported_pages_carry_the_key_of_their_adapter) {
  auto engine = start_engine(setup_of(kLlama));
  if (!engine) return;
  const AdapterIds ids = load_two(*engine, kLlama);
  const auto outbox = std::make_shared<TierOutbox>(size_t{1} << 30, [] {});
  engine->open_tier(outbox);
  Consumer consumer(*engine);
  GenerationRequest request = request_of(test_prompt(100, 1), ids[1], 1);
  request.retain = "label";
  consumer.pump_until_ended(consumer.submit(request));
  std::vector<PageExport> exports;
  std::vector<ImportReply> replies;
  const auto drain_until = [&](auto done) {
    for (int i = 0; i < 1000 && !done(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      outbox->drain(exports, replies);
    }
    CHECK(done());
  };
  drain_until([&] { return !exports.empty(); });
  const ContentHash hash = engine->adapters()[0].hash;
  CHECK(exports.at(0).text->adapter == hash);
  // An import finds the pages in memory only if it specifies the same adapter hash.
  for (const bool same : {true, false}) {
    engine->open_import({.id = same ? 1u : 2u,
                         .organization = 0,
                         .text = PageText::of(request.prompt, {}, 100, same ? hash : ContentHash{}),
                         .pinned = false});
    drain_until([&] { return !replies.empty(); });
    CHECK_EQ(replies.at(0).pages.size(), same ? size_t{6} : size_t{0});
    engine->close_import(same ? 1 : 2);
    replies.clear();
  }
  outbox->close();
}

TEST(an_adapter_is_unloaded_after_its_last_request) {
  auto engine = start_engine(setup_of(kLlama));
  if (!engine) return;
  const AdapterIds ids = load_two(*engine, kLlama);
  GenerationRequest request = mixed_requests(ids)[1];
  request.max_tokens = 300;
  const ChoiceOutcome expected = run_all(*engine, {request}, false)[0];
  Consumer consumer(*engine);
  const RequestId id = consumer.submit(request);
  consumer.pump_until([&] { return consumer.outcomes()[id].choices[0].piece_tokens > 0; });
  CHECK_EQ(engine->stats().adapters.at(0).running, 1);
  CHECK(engine->unload_adapter(ids[1]).ok());
  CHECK_EQ(engine->adapters().size(), size_t{1});
  CHECK(engine->stats().adapters.at(0).unloading && engine->stats().adapters.at(0).bytes > 0);
  const auto refused = engine->submit(consumer.channel(), request);
  REQUIRE(!refused);
  CHECK_EQ(refused.error().message, "adapter: there is no adapter " + std::to_string(ids[1]));
  CHECK(!engine->unload_adapter(ids[1]).ok());
  consumer.pump_until_ended(id);
  check_same(consumer.outcomes()[id].choices[0], expected, "unloaded while running");
  for (int i = 0; i < 1000 && engine->stats().adapters.size() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_EQ(engine->stats().adapters.size(), size_t{1});
}

TEST(adapters_are_limited_in_number_and_bytes) {
  const ScratchFolder folder;
  const std::string path = write_bytes(folder, "adapter.gguf", RandomAdapter(kLlama, 2, 1).gguf());
  EngineSetup setup = setup_of(kLlama);
  {
    auto engine = start_engine(setup);
    if (!engine) return;
    size_t n = 0;
    while (n < 100 && engine->load_adapter(path, {.name = "many"})) ++n;
    CHECK_EQ(n, kMaxAdapters);
    CHECK_EQ(error_of(*engine, path).message, path + ": there are already 64 adapters");
    // Requests with all adapters run at the same time.
    std::vector<GenerationRequest> requests(kMaxAdapters);
    for (size_t i = 0; i < requests.size(); ++i)
      requests[i] = request_of(test_prompt(20, 1), engine->adapters()[i].id, 3);
    for (const ChoiceOutcome& outcome : run_all(*engine, requests, true)) CHECK(outcome.finished);
    CHECK(engine->unload_adapter(engine->adapters()[5].id).ok());
    CHECK(engine->load_adapter(path, {.name = "one more"}).ok());
  }
  setup.options.adapter_bytes_max = 1 << 20;
  auto engine = start_engine(setup);
  REQUIRE(engine);
  Result<AdapterInfo> loaded = engine->load_adapter(path, {.name = "first"});
  REQUIRE(loaded);
  for (int i = 0; i < 100 && loaded; ++i) loaded = engine->load_adapter(path, {.name = "next"});
  REQUIRE(!loaded);
  CHECK(loaded.error().code == ErrorCode::kOutOfMemory);
  CHECK(loaded.error().message.find("MiB that are left for adapters") != std::string::npos);
}

TEST(a_peft_folder_equals_its_gguf_file) {
  for (const char* model : {kLlama, "models/qwen3.f16.gguf"}) {
    auto engine = start_engine(setup_of(model));
    if (!engine) return;
    for (const TensorType type : {TensorType::kF16, TensorType::kBF16, TensorType::kF32}) {
      RandomAdapter random(model, 4, 9);
      random.type = type;
      const ScratchFolder folder;
      random.write_folder(folder);
      const auto from_folder = engine->load_adapter(folder.path(), {.name = "folder"});
      const auto from_file = engine->load_adapter(write_bytes(folder, "a.gguf", random.gguf()), {.name = "file"});
      if (!from_folder) return check::fail(__FILE__, __LINE__, from_folder.error().message);
      REQUIRE(from_file);
      CHECK(from_folder->hash == from_file->hash);
      CHECK_EQ(from_folder->bytes, from_file->bytes);
      CHECK_EQ(from_folder->alpha, 16.0f);
      CHECK_EQ(from_folder->targets.size(), size_t{7});
    }
    // Two adapters with twice the usual scale: one because of use_rslora, the other because of alpha_pattern.
    const RandomAdapter random(model, 4, 9);
    const ScratchFolder stabilized, patterned;
    random.write_folder(stabilized, ",\"use_rslora\":true");
    // For each module, the first matching pattern doubles alpha. Some modules also match a later pattern that halves
    // it, which must have no effect.
    std::string kinds;
    for (const char* kind : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      kinds += "\"" + std::string(kind) + "\":32,";
    random.write_folder(patterned, ",\"alpha_pattern\":{" + kinds + "\"q_proj\":8,\"gate_proj\":8}");
    const auto one = engine->load_adapter(stabilized.path(), {.name = "rslora"}),
               two = engine->load_adapter(patterned.path(), {.name = "pattern"}),
               half = engine->load_adapter(stabilized.path(), {.name = "half", .scale = 0.5f});
    REQUIRE(one && two && half);
    // With rank 4, rsLoRA's alpha / sqrt(4) is twice the usual alpha / 4.
    CHECK(one->hash == two->hash);
    CHECK(half->hash == engine->adapters()[0].hash);
  }
}

TEST(a_peft_folder_with_other_methods_is_refused) {
  auto engine = start_engine(setup_of(kLlama));
  if (!engine) return;
  const RandomAdapter random(kLlama, 4, 9);
  const ScratchFolder folder;
  const auto check_key = [&](const std::string& member, const std::string& key) {
    random.write_folder(folder, "," + member);
    check_folder_refused(*engine, folder, ErrorCode::kUnsupported, "adapter_config.json: '" + key + "'");
  };
  check_key("\"use_dora\":true", "use_dora");
  check_key("\"modules_to_save\":[\"lm_head\"]", "modules_to_save");
  check_key("\"bias\":\"all\"", "bias");
  check_key("\"fan_in_fan_out\":true", "fan_in_fan_out");
  check_key("\"peft_type\":\"IA3\"", "peft_type");
  check_key("\"init_lora_weights\":\"pissa_niter_4\"", "init_lora_weights");
  check_key("\"alpha_pattern\":{\".*q_proj\":3}", "alpha_pattern..*q_proj");
  random.write_folder(folder, ",\"lora_alpha\":null");
  check_folder_refused(*engine, folder, ErrorCode::kInvalidFile, "'lora_alpha' is missing");

  const auto check_tensors = [&](const std::vector<SafetensorData>& tensors, ErrorCode code, const std::string& part) {
    random.write_folder(folder);
    folder.write("adapter_model.safetensors", safetensors_of(tensors));
    check_folder_refused(*engine, folder, code, part);
  };
  const std::string zeros(2 * 4 * 1024, '\0'), q = "base_model.model.model.layers.0.self_attn.q_proj.";
  check_tensors({{q + "lora_magnitude_vector", "F16", {4}, zeros.substr(0, 8)}}, ErrorCode::kUnsupported,
                "lora_magnitude_vector");
  check_tensors({{"base_model.model.lm_head.lora_A.weight", "F16", {4, 4}, zeros.substr(0, 32)}},
                ErrorCode::kUnsupported, "lm_head.lora_A.weight' adapts a module that is unknown");
  check_tensors({{q + "lora_A.weight", "F16", {4, 256}, zeros.substr(0, 2048)}}, ErrorCode::kInvalidFile,
                "has no lora_B");
  check_tensors({{q + "lora_A.weight", "F16", {0, 256}, ""}, {q + "lora_B.weight", "F16", {256, 0}, ""}},
                ErrorCode::kInvalidFile, "impossible shape");
  check_tensors({{q + "lora_A.weight", "I8", {4, 256}, zeros.substr(0, 1024)},
                 {q + "lora_B.weight", "F16", {256, 4}, zeros.substr(0, 2048)}},
                ErrorCode::kUnsupported, "has type 'I8'");
  check_tensors(
      {{"base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", "F16", {4, 256}, zeros.substr(0, 2048)}},
      ErrorCode::kInvalidFile, "is of layer 9, but the model has");
}

TEST(a_file_that_does_not_fit_is_refused_by_name) {
  auto engine = start_engine(setup_of(kLlama));
  if (!engine) return;
  const auto changed = [](const std::function<void(RandomAdapter&)>& change) {
    RandomAdapter random(kLlama, 4, 9);
    change(random);
    return random.gguf();
  };
  constexpr const char* kQ = "blk.0.attn_q.weight";
  const auto invalid = ErrorCode::kInvalidFile, unsupported = ErrorCode::kUnsupported,
             other = ErrorCode::kInvalidArgument;
  check_refused(*engine, changed([](auto& a) { a.architecture = "qwen3"; }), other, "architecture 'qwen3'");
  check_refused(*engine, changed([&](auto& a) {
    a.matrices[kQ].cols = 128;
    a.matrices[kQ].a.resize(512);
  }),
                other, "'blk.0.attn_q.weight.lora_a' adapts a matrix of 256 x 128");
  const auto renamed = [&](const std::string& name) {
    return changed([&](auto& a) {
      a.matrices[name] = a.matrices[kQ];
      a.matrices.erase(kQ);
    });
  };
  check_refused(*engine, renamed("blk.7.attn_q.weight"), other, "is of layer 7, but the model has 2 layers");
  check_refused(*engine, renamed("output.weight"), unsupported, "'output.weight.lora_a'");
  check_refused(*engine, renamed("blk.0.ffn_gate_exps.weight"), unsupported, "'blk.0.ffn_gate_exps.weight'");
  check_refused(*engine, renamed("blk.0.attn_qkv.weight"), other, "'blk.0.attn_qkv.weight'");
  check_refused(*engine, changed([](auto& a) { a.alpha = std::numeric_limits<float>::quiet_NaN(); }), invalid,
                "'adapter.lora.alpha'");
  check_refused(*engine, changed([&](auto& a) {
    a.type = TensorType::kF32;
    a.matrices[kQ].b[3] = std::numeric_limits<float>::infinity();
  }),
                invalid, "'blk.0.attn_q.weight.lora_b' contains a value that is not finite");
  const auto built = [](const std::function<void(GgufBuilder&)>& add, const char* type = "adapter",
                        const char* kind = "lora") {
    GgufBuilder builder;
    builder.string("general.architecture", "llama").string("general.type", type).string("adapter.type", kind);
    add(builder);
    return builder.build();
  };
  const Bytes zeros(1 << 16);
  const auto data = [&](size_t n) { return std::span(zeros).first(n); };
  const auto pair = [&](GgufBuilder& b, uint64_t rank_a, uint64_t rank_b) {
    b.tensor("blk.0.attn_q.weight.lora_a", TensorType::kF32, {256, rank_a}, data(256 * rank_a * 4));
    b.tensor("blk.0.attn_q.weight.lora_b", TensorType::kF32, {rank_b, 256}, data(256 * rank_b * 4));
  };
  check_refused(*engine, built([&](auto& b) { pair(b, 4, 3); }), invalid, "has rank 3");
  check_refused(*engine, built([](auto&) {}), invalid, "the file has no tensors");
  check_refused(*engine, built([](auto&) {}, "model"), invalid, "'general.type' is 'model'");
  check_refused(*engine, built([](auto&) {}, "adapter", "ia3"), unsupported, "'adapter.type' is 'ia3'");
  check_refused(*engine, built([&](auto& b) {
    b.tensor("blk.0.attn_q.weight.lora_a", TensorType::kF32, {256, 4}, data(4096));
  }),
                invalid, "'blk.0.attn_q.weight.lora_b' is missing");
  check_refused(*engine,
                built([&](auto& b) { b.tensor("blk.0.attn_norm.weight", TensorType::kF32, {256}, data(1024)); }),
                unsupported, "'blk.0.attn_norm.weight' is not a factor");
  check_refused(*engine, built([&](auto& b) {
    b.tensor("blk.0.attn_q.weight.lora_a", TensorType::kQ4_0, {256, 4}, data(576));
    b.tensor("blk.0.attn_q.weight.lora_b", TensorType::kF32, {4, 256}, data(4096));
  }),
                unsupported, "has type Q4_0");
  const std::string model = check::vectors_path(kLlama);
  CHECK(error_of(*engine, model).message.find("so the file is not an adapter") != std::string::npos);
  CHECK(error_of(*engine, "/nowhere/at/all").code == ErrorCode::kIo);
}

TEST(damaged_adapter_files_are_refused_without_harm) {
  auto engine = start_engine(setup_of(kLlama));
  if (!engine) return;
  RandomAdapter random(kLlama, 2, 9);
  std::erase_if(random.matrices, [](const auto& entry) { return !entry.first.starts_with("blk.0.attn_q"); });
  const Bytes good = random.gguf();
  const ScratchFolder folder;
  uint64_t state = 1;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    Bytes bytes = good;
    if (i % 3 == 0)
      bytes.resize(next(good.size()));
    else  // Change bytes in the metadata and the tensor table.
      for (uint64_t n = 1 + next(4); n > 0; --n) bytes[next(400)] = static_cast<std::byte>(next(256));
    const auto loaded = engine->load_adapter(write_bytes(folder, "bad.gguf", bytes), {.name = "damaged"});
    if (loaded)
      CHECK(engine->unload_adapter(loaded->id).ok());
    else
      ++refused;
  }
  CHECK(refused > 500);
  // Damages the safetensors file of a PEFT folder in the same way.
  random.write_folder(folder);
  std::ifstream stream(folder.path() + "/adapter_model.safetensors", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string text = file;
    if (i % 2 == 0)
      text.resize(next(file.size()));
    else
      text[next(200)] = static_cast<char>(next(256));
    folder.write("adapter_model.safetensors", text);
    if (const auto loaded = engine->load_adapter(folder.path(), {.name = "damaged"}))
      CHECK(engine->unload_adapter(loaded->id).ok());
    else
      ++refused;
  }
  CHECK(refused >= 250);  // All 250 truncated files must be rejected.
  CHECK(!engine->stats().failed);
}

TEST(memory_for_an_adapter_is_claimed_until_it_is_loaded) {
  const EngineSetup setup = setup_of(kLlama);
  const auto file = GgufFile::open(check::vectors_path(kLlama));
  REQUIRE(file.ok());
  const auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  const auto model = Model::load(**file, **backend, setup.limits, {});
  REQUIRE(model.ok());
  AdapterSet adapters(**model, size_t{1} << 30);
  const ScratchFolder folder;
  const std::string path = write_bytes(folder, "adapter.gguf", RandomAdapter(kLlama, 8, 1).gguf());
  const uint64_t before = MemoryClaim::all();
  uint64_t claimed = 0;
  const auto loaded = adapters.load(path, {.name = "a"}, [&](int) {
    claimed = MemoryClaim::all() - before;
    return Status();
  });
  REQUIRE(loaded.ok());
  CHECK(claimed >= loaded->bytes);
  CHECK_EQ(MemoryClaim::all(), before);
  CHECK(!adapters.load("/nowhere/at/all", {.name = "b"}, [](int) { return Status(); }));
  CHECK_EQ(MemoryClaim::all(), before);
}

TEST(an_adapter_changes_the_vectors_of_a_pooling_model) {
  constexpr const char* kModel = "models/qwen3-last.f16.gguf";
  auto engine = start_engine(setup_of(kModel));
  if (!engine) return;
  const AdapterIds ids = load_two(*engine, kModel);
  Consumer consumer(*engine);
  std::vector<std::vector<float>> vectors;
  for (const bool together : {false, true}) {
    std::vector<RequestId> sent;
    for (const AdapterId id : ids) {
      GenerationRequest request = request_of(test_prompt(50, 1), id, 0);
      request.output = OutputKind::kVector;
      sent.push_back(consumer.submit(request));
      if (!together) consumer.pump_until_ended(sent.back());
    }
    for (const RequestId id : sent) {
      consumer.pump_until_ended(id);
      vectors.push_back(consumer.outcomes()[id].vector);
    }
  }
  CHECK(!vectors[0].empty() && vectors[0] != vectors[1] && vectors[1] != vectors[2]);
  for (size_t i = 0; i < 3; ++i) CHECK(vectors[i] == vectors[i + 3]);
}

}  // namespace monolith::testing
