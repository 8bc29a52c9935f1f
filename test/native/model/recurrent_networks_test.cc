// Tests recurrent models in production arithmetic. Results are close to a network in float64, and bit-identical for any
// chunk size, including single tokens.
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "check.h"
#include "formats/gguf/quantize.h"
#include "model/recurrent_cases.h"
#include "support/golden.h"
#include "support/network_run.h"

namespace monolith {
namespace {

using namespace testing;

constexpr int kTokens = 37;

// Converts all matrices whose rows consist of whole blocks. Convolution kernels, decay rates and routers keep their
// type.
void retype(TinyModel& model, TensorType type) {
  for (auto& [name, tensor] : model.tensors) {
    const auto block = static_cast<uint64_t>(traits_of(type).block_values);
    if (tensor.dims.size() < 2 || tensor.dims[0] < 32 || tensor.dims[0] % block != 0 ||
        name.find("_inp") != std::string::npos || name.find("norm") != std::string::npos ||
        name.find("_lerp") != std::string::npos || name.ends_with("time_mix_first.weight"))
      continue;
    const std::vector<float> values = model.floats(name);
    tensor.data.resize(values.size() / block * static_cast<uint64_t>(traits_of(type).block_bytes));
    quantize(type, values.data(), static_cast<int64_t>(values.size()), tensor.data.data());
    tensor.type = type;
  }
}

// The largest error of any logit and the root mean square error over all logits, in standard deviations.
struct Off {
  double most = 0, mean = 0;
};
Off off(const std::vector<float>& logits, const Rows& expected) {
  Off off;
  for (size_t row = 0; row < expected.size(); ++row) {
    const std::span<const float> own(logits.data() + row * TinyModel::kVocab, TinyModel::kVocab);
    const double deviation = standard_deviation(own);
    for (size_t i = 0; i < own.size(); ++i) {
      const double distance = std::abs(own[i] - expected[row][i]) / deviation;
      off.most = std::isfinite(distance) ? std::max(off.most, distance) : INFINITY;
      off.mean += distance * distance;
    }
  }
  off.mean = std::sqrt(off.mean / static_cast<double>(logits.size()));
  return off;
}

// A weight type used in production, with KV pages in binary16, and the allowed deviation from arithmetic without
// rounding.
struct Served {
  const char* name;
  TensorType type;
  Off within;
};
constexpr Served kServed[] = {{"F32", TensorType::kF32, {0.004, 0.001}}, {"Q8_0", TensorType::kQ8_0, {0.4, 0.06}}};

std::unique_ptr<Transformer> load(const ParsedModel& parsed, std::unique_ptr<Backend>& backend) {
  ModelLimits limits = kNetworkLimits;
  limits.kv_type = KvType::kF16;
  Loaded loaded = load_network(*parsed.file, make_cpu_backend({.threads = 2}), limits);
  backend = std::move(loaded.backend);
  return std::move(loaded.model);
}

}  // namespace

TEST(recurrent_models_are_close_to_their_float64_networks) {
  const Tokens tokens = some_tokens(kTokens);
  for (const Served& served : kServed) {
    for (Case one : recurrent_cases()) {
      // With 8-bit weights, a token may be routed to different experts. The difference is then larger than a rounding
      // error.
      if (served.type != TensorType::kF32 && one.model.tensors.contains("blk.2.ffn_gate_inp.weight")) continue;
      if (served.type != TensorType::kF32) retype(one.model, served.type);
      const ParsedModel parsed(one.model);
      REQUIRE(parsed.file != nullptr);
      std::unique_ptr<Backend> backend;
      const auto model = load(parsed, backend);
      REQUIRE(model != nullptr);
      const std::vector<float> whole = run_network(*model, tokens, kTokens);
      const Off found = off(whole, one.network(P(one.model), tokens));
      const std::string what = one.name + " in " + served.name;
      check::note(what + ": " + std::to_string(found.most) + ", root mean square " + std::to_string(found.mean));
      if (!(found.most < served.within.most && found.mean < served.within.mean))
        check::fail(__FILE__, __LINE__, what + " is off by " + std::to_string(found.most));
      const auto same = [&](int first, int piece) {
        const std::vector<float> cut = run_network(*model, tokens, piece, first);
        if (std::memcmp(cut.data(), whole.data(), whole.size() * sizeof(float)) != 0)
          check::fail(__FILE__, __LINE__,
                      what + ": different bits, " + std::to_string(first) + " tokens and then " +
                          std::to_string(piece) + " at a time");
      };
      for (int first = 1; first < kTokens; ++first) same(first, kTokens);
      for (const int piece : {1, 2, 5, 16}) same(0, piece);
      same(11, 1);  // As in production: a prompt, then single tokens.
    }
  }
}

}  // namespace monolith
