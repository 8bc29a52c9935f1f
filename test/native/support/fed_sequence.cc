#include "support/fed_sequence.h"

namespace monolith::testing {

ModelLimits draft_limits(bool drafts) {
  ModelLimits limits{.max_batch_tokens = 40, .max_context = 96, .kv_type = KvType::kF32};
  limits.draft_rows = 3;
  limits.max_logit_rows = 8;
  limits.n_slots = 8;
  limits.n_pages = 64;
  limits.mtp_layer = drafts;
  return limits;
}

Fed::Fed(Model& model, int first_page, int place) : model_(model), place_(place * model.limits().kept_of_each()) {
  for (int i = 0; i < 6 * model.memory().layout.tables(); ++i) pages_.push_back(first_page + i * 7 % 16);
}

std::vector<float> Fed::feed(const std::vector<int32_t>& tokens, int piece) {
  std::vector<float> logits;
  for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(piece)) {
    const int n = std::min(piece, static_cast<int>(tokens.size() - at));
    std::vector<Segment> segments;
    for (int table = 0; table < tables(); ++table)
      segments.push_back({0, n, position_, pages_of(table), slot_from(), slot_to()});
    const HiddenRange run{0, n, position_ > 0 ? place_ : -1, place_, 1};
    const int32_t last = n - 1;
    const float* row = model_.forward({std::span(tokens).subspan(at, static_cast<size_t>(n)),
                                       segments,
                                       {&last, 1},
                                       false,
                                       model_.drafts() ? std::span(&run, 1) : std::span<const HiddenRange>()});
    logits.assign(row, row + model_.params().n_vocab);
    position_ += n;
  }
  return logits;
}

std::vector<float> Fed::draft(int32_t token, int depth) {
  behind_.resize(static_cast<size_t>(depth));
  behind_.push_back(token);
  const int n_rows = depth < model_.draft_levels() ? depth + 1 : 1, first = depth + 1 - n_rows;
  std::vector<int32_t> hidden;
  for (int row = 0; row < n_rows; ++row)
    hidden.push_back(first + row == 0 ? place_ : -1 - (last_row_ - (n_rows - 1 - row)));
  std::vector<Segment> segments;
  for (int table = 0; table < tables(); ++table) segments.push_back({0, n_rows, position_ + first, pages_of(table)});
  const float* row = model_.draft({std::span(behind_).subspan(static_cast<size_t>(first)), segments, hidden, depth});
  last_row_ = n_rows - 1;
  return {row, row + (model_.draft_tokens().empty() ? static_cast<size_t>(model_.params().n_vocab)
                                                    : model_.draft_tokens().size())};
}

}  // namespace monolith::testing
