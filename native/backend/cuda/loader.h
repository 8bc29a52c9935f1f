// The loader copies weights from a file to the device, double-buffered with two page-locked chunks. While one chunk is
// uploaded and repacked by kernels into the matrix's format, several host threads fill the other chunk. The loader is
// owned by a backend and used by the backend's thread; `fill` runs on the loader's own threads.
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

  // Only tests use chunk sizes other than the default.
  explicit Loader(Runtime& runtime, size_t piece_bytes = kPieceBytes) : runtime_(runtime), usual_bytes_(piece_bytes) {}
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  Runtime& runtime() const { return runtime_; }

  // Allocates the two page-locked chunks, which are kept for the loader's lifetime. Call start() before anything else.
  Status start();
  // Ends loading. Waits for the device, because a later kernel may read weights before the preceding kernel has
  // finished (launch.h), and frees the threads and the device memory, which only send() needs.
  Status rest();

  // Sends `rows` rows of `row_bytes` bytes each in chunks whose row count is a multiple of `together` (except for the
  // last chunk). For each chunk, send() calls:
  //   fill(first, n, host)      writes rows first .. first + n to page-locked memory; called on several threads
  //   use(first, n, staging)    launches the kernels that read the rows on the device; `n` is the whole chunk
  // When send() returns, every row has been read from the file, but the device may still be working.
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
    runtime_.settle();  // GEMM kernels prefetch weights before the previous kernel finishes.
    return {};
  }

  // Copies between device memory and pageable host memory. write() returns once `from` has been read; read() returns
  // once `to` is complete.
  void write(void* to, const void* from, size_t bytes);
  void read(void* to, const void* from, size_t bytes);

 private:
  static constexpr size_t kGrainBytes = size_t{256} << 10;  // Bytes that one thread copies per task.

  struct Piece {
    void* host = nullptr;     // Page-locked host memory.
    void* staging = nullptr;  // Device memory.
    std::unique_ptr<Event> free;
  };

  // Creates the threads and allocates staging buffers for chunks of `bytes` bytes.
  Status prepare(size_t bytes);
  Status resize(size_t bytes);
  // Waits until the device no longer reads the chunk whose turn it is, and returns this chunk.
  Piece& next();

  Runtime& runtime_;
  size_t usual_bytes_;
  std::array<Piece, 2> pieces_;
  size_t turn_ = 0;
  size_t piece_bytes_ = 0;               // Size of each page-locked chunk.
  std::unique_ptr<ThreadPool> threads_;  // Null while nothing is being loaded.
};

}  // namespace monolith::cuda
