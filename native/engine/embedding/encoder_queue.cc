#include "engine/embedding/encoder_queue.h"

#include <algorithm>

namespace monolith {

void EncoderQueue::add(std::unique_ptr<EncoderJob>& job) {
  const auto at = std::ranges::find(lines_, job->organization, &Line::organization);
  if (at != lines_.end()) return at->jobs.push_back(std::move(job));
  lines_.emplace_back(job->organization);
  try {
    lines_.back().jobs.push_back(std::move(job));
  } catch (...) {
    lines_.pop_back();
    throw;
  }
}

std::vector<std::unique_ptr<EncoderJob>> EncoderQueue::take_batch(int max_rows,
                                                                  const std::function<int(size_t)>& rows_of) {
  std::vector<std::unique_ptr<EncoderJob>> batch;
  // Memory is reserved first, because a job would be lost if an allocation failed after it was removed from the queue.
  batch.reserve(static_cast<size_t>(max_rows / rows_of(1)) + 1);
  int left = max_rows;
  for (size_t n_blocked = 0; n_blocked < lines_.size();) {
    if (next_ >= lines_.size()) next_ = 0;
    Line& line = lines_[next_];
    EncoderJob& first = *line.jobs.front();
    if (first.channel->full()) {
      ++n_blocked;
      ++next_;
      continue;
    }
    const int rows = rows_of(first.tokens.size());
    if (rows > left && !batch.empty()) break;
    n_blocked = 0;
    left -= rows;
    batch.push_back(std::move(line.jobs.front()));
    line.jobs.pop_front();
    if (line.jobs.empty())
      lines_.erase(lines_.begin() + static_cast<ptrdiff_t>(next_));
    else
      ++next_;
  }
  return batch;
}

void EncoderQueue::remove_ended() noexcept {
  for (size_t i = 0; i < lines_.size();) {
    std::erase_if(lines_[i].jobs, [](const auto& job) { return job->ended; });
    if (!lines_[i].jobs.empty()) {
      ++i;
      continue;
    }
    lines_.erase(lines_.begin() + static_cast<ptrdiff_t>(i));
    if (next_ > i) --next_;
  }
  if (next_ >= lines_.size()) next_ = 0;
}

}  // namespace monolith
