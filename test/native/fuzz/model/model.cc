// Fuzz target: any GGUF file is either rejected as a model with a message, or loads as a model that can be run. The
// input is the file's header. The tensor data is generated, so that the mutator changes only the metadata.
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "fuzz/gguf_mutator.h"
#include "fuzz/target.h"
#include "model/transformer.h"

using namespace monolith;
using namespace monolith::fuzzing;

namespace {

constexpr size_t kFilled = 2 << 20;     // Maximum bytes of tensor data per file: enough for the seeds.
constexpr size_t kMaxMemory = 8 << 20;  // Maximum memory of a model to evaluate, in bytes.

// A GGUF header followed by generated tensor data. The buffer is reused for all inputs, because allocating it for each
// input would take most of the time. The file ends at the buffer's last byte, so that sanitizers detect reads past the
// file's end.
class FilledImage {
 public:
  explicit FilledImage(std::string_view head)
      : head_(head.size()), begin_(kept().size() - (head.size() + kFilled + 63) / 64 * 64) {
    std::memcpy(kept().data() + begin_, head.data(), head.size());
  }
  FilledImage(const FilledImage&) = delete;
  FilledImage& operator=(const FilledImage&) = delete;
  ~FilledImage() { std::memset(kept().data() + begin_, 0x3c, head_); }
  std::span<const std::byte> bytes() const { return std::span(kept()).subspan(begin_); }

 private:
  static std::vector<std::byte>& kept() {
    static std::vector<std::byte> all(kFilled + (1 << 20), std::byte{0x3c});
    return all;
  }
  size_t head_, begin_;
};

ModelLimits limits_of(uint8_t choices) {
  ModelLimits limits;
  limits.max_batch_tokens = 8;
  limits.max_logit_rows = 2;
  limits.max_context = 64;
  limits.n_pages = 64;
  limits.n_slots = 2;
  limits.pages_by_window = choices & 1;
  static constexpr KvType kKvTypes[] = {KvType::kF16, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0};
  limits.kv_type = kKvTypes[(choices >> 1 & 1) | (choices >> 3 & 2)];
  limits.mtp_layer = choices & 4;
  return limits;
}

// Evaluates a prompt of 5 tokens, then one more token.
void compute(Transformer& model, int n_vocab) {
  const int tables = model.memory().layout.tables();
  if (tables * 2 > model.limits().n_pages) return;
  std::vector<int32_t> pages;
  for (int32_t i = 0; i < 2 * tables; ++i) pages.push_back(i);
  int position = 0;
  for (const int n : {5, 1}) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back((position + i) * 7 % n_vocab);
    std::vector<Segment> segments;
    for (int table = 0; table < tables; ++table)
      segments.push_back(
          {0, n, position, pages.data() + 2 * table, position == 0 ? kNoSlot : 0, position == 0 ? 0 : 1});
    const int32_t row = n - 1;
    const float* logits = model.forward({tokens, segments, std::span(&row, 1)});
    volatile float sum = 0;
    for (int i = 0; i < n_vocab; ++i) sum = sum + logits[i];
    position += n;
  }
}

}  // namespace

FUZZ_TARGET(model) {
  const auto [head, choices] = halves(input);
  if (head.size() > 1 << 19) return;
  const FilledImage image(head);
  const auto file = GgufFile::parse(image.bytes());
  if (!file) return;  // The `gguf` fuzz target covers files that the parser rejects.
  const ModelLimits limits = limits_of(choices.empty() ? 0 : static_cast<uint8_t>(choices[0]));
  const auto params = HyperParams::read(**file, limits.max_context, limits.mtp_layer);
  if (!params) return check_refusal(params.error());
  // Each input has its own backend, so that memory reserved for one input is not available to the next.
  const bool plain = choices.empty() || !(choices[0] & 8);
  const auto backend =
      make_cpu_backend({.threads = 1, .isa = plain ? "plain" : "auto", .arithmetic = Arithmetic::kProduction}).value();
  const auto plan = Transformer::plan(**file, *backend, limits);
  if (!plan) return check_refusal(plan.error());
  if (plan->total() > kMaxMemory || params->n_layers > 16) return;
  auto model = Transformer::load(**file, *backend, limits, {});
  if (!model) return check_refusal(model.error());
  insist((*model)->allocated().total() == plan->total(), "loading takes as much memory as planned");
  compute(**model, params->n_vocab);
  ++n_reached();
}

FUZZ_MUTATOR(model) {
  static GgufMutator gguf;
  return mutate_halves(input, gguf, chance);
}
