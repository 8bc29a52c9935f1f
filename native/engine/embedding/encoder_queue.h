// The texts that wait for a text encoder, and the order in which they are computed: organizations take turns, one text
// at a time; within an organization, texts are computed in order of arrival. Engine thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/token_id.h"
#include "engine/engine.h"
#include "engine/loop/channel.h"

namespace monolith {

struct EncoderJob {
  RequestId id = 0;
  std::shared_ptr<Channel> channel;
  std::vector<TokenId> tokens;
  uint64_t organization = 0;
  uint32_t queue_wait_ms = 0;  // Limit for the time in the queue; 0: no limit.
  uint32_t generation_ms = 0;  // Limit for the time from then on; 0: no limit.
  Clock::time_point submitted_at;
  std::optional<Clock::time_point> started_at;
  bool ended = false;  // Its end was reported, or it was cancelled: nothing more is reported about it.
};

class EncoderQueue {
 public:
  bool empty() const { return lines_.empty(); }
  // If that throws std::bad_alloc, `job` keeps the job.
  void add(std::unique_ptr<EncoderJob>& job);
  // Takes jobs for the next batch, whose total number of rows is at most `max_rows`, or a single job. Texts of a
  // channel whose consumer has too many undrained results must wait. `rows_of` returns the rows of a text of that many
  // tokens, which never decrease with its length. If this throws std::bad_alloc, no job was taken.
  std::vector<std::unique_ptr<EncoderJob>> take_batch(int max_rows, const std::function<int(size_t)>& rows_of);
  // Calls `visit` for every job. Then removes the jobs that have ended, also if `visit` throws.
  template <typename Visit>
  void for_each(Visit&& visit) {
    const Removal removal{*this};
    for (Line& line : lines_)
      for (const std::unique_ptr<EncoderJob>& job : line.jobs) visit(*job);
  }

 private:
  struct Line {
    explicit Line(uint64_t of) : organization(of) {}
    uint64_t organization;
    std::deque<std::unique_ptr<EncoderJob>> jobs;  // Never empty.
  };
  struct Removal {
    EncoderQueue& queue;
    ~Removal() { queue.remove_ended(); }
  };
  void remove_ended() noexcept;

  std::deque<Line> lines_;
  size_t next_ = 0;  // Index in lines_ of the organization whose turn is next.
};

}  // namespace monolith
