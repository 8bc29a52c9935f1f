// Queue of the texts that wait for a text encoder. Organizations take turns, one text per turn. The texts of one
// organization are computed in order of arrival. Engine thread only.
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
  uint32_t queue_wait_ms = 0;  // Maximum time in the queue, in ms; 0 = no limit.
  uint32_t generation_ms = 0;  // Maximum time from the start of the job's batch, in ms; 0 = no limit.
  Clock::time_point submitted_at;
  std::optional<Clock::time_point> started_at;
  bool ended = false;  // The job was finished, failed or cancelled. No further event of it is emitted.
};

class EncoderQueue {
 public:
  bool empty() const { return lines_.empty(); }
  // Adds a job. If this throws std::bad_alloc, the queue is unchanged and `job` still owns the job.
  void add(std::unique_ptr<EncoderJob>& job);
  // Removes and returns the jobs of the next batch: jobs with at most `max_rows` rows in total, or a single longer job.
  // Skips an organization while the channel of its first job is full, that is, while earlier results have not been
  // drained. `rows_of` returns the number of rows for a number of tokens and must not decrease. If this throws
  // std::bad_alloc, no job was removed.
  std::vector<std::unique_ptr<EncoderJob>> take_batch(int max_rows, const std::function<int(size_t)>& rows_of);
  // Calls `visit` for every job, then removes the jobs that have ended. They are also removed if `visit` throws.
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
