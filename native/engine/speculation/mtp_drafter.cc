#include "engine/speculation/mtp_drafter.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "base/clock.h"

namespace monolith {
namespace {

// A null sampler, passed in place of the device's sampler: Model::draft() returns the draft logits in host memory, so
// they are sampled on the host.
class NoDevice final : public DeviceSampling {};
DeviceSampling& no_device() {
  static NoDevice none;
  return none;
}

}  // namespace

HiddenRows::HiddenRows(const ModelLimits& limits)
    : of_each_(limits.kept_of_each()), places_(static_cast<size_t>(limits.sequences_limit())) {
  runs_.reserve(static_cast<size_t>(limits.max_batch_tokens));
}

std::span<const HiddenRange> HiddenRows::runs(const StepPlan& plan) {
  runs_.clear();
  int row = 0;
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = sequence_of(*item.sequence);
    const int from = row_of(sequence, sequence.kv.n_computed - 1), n_rows = item.n_tokens + item.n_drafts;
    const int place = place_of(sequence);
    const int n_kept = std::min(1 + item.n_drafts, of_each_);
    runs_.push_back({row, n_rows, from, place * of_each_, n_kept});
    places_[static_cast<size_t>(place)] = {&sequence, sequence.kv.n_computed + n_rows - n_kept, n_kept};
    row += n_rows;
  }
  return runs_;
}

int HiddenRows::row_of(const Sequence& sequence, int position) const {
  if (sequence.hidden_slot < 0) return -1;
  const Place& place = places_[static_cast<size_t>(sequence.hidden_slot)];
  if (place.owner != &sequence || position < place.first || position >= place.first + place.n_rows) return -1;
  return sequence.hidden_slot * of_each_ + position - place.first;
}

// There is always a free entry, because there are as many entries as the maximum number of running sequences.
int HiddenRows::place_of(Sequence& sequence) {
  if (sequence.hidden_slot >= 0 && places_[static_cast<size_t>(sequence.hidden_slot)].owner == &sequence)
    return sequence.hidden_slot;
  const auto is_free = [](const Place& place) { return !place.owner || place.owner->state != SequenceState::kRunning; };
  const auto at = std::ranges::find_if(places_, is_free);
  assert(at != places_.end());
  sequence.hidden_slot = static_cast<int>(at - places_.begin());
  return sequence.hidden_slot;
}

void HiddenRows::forget(const Sequence& sequence) {
  if (sequence.hidden_slot < 0) return;
  Place& place = places_[static_cast<size_t>(sequence.hidden_slot)];
  if (place.owner == &sequence) place = {};
}

MtpDrafter::MtpDrafter(Model& model, int n_vocab)
    : model_(model),
      n_tables_(model.memory().layout.tables()),
      n_levels_(model.draft_levels()),
      chosen_(model.draft_tokens()),
      n_vocab_(n_vocab),
      n_logits_(chosen_.empty() ? model.params().n_vocab : static_cast<int>(chosen_.size())),
      hidden_(model.limits()),
      sampler_(no_device(), model.backend(), chosen_.empty() ? n_vocab : n_logits_, kMaxSequences) {
  const size_t rows = size_t{kMaxSequences} * static_cast<size_t>(n_levels_);
  tasks_.reserve(kMaxSequences);
  tokens_.reserve(rows);
  hidden_of_.reserve(rows);
  segments_.reserve(size_t{kMaxSequences} * static_cast<size_t>(n_tables_));
}

double MtpDrafter::draft(std::span<DraftRequest> requests, DraftBudget& pace) {
  assert(requests.size() <= kMaxSequences);
  const Clock::time_point start = Clock::now();
  tasks_.clear();
  const auto most =
      static_cast<size_t>(std::min(model_.limits().max_logit_rows, model_.limits().max_batch_tokens / n_levels_));
  for (DraftRequest& request : requests) {
    request.n = 0;
    const Sequence& sequence = *request.sequence;
    const int position = sequence.length() - 1, hidden = hidden_.row_of(sequence, position - 1);
    if (hidden >= 0 && !request.out.empty() && tasks_.size() < most)
      tasks_.push_back({&request, request.tokens.back(), hidden, position});
  }
  for (int pass = 0; !tasks_.empty(); ++pass) {
    const Clock::time_point before = Clock::now();
    compute(pass);
    pace.note_draft_step(static_cast<int>(tasks_.size()), ms_since(before));
    std::erase_if(tasks_,
                  [](const Task& task) { return static_cast<size_t>(task.request->n) == task.request->out.size(); });
  }
  return ms_since(start);
}

// Adds one task's rows. If an MTP level has not yet processed the positions from the newest token on, the pass computes
// a row for each of them; after that, one row per pass is enough.
void MtpDrafter::add_rows(Task& task, int pass) {
  const int n_rows = pass < n_levels_ ? pass + 1 : 1;
  for (int row = 0; row < n_rows; ++row) {
    const int behind = pass + 1 - n_rows + row;  // Distance of the row from the sequence's newest token.
    tokens_.push_back(behind == 0 ? task.token : task.request->out[static_cast<size_t>(behind) - 1]);
    hidden_of_.push_back(behind == 0 ? task.hidden : -1 - (task.last_row - (n_rows - 1 - row)));
  }
  task.last_row = static_cast<int>(tokens_.size()) - 1;
}

// Computes the next draft token of each task. Non-finite logits and tokens outside the vocabulary yield token 0.
void MtpDrafter::compute(int pass) {
  tokens_.clear();
  hidden_of_.clear();
  segments_.clear();
  const int n_rows = pass < n_levels_ ? pass + 1 : 1, first = pass + 1 - n_rows;
  for (Task& task : tasks_) add_rows(task, pass);
  for (int table = 0; table < n_tables_; ++table)
    for (const Task& task : tasks_)
      segments_.push_back(
          {task.last_row - n_rows + 1, n_rows, task.position + first, task.request->sequence->table(table)});
  const float* logits = model_.draft({tokens_, segments_, hidden_of_, pass});
  if (!logits) throw std::runtime_error("the MTP layer returned no logits");
  sampler_.clear();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    SampleTask best;
    best.logits = logits + i * static_cast<size_t>(n_logits_);
    best.temperature = 0;
    sampler_.add(best);
  }
  sampler_.run();
  int row = 0;
  for (Task& task : tasks_) {
    const TokenId best = std::max(sampler_.result(row++)->token, TokenId{0});
    const TokenId token = chosen_.empty() ? best : chosen_[static_cast<size_t>(best)];
    task.request->out[static_cast<size_t>(task.request->n++)] = token < n_vocab_ ? token : 0;
  }
}

}  // namespace monolith
