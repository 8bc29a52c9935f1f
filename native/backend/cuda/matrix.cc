#include "backend/cuda/matrix.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/dense.h"
#include "model/gguf/tensor_type.h"

namespace monolith::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;   // of the page-locked buffer that weights pass through

// Page-locked memory for the time of one upload.
class Piece {
 public:
  explicit Piece(Runtime& runtime) : runtime_(runtime) {}
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() { runtime_.free_pinned(memory_); }
  Status reserve(size_t bytes) {
    auto memory = runtime_.allocate_pinned(bytes);
    if (!memory) return memory.error();
    memory_ = *memory;
    return {};
  }
  void* get() const { return memory_; }

 private:
  Runtime& runtime_;
  void* memory_ = nullptr;
};

Status upload_f32(Runtime& runtime, const MatrixSource& source, float* to) {
  const TensorTypeTraits& traits = traits_of(source.type);
  const auto row_bytes = static_cast<size_t>(source.cols / traits.block_values * traits.block_bytes);
  const int64_t rows_at_once =
      std::clamp<int64_t>(static_cast<int64_t>(kPieceBytes / sizeof(float)) / source.cols, 1, source.rows);
  Piece piece(runtime);
  if (Status status = piece.reserve(static_cast<size_t>(rows_at_once * source.cols) * sizeof(float)); !status) return status;
  for (int64_t row = 0; row < source.rows; row += rows_at_once) {
    const int64_t n = std::min(rows_at_once, source.rows - row);
    dequantize(source.type, source.data.data() + static_cast<size_t>(row) * row_bytes, n * source.cols,
               static_cast<float*>(piece.get()));
    runtime.upload(to + row * source.cols, piece.get(), static_cast<size_t>(n * source.cols) * sizeof(float));
    runtime.synchronize();
  }
  return {};
}

// 16-bit weights, a tile of rows after the other.
Status upload_dense(Runtime& runtime, const MatrixSource& source, unsigned char* to) {
  const size_t tile_bytes = dense_bytes(kDenseTileRows, source.cols);
  const int64_t tiles = dense_tiles(source.rows);
  const int64_t tiles_at_once = std::clamp<int64_t>(static_cast<int64_t>(kPieceBytes / tile_bytes), 1, tiles);
  Piece piece(runtime);
  if (Status status = piece.reserve(static_cast<size_t>(tiles_at_once) * tile_bytes); !status) return status;
  const auto row_bytes = static_cast<size_t>(source.cols) * sizeof(uint16_t);
  // A file's tensors need not be aligned for 16-bit reads.
  std::vector<uint16_t> rows(static_cast<size_t>(kDenseTileRows * source.cols));
  for (int64_t tile = 0; tile < tiles; tile += tiles_at_once) {
    const int64_t n = std::min(tiles_at_once, tiles - tile);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row = (tile + i) * kDenseTileRows;
      const auto n_rows = static_cast<int>(std::min<int64_t>(kDenseTileRows, source.rows - row));
      std::memcpy(rows.data(), source.data.data() + static_cast<size_t>(row) * row_bytes,
                  static_cast<size_t>(n_rows) * row_bytes);
      auto* const packed = static_cast<unsigned char*>(piece.get()) + static_cast<size_t>(i) * tile_bytes;
      pack_dense_tile(rows.data(), n_rows, source.cols, reinterpret_cast<uint32_t*>(packed));
    }
    runtime.upload(to + static_cast<size_t>(tile) * tile_bytes, piece.get(), static_cast<size_t>(n) * tile_bytes);
    runtime.synchronize();
  }
  return {};
}

}  // namespace

Format format_for(TensorType type, int64_t, int64_t, bool exact) {
  if (exact) return Format::kF32;
  if (type == TensorType::kBF16) return Format::kBf16;
  if (type == TensorType::kF16) return Format::kF16;
  return Format::kF32;
}

size_t matrix_bytes(Format format, int64_t rows, int64_t cols) {
  if (is_dense(format)) return dense_bytes(rows, cols);
  return static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
}

Result<std::unique_ptr<Matrix>> make_matrix(Runtime& runtime, const MatrixSource& source, bool exact) {
  const TensorTypeTraits& traits = traits_of(source.type);
  if (source.rows < 1 || source.cols < 1 || source.cols % traits.block_values != 0)
    return Error{ErrorCode::kUnsupported, "a matrix of " + std::to_string(source.rows) + " rows and " +
                                              std::to_string(source.cols) + " columns of " + std::string(traits.name)};
  const Format format = format_for(source.type, source.rows, source.cols, exact);
  const size_t bytes = matrix_bytes(format, source.rows, source.cols);
  auto memory = runtime.allocate(bytes);
  if (!memory) return memory.error();
  auto matrix = std::make_unique<CudaMatrix>(runtime, format, *memory);
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->type = source.type;
  matrix->bytes = bytes;
  const Status status = is_dense(format) ? upload_dense(runtime, source, static_cast<unsigned char*>(*memory))
                                         : upload_f32(runtime, source, static_cast<float*>(*memory));
  if (!status) return status.error();
  return std::unique_ptr<Matrix>(std::move(matrix));
}

}  // namespace monolith::cuda
