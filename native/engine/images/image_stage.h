// The part of an engine that sees: the pieces of images that requests bring go through the tower, a bit at a time between
// steps, before their request is admitted. Engine thread only.
//
// Organizations take turns, a piece at a time; within one it is first come, first served. What requests hold in rows that
// are computed or being computed is bounded: who would go beyond it waits until others have ended. A request with more than
// that is seen when nobody else holds any.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "engine/images/embedding_cache.h"
#include "engine/schedule/sequence.h"
#include "vision/vision.h"

namespace monolith {

class EngineCounters;

class ImageStage {
 public:
  // `tower` outlives this; null: no request brings images (check_request() has refused them). Its rows have `input_width`
  // numbers. `max_bytes`: of rows kept for the next time, and as much again of those that requests hold.
  ImageStage(VisionTower* tower, int64_t input_width, size_t max_bytes, EngineCounters& counters);

  // Takes note of what of it has to be computed. Without anything it is ready at once.
  void add(Request& request);
  // It has ended; no-op if it brought no images.
  void forget(Request& request);
  // Computes for about `limit`, if there is anything to compute. False: there is not.
  bool advance(Clock::duration limit);
  size_t held_bytes() const { return held_bytes_; }

 private:
  struct Line {
    uint64_t organization;
    std::deque<Request*> requests;
  };
  struct Run {
    Request* request = nullptr;
    size_t span = 0;
    std::unique_ptr<TowerRun> tower;
  };

  bool begin_next();
  bool has_room(Request& request);
  void take(Request& request, size_t span, EmbeddingCache::Rows rows);
  void pass_turn(size_t line);

  VisionTower* const tower_;
  const int64_t input_width_;
  const size_t max_bytes_;
  EngineCounters& counters_;
  EmbeddingCache cache_;
  std::vector<Line> lines_;  // none empty
  size_t next_ = 0;          // whose turn it is
  Run run_;                  // request null: none is under way
  size_t held_bytes_ = 0;    // of requests that are being seen, wait or run
  double per_ms_ = 0;        // multiplications of the tower, as measured
};

}  // namespace monolith
