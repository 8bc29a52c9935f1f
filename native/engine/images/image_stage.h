// Computes the image embeddings of waiting requests with the vision encoder, in small portions between steps, before
// the requests are admitted. Engine thread only.
//
// Organizations take turns, one image tile at a time; within an organization, requests are served in order of arrival.
// The total size of the embeddings that requests hold or are computing is limited. A request that would exceed the
// limit waits until other requests have ended. A request larger than the limit is processed only while no other request
// holds embeddings.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "engine/images/embedding_cache.h"
#include "engine/sequence.h"
#include "vision/vision.h"

namespace monolith {

class EngineCounters;

class ImageStage {
 public:
  // `encoder` must outlive the ImageStage. If it is null, no request has images, because check_request() rejects them.
  // `input_width`: floats per embedding row. `max_bytes`: maximum size of the embedding cache, and separately of the
  // embeddings held by requests.
  ImageStage(VisionEncoder* encoder, int64_t input_width, size_t max_bytes, EngineCounters& counters);

  // Queues the request's images. A request without images to compute is ready immediately.
  void add(Request& request);
  // Must be called when a request has ended. Does nothing if it had no images.
  void forget(Request& request);
  // Computes embeddings for a duration of about `limit`. Returns false if there was nothing to compute. If memory runs
  // out, the request is marked (Request::out_of_memory) and stays in the queue until forget().
  bool advance(Clock::duration limit);
  // Returns true if memory ran out in the last call to advance().
  bool ran_out_of_memory() const { return ran_out_of_memory_; }
  size_t held_bytes() const { return held_bytes_; }

 private:
  struct Line {
    uint64_t organization;
    std::deque<Request*> requests;
  };
  struct Run {
    Request* request = nullptr;
    size_t span = 0;
    std::unique_ptr<EncoderRun> encoder;
  };

  bool compute(Clock::duration limit);
  bool begin_next();
  bool has_room(Request& request);
  void take(Request& request, size_t span, EmbeddingCache::Rows rows);
  void pass_turn(size_t line);

  VisionEncoder* const encoder_;
  const int64_t input_width_;
  const size_t max_bytes_;
  EngineCounters& counters_;
  EmbeddingCache cache_;
  std::vector<Line> lines_;  // Organizations with waiting requests; `requests` is never empty.
  size_t next_ = 0;          // Index in lines_ of the organization whose turn is next.
  Run run_;                  // The tile being computed; `request` is null if there is none.
  bool ran_out_of_memory_ = false;
  size_t held_bytes_ = 0;  // Bytes of embeddings held by requests, or reserved for the requests being processed.
  double per_ms_ = 0;      // Measured speed of the vision encoder in multiplications per ms; 0: not measured.
};

}  // namespace monolith
