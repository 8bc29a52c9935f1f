#include "engine/debug/debug_vision_logits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/model.h"

namespace monolith {
namespace {

class VisionSequence {
 public:
  VisionSequence(Model& model, int max_batch)
      : model_(model), max_batch_(max_batch), pages_(static_cast<size_t>(model.limits().n_pages)) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Computes a run of tokens and, if requested, returns the logits after the last one. `rope`: RoPE position of the
  // first token.
  const float* tokens(std::span<const int32_t> tokens, int rope, bool wants_logits) {
    const float* logits = nullptr;
    while (!tokens.empty()) {
      const auto n = std::min(tokens.size(), static_cast<size_t>(max_batch_));
      std::vector<RopePosition> positions;
      for (size_t i = 0; i < n; ++i) positions.push_back({rope, rope, rope}), ++rope;
      logits = feed(tokens.first(n), {}, positions, 0, wants_logits && n == tokens.size());
      tokens = tokens.subspan(n);
    }
    return logits;
  }

  const float* piece(const DebugVisionEntry& entry, int64_t row_width, bool wants_logits) {
    const float* logits = nullptr;
    const int n_rows = entry.piece.n_rows, most = entry.piece.bidirectional ? n_rows : max_batch_;
    const int seen_end = entry.piece.bidirectional ? position_ + n_rows : 0;
    for (int first = 0; first < n_rows; first += most) {
      const int n = std::min(most, n_rows - first);
      const std::vector<int32_t> placeholders(static_cast<size_t>(n), 0);
      std::vector<RopePosition> positions;
      for (int row = first; row < first + n; ++row) {
        const RowPosition at = entry.piece.position(row);
        positions.push_back({entry.position + at.t, entry.position + at.y, entry.position + at.x});
      }
      const EmbeddedRows rows{0, n, entry.embeddings.data() + first * row_width};
      logits = feed(placeholders, {&rows, 1}, positions, seen_end, wants_logits && first + n == n_rows);
    }
    return logits;
  }

 private:
  const float* feed(std::span<const int32_t> tokens, std::span<const EmbeddedRows> embedded,
                    const std::vector<RopePosition>& positions, int seen_end, bool wants_logits) {
    Segment segment{0, static_cast<int>(tokens.size()), position_, pages_.data(), position_ > 0 ? 0 : kNoSlot, 0};
    if (model_.params().uses_mrope()) segment.rope_positions = positions.data();
    segment.seen_end = seen_end;
    position_ += segment.n_tokens;
    const int32_t last = segment.n_tokens - 1;
    return model_.forward({.tokens = tokens,
                           .segments = {&segment, 1},
                           .logit_rows = wants_logits ? std::span<const int32_t>(&last, 1) : std::span<const int32_t>(),
                           .embedded = embedded});
  }

  Model& model_;
  const int max_batch_;
  std::vector<int32_t> pages_;
  int position_ = 0;
};

Result<DebugVisionLogits> compute(const GgufFile& file, Backend& backend, const DebugVisionLogitsOptions& options,
                                  const DebugVision& vision, int continue_tokens) {
  const auto params = HyperParams::read(file);
  if (!params) return params.error();
  const int n_positions = vision.n_tokens + continue_tokens;
  if (n_positions > params->context_length)
    return Error{ErrorCode::kTooLong,
                 std::to_string(vision.n_tokens) + " tokens and " + std::to_string(continue_tokens) +
                     " of continuation exceed the model's context of " + std::to_string(params->context_length)};
  ModelLimits limits;
  limits.max_batch_tokens = options.max_batch_tokens;
  for (const DebugVisionEntry& entry : vision.sequence)
    if (entry.tokens.empty() && entry.piece.bidirectional)
      limits.max_batch_tokens = std::max(limits.max_batch_tokens, entry.piece.n_rows);
  limits.max_logit_rows = 1;
  limits.max_context = n_positions;
  limits.n_pages = (n_positions + kPageTokens - 1) / kPageTokens;
  limits.kv_type = options.kv_type;
  limits.n_slots = 1;
  auto model = Model::load(file, backend, limits, {});
  if (!model) return model.error();

  DebugVisionLogits result;
  VisionSequence sequence(**model, options.max_batch_tokens);
  const float* logits = nullptr;
  for (const DebugVisionEntry& entry : vision.sequence) {
    const bool last = &entry == &vision.sequence.back();
    logits = entry.tokens.empty() ? sequence.piece(entry, vision.row_width, last)
                                  : sequence.tokens(entry.tokens, entry.position, last);
  }
  if (logits == nullptr) return Error{ErrorCode::kInvalidArgument, "the prompt is empty"};
  const auto n_vocab = static_cast<size_t>(params->n_vocab);
  result.logits.assign(logits, logits + n_vocab);
  for (int i = 0;; ++i) {
    const std::span<const float> row(logits, n_vocab);
    if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); }))
      return Error{ErrorCode::kInternal, "a logit " + std::to_string(i) + " tokens after the prompt is not finite"};
    const auto best = std::ranges::max_element(row) - row.begin();
    float second = -INFINITY;
    for (size_t id = 0; id < n_vocab; ++id)
      if (static_cast<std::ptrdiff_t>(id) != best) second = std::max(second, row[id]);
    result.tokens.push_back(static_cast<int32_t>(best));
    result.margins.push_back(row[static_cast<size_t>(best)] - second);
    if (i == continue_tokens - 1) break;
    logits = sequence.tokens({&result.tokens.back(), 1}, vision.next_position + i, true);
  }
  result.last_logits.assign(logits, logits + n_vocab);
  return result;
}

}  // namespace

Result<DebugVisionLogits> debug_vision_logits(const std::string& text_path, Backend& backend,
                                              const DebugVisionLogitsOptions& options, const DebugVision& vision,
                                              int continue_tokens) {
  return read_model_file(text_path, options.file, [&](const GgufFile& file) {
    return compute(file, backend, options, vision, continue_tokens);
  });
}

}  // namespace monolith
