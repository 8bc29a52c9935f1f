#include "backend/cuda/graph_replays.h"

#include <cstring>
#include <span>
#include <vector>

#include "backend/cpu/machine/isa.h"
#include "backend/cpu/matrix_data.h"
#include "backend/cuda/cuda_backend.h"
#include "check.h"
#include "emulator/runtime_emulated.h"
#include "support/network_run.h"

namespace monolith::testing {

void quantize(TinyModel& model, std::optional<TensorType> type) {
  const TensorType odd = cpu_has_avx512_bf16() ? TensorType::kBF16 : TensorType::kF32;
  uint64_t seed = 0;
  for (auto& [name, tensor] : model.tensors) {
    const bool is_router = name.find("ffn_gate_inp") != std::string::npos;
    if (tensor.dims.size() < 2 || is_router || !name.ends_with(".weight")) continue;
    const auto cols = static_cast<int64_t>(tensor.dims[0]);
    const auto rows = static_cast<int64_t>(tensor.dims[1] * (tensor.dims.size() > 2 ? tensor.dims[2] : 1));
    tensor.type = type                     ? *type
                  : cols % 32 != 0         ? odd
                  : cols % 256 == 0        ? TensorType::kQ4_K
                  : tensor.dims.size() > 2 ? TensorType::kMXFP4
                                           : TensorType::kQ8_0;
    const auto data = matrix_data(tensor.type, rows, cols, ++seed, tensor.scale > 1 ? 2.0f : 0.25f);
    tensor.data.resize(data.size());
    std::memcpy(tensor.data.data(), data.data(), data.size());
  }
}

namespace {

// Returns the logits of consecutive decode steps. Step i decodes one token for each of sizes[i] sequences, all of which
// start without a prompt.
std::vector<float> decode_steps(Transformer& model, std::span<const int> sizes) {
  constexpr int kSequences = 4;
  const std::vector<int32_t> pages = {2, 1, 3, 0};
  const std::vector<int32_t> tokens = some_tokens(kSequences);
  std::vector<int> positions(kSequences, 0);
  std::vector<float> logits;
  for (const int size : sizes) {
    std::vector<int32_t> fed, rows;
    std::vector<Segment> segments;
    for (int i = 0; i < size; ++i) {
      int& position = positions[static_cast<size_t>(i)];
      segments.push_back({i, 1, position, &pages[static_cast<size_t>(i)], position == 0 ? kNoSlot : i, i});
      fed.push_back((tokens[static_cast<size_t>(i)] + 11 * position) % static_cast<int32_t>(TinyModel::kVocab));
      rows.push_back(i);
      ++position;
    }
    const float* const all = model.forward({fed, segments, rows});
    logits.insert(logits.end(), all, all + size * model.params().n_vocab);
  }
  return logits;
}

}  // namespace

void check_replays(const std::string& name, const GgufFile& file, bool exact, bool can_capture) {
  constexpr ModelLimits kLimits{
      .max_batch_tokens = 4, .max_logit_rows = 4, .max_context = 16, .n_pages = 4, .kv_type = KvType::kF32};
  // The steps are the warm-up, the capture and the replay. The last sequence is not part of the captured step. In the
  // replayed step, it attends to two positions, so its queries and keys affect the result.
  constexpr int kSizes[] = {4, 3, 4};
  std::vector<float> logits[2];
  for (const bool recording : {false, true}) {
    const Loaded loaded = load_network(file, make_cuda_backend({.exact = exact, .recording = recording}), kLimits);
    if (loaded.model == nullptr) return;
    int captures = 0;
    cuda::faults().recording = [&](bool) -> std::optional<Error> { return ++captures, std::nullopt; };
    logits[recording ? 1 : 0] = decode_steps(*loaded.model, kSizes);
    cuda::faults() = {};
    const bool emulated = loaded.backend->info().isa.starts_with("emulated");
    if (emulated && captures != (recording && can_capture ? 1 : 0))
      check::fail(__FILE__, __LINE__, name + ": captures: " + std::to_string(captures));
  }
  if (logits[0].size() != logits[1].size() ||
      std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)) != 0)
    check::fail(__FILE__, __LINE__, name + ": different bits with a CUDA graph");
}

}  // namespace monolith::testing
