// Tests that draft tokens from MTP layers and EAGLE-3 heads change only the number of steps, and that a drafter that is
// always right reduces it.
#include <numeric>

#include "speculation_check.h"
#include "support/eagle_file.h"

namespace monolith::testing {
namespace {

// Writes an MTP layer that predicts only those tokens that have a bias, so its predictions are sometimes right.
void say_few_words(LooseModel& model, const std::string& block) {
  const uint64_t n_embd = model.number("embedding_length"), n_vocab = model.tensors.at("token_embd.weight").dims[1];
  std::vector<float> head(n_vocab * n_embd);
  for (const auto& [token, bias] : few_words()) {
    const std::vector<float> row = made_up(n_embd, static_cast<uint64_t>(token), 0.5f);
    std::ranges::copy(row, head.begin() + static_cast<ptrdiff_t>(static_cast<uint64_t>(token) * n_embd));
  }
  model.put_floats(block + "nextn.shared_head_head.weight", {n_embd, n_vocab}, head);
}

void check_own_layer(const std::string& model, bool pages_by_window, int n_layers = 1) {
  EngineSetup setup;
  setup.model = model;
  setup.give_mtp_layer(say_few_words, n_layers);
  setup.limits.pages_by_window = pages_by_window;
  setup.options.prefix_cache = false;
  const std::vector<ChoiceOutcome> expected = outcomes_without(setup);
  if (expected.empty()) return;
  setup.options.speculation = Speculation::kAlways;
  check_all(setup, expected, 1, false, model + " with its MTP layer");
  setup.threads = 2;
  setup.options.prefix_cache = true;
  check_all(setup, expected, 1, false, "with cached prefixes and two threads");
  setup.options.max_sequences = 4;
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = pages_by_window ? 80 : 16;  // One of these requests takes up to nine pages.
  check_all(setup, expected, 2, true, "with few pages");
}

TEST(speculation_with_an_mtp_layer_recurrent_state) { check_own_layer("models/qwen35.f16.gguf", false); }
TEST(speculation_with_an_mtp_layer_mla) { check_own_layer("models/deepseek2-glm47flash.q8_0.gguf", false); }
TEST(speculation_with_three_mtp_layers_sliding_windows) { check_own_layer("models/mimo2.q8_0.gguf", true, 3); }

// A network that counts: its layers have no effect, and its output head selects the next higher token ID. No token
// occurs twice.
std::vector<int64_t> all_tokens(const LooseModel& model) {
  std::vector<int64_t> tokens(model.tensors.at("token_embd.weight").dims[1]);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

void count_upwards(LooseModel& model) {
  for (const auto& [name, tensor] : std::map(model.tensors))
    for (const char* out : {"attn_output.weight", "ssm_out.weight", "ffn_down.weight"})
      if (name.ends_with(out)) model.zero(name);
  const uint64_t n = model.number("embedding_length");
  const std::vector<int64_t> tokens = all_tokens(model);
  model.put_floats("output.weight", {n, tokens.size()}, looks_back(model.floats("token_embd.weight"), n, tokens, 1));
  model.put_floats("output_norm.weight", {n}, std::vector<float>(n, 1));
}

// An MTP layer whose prediction is always right with greedy sampling. With `by_hidden_row`, the layer predicts from the
// hidden state of the token two positions before the predicted one. Its first draft token is then right. Each further
// layer looks one token further back and is right only for the next draft token.
void know_what_follows(LooseModel& model, const std::string& block, bool by_hidden_row) {
  count_upwards(model);
  const uint64_t n = model.number("embedding_length");
  const std::vector<int64_t> tokens = all_tokens(model);
  if (by_hidden_row)
    model.put_floats(
        block + "nextn.shared_head_head.weight", {n, tokens.size()},
        looks_back(model.floats("token_embd.weight"), n, tokens, 1 + model.number("nextn_predict_layers")));
  for (const char* norm : {"nextn.enorm.weight", "nextn.hnorm.weight", "nextn.shared_head_norm.weight"})
    model.put_floats(block + norm, {n}, std::vector<float>(n, 1));
  std::vector<float> takes(2 * n * n);
  for (uint64_t i = 0; i < n; ++i) takes[i * 2 * n + i + (by_hidden_row ? n : 0)] = 1;
  model.put_floats(block + "nextn.eh_proj.weight", {2 * n, n}, takes);
}

// An EAGLE-3 head that always predicts correctly, either from its input token, which attention passes on, or from the
// last of the hidden states that it reads from the network. Its logits are in reverse token order.
Bytes head_that_knows(const LooseModel& model, bool by_hidden_row) {
  std::vector<int64_t> tokens = all_tokens(model);
  std::ranges::reverse(tokens);
  EagleFile head(model, tokens);
  const std::vector<float> table = model.floats("token_embd.weight");
  head.values["token_embd.weight"] = table;
  head.values["output.weight"] = looks_back(table, head.n_embd, tokens, by_hidden_row ? 2 : 1);
  head.zero("blk.0.ffn_down.weight");
  head.zero("fc.weight");
  head.norm_before_residual = true;
  if (by_hidden_row) {
    head.diagonal("fc.weight", 1, 2 * head.n_embd);
    head.zero("blk.0.attn_output.weight");
  } else {
    // Each token attends to itself.
    for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight"}) head.diagonal(name, 3);
    head.diagonal("blk.0.attn_v.weight", 1);
    head.diagonal("blk.0.attn_output.weight", 8);  // Outweighs the hidden state from the previous token.
  }
  return head.build();
}

EngineStats count_with(EngineSetup setup, Speculation mode) {
  setup.options.speculation = Speculation::kAuto;
  setup.options.mtp = mode;
  auto engine = start_engine(setup);
  if (!engine) return {};
  Consumer consumer(*engine);
  for (int i = 0; i < 6; ++i) {
    GenerationRequest request;
    request.prompt = test_prompt(8, i);
    request.max_tokens = 40;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    consumer.pump_until_ended(consumer.submit(request));
  }
  CHECK(pages_come_back(*engine));
  const EngineStats stats = engine->stats();
  check::note("mode " + std::to_string(static_cast<int>(mode)) + ": " + std::to_string(stats.accepted_drafter_tokens) +
              " of " + std::to_string(stats.drafter_tokens) + " right, " + std::to_string(stats.decode_tokens) +
              " tokens in " + std::to_string(stats.steps) + " steps");
  return stats;
}

EngineStats count_with_layer(Speculation mode, bool by_hidden_row, int n_layers = 1) {
  EngineSetup setup;
  setup.model = "models/qwen35.f16.gguf";
  setup.give_mtp_layer(
      [by_hidden_row](LooseModel& model, const std::string& block) { know_what_follows(model, block, by_hidden_row); },
      n_layers);
  return count_with(setup, mode);
}

EngineStats count_with_head(Speculation mode, bool by_hidden_row) {
  EngineSetup setup;
  setup.make_room_for_drafts();
  setup.change = count_upwards;
  setup.head = [by_hidden_row](const LooseModel& model) { return head_that_knows(model, by_hidden_row); };
  return count_with(setup, mode);
}

TEST(a_correct_mtp_layer_saves_steps) {
  for (const Speculation mode : {Speculation::kAuto, Speculation::kAlways, Speculation::kOff}) {
    const EngineStats stats = count_with_layer(mode, false);
    if (stats.steps == 0) return;
    CHECK_EQ(stats.accepted_drafter_tokens, stats.drafter_tokens);
    CHECK_EQ(stats.drafter_tokens > 0, mode != Speculation::kOff);
    if (mode == Speculation::kAlways)
      CHECK(stats.accepted_drafter_tokens > 150 && stats.steps < stats.decode_tokens / 3);
    if (mode == Speculation::kOff) CHECK_EQ(stats.steps, stats.decode_tokens);
  }
}

TEST(mtp_layer_gets_the_hidden_state_before_each_token) {
  const EngineStats stats = count_with_layer(Speculation::kAlways, true);
  if (stats.steps == 0) return;
  // In every step except the first and the last one of each response, one draft token is accepted.
  CHECK(stats.accepted_drafter_tokens + 12 >= stats.steps);
  CHECK(stats.steps < stats.decode_tokens * 3 / 5);
}

TEST(consecutive_mtp_layers_draft_one_token_each) {
  const EngineStats stats = count_with_layer(Speculation::kAlways, true, 3);
  if (stats.steps == 0) return;
  CHECK(stats.accepted_drafter_tokens + 24 >=
        3 * stats.steps);  // The first three of four draft tokens per step are accepted.
  CHECK(stats.accepted_drafter_tokens < stats.drafter_tokens);
  CHECK(stats.steps < stats.decode_tokens * 2 / 5);
}

TEST(a_correct_eagle_head_saves_steps) {
  for (const Speculation mode : {Speculation::kAuto, Speculation::kAlways}) {
    const EngineStats stats = count_with_head(mode, false);
    if (stats.steps == 0) return;
    CHECK(stats.drafter_tokens > 0);
    CHECK_EQ(stats.accepted_drafter_tokens, stats.drafter_tokens);
    if (mode == Speculation::kAlways)
      CHECK(stats.accepted_drafter_tokens > 150 && stats.steps < stats.decode_tokens / 3);
  }
}

TEST(eagle_head_gets_the_hidden_state_before_each_token) {
  const EngineStats stats = count_with_head(Speculation::kAlways, true);
  if (stats.steps == 0) return;
  CHECK(stats.accepted_drafter_tokens + 12 >= stats.steps);
  CHECK(stats.steps < stats.decode_tokens * 3 / 5);
}

// A head with random weights and logits for only a few frequent words, so its predictions are sometimes right. The head
// reads the hidden states of three layers of the network.
void check_head(const std::string& model, bool pages_by_window, std::vector<uint32_t> sources) {
  EngineSetup setup;
  setup.model = model;
  setup.make_room_for_drafts();
  setup.head = [&](const LooseModel& loose) {
    EagleFile head(loose, {120, 50, 7, 200, 8});
    head.sources = sources;
    return head.build();
  };
  setup.limits.pages_by_window = pages_by_window;
  setup.options.prefix_cache = false;
  EngineSetup alone = setup;
  alone.head = {};
  const std::vector<ChoiceOutcome> expected = outcomes_without(alone);
  if (expected.empty()) return;
  setup.options.speculation = Speculation::kAlways;
  check_all(setup, expected, 1, false, model + " with a head");
  setup.threads = 2;
  setup.options.prefix_cache = true;
  check_all(setup, expected, 1, false, "with cached prefixes and two threads");
  setup.options.max_sequences = 4;
  setup.options.max_batch_tokens = 64;
  setup.limits.n_pages = pages_by_window ? 40 : 24;
  check_all(setup, expected, 2, true, "with few pages");
}

TEST(speculation_with_an_eagle_head) { check_head("models/llama.q8_0.gguf", false, {0, 1, 2}); }
TEST(speculation_with_an_eagle_head_recurrent_state) { check_head("models/qwen35.f16.gguf", false, {2, 1, 3}); }
TEST(speculation_with_an_eagle_head_sliding_windows) { check_head("models/mimo2.q8_0.gguf", true, {0, 2, 1}); }

}  // namespace
}  // namespace monolith::testing
