#include "engine/images/image_stage.h"

#include <algorithm>
#include <new>

#include "engine/loop/engine_counters.h"

namespace monolith {
namespace {

// Work budgets in multiplications: the budget of a call before the first measurement, and the minimum budget of a call.
constexpr int64_t kFirstBudget = int64_t{1} << 26, kMinBudget = int64_t{1} << 22;

double milliseconds(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

// Returns the index of the first span whose rows are missing, or spans.size() if there is none.
size_t next_missing(const Request& request, size_t from) {
  const std::vector<InputSpan>& spans = request.params.spans;
  while (from < spans.size() && spans[from].rows) ++from;
  return from;
}

}  // namespace

ImageStage::ImageStage(VisionEncoder* encoder, int64_t input_width, size_t max_bytes, EngineCounters& counters)
    : encoder_(encoder), input_width_(input_width), max_bytes_(max_bytes), counters_(counters), cache_(max_bytes) {}

void ImageStage::add(Request& request) {
  if (next_missing(request, 0) == request.params.spans.size()) return;
  request.inputs_ready = false;
  const uint64_t organization = request.params.organization;
  auto at = std::ranges::find(lines_, organization, &Line::organization);
  if (at == lines_.end()) at = lines_.insert(lines_.end(), {organization, {}});
  at->requests.push_back(&request);
}

void ImageStage::forget(Request& request) {
  held_bytes_ -= request.image_bytes;
  request.image_bytes = 0;
  if (request.inputs_ready) return;
  if (run_.request == &request) run_ = {};
  const auto at = std::ranges::find(lines_, request.params.organization, &Line::organization);
  if (at == lines_.end()) return;
  std::erase(at->requests, &request);
  if (at->requests.empty()) pass_turn(static_cast<size_t>(at - lines_.begin()));
}

// Moves on to the next organization after this one has had its turn. Removes the organization if it has no waiting
// requests.
void ImageStage::pass_turn(size_t line) {
  const bool stays = !lines_[line].requests.empty();
  if (!stays) lines_.erase(lines_.begin() + static_cast<ptrdiff_t>(line));
  if (stays || next_ > line) next_ = stays ? line + 1 : next_ - 1;
  if (next_ >= lines_.size()) next_ = 0;
}

bool ImageStage::has_room(Request& request) {
  if (request.image_bytes > 0) return true;
  size_t bytes = 0;
  for (const InputSpan& span : request.params.spans)
    if (!span.rows) bytes += static_cast<size_t>(span.n_rows) * static_cast<size_t>(input_width_) * sizeof(float);
  if (held_bytes_ > 0 && held_bytes_ + bytes > max_bytes_) return false;
  request.image_bytes = bytes;
  held_bytes_ += bytes;
  return true;
}

void ImageStage::take(Request& request, size_t span, EmbeddingCache::Rows rows) {
  request.params.spans[span].rows = std::move(rows);
  request.waits_since = Clock::now();  // The request is making progress, so its queue wait restarts.
}

// Starts the next image tile that must be computed. Tiles before it are taken from the cache.
bool ImageStage::begin_next() {
  while (!lines_.empty()) {
    const size_t line = next_;
    Request& request = *lines_[line].requests.front();
    if (!has_room(request)) return false;
    const uint64_t organization = request.params.organization;
    size_t missing = next_missing(request, 0);
    const size_t n_spans = request.params.spans.size();
    while (missing < n_spans) {
      EmbeddingCache::Rows known = cache_.find(organization, request.params.spans[missing].hash);
      if (!known) break;
      EngineCounters::add(counters_.image_pieces_cached, 1);
      take(request, missing, std::move(known));
      missing = next_missing(request, missing);
    }
    if (missing < n_spans) {
      run_ = {&request, missing, encoder_->begin(*request.params.spans[missing].piece)};
      return true;
    }
    request.inputs_ready = true;
    lines_[line].requests.pop_front();
    pass_turn(line);
  }
  return false;
}

bool ImageStage::advance(Clock::duration limit) {
  ran_out_of_memory_ = false;
  try {
    return compute(limit);
  } catch (const std::bad_alloc&) {
    Request* const request = run_.request ? run_.request : lines_[next_].requests.front();
    run_ = {};
    request->out_of_memory = ran_out_of_memory_ = true;
    return true;
  }
}

bool ImageStage::compute(Clock::duration limit) {
  bool computed = false;
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point now = begin; !computed || now - begin < limit;) {
    if (!run_.request && !begin_next()) return computed;
    const double left_ms = std::max(0.0, milliseconds(limit - (now - begin)));
    const int64_t budget = per_ms_ > 0 ? std::max(kMinBudget, static_cast<int64_t>(per_ms_ * left_ms)) : kFirstBudget;
    const int64_t before = run_.encoder->left();
    const bool done = run_.encoder->advance(budget);
    computed = true;
    const Clock::time_point after = Clock::now();
    const double rate = static_cast<double>(before - run_.encoder->left()) / std::max(milliseconds(after - now), 1e-3);
    per_ms_ = per_ms_ == 0 ? rate : per_ms_ + 0.2 * (rate - per_ms_);
    run_.request->encoder_time += after - now;
    now = after;
    // Restarts the measurement of the request's queue wait, because computing a single tile may take longer than
    // queue_wait_ms.
    run_.request->waits_since = after;
    if (!done) continue;
    Request& request = *run_.request;
    auto rows = std::make_shared<const std::vector<float>>(run_.encoder->take_rows());
    EngineCounters::add(counters_.image_pieces, 1);
    cache_.insert(request.params.organization, request.params.spans[run_.span].hash, rows);
    take(request, run_.span, std::move(rows));
    run_ = {};
    const auto line = std::ranges::find(lines_, request.params.organization, &Line::organization);
    if (next_missing(request, 0) == request.params.spans.size()) {
      request.inputs_ready = true;
      std::erase(line->requests, &request);
    }
    pass_turn(static_cast<size_t>(line - lines_.begin()));
  }
  return true;
}

}  // namespace monolith
