#include "formats/gguf/read_ahead.h"

#include <algorithm>
#include <system_error>
#include <utility>

#if defined(__linux__)
#include <pthread.h>
#endif

namespace monolith {
namespace {

// Bytes per system call. Large enough for the kernel to read in large requests, but not larger, because the destructor
// waits for one call.
constexpr size_t kCallBytes = size_t{2} << 20;

}  // namespace

ReadAhead::ReadAhead(const GgufFile& file, std::vector<Piece> pieces, size_t window)
    : file_(file), pieces_(std::move(pieces)), window_(window) {
  size_t end = 0;
  for (const Piece& piece : pieces_) {
    for (const auto part : piece) end += part.size();
    ends_.push_back(end);
  }
  if (end == 0 || !file.is_mapped()) return;
  limit_ = window_;
  try {
    thread_ = std::thread([this] {
#if defined(__linux__)
      pthread_setname_np(pthread_self(), "monolith-read");
#endif
      run();
    });
  } catch (const std::system_error&) {
    // If the thread cannot be started, the file is read on demand.
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ReadAhead::use(size_t piece) {
  {
    const std::lock_guard lock(mutex_);
    limit_ = std::max(limit_, ends_[piece] + window_);
  }
  changed_.notify_all();
}

void ReadAhead::finish(size_t piece) {
  std::unique_lock lock(mutex_);
  finished_ = std::max(finished_, piece + 1);
  changed_.wait(lock, [&] { return !is_reading_ || reading_ > piece; });
}

ReadAhead::Turn ReadAhead::await_turn(size_t piece, size_t position) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || position < limit_; });
  if (stop_) return Turn::kStop;
  if (piece < finished_) return Turn::kSkip;
  is_reading_ = true;
  reading_ = piece;
  return Turn::kRead;
}

void ReadAhead::end_turn() {
  {
    const std::lock_guard lock(mutex_);
    is_reading_ = false;
  }
  changed_.notify_all();
}

void ReadAhead::run() {
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {
    size_t position = piece == 0 ? 0 : ends_[piece - 1];
    for (const auto part : pieces_[piece])
      for (size_t at = 0; at < part.size(); at += kCallBytes) {
        const size_t size = std::min(kCallBytes, part.size() - at);
        const Turn turn = await_turn(piece, position);
        if (turn == Turn::kStop) return;
        position += size;
        if (turn == Turn::kSkip) continue;
        file_.populate(part.subspan(at, size));
        end_turn();
        read_.fetch_add(size, std::memory_order_relaxed);
      }
  }
}

}  // namespace monolith
