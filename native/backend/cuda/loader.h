// The way of weights from a file to the device. Two pieces of page-locked memory take turns: several threads of the
// host fill one, it is uploaded, and kernels make of it what the matrix holds, while the other is being filled.
// Owned by a backend and used by its thread; `fill` runs on threads of its own besides.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/cuda/device/runtime.h"
#include "base/thread_pool.h"

namespace monolith::cuda {

class Loader {
 public:
  static constexpr size_t kPieceBytes = size_t{8} << 20;

  // Other sizes of piece: for tests.
  explicit Loader(Runtime& runtime, size_t piece_bytes = kPieceBytes) : runtime_(runtime), usual_bytes_(piece_bytes) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  Runtime& runtime() const { return runtime_; }

  // Page-locked memory, which stays: two pieces. Before anything else.
  Status start();
  // Loading is over: waits for the device, which may read the weights early in later kernels (launch.h), and gives
  // back what only send() needs, threads and device memory.
  Status rest();

  // Rows of `row_bytes` bytes each, sent so many `together` at a time or a multiple of it. Of each piece,
  //   fill(first, n, host)      writes rows first .. first + n to page-locked memory: in parts, on several threads;
  //   use(first, n, staging)    asks for the kernels that read them on the device, `n` the whole piece's.
  // On return every row has been read, though perhaps not all work is done.
  template <typename Fill, typename Use>
  Status send(int64_t rows, size_t row_bytes, int64_t together, const Fill& fill, const Use& use) {
    const size_t least = static_cast<size_t>(std::min(rows, together)) * row_bytes;
    if (Status status = prepare(std::max(least, usual_bytes_)); !status) return status;
    const auto at_once = static_cast<int64_t>(piece_bytes_ / row_bytes) / together * together;
    const int64_t most = std::clamp(at_once, std::min(rows, together), rows);
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t n = std::min(most, rows - first);
      Piece& piece = next();
      auto* const host = static_cast<std::byte*>(piece.host);
      const int64_t grain = std::max<int64_t>(static_cast<int64_t>(kGrainBytes / row_bytes), 1);
      threads_->parallel_for(n, grain, [&](int64_t begin, int64_t end, int) {
        fill(first + begin, end - begin, host + static_cast<size_t>(begin) * row_bytes);
      });
      runtime_.upload(piece.staging, host, static_cast<size_t>(n) * row_bytes);
      use(first, n, static_cast<const unsigned char*>(piece.staging));
      runtime_.record(*piece.free);
    }
    runtime_.settle();  // products read weights early
    return {};
  }

  // Plain copies from and to pageable memory. write() returns when `from` has been read, read() when `to` is there.
  void write(void* to, const void* from, size_t bytes);
  void read(void* to, const void* from, size_t bytes);

 private:
  static constexpr size_t kGrainBytes = size_t{256} << 10;  // that a thread takes at once

  struct Piece {
    void* host = nullptr;     // page-locked
    void* staging = nullptr;  // the device's
    std::unique_ptr<Event> free;
  };

  // For pieces of `bytes`: threads, and device memory.
  Status prepare(size_t bytes);
  Status resize(size_t bytes);
  // The piece whose turn it is, no longer in use.
  Piece& next();

  Runtime& runtime_;
  size_t usual_bytes_;
  std::array<Piece, 2> pieces_;
  size_t turn_ = 0;
  size_t piece_bytes_ = 0;               // of page-locked memory
  std::unique_ptr<ThreadPool> threads_;  // null: nothing is being loaded
};

}  // namespace monolith::cuda
