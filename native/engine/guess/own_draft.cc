#include "engine/guess/own_draft.h"

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "base/clock.h"

namespace monolith {
namespace {

double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

}  // namespace

OwnDraft::OwnDraft(Model& model, int n_vocab)
    : model_(model),
      n_tables_(model.memory().layout.tables()),
      hidden_(model.limits()),
      sampler_(model.backend(), model.backend(), n_vocab, kMostSequences) {
  tasks_.reserve(kMostSequences);
  tokens_.reserve(kMostSequences);
  hidden_of_.reserve(kMostSequences);
  segments_.reserve(size_t{kMostSequences} * static_cast<size_t>(n_tables_));
}

double OwnDraft::draft(std::span<DraftWish> wishes, DraftPace& pace) {
  assert(wishes.size() <= kMostSequences);
  const Clock::time_point start = Clock::now();
  tasks_.clear();
  const auto most = static_cast<size_t>(std::min(model_.limits().max_logit_rows, model_.limits().max_batch_tokens));
  for (DraftWish& wish : wishes) {
    wish.n = 0;
    const Sequence& sequence = *wish.sequence;
    const int position = sequence.length() - 1, hidden = hidden_.row_of(sequence, position - 1);
    if (hidden >= 0 && !wish.out.empty() && tasks_.size() < most) tasks_.push_back({&wish, wish.tokens.back(), hidden, position});
  }
  while (!tasks_.empty()) {
    const Clock::time_point before = Clock::now();
    compute();
    pace.note_draft_step(static_cast<int>(tasks_.size()), ms_since(before));
    std::erase_if(tasks_, [](const Task& task) { return static_cast<size_t>(task.wish->n) == task.wish->out.size(); });
  }
  return ms_since(start);
}

// The next guess of each task. Token 0 where the logits are no numbers.
void OwnDraft::compute() {
  tokens_.clear();
  hidden_of_.clear();
  segments_.clear();
  for (const Task& task : tasks_) {
    tokens_.push_back(task.token);
    hidden_of_.push_back(task.hidden);
  }
  for (int table = 0; table < n_tables_; ++table)
    for (size_t i = 0; i < tasks_.size(); ++i)
      segments_.push_back({static_cast<int>(i), 1, tasks_[i].position, tasks_[i].wish->sequence->table(table)});
  const float* logits = model_.guess({tokens_, segments_, hidden_of_});
  if (!logits) throw std::runtime_error("the layer that guesses gave no logits");
  sampler_.clear();
  for (size_t i = 0; i < tasks_.size(); ++i) {
    SampleTask best;
    best.logits = logits + i * static_cast<size_t>(model_.params().n_vocab);
    best.temperature = 0;
    sampler_.add(best);
  }
  sampler_.run();
  int row = 0;
  for (Task& task : tasks_) {
    task.token = std::max(sampler_.result(row)->token, TokenId{0});
    task.wish->out[static_cast<size_t>(task.wish->n++)] = task.token;
    task.hidden = -1 - row++;
    ++task.position;
  }
}

}  // namespace monolith
