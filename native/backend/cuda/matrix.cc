#include "backend/cuda/matrix.h"

#include <cstring>
#include <string>

#include "backend/cuda/dense.h"
#include "backend/cuda/quant_form.h"
#include "backend/cuda/quant_pack.h"
#include "model/gguf/tensor_type.h"

namespace monolith::cuda {
namespace {

Status upload_f32(Loader& loader, const MatrixSource& source, size_t row_bytes, float* to) {
  Runtime& runtime = loader.runtime();
  const size_t own_row_bytes = static_cast<size_t>(source.cols) * sizeof(float);
  return loader.send(
      source.rows, own_row_bytes, 1,
      [&](int64_t first, int64_t n, std::byte* host) {
        dequantize(source.type, source.data.data() + static_cast<size_t>(first) * row_bytes, n * source.cols,
                   reinterpret_cast<float*>(host));
      },
      [&](int64_t first, int64_t n, const unsigned char* staging) {
        runtime.copy(to + first * source.cols, staging, static_cast<size_t>(n) * own_row_bytes);
      });
}

// The file's rows as they are, in whole tiles; `pack(first, n, rows)` makes tiles of them on the device.
template <typename Pack>
Status upload_packed(Loader& loader, const MatrixSource& source, size_t row_bytes, const Pack& pack) {
  static_assert(kTileRows == kDenseTileRows);
  return loader.send(
      source.rows, row_bytes, kTileRows,
      [&](int64_t first, int64_t n, std::byte* host) {
        std::memcpy(host, source.data.data() + static_cast<size_t>(first) * row_bytes, static_cast<size_t>(n) * row_bytes);
      },
      pack);
}

Status upload(Loader& loader, const MatrixSource& source, Format format, size_t row_bytes, unsigned char* to) {
  Runtime& runtime = loader.runtime();
  if (format == Format::kF32) return upload_f32(loader, source, row_bytes, reinterpret_cast<float*>(to));
  if (is_dense(format))
    return upload_packed(loader, source, row_bytes, [&](int64_t first, int64_t n, const unsigned char* rows) {
      pack_dense(runtime, rows, n, source.cols, to + dense_bytes(first, source.cols));
    });
  const QuantLayout layout = quant_layout(source.type, source.rows, source.cols);
  return upload_packed(loader, source, row_bytes, [&](int64_t first, int64_t n, const unsigned char* rows) {
    pack_quantized(runtime, layout, rows, first, n, to);
  });
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

Result<std::unique_ptr<Matrix>> make_matrix(Loader& loader, const MatrixSource& source, bool exact) {
  Runtime& runtime = loader.runtime();
  const TensorTypeTraits& traits = traits_of(source.type);
  const int64_t row_bytes = source.cols / traits.block_values * traits.block_bytes;
  if (source.rows < 1 || source.cols < 1 || source.cols % traits.block_values != 0 ||
      static_cast<int64_t>(source.data.size()) / source.rows < row_bytes)
    return Error{ErrorCode::kUnsupported, "a matrix of " + std::to_string(source.rows) + " rows and " +
                                              std::to_string(source.cols) + " columns of " + std::string(traits.name) +
                                              " in " + std::to_string(source.data.size()) + " bytes"};
  const Format format = format_for(source.type, source.rows, source.cols, exact);
  const size_t bytes = matrix_bytes(format, source.type, source.rows, source.cols);
  auto memory = runtime.allocate(bytes);
  if (!memory) return memory.error();
  auto matrix = std::make_unique<CudaMatrix>(runtime, format, *memory);
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->type = source.type;
  matrix->bytes = bytes;
  if (Status status = upload(loader, source, format, static_cast<size_t>(row_bytes), static_cast<unsigned char*>(*memory));
      !status)
    return status.error();
  return std::unique_ptr<Matrix>(std::move(matrix));
}

Result<std::unique_ptr<Matrix>> make_matrix(Runtime& runtime, const MatrixSource& source, bool exact) {
  Loader loader(runtime);
  if (Status status = loader.start(); !status) return status.error();
  auto matrix = make_matrix(loader, source, exact);
  if (Status status = loader.rest(); !status) return status.error();
  return matrix;
}

}  // namespace monolith::cuda
