#include "support/network_run.h"

namespace monolith::testing {

std::vector<int32_t> some_tokens(int n) {
  std::vector<int32_t> tokens;
  uint32_t state = 7;
  for (int i = 0; i < n; ++i) {
    state = state * 1664525 + 1013904223;
    tokens.push_back(static_cast<int32_t>((state >> 16) % TinyModel::kVocab));
  }
  return tokens;
}

Loaded load_network(const GgufFile& file, Result<std::unique_ptr<Backend>> backend, const ModelLimits& limits) {
  const auto failed = [&](const Error& error) {
    check::fail(__FILE__, __LINE__,
                std::string(file.string("general.architecture")->value_or("")) + ": " + error.message);
    return Loaded{};
  };
  if (!backend) return failed(backend.error());
  auto model = Transformer::load(file, **backend, limits, {});
  if (!model) return failed(model.error());
  return {std::move(*backend), std::move(*model)};
}

Loaded load_network(const GgufFile& file, const CpuBackendOptions& options) {
  return load_network(file, make_cpu_backend(options));
}

std::vector<float> run_network(Transformer& model, const std::vector<int32_t>& tokens, int piece, int first) {
  const std::vector<int32_t> pages = {4, 1, 3, 0, 5, 2};
  std::vector<float> all;
  int32_t slot = kNoSlot;
  for (int at = 0, n = 0; at < static_cast<int>(tokens.size()); at += n) {
    n = std::min(at == 0 && first > 0 ? first : piece, static_cast<int>(tokens.size()) - at);
    const int32_t next = slot == 2 ? 5 : 2;
    const Segment segment = {0, n, at, pages.data(), slot, next};
    slot = next;
    std::vector<int32_t> rows(static_cast<size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    const std::span<const int32_t> fed(tokens.data() + at, static_cast<size_t>(n));
    const float* logits = model.forward({fed, {&segment, 1}, rows});
    all.insert(all.end(), logits, logits + n * model.params().n_vocab);
  }
  return all;
}

}  // namespace monolith::testing
