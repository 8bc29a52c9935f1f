#include "simulation/sim_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine/speculation/speculation.h"

namespace monolith::simulation {

void SimBackend::copy_page(KvCache& cache, int32_t from, int32_t to) {
  if (loses_copies_) return;
  auto& cells = static_cast<SimCache&>(cache).cells;
  std::copy_n(cells.begin() + int64_t{from} * kPageTokens, kPageTokens, cells.begin() + int64_t{to} * kPageTokens);
}

void SimBackend::read_page(const KvCache& cache, int32_t page, std::byte* host_to) {
  std::memcpy(host_to, &static_cast<const SimCache&>(cache).cells[static_cast<size_t>(page) * kPageTokens],
              cache.page_bytes);
}

void SimBackend::write_page(KvCache& cache, int32_t page, const std::byte* host_from) {
  std::memcpy(&static_cast<SimCache&>(cache).cells[static_cast<size_t>(page) * kPageTokens], host_from,
              cache.page_bytes);
}

Status SimBackend::reserve_samples(int n_vocab, int) {
  sampler_ = std::make_unique<Sampler>(n_vocab);
  return {};
}

void SimBackend::sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
  for (size_t i = 0; i < tasks.size(); ++i) sampler_->sample(tasks[i], results[i]);
}

void SimBackend::begin_sample(int, std::span<const SampleTask> tasks) {
  begun_.resize(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) sampler_->sample(tasks[i], begun_[i]);
}

void SimBackend::end_sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) {
  if (tasks.size() != begun_.size())
    throw Violation("number of collected samples differs from the number of started samples");
  std::copy(begun_.begin(), begun_.end(), results.begin());
}

SimModel::SimModel(const Setup& setup, SimBackend& backend) : backend_(backend), shape_(setup.shape) {
  params_.architecture_name = "simulated";
  params_.n_vocab = kVocabulary;
  params_.n_embd = 1;
  params_.n_layers = 0;
  const int drafts = setup.speculation == Speculation::kOff ? 0 : SequenceDrafts::kMax;
  limits_ = {.max_batch_tokens = setup.max_rows,
             .max_logit_rows = setup.max_sequences + drafts,
             .draft_rows = drafts,
             .max_context = setup.max_context,
             .n_pages = setup.n_pages,
             .n_slots = setup.n_slots};
  memory_.layout = shape_.layout;
  memory_.slot_bytes = shape_.has_state ? sizeof(Cell) : 0;
  cache_.cells.resize(static_cast<size_t>(setup.n_pages) * kPageTokens);
  cache_.page_bytes = kPageTokens * sizeof(Cell);
  states_.resize(static_cast<size_t>(setup.n_slots));
  rows_.resize(static_cast<size_t>(setup.max_rows));
  logits_.resize(static_cast<size_t>(limits_.max_logit_rows) * kVocabulary);
}

// Reads the KV pages of a sequence. Contains the sequence's page tables and the organization that owns the sequence.
struct SimModel::Reading {
  std::array<const int32_t*, kMaxTables> pages;
  uint64_t owner;
  int writes_from;  // The segment itself writes the positions from here onwards.
};

uint64_t& SimModel::at(const Reading& reading, int table, int position) {
  const int32_t page = reading.pages[static_cast<size_t>(table)][position / kPageTokens];
  if (page < 0 || page >= limits_.n_pages)
    throw Violation("position " + std::to_string(position) + " of table " + std::to_string(table) + " has no page");
  Cell& cell = cache_.cells[static_cast<size_t>(page) * kPageTokens + static_cast<size_t>(position % kPageTokens)];
  if (position >= reading.writes_from) cell.owner = reading.owner;
  if (cell.owner == kNobody)
    throw Violation("position " + std::to_string(position) + " is read before it was computed");
  if (cell.owner != reading.owner)
    throw Violation("a page that was computed for organization " + std::to_string(cell.owner) + " is read for " +
                    std::to_string(reading.owner));
  return cell.value;
}

void SimModel::run_segment(const Batch& batch, size_t index, size_t n_segments) {
  const Segment& segment = batch.segments[index];
  Reading reading{.pages = {}, .owner = owner_of(segment), .writes_from = segment.first_position};
  for (int table = 0; table < shape_.layout.tables(); ++table)
    reading.pages[static_cast<size_t>(table)] = batch.segments[index + static_cast<size_t>(table) * n_segments].pages;
  const auto cell = [&](int table, int position) -> uint64_t& { return at(reading, table, position); };
  Seen seen = read_before(shape_, segment.first_position, cell);
  if (shape_.has_state && segment.state_from != kNoSlot) {
    const Cell& state = states_.at(static_cast<size_t>(segment.state_from));
    if (state.owner != reading.owner) throw Violation("the recurrent state of another organization is read");
    seen.state = state.value;
  } else if (shape_.has_state && segment.first_position != 0) {
    throw Violation("a sequence continues at position " + std::to_string(segment.first_position) + " without a state");
  }
  const auto first = static_cast<size_t>(segment.first_row), n = static_cast<size_t>(segment.n_tokens);
  if (segment.seen_end > 0) {
    if (segment.seen_end != segment.first_position + segment.n_tokens) throw Violation("a bidirectional span is split");
    pass_span(shape_, seen, std::span(inputs_).subspan(first, n), segment.first_position, cell);
  } else {
    for (size_t i = 0; i < n; ++i)
      rows_[first + i] = pass_row(shape_, seen, inputs_[first + i], segment.first_position + static_cast<int>(i), cell);
  }
  if (shape_.has_state) states_.at(static_cast<size_t>(segment.state_to)) = {seen.state, reading.owner};
}

void SimModel::check_size(const Batch& batch) const {
  if (batch.tokens.empty()) throw Violation("a step without tokens");
  if (batch.tokens.size() > static_cast<size_t>(limits_.max_batch_tokens))
    throw Violation("a step has more tokens than the limit");
  if (batch.logit_rows.size() > static_cast<size_t>(limits_.max_logit_rows))
    throw Violation("a step has more rows of logits than the limit");
  if (!std::ranges::is_sorted(batch.logit_rows)) throw Violation("rows of logits are not in order");
}

const float* SimModel::forward(const Batch& batch) {
  check_size(batch);
  if (on_forward) on_forward(batch);
  inputs_.clear();
  for (const int32_t token : batch.tokens) inputs_.push_back(token_input(token));
  for (const EmbeddedRows& embedded : batch.embedded)
    for (int i = 0; i < embedded.n_rows; ++i)
      inputs_[static_cast<size_t>(embedded.first_row + i)] = embedded_input(embedded.rows[i]);
  const size_t n_segments = batch.segments.size() / static_cast<size_t>(shape_.layout.tables());
  int row = 0;
  for (size_t i = 0; i < n_segments; ++i) {
    if (batch.segments[i].first_row != row) throw Violation("segments do not cover the tokens in order");
    row += batch.segments[i].n_tokens;
    run_segment(batch, i, n_segments);
  }
  if (row != static_cast<int>(batch.tokens.size())) throw Violation("segments do not cover all tokens");
  for (size_t i = 0; i < batch.logit_rows.size(); ++i)
    write_logits(rows_[static_cast<size_t>(batch.logit_rows[i])],
                 batch.tokens[static_cast<size_t>(batch.logit_rows[i])], logits_.data() + i * kVocabulary);
  if (std::exchange(spoils, false) && !batch.logit_rows.empty()) {
    logits_[0] = std::numeric_limits<float>::quiet_NaN();
    for (size_t i = 0; i < n_segments; ++i) {
      const Segment& segment = batch.segments[i];
      const int of_first = batch.logit_rows.front() - segment.first_row;
      if (of_first >= 0 && of_first < segment.n_tokens) on_spoilt(segment);
    }
  }
  return logits_.data();
}

}  // namespace monolith::simulation
