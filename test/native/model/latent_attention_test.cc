// Tests MLA in every form that occurs in files: separate key and value matrices per head, a joint matrix, and the key
// names of older files. Some sizes do not fill a matrix's panels. The reference network in float64 computes the keys
// and values of each head from the latents. Unlike the engine, it does not absorb the key matrices into the queries.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "model/architecture_cases.h"
#include "support/golden.h"
#include "support/network_run.h"

namespace monolith {
namespace {

using namespace testing;

constexpr uint32_t kRank = 24, kShared = 8, kOwn = 12, kValue = 20, kLowRank = 28;
constexpr uint32_t kHeads = TinyModel::kHeads;

enum class Form { kSplit, kUnsplit, kOldKeys };

TinyModel latent_model(Form form, bool low_rank, bool grows) {
  TinyModel model("deepseek2");
  put_experts(model, kExpertFf, 1);
  model.key("expert_weights_norm", true);
  model.key("attention.kv_lora_rank", kRank);
  model.key("rope.dimension_count", kShared);
  const bool old_keys = form == Form::kOldKeys;
  model.key("attention.head_count_kv", old_keys ? kHeads : 1u);
  model.key("attention.key_length", old_keys ? kOwn + kShared : kRank + kShared);
  model.key("attention.value_length", old_keys ? kValue : kRank);
  if (!old_keys) {
    model.key("attention.key_length_mla", kOwn + kShared);
    model.key("attention.value_length_mla", kValue);
  }
  if (low_rank) model.key("attention.q_lora_rank", kLowRank);
  if (grows) {
    model.key("attention.temperature_scale", 0.4f);
    model.key("attention.temperature_length", 7u);
  }
  for_blocks(model, [&](const std::string& block) {
    model.tensors.erase(block + "attn_k.weight");
    model.tensors.erase(block + "attn_v.weight");
    model.matrix(block + "attn_q.weight", kHeads * (kOwn + kShared), kEmbd);
    if (low_rank) {
      model.tensors.erase(block + "attn_q.weight");
      model.matrix(block + "attn_q_a.weight", kLowRank, kEmbd);
      model.norm(block + "attn_q_a_norm.weight", kLowRank);
      model.matrix(block + "attn_q_b.weight", kHeads * (kOwn + kShared), kLowRank);
    }
    model.matrix(block + "attn_kv_a_mqa.weight", kRank + kShared, kEmbd);
    model.norm(block + "attn_kv_a_norm.weight", kRank);
    model.matrix(block + "attn_kv_b.weight", kHeads * (kOwn + kValue), kRank);
    model.matrix(block + "attn_output.weight", kEmbd, kHeads * kValue);
    if (form != Form::kSplit) return;
    const std::vector<float> both = model.floats(block + "attn_kv_b.weight");
    TinyModel::Tensor keys{{kOwn, kRank, kHeads}}, values{{kRank, kValue, kHeads}};
    for (uint32_t head = 0; head < kHeads; ++head) {
      const auto at = [&](uint32_t row, uint32_t i) { return both[(head * (kOwn + kValue) + row) * kRank + i]; };
      for (uint32_t i = 0; i < kRank; ++i)
        for (uint32_t row = 0; row < kOwn; ++row) put(keys.data, at(row, i));
      for (uint32_t row = kOwn; row < kOwn + kValue; ++row)
        for (uint32_t i = 0; i < kRank; ++i) put(values.data, at(row, i));
    }
    model.tensors[block + "attn_k_b.weight"] = keys;
    model.tensors[block + "attn_v_b.weight"] = values;
    model.tensors.erase(block + "attn_kv_b.weight");
  });
  return model;
}

void turn(double* x, size_t position) {
  for (uint32_t i = 0; i < kShared / 2; ++i) {
    const double angle = double(position) * std::pow(10000.0, -2.0 * i / kShared), c = std::cos(angle),
                 s = std::sin(angle);
    const double a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c - b * s;
    x[2 * i + 1] = a * s + b * c;
  }
}

Rows attend(const P& net, const std::string& block, const Rows& h, bool low_rank, bool grows) {
  Rows out;
  std::vector<Rows> keys, values;  // Indexed by [position][head].
  for (size_t position = 0; position < h.size(); ++position) {
    const Row row = net.times(block + "attn_kv_a_mqa", h[position]);
    Row shared(row.begin() + kRank, row.end());
    turn(shared.data(), position);
    const Row both =
        net.times(block + "attn_kv_b", net.norm(block + "attn_kv_a_norm", Row(row.begin(), row.begin() + kRank)));
    keys.emplace_back();
    values.emplace_back();
    for (uint32_t head = 0; head < kHeads; ++head) {
      const auto from = both.begin() + head * (kOwn + kValue);
      Row key(from, from + kOwn);
      key.insert(key.end(), shared.begin(), shared.end());
      keys.back().push_back(key);
      values.back().emplace_back(from + kOwn, from + kOwn + kValue);
    }
    const Row q = low_rank ? net.times(block + "attn_q_b",
                                       net.norm(block + "attn_q_a_norm", net.times(block + "attn_q_a", h[position])))
                           : net.times(block + "attn_q", h[position]);
    const double growth = grows ? 1 + 0.4f * std::log(1.0 + position / 7) : 1;
    Row attended;
    for (uint32_t head = 0; head < kHeads; ++head) {
      Row query(q.begin() + head * (kOwn + kShared), q.begin() + (head + 1) * (kOwn + kShared)), weights;
      turn(query.data() + kOwn, position);
      double sum = 0;
      for (size_t p = 0; p <= position; ++p) {
        double score = 0;
        for (size_t i = 0; i < query.size(); ++i) score += query[i] * keys[p][head][i];
        weights.push_back(std::exp(growth * score / std::sqrt(double(kOwn + kShared))));
        sum += weights.back();
      }
      Row result(kValue);
      for (size_t p = 0; p <= position; ++p)
        for (size_t i = 0; i < kValue; ++i) result[i] += weights[p] / sum * values[p][head][i];
      attended.insert(attended.end(), result.begin(), result.end());
    }
    out.push_back(net.times(block + "attn_output", attended));
  }
  return out;
}

}  // namespace

TEST(mla_of_every_form_matches_its_float64_network) {
  const Tokens tokens = some_tokens(37);
  for (const bool low_rank : {false, true})
    for (const bool grows : {false, true}) {
      const TinyModel whole = latent_model(Form::kUnsplit, low_rank, grows);
      const P net(whole);
      const Rows expected = logits_of(
          net,
          pre_norm_layers(
              net, tokens, 2,
              [&](uint32_t, const std::string& block, const Rows& h) { return attend(net, block, h, low_rank, grows); },
              [&](const std::string& block, const Row& row) {
                return block == "blk.0." ? gated_mlp(net, block, row) : net.mixture(block, row, kExpertFf, kUsed, true);
              }));
      std::vector<float> first;
      for (const Form form : {Form::kSplit, Form::kUnsplit, Form::kOldKeys})
        for (const CpuIsa isa : available_cpu_isas()) {
          const ParsedModel parsed(latent_model(form, low_rank, grows));
          REQUIRE(parsed.file != nullptr);
          const Loaded loaded =
              load_network(*parsed.file, {.threads = 2, .isa = cpu_isa_name(isa), .arithmetic = Arithmetic::kExact});
          REQUIRE(loaded.model != nullptr);
          CHECK_EQ(loaded.model->memory().total(), loaded.model->allocated().total());
          CHECK_EQ(loaded.model->memory().weight_bytes, loaded.model->allocated().weight_bytes);
          const std::vector<float> logits = run_network(*loaded.model, tokens, form == Form::kSplit ? 37 : 5);
          if (first.empty()) first = logits;
          const std::string what = "form " + std::to_string(int(form)) + (low_rank ? ", low rank" : "") + " on " +
                                   std::string(cpu_isa_name(isa));
          if (std::memcmp(first.data(), logits.data(), logits.size() * sizeof(float)) != 0)
            check::fail(__FILE__, __LINE__, "different bits: " + what);
          double worst = 0;
          for (size_t row = 0; row < expected.size(); ++row) {
            const std::span<const float> ours(logits.data() + row * TinyModel::kVocab, TinyModel::kVocab);
            const double deviation = standard_deviation(ours);
            for (size_t i = 0; i < ours.size(); ++i)
              worst = std::max(worst, std::abs(ours[i] - expected[row][i]) / deviation);
          }
          if (!(worst < 2e-5)) check::fail(__FILE__, __LINE__, what + " is off by " + std::to_string(worst));
        }
    }
}

// For each position and layer, a page stores one latent row and nothing per head.
TEST(the_memory_plan_counts_latents) {
  const ParsedModel parsed(latent_model(Form::kSplit, true, false));
  REQUIRE(parsed.file != nullptr);
  auto backend = make_cpu_backend({.threads = 1});
  const auto plan = Model::plan(*parsed.file, **backend, kNetworkLimits);
  REQUIRE(plan.ok());
  CHECK_EQ(plan->page_bytes, size_t{2 * 16 * (kRank + kShared) * 4});  // Latents are F32, with 4 bytes per element.
}

TEST(invalid_mla_tensors_are_named) {
  const auto told = [](const TinyModel& model, const std::string& what) {
    const ParsedModel parsed(model);
    REQUIRE(parsed.file != nullptr);
    auto backend = make_cpu_backend({.threads = 1});
    const auto plan = Model::plan(*parsed.file, **backend, kNetworkLimits);
    if (plan.ok() || plan.error().message.find(what) == std::string::npos)
      check::fail(__FILE__, __LINE__,
                  "expected '" + what + "', told: " + (plan.ok() ? "nothing" : plan.error().message));
  };
  TinyModel model = latent_model(Form::kSplit, true, false);
  model.tensors.erase("blk.1.attn_v_b.weight");
  told(model, "tensor 'blk.1.attn_v_b.weight' is missing");
  model = latent_model(Form::kSplit, true, false);
  model.tensors["blk.0.attn_k_b.weight"].dims[1] += 8;
  model.tensors["blk.0.attn_k_b.weight"].data.clear();
  told(model, "tensor 'blk.0.attn_k_b.weight' has shape [12, 32, 4], expected [12, 24, 4]");
  model = latent_model(Form::kUnsplit, true, false);
  model.tensors["blk.1.attn_kv_b.weight"].dims[1] += 1;
  told(model, "'blk.1.attn_kv_b.weight' has shape");
  model = latent_model(Form::kSplit, true, false);
  model.key("rope.dimension_count", kOwn + kShared);
  told(model, "'deepseek2.rope.dimension_count' is 20");
  model = latent_model(Form::kSplit, true, true);
  model.keys.erase("deepseek2.attention.temperature_length");
  told(model, "'deepseek2.attention.temperature_length'");
  model = latent_model(Form::kSplit, true, false);
  model.key("attention.indexer.top_k", 4u);
  told(model, "a sparse attention indexer");
}

}  // namespace monolith
