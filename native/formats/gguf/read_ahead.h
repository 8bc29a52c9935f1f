// Reads the weights in a model's files before the loader needs them, so that the disk stays busy while other weights
// are converted. The kernel's own read-ahead stops at the end of its window until the loader has caught up, and several
// threads that read a memory map at different places defeat it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "formats/gguf/gguf.h"

namespace monolith {

class ReadAhead {
 public:
  // The byte ranges that the loader reads together, in reading order.
  using Piece = std::vector<std::span<const std::byte>>;
  // Maximum distance, in bytes, between the piece that the loader is using and the position at which the thread reads.
  // Bounds the memory for pages that have been read but not yet used.
  static constexpr size_t kWindow = size_t{256} << 20;

  // Starts a thread that reads the first `window` bytes, and more after use(). Does nothing if `file` is not backed by
  // files, or if no thread can be started. `file` must outlive the object.
  ReadAhead(const GgufFile& file, std::vector<Piece> pieces, size_t window = kWindow);
  // Stops the thread. Waits for at most one system call, which reads 2 MiB.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Called by the loader when it starts to use piece `piece`: the thread may now read `window` bytes beyond its end.
  void use(size_t piece);
  // Called by the loader before it releases the pages of `piece`. From then on, the thread does not map these pages any
  // more. Waits for at most one system call.
  void finish(size_t piece);
  // Returns the number of bytes that the thread has read. For tests.
  size_t bytes_read() const { return read_.load(std::memory_order_relaxed); }

 private:
  void run();
  // Waits until the loader is close enough to `position`, which belongs to `piece`, for the thread to read there.
  enum class Turn { kRead, kSkip, kStop };
  Turn await_turn(size_t piece, size_t position);
  void end_turn();

  const GgufFile& file_;
  const std::vector<Piece> pieces_;
  const size_t window_;
  std::vector<size_t> ends_;  // For each piece, the number of bytes up to its end.
  std::atomic<size_t> read_{0};
  std::mutex mutex_;  // Guards the members below.
  std::condition_variable changed_;
  size_t limit_ = 0;         // The thread reads up to this position.
  size_t finished_ = 0;      // Number of pieces that the loader has finished.
  bool is_reading_ = false;  // Whether the thread is reading part of piece `reading_`.
  size_t reading_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace monolith
