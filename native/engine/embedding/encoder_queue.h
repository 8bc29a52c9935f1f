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
  uint32_t queue_wait_ms = 0;  // 0: no limit.
  Clock::time_point submitted_at;
  std::optional<Clock::time_point> started_at;
  bool cancelled = false;  // Set while the job is being computed; its result is dropped.
};

class EncoderQueue {
 public:
  bool empty() const { return lines_.empty(); }
  // If that throws std::bad_alloc, `job` keeps the job.
  void add(std::unique_ptr<EncoderJob>& job);
  // Takes jobs for the next batch, whose total number of rows is at most `max_rows`, or a single job. Texts of a channel
  // whose consumer has too many undrained results must wait.
  std::vector<std::unique_ptr<EncoderJob>> take_batch(int max_rows, const std::function<int(size_t)>& rows_of);
  // Removes and returns the jobs for which `matches` returns true.
  std::vector<std::unique_ptr<EncoderJob>> remove_if(const std::function<bool(const EncoderJob&)>& matches);

 private:
  struct Line {
    explicit Line(uint64_t of) : organization(of) {}
    uint64_t organization;
    std::deque<std::unique_ptr<EncoderJob>> jobs;  // Never empty.
  };
  std::deque<Line> lines_;
  size_t next_ = 0;  // Index in lines_ of the organization whose turn is next.
};

}  // namespace monolith
