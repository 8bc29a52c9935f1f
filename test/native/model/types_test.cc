// Tests a model with weights of every tensor type. In exact arithmetic, the results are bit-identical to the results
// with the dequantized weights in F32. In production arithmetic, the results are close to these, and the same with
// every instruction set.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matrix_data.h"
#include "backend/forwarding_backend.h"
#include "check.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/tiny_model.h"

namespace monolith {
namespace {

using namespace testing;

constexpr int kTokens = 21;

// All matrices have rows of 256 values, so that every type fits. They contain random blocks of `type` or, if `decoded`
// is set, the dequantized values in F32.
TinyModel model_of(TensorType type, bool decoded) {
  TinyModel model;
  model.key("embedding_length", 256u);
  model.key("feed_forward_length", 256u);
  uint64_t seed = 1;
  for (auto& [name, tensor] : model.tensors) {
    if (tensor.dims.size() == 1) {
      tensor.dims = {256};
      continue;
    }
    const bool of_tokens = tensor.dims[1] == TinyModel::kVocab, of_keys = tensor.dims[1] == 32;
    const int64_t rows = of_tokens ? TinyModel::kVocab : of_keys ? 128 : 256;
    tensor.dims = {256, static_cast<uint64_t>(rows)};
    const auto blocks = matrix_data(type, rows, 256, seed++, 0.125f);
    tensor.type = decoded ? TensorType::kF32 : type;
    tensor.data.resize(decoded ? static_cast<size_t>(rows) * 256 * sizeof(float) : blocks.size());
    if (decoded) {
      std::vector<float> values(static_cast<size_t>(rows) * 256);
      dequantize(type, blocks.data(), rows * 256, values.data());
      std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
    } else {
      std::memcpy(tensor.data.data(), blocks.data(), blocks.size());
    }
  }
  return model;
}

// Returns the logits of all tokens in one step. If the model cannot be loaded, fails the test and returns an empty
// vector.
std::vector<float> logits_of(const TinyModel& model, const CpuBackendOptions& options) {
  const ParsedModel parsed(model);
  auto backend = make_cpu_backend(options);
  if (!parsed.file || !backend) {
    check::fail(__FILE__, __LINE__, parsed.error);
    return {};
  }
  const ModelLimits limits = {
      .max_batch_tokens = 24, .max_logit_rows = 24, .max_context = 96, .n_pages = 6, .kv_type = KvType::kF32};
  const auto loaded = Transformer::load(*parsed.file, **backend, limits, {});
  if (!loaded) {
    check::fail(__FILE__, __LINE__, loaded.error().message);
    return {};
  }
  std::vector<int32_t> tokens, rows(kTokens), pages = {3, 0, 5, 1, 2, 4};
  std::iota(rows.begin(), rows.end(), 0);
  for (int i = 0; i < kTokens; ++i) tokens.push_back(i * 17 % static_cast<int>(TinyModel::kVocab));
  const Segment segment{0, kTokens, 0, pages.data()};
  const float* logits = (*loaded)->forward({tokens, {&segment, 1}, rows});
  return {logits, logits + kTokens * TinyModel::kVocab};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

// If a device does not support a type, both planning and loading fail with an error that names the tensor, before
// anything is stored.
TEST(unsupported_tensor_types_are_rejected_by_name) {
  class Without : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    Status supports(const Requirement& requirement) const override {
      const auto* const type = std::get_if<TensorType>(&requirement);
      return type && *type == TensorType::kIQ2_XS ? unsupported(*type) : ForwardingBackend::supports(requirement);
    }
  };
  const ParsedModel parsed(model_of(TensorType::kIQ2_XS, false));
  const auto inner = make_cpu_backend({.threads = 1});
  REQUIRE(parsed.file && inner.ok());
  Without backend(**inner);
  const ModelLimits limits = {.max_batch_tokens = 8, .max_logit_rows = 8, .max_context = 32, .n_pages = 2};
  const auto loaded = Transformer::load(*parsed.file, backend, limits, {});
  const auto planned = Model::plan(*parsed.file, backend, limits);
  REQUIRE(!loaded.ok() && !planned.ok());
  for (const Error& error : {loaded.error(), planned.error()}) {
    CHECK(error.code == ErrorCode::kUnsupported);
    CHECK(error.message.starts_with(
        "tensor 'token_embd.weight' has type IQ2_XS, which is only supported on the CPU, but the device is "));
  }
}

TEST(every_type_matches_its_decoded_weights) {
  for (const TensorType type : kAllTypes) {
    if (traits_of(type).block_values == 1) continue;
    const std::string name(traits_of(type).name);
    const TinyModel model = model_of(type, false);
    const auto exact = logits_of(model, {.threads = 1, .arithmetic = Arithmetic::kExact});
    const auto decoded = logits_of(model_of(type, true), {.threads = 1, .arithmetic = Arithmetic::kExact});
    REQUIRE(!exact.empty());
    if (!same_bits(exact, decoded)) check::fail(__FILE__, __LINE__, name + ": different bits than in F32");
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas()) {
      const auto logits = logits_of(model, {.threads = 2, .isa = cpu_isa_name(isa)});
      REQUIRE(logits.size() == exact.size());
      if (first.empty()) first = logits;
      if (!same_bits(first, logits))
        check::fail(__FILE__, __LINE__, name + ": different bits on " + std::string(cpu_isa_name(isa)));
    }
    const Distance d = distance(first, exact, {});
    check::note(name + ": rms " + std::to_string(d.rms) + ", max " + std::to_string(d.max));
    CHECK(d.rms > 0 && d.rms < 0.03 && d.max < 0.15);
  }
}

}  // namespace monolith
