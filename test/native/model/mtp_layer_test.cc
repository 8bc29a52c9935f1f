// Tests MTP layers of every model family that has them. The draft logits equal the formula regardless of the chunk size
// and the other sequences in the step. The model's own logits do not change.
#include "model/mtp_layers.h"

#include <cmath>

#include "check.h"
#include "model/all_cases.h"
#include "support/fed_sequence.h"
#include "support/drafting_model.h"
#include "support/network_run.h"

namespace monolith::testing {
namespace {

constexpr int kVocabulary = 352;

std::optional<LooseModel> golden_model(const char* name) {
  const std::string path = check::vectors_path(std::string("models/") + name + ".gguf");
  if (path.empty()) return std::nullopt;
  auto file = GgufFile::open(path);
  if (!file) return std::nullopt;
  return LooseModel(**file);
}

Row as_row(const std::vector<float>& values, size_t first, size_t count) {
  return {values.begin() + static_cast<ptrdiff_t>(first), values.begin() + static_cast<ptrdiff_t>(first + count)};
}

Row normed_row(Row x, const std::vector<float>& weight, double eps) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double root = std::sqrt(sum / static_cast<double>(x.size()) + eps);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= weight[i] / root;
  return x;
}

// Computes W [norm(e), norm(h)] directly, for a token's embedding e and a hidden state h.
Row projected(const LooseModel& model, const std::string& block, int32_t token, const Row& hidden, double eps) {
  const size_t n = hidden.size();
  const std::vector<float> table = model.floats("token_embd.weight"),
                           weight = model.floats(block + "nextn.eh_proj.weight");
  Row both =
      normed_row(as_row(table, static_cast<size_t>(token) * n, n), model.floats(block + "nextn.enorm.weight"), eps);
  const Row h = normed_row(hidden, model.floats(block + "nextn.hnorm.weight"), eps);
  both.insert(both.end(), h.begin(), h.end());
  Row x(n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < 2 * n; ++j) x[i] += weight[i * 2 * n + j] * both[j];
  return x;
}

// Returns a model that consists only of the MTP layer and that embeds token i as row i. The layers of such a model are
// already covered by the golden vectors.
LooseModel alone(const LooseModel& model, uint32_t layer, const Rows& rows) {
  LooseModel one = model;
  const std::string block = "blk." + std::to_string(layer) + ".";
  std::map<std::string, LooseModel::Tensor> kept;
  for (const auto& [name, tensor] : model.tensors) {
    if (!name.starts_with("blk.")) kept[name] = tensor;
    if (name.starts_with(block) && name.find("nextn.") == std::string::npos)
      kept["blk.0." + name.substr(block.size())] = tensor;
  }
  one.tensors = kept;
  one.tensors["output_norm.weight"] = model.tensors.at(block + "nextn.shared_head_norm.weight");
  if (!model.tensors.contains("output.weight")) one.tensors["output.weight"] = model.tensors.at("token_embd.weight");
  std::vector<float> table;
  for (size_t i = 0; i < kVocabulary; ++i)
    for (size_t j = 0; j < rows[0].size(); ++j)
      table.push_back(i < rows.size() ? static_cast<float>(rows[i][j]) : 0.0f);
  one.put_floats("token_embd.weight", {rows[0].size(), kVocabulary}, table);
  one.change_layer_arrays(layer + 1, [](const Bytes& items, size_t item) {
    return Bytes(items.end() - static_cast<ptrdiff_t>(item), items.end());
  });
  if (one.has("attention.sliding_window_pattern") &&
      one.keys.at(one.key("attention.sliding_window_pattern")).type != static_cast<uint32_t>(GgufValueType::kArray))
    one.set("attention.sliding_window_pattern",
            2);  // The only layer must have a sliding window, as the MTP layer does.
  one.set("block_count", 1);
  one.set("nextn_predict_layers", 0);
  if (one.has("full_attention_interval")) one.set("full_attention_interval", 1);
  if (one.has("leading_dense_block_count")) one.set("leading_dense_block_count", 0);
  return one;
}

double furthest(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    scale = std::max(scale, std::abs(double{b[i]}));
  }
  return most / scale;
}

struct Family {
  const char* file;
  bool normed;  // Whether the hidden states that MTP layers read have passed the final norm.
  double eps;
};

constexpr Family kFamilies[] = {{"qwen35.f16", true, 1e-6},        {"qwen35moe.q8_0", true, 1e-6},
                                {"qwen3next.q8_0", true, 1e-6},    {"deepseek2-glm47flash.q8_0", true, 1e-6},
                                {"deepseek2-v3.q8_0", true, 1e-6}, {"deepseek32.q8_0", true, 1e-6},
                                {"glm-dsa.q8_0", true, 1e-6},      {"exaone-moe.q8_0", true, 1e-5},
                                {"mimo2.q8_0", false, 1e-5},       {"step35.q8_0", false, 1e-5}};

void check_family(const Family& family) {
  auto model = golden_model(family.file);
  if (!model) return;
  const uint32_t layer = add_mtp_layer(*model);
  // The indexer selects fewer positions than there are tokens, so that the selection by the MTP layer's own indexer
  // affects the result.
  if (model->has("attention.indexer.top_k")) model->set("attention.indexer.top_k", 8);
  const std::string block = "blk." + std::to_string(layer) + ".";
  const Bytes image = model->build();
  auto file = GgufFile::parse(image);
  REQUIRE(file.ok());
  const auto exact = [] { return CpuBackendOptions{.threads = 2, .isa = "auto", .arithmetic = Arithmetic::kExact}; };
  Loaded drafting = load_network(**file, make_cpu_backend(exact()), draft_limits(true));
  Loaded plain = load_network(**file, make_cpu_backend(exact()), draft_limits(false));
  REQUIRE(drafting.model && plain.model);
  CHECK(drafting.model->drafts() && !plain.model->drafts());
  REQUIRE(plain.model->observe().ok());
  const auto n_embd = static_cast<size_t>(plain.model->params().n_embd),
             n_layers = static_cast<size_t>(plain.model->params().n_layers);
  const std::vector<int32_t> tokens = some_tokens(24);
  // The hidden states at all positions, and the inputs that the MTP layer computes from them.
  Rows hidden = {Row(n_embd)}, rows;
  Fed reference(*plain.model, 0, 0);
  std::vector<std::vector<float>> logits;
  for (const int32_t token : tokens) {
    rows.push_back(projected(*model, block, token, hidden.back(), family.eps));
    logits.push_back(reference.feed({token}, 1));
    hidden.push_back(as_row(plain.model->observed(), (family.normed ? n_layers : n_layers - 1) * n_embd, n_embd));
  }
  const LooseModel one = alone(*model, layer, rows);
  const Bytes one_image = one.build();
  auto one_file = GgufFile::parse(one_image);
  REQUIRE(one_file.ok());
  Loaded layer_alone = load_network(**one_file, make_cpu_backend(exact()), draft_limits(false));
  REQUIRE(layer_alone.model);
  REQUIRE(layer_alone.model->observe().ok());
  double worst = 0;
  for (const int piece : {1, 7, 23}) {
    // Another sequence is also in the cache, and its pages lie between the first sequence's pages.
    Fed sequence(*drafting.model, 16, 1);
    const std::vector<int32_t> before(tokens.begin(), tokens.end() - 1);
    CHECK(sequence.feed(before, piece) == logits[before.size() - 1]);
    Fed layer_rows(*layer_alone.model, 0, 0);
    std::vector<int32_t> numbers(tokens.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    const std::vector<float> expected = layer_rows.feed(numbers, 24);
    const std::vector<float> drafted = sequence.draft(tokens.back(), 0);
    worst = std::max(worst, furthest(drafted, expected));
    // The second draft token is computed from the output of the MTP layer itself.
    const Row left = as_row(layer_alone.model->observed(), family.normed ? n_embd : 0, n_embd);
    rows.push_back(projected(*model, block, 5, left, family.eps));
    const LooseModel longer = alone(*model, layer, rows);
    rows.pop_back();
    const Bytes longer_image = longer.build();
    auto longer_file = GgufFile::parse(longer_image);
    REQUIRE(longer_file.ok());
    Loaded longer_alone = load_network(**longer_file, make_cpu_backend(exact()), draft_limits(false));
    REQUIRE(longer_alone.model);
    numbers.push_back(static_cast<int32_t>(numbers.size()));
    worst = std::max(worst, furthest(sequence.draft(5, 1), Fed(*longer_alone.model, 0, 0).feed(numbers, 25)));
    // The step after the drafts continues as if nothing had been drafted.
    CHECK(sequence.feed({tokens.back()}, 1) == logits.back());
  }
  check::note(std::string(family.file) + ": " + std::to_string(worst));
  if (!(worst < 1e-4)) check::fail(__FILE__, __LINE__, std::string(family.file) + " gives different draft logits");
}

TEST(mtp_layers_of_every_family_match_their_formula) {
  if (check::vectors_path("models/qwen35.f16.gguf").empty()) return check::skip("golden models not found");
  for (const Family& family : kFamilies) check_family(family);
}

// Returns a GLM 4.5 model with `n_levels` MTP layers, each with its own weights.
TinyModel glm_with_levels(uint32_t n_levels) {
  TinyModel model = glm4moe(true).model;
  std::map<std::string, TinyModel::Tensor> more;
  model.norm("blk.3.nextn.enorm.weight", kEmbd);
  model.norm("blk.3.nextn.hnorm.weight", kEmbd);
  model.norm("blk.3.nextn.shared_head_norm.weight", kEmbd);
  model.matrix("blk.3.nextn.shared_head_head.weight", TinyModel::kVocab, kEmbd);
  model.matrix("blk.3.nextn.embed_tokens.weight", TinyModel::kVocab, kEmbd);
  for (const auto& [name, tensor] : model.tensors)
    for (uint32_t level = 1; level < n_levels && name.starts_with("blk.3."); ++level)
      more[block_name(3 + level) + name.substr(6)] = tensor;
  model.tensors.merge(more);
  model.key("block_count", 3 + n_levels);
  model.key("nextn_predict_layers", n_levels);
  return model;
}

// Compares with the network in float64. The draft token at depth d uses level d, which has read the outputs of level d
// - 1 for all earlier tokens. After the last level, the network continues from its own output.
void check_levels(uint32_t n_levels) {
  const TinyModel model = glm_with_levels(n_levels);
  const P net(model);
  const auto layer = [&](const std::string& block, const Rows& in) {
    const Rows x = sum(in, attention(net, block, normed(net, block + "attn_norm", in),
                                     {.biases = true, .frequency = P::frequencies(10000, 8), .qk_norm = norm_of(net)}));
    return sum(x, each(normed(net, block + "post_attention_norm", x), [&](const Row& row) {
                 return mixture_beside(
                     net, block, row, 1,
                     {.n_ff = kExpertFf, .used = kUsed, .sigmoid = true, .choice_bias = true, .scale = 1.5});
               }));
  };
  const std::vector<int32_t> tokens = some_tokens(19);
  Rows x = net.embed(tokens);
  for (uint32_t i = 0; i < 3; ++i) x = layer(block_name(i), x);
  const Rows hidden = normed(net, "output_norm", x);
  const auto input = [&](const std::string& block, int32_t token, const Row& from) {
    const Row table = net.values(block + "nextn.embed_tokens.weight");
    Row both = net.norm(block + "nextn.enorm",
                        Row(table.begin() + token * int{kEmbd}, table.begin() + (token + 1) * int{kEmbd}));
    const Row h = net.norm(block + "nextn.hnorm", from);
    both.insert(both.end(), h.begin(), h.end());
    return net.times(block + "nextn.eh_proj", both);
  };
  const ParsedModel parsed(model);
  REQUIRE(parsed.file != nullptr);
  for (const int piece : {1, 5, 18}) {
    Loaded loaded = load_network(*parsed.file, make_cpu_backend({.threads = 1, .arithmetic = Arithmetic::kExact}),
                                 draft_limits(true));
    REQUIRE(loaded.model != nullptr);
    CHECK_EQ(loaded.model->draft_levels(), static_cast<int>(n_levels));
    CHECK_EQ(loaded.model->allocated().total(), loaded.model->memory().total());
    Fed sequence(*loaded.model, 0, 2);
    sequence.feed({tokens.begin(), tokens.end() - 1}, piece);
    std::vector<int32_t> text = tokens;
    // `before` contains, for each position, the hidden state that the level reads together with the next token.
    // `inputs` contains the level's input for each token.
    Rows before = hidden, inputs;
    for (uint32_t depth = 0; depth < n_levels + 2; ++depth) {
      const std::string block = block_name(3 + std::min(depth, n_levels - 1));
      if (depth < n_levels) {
        inputs.clear();
        for (size_t j = 0; j < text.size(); ++j)
          inputs.push_back(input(block, text[j], j > 0 ? before[j - 1] : Row(kEmbd)));
      } else {
        inputs.push_back(input(block, text.back(), before.back()));
      }
      before = normed(net, block + "nextn.shared_head_norm", layer(block, inputs));
      const Row expected = net.times(block + "nextn.shared_head_head", before.back());
      const std::vector<float> drafted = sequence.draft(text.back(), static_cast<int>(depth));
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(expected[i] - double{drafted[i]}));
      if (!(worst < 1e-3))
        check::fail(__FILE__, __LINE__,
                    std::to_string(n_levels) + " levels, chunks of " + std::to_string(piece) + ", guess " +
                        std::to_string(depth) + " is off by " + std::to_string(worst));
      text.push_back(static_cast<int32_t>(std::max_element(drafted.begin(), drafted.end()) - drafted.begin()));
    }
  }
}

TEST(mtp_layer_matches_the_float64_network) { check_levels(1); }
TEST(consecutive_mtp_layers_match_the_float64_network) {
  check_levels(2);
  check_levels(3);
}

// Tests a file that does not declare an MTP layer, and a file that lacks some tensors of its MTP layer.
TEST(mtp_layer_needs_all_its_tensors) {
  const auto load = [](const TinyModel& model) {
    const ParsedModel parsed(model);
    auto backend = make_cpu_backend({.threads = 1});
    return Transformer::load(*parsed.file, **backend, draft_limits(true), {});
  };
  Case glm = glm4moe(true);
  auto lacking = load(glm.model);
  REQUIRE(!lacking.ok());
  CHECK(lacking.error().message.find("tensor 'blk.3.nextn.enorm.weight' is missing") != std::string::npos);
  glm.model.tensors.erase("blk.3.nextn.eh_proj.weight");  // The file declares an MTP layer but does not contain it.
  auto without = load(glm.model);
  REQUIRE(without.ok());
  CHECK(!(*without)->drafts());
  CHECK((*without)->memory().draft_weight_bytes == 0);
}

}  // namespace
}  // namespace monolith::testing
