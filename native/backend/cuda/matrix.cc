#include "backend/cuda/matrix.h"

#include <algorithm>
#include <string>

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

}  // namespace

Format format_for(TensorType, int64_t, int64_t, bool) { return Format::kF32; }

size_t matrix_bytes(Format, int64_t rows, int64_t cols) {
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
  if (Status status = upload_f32(runtime, source, static_cast<float*>(*memory)); !status) return status.error();
  return std::unique_ptr<Matrix>(std::move(matrix));
}

}  // namespace monolith::cuda
