#include "engine/loop/channel.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace monolith {
namespace {

constexpr size_t kMinCapacity = size_t{64} << 10;  // First capacity of a buffer: enough for most steps.

// Releases an empty buffer that is much larger than the `n` bytes that were needed last.
void release_unused(std::vector<std::byte>& empty, size_t n) {
  if (empty.capacity() > std::max(Channel::kKeptCapacity, 8 * n)) std::vector<std::byte>().swap(empty);
}

// Prepares an empty buffer for the next step's records if the last step had `n` bytes. Growing doubles the capacity,
// because the size varies with the number of accepted draft tokens.
void make_room(std::vector<std::byte>& empty, size_t n) {
  if (empty.capacity() >= n) return;
  try {
    empty.reserve(std::max(kMinCapacity, 2 * n));
  } catch (const std::bad_alloc&) {  // The buffer grows when records are written.
  }
}

}  // namespace

bool Channel::publish() {
  if (step_records_.empty()) return true;
  const size_t written = step_records_.size();
  std::lock_guard lock(mutex_);
  if (!forgotten_.empty()) remove_records(step_records_, forgotten_);
  if (closed_ || step_records_.empty()) {
    step_records_.clear();
    return true;
  }
  if (pending_.empty()) {
    pending_since_ = Clock::now();
    std::swap(pending_, step_records_);
  } else {
    try {
      pending_.insert(pending_.end(), step_records_.begin(), step_records_.end());  // Grows geometrically.
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  step_records_.clear();
  release_unused(step_records_, written);
  make_room(step_records_, written);
  pending_bytes_.store(pending_.size(), std::memory_order_relaxed);
  if (!signalled_ && wake_) {
    signalled_ = true;
    wake_();
  }
  return true;
}

bool Channel::drain(std::vector<std::byte>& out, Clock::time_point* since) {
  out.clear();
  std::lock_guard lock(mutex_);
  if (since && !pending_.empty()) *since = pending_since_;
  const bool was_full = pending_.size() > bound_;
  std::swap(pending_, out);
  release_unused(pending_, out.size());
  signalled_ = false;
  pending_bytes_.store(0, std::memory_order_relaxed);
  return was_full;
}

void Channel::forget(uint32_t request) {
  std::lock_guard lock(mutex_);
  forgotten_.push_back(request);
  remove_pending(request);
}

void Channel::discard(uint32_t request) {
  std::lock_guard lock(mutex_);
  remove_pending(request);
}

void Channel::remember(uint32_t request) {
  std::lock_guard lock(mutex_);
  std::erase(forgotten_, request);
}

void Channel::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  wake_ = nullptr;
  pending_.clear();
  pending_bytes_.store(0, std::memory_order_relaxed);
}

void Channel::remove_pending(uint32_t request) {
  remove_records(pending_, {&request, 1});
  pending_bytes_.store(pending_.size(), std::memory_order_relaxed);
}

void Channel::remove_records(std::vector<std::byte>& records, std::span<const uint32_t> requests) {
  size_t kept = 0;
  for (size_t at = 0; at < records.size();) {
    uint32_t header[2];  // The first two fields of a record's header: size and request id.
    std::memcpy(header, records.data() + at, sizeof header);
    const bool gone = std::find(requests.begin(), requests.end(), header[1]) != requests.end();
    if (!gone) {
      if (kept != at) std::memmove(records.data() + kept, records.data() + at, header[0]);
      kept += header[0];
    }
    at += header[0];
  }
  records.resize(kept);
}

}  // namespace monolith
