#include "backend/cuda/matrix.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/dense.h"
#include "backend/cuda/quant_form.h"
#include "backend/cuda/quant_pack.h"
#include "model/gguf/tensor_type.h"

namespace monolith::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;   // of the page-locked buffer that weights pass through

// Memory for the time of one upload, page-locked on the host or the device's.
enum class Place : uint8_t { kPinned, kDevice };
class Piece {
 public:
  Piece(Runtime& runtime, Place place) : runtime_(runtime), place_(place) {}
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() { place_ == Place::kPinned ? runtime_.free_pinned(memory_) : runtime_.free(memory_); }
  Status reserve(size_t bytes) {
    auto memory = place_ == Place::kPinned ? runtime_.allocate_pinned(bytes) : runtime_.allocate(bytes);
    if (!memory) return memory.error();
    memory_ = *memory;
    return {};
  }
  void* get() const { return memory_; }

 private:
  Runtime& runtime_;
  Place place_;
  void* memory_ = nullptr;
};

Status upload_f32(Runtime& runtime, const MatrixSource& source, float* to) {
  const TensorTypeTraits& traits = traits_of(source.type);
  const auto row_bytes = static_cast<size_t>(source.cols / traits.block_values * traits.block_bytes);
  const int64_t rows_at_once =
      std::clamp<int64_t>(static_cast<int64_t>(kPieceBytes / sizeof(float)) / source.cols, 1, source.rows);
  Piece piece(runtime, Place::kPinned);
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

// The file's rows as they are, in pieces of whole tiles; packed there.
Status upload_quantized(Runtime& runtime, const MatrixSource& source, unsigned char* to) {
  const QuantLayout layout = quant_layout(source.type, source.rows, source.cols);
  const TensorTypeTraits& traits = traits_of(source.type);
  const int64_t row_bytes = source.cols / traits.block_values * traits.block_bytes;
  const int64_t tiles_at_once = std::max<int64_t>(static_cast<int64_t>(kPieceBytes) / (row_bytes * kTileRows), 1);
  const int64_t rows_at_once = std::min(tiles_at_once * kTileRows, source.rows);
  Piece piece(runtime, Place::kPinned);
  Piece staging(runtime, Place::kDevice);
  const auto piece_bytes = static_cast<size_t>(rows_at_once * row_bytes);
  if (Status status = piece.reserve(piece_bytes); !status) return status;
  if (Status status = staging.reserve(piece_bytes); !status) return status;
  for (int64_t row = 0; row < source.rows; row += rows_at_once) {
    const int64_t n = std::min(rows_at_once, source.rows - row);
    const auto bytes = static_cast<size_t>(n * row_bytes);
    std::memcpy(piece.get(), source.data.data() + row * row_bytes, bytes);
    runtime.upload(staging.get(), piece.get(), bytes);
    pack_quantized(runtime, layout, static_cast<const unsigned char*>(staging.get()), row, n, to);
    runtime.synchronize();
  }
  return {};
}

// 16-bit weights, a tile of rows after the other.
Status upload_dense(Runtime& runtime, const MatrixSource& source, unsigned char* to) {
  const size_t tile_bytes = dense_bytes(kDenseTileRows, source.cols);
  const int64_t tiles = dense_tiles(source.rows);
  const int64_t tiles_at_once = std::clamp<int64_t>(static_cast<int64_t>(kPieceBytes / tile_bytes), 1, tiles);
  Piece piece(runtime, Place::kPinned);
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
  if (is_quantized(type)) return Format::kQuant;
  if (type == TensorType::kBF16) return Format::kBf16;
  if (type == TensorType::kF16) return Format::kF16;
  return Format::kF32;
}

size_t matrix_bytes(Format format, TensorType type, int64_t rows, int64_t cols) {
  if (format == Format::kQuant) return quant_bytes(quant_layout(type, rows, cols));
  if (is_dense(format)) return dense_bytes(rows, cols);
  return static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
}

Result<std::unique_ptr<Matrix>> make_matrix(Runtime& runtime, const MatrixSource& source, bool exact) {
  const TensorTypeTraits& traits = traits_of(source.type);
  if (source.rows < 1 || source.cols < 1 || source.cols % traits.block_values != 0)
    return Error{ErrorCode::kUnsupported, "a matrix of " + std::to_string(source.rows) + " rows and " +
                                              std::to_string(source.cols) + " columns of " + std::string(traits.name)};
  const Format format = format_for(source.type, source.rows, source.cols, exact);
  const size_t bytes = matrix_bytes(format, source.type, source.rows, source.cols);
  auto memory = runtime.allocate(bytes);
  if (!memory) return memory.error();
  auto matrix = std::make_unique<CudaMatrix>(runtime, format, *memory);
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->type = source.type;
  matrix->bytes = bytes;
  auto* const to = static_cast<unsigned char*>(*memory);
  const Status status = format == Format::kQuant ? upload_quantized(runtime, source, to)
                        : is_dense(format)       ? upload_dense(runtime, source, to)
                                                 : upload_f32(runtime, source, static_cast<float*>(*memory));
  if (!status) return status.error();
  return std::unique_ptr<Matrix>(std::move(matrix));
}

}  // namespace monolith::cuda
