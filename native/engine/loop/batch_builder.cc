#include "engine/loop/batch_builder.h"

#include <algorithm>

#include "backend/kv_cache.h"
#include "engine/adapters/adapter_set.h"
#include "engine/inputs.h"

namespace monolith {
namespace {

// Returns the rotary position of `position` in a sequence with these spans, which must be in ascending order.
RopePosition rope_position_at(std::span<const InputSpan> spans, int position) {
  const auto after = std::ranges::partition_point(spans, [&](const InputSpan& span) { return span.first <= position; });
  if (after == spans.begin()) return {position, position, position};
  const InputSpan& span = *(after - 1);
  if (position >= span.end() || !span.rope_offsets) {
    // A span without rotary offsets advances like text, so its mrope_delta also applies inside it.
    const int count = position - span.mrope_delta;
    return {count, count, count};
  }
  const int begin = span.first - (span.mrope_delta - (span.n_rows - span.n_rope_positions));
  const RopePosition& offset = (*span.rope_offsets)[static_cast<size_t>(position - span.first)];
  return {begin + offset.time, begin + offset.height, begin + offset.width};
}

}  // namespace

BatchBuilder::BatchBuilder(const ModelLimits& limits, int n_tables, bool uses_mrope)
    : n_tables_(n_tables), turns_by_three_(uses_mrope) {
  const auto rows = static_cast<size_t>(limits.max_batch_tokens);
  tokens_.reserve(rows);
  logit_rows_.reserve(static_cast<size_t>(limits.max_logit_rows));
  segments_.reserve(rows * static_cast<size_t>(n_tables));
  owners_.reserve(rows);
  embedded_.reserve(rows);
  adapters_.reserve(rows);
  if (uses_mrope) rope_positions_.reserve(rows);
}

Batch BatchBuilder::build(const StepPlan& plan, bool logits_stay_on_backend) {
  tokens_.clear();
  segments_.clear();
  owners_.clear();
  logit_rows_.clear();
  rope_positions_.clear();
  embedded_.clear();
  adapters_.clear();
  prompt_rows_ = 0;
  for (const StepPlan::Item& item : plan.items) {
    const Sequence& sequence = sequence_of(*item.sequence);
    const auto first_row = static_cast<int>(tokens_.size());
    const auto first = sequence.tokens.begin() + sequence.kv.n_computed;
    tokens_.insert(tokens_.end(), first, first + item.n_tokens);
    if (item.n_drafts > 0) {
      const std::span<const TokenId> drafts = sequence.drafts->last(item.n_drafts);
      tokens_.insert(tokens_.end(), drafts.begin(), drafts.end());
    }
    add_embedded(sequence, item.n_tokens, first_row);
    add_segments(plan, item, first_row);
    if (const auto& use = sequence.request.params.adapter_use)
      adapters_.push_back({first_row, item.n_tokens + item.n_drafts, use->adapter()});
    for (int i = 0; i < item.n_scored; ++i) logit_rows_.push_back(first_row + item.first_scored + i);
    for (int i = 0; item.wants_logits && i <= item.n_drafts; ++i)
      logit_rows_.push_back(first_row + item.n_tokens - 1 + i);
    if (!sequence.decoding()) prompt_rows_ += static_cast<uint64_t>(item.n_tokens);
  }
  const size_t of_table = segments_.size();
  for (int table = 1; table < n_tables_; ++table) {
    for (size_t i = 0; i < of_table; ++i) {
      segments_.push_back(segments_[i]);
      segments_.back().pages = owners_[i]->table(table);
    }
  }
  return {.tokens = tokens_,
          .segments = segments_,
          .logit_rows = logit_rows_,
          .leaves_logits = logits_stay_on_backend,
          .adapters = adapters_,
          .embedded = embedded_};
}

// Adds the embedding rows among the next `n_tokens` positions. The placeholder tokens become token 0, because models
// with per-layer token embeddings (PerLayerInputs) were trained with token 0 at these positions.
void BatchBuilder::add_embedded(const Sequence& sequence, int n_tokens, int row) {
  const std::span<const InputSpan> spans = sequence.request.params.spans;
  const int begin = sequence.kv.n_computed, end = begin + n_tokens;
  for (const InputSpan* span = span_from(spans, begin);
       span && span != spans.data() + spans.size() && span->first < end; ++span) {
    const int from = std::max(begin, span->first), n = std::min(end, span->end()) - from;
    const auto width = static_cast<int64_t>(span->rows->size()) / span->n_rows;
    embedded_.push_back({row + from - begin, n, span->rows->data() + (from - span->first) * width});
    std::fill_n(tokens_.begin() + row + from - begin, n, 0);
  }
}

// Adds one segment or, for models with recurrent state, one segment per state slot.
void BatchBuilder::add_segments(const StepPlan& plan, const StepPlan::Item& item, int row) {
  const Sequence& sequence = sequence_of(*item.sequence);
  int position = sequence.kv.n_computed;
  const auto add = [&](int n_tokens, SlotId from, SlotId to) {
    add_segment(sequence, {row, n_tokens, position, sequence.table(0), from, to});
    row += n_tokens;
    position += n_tokens;
  };
  if (item.n_chunks == 0) return add(item.n_tokens + item.n_drafts, kNoSlot, kNoSlot);
  for (const StepPlan::Chunk& chunk : plan.chunks_of(item)) add(chunk.n_tokens, chunk.from, chunk.to);
  if (item.n_drafts > 0) add(item.n_drafts, segments_.back().state_to, sequence.kv.draft_slot);
}

// Splits the segment at the boundaries of bidirectional spans. Each span is computed in one step.
void BatchBuilder::add_segment(const Sequence& sequence, Segment segment) {
  const std::span<const InputSpan> spans = sequence.request.params.spans;
  const auto push = [&](int n_tokens, int seen_end) {
    if (n_tokens == 0) return;
    Segment part = segment;
    part.n_tokens = n_tokens;
    part.seen_end = seen_end;
    if (turns_by_three_ && !spans.empty()) {
      part.rope_positions = rope_positions_.data() + rope_positions_.size();
      for (int i = 0; i < n_tokens; ++i) rope_positions_.push_back(rope_position_at(spans, part.first_position + i));
    }
    segments_.push_back(part);
    owners_.push_back(&sequence);
    segment.first_row += n_tokens;
    segment.first_position += n_tokens;
    segment.n_tokens -= n_tokens;
    segment.state_from = segment.state_to;  // The next part continues from the state that this part has written.
  };
  for (const InputSpan& span : spans) {
    if (!span.bidirectional || span.end() <= segment.first_position) continue;
    if (segment.n_tokens == 0 || span.first >= segment.first_position + segment.n_tokens) break;
    push(std::max(span.first - segment.first_position, 0), 0);
    push(std::min(span.end() - segment.first_position, segment.n_tokens), span.end());
  }
  push(segment.n_tokens, 0);
}

}  // namespace monolith
