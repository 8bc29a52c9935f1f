// Tests scale tensors that accompany matrices ("x.scale" for "x.weight"). Matrix products are multiplied by the scales,
// regardless of the type, the layer and the number of matrices. If a backend does not support scales, the weights are
// multiplied by them instead. Invalid scales are rejected with an error that names them.
#include "check.h"
#include "model/all_cases.h"
#include "backend/forwarding_backend.h"
#include "support/drafting_model.h"
#include "support/network_run.h"

namespace monolith::testing {
namespace {

constexpr int kTokens = 19;

std::string stem_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

// Whether a weight is two-dimensional but not a matrix: convolution kernels, group norms and RWKV's vectors.
bool is_of_channels(const std::string& name) {
  return name.find("conv1d") != std::string::npos || name.ends_with(".conv.weight") || name.ends_with("norm.weight") ||
         name.ends_with("time_mix_first.weight") || name.ends_with("time_mix_lerp_fused.weight");
}

// Whether no layer reads the weight: RWKV 7's files contain value residuals for the first layer, which has none.
bool is_unread(const std::string& name) {
  return name == "blk.0.time_mix_v1.weight" || name == "blk.0.time_mix_v2.weight";
}

// Returns the file with its matrices divided by powers of two. The powers of two are stored as scale tensors. If a
// tensor contains several matrices, each matrix has its own scale.
LooseModel scaled(const GgufFile& file) {
  LooseModel model(file);
  std::map<std::string, LooseModel::Tensor> matrices;
  for (const auto& [name, tensor] : model.tensors)
    if (tensor.dims.size() >= 2 && name.ends_with(".weight") && !is_of_channels(name) && !is_unread(name))
      matrices[name] = tensor;
  int seed = 0;
  for (const auto& [name, tensor] : matrices) {
    const uint64_t count = tensor.dims.size() > 2 && seed % 2 == 0 ? tensor.dims[2] : 1;
    std::vector<float> values = model.floats(name), scales;
    for (uint64_t i = 0; i < count; ++i) scales.push_back(std::ldexp(1.0f, ++seed % 7 - 3));
    for (size_t i = 0; i < values.size(); ++i) values[i] /= scales[i / (values.size() / count)];
    model.put_floats(name, tensor.dims, values);
    model.put_floats(stem_of(name) + ".scale", {count}, scales);
    model.put_floats(stem_of(name) + ".input_scale", {1}, {3.0f});  // Input scales have no effect.
  }
  return model;
}

class WithoutFactors : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Status supports(const Requirement& requirement) const override {
    const auto* const feature = std::get_if<MemoryFeature>(&requirement);
    return feature && *feature == MemoryFeature::kRowFactors ? unsupported(*feature)
                                                             : ForwardingBackend::supports(requirement);
  }
  Result<std::unique_ptr<Matrix>> matrix(const MatrixSource& source) override {
    if (!source.factors.empty()) check::fail(__FILE__, __LINE__, "scales were not applied to the weights");
    return ForwardingBackend::matrix(source);
  }
};

std::vector<float> logits_of(const GgufFile& file, bool with_factors) {
  const auto inner = make_cpu_backend({.threads = 2, .arithmetic = Arithmetic::kExact});
  if (!inner) return {};
  WithoutFactors without(**inner);
  auto model = Transformer::load(file, with_factors ? **inner : static_cast<Backend&>(without), kNetworkLimits, {});
  if (!model) {
    check::fail(__FILE__, __LINE__, model.error().message);
    return {};
  }
  CHECK_EQ((*model)->allocated().total(), (*model)->memory().total());
  return run_network(**model, some_tokens(kTokens), 7);
}

std::string refusal_of(const LooseModel& model) {
  const Bytes image = model.build();
  const auto file = GgufFile::parse(image);
  const auto backend = make_cpu_backend({.threads = 1});
  if (!file || !backend) return {};
  const auto loaded = Transformer::load(**file, **backend, kNetworkLimits, {});
  return loaded ? "" : loaded.error().message;
}

}  // namespace

TEST(scale_tensors_multiply_matmul_results) {
  for (const Case& one : all_cases()) {
    const ParsedModel parsed(one.model);
    REQUIRE(parsed.file != nullptr);
    const Bytes image = scaled(*parsed.file).build();
    const auto file = GgufFile::parse(image);
    REQUIRE(file.ok());
    const std::vector<float> expected = logits_of(*parsed.file, true);
    for (const bool with_factors : {true, false})
      if (expected.empty() || logits_of(**file, with_factors) != expected)
        check::fail(__FILE__, __LINE__,
                    one.model.architecture +
                        (with_factors ? ": other logits" : ": other logits from weights that were multiplied"));
  }
}

TEST(invalid_scale_tensors_are_named) {
  const Case mixture = qwen3moe();
  const ParsedModel parsed(mixture.model);
  REQUIRE(parsed.file != nullptr);
  const auto with = [&](const std::string& name, const std::vector<float>& values) {
    LooseModel model(*parsed.file);
    model.put_floats(name, {values.size()}, values);
    return refusal_of(model);
  };
  const auto says = [](const std::string& message, const std::string& part) {
    if (message.find(part) == std::string::npos)
      check::fail(__FILE__, __LINE__, "'" + message + "' does not contain '" + part + "'");
  };
  CHECK(with("blk.0.attn_q.scale", {2.0f}).empty());
  says(with("blk.0.attn_q.scale", {1.0f, 2.0f}),
       "tensor 'blk.0.attn_q.scale' [2] of F32 must be one number, or one for each matrix of 'blk.0.attn_q.weight'");
  says(with("blk.0.ffn_up_exps.scale", {1.0f, 2.0f}), "tensor 'blk.0.ffn_up_exps.scale' [2] of F32 must be one number");
  says(with("blk.0.attn_q.scale", {std::nanf("")}), "tensor 'blk.0.attn_q.scale' contains a value that is not finite");
  says(with("blk.0.attn_norm.scale", {2.0f}), "tensor 'blk.0.attn_norm.scale' [1] is not known");
  says(with("blk.0.attn_norm.input_scale", {2.0f}), "is not known");
  says(with("blk.7.attn_q.scale", {2.0f}), "is not known");
}

}  // namespace monolith::testing
