#include "backend/cuda/matmul/matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "backend/cuda/dense/dense.h"
#include "backend/cuda/dense/fp8.h"
#include "backend/cuda/quant/form.h"
#include "backend/cuda/quant/expand.h"
#include "backend/cuda/quant/pack.h"
#include "base/float8.h"
#include "formats/gguf/tensor_type.h"

namespace monolith::cuda {
namespace {

Error not_finite(int64_t row) {
  return {ErrorCode::kInvalidFile,
          "row " + std::to_string(row) + " has a non-finite weight, which FP8 cannot represent"};
}

// Rounds the values of a row to FP8 and converts them back to floats. Returns false if a value is not finite.
bool round_to_fp8(float* row, int64_t cols) {
  float most = 0;
  bool finite = true;
  for (int64_t i = 0; i < cols; ++i) {
    most = std::max(most, std::abs(row[i]));
    finite = finite && std::isfinite(row[i]);
  }
  const float scale = fp8_scale(most);
  for (int64_t i = 0; i < cols; ++i) row[i] = e4m3_to_float(float_to_e4m3(row[i] / scale)) * scale;
  return finite;
}

Status upload_f32(Loader& loader, const MatrixSource& source, size_t row_bytes, float* to) {
  Runtime& runtime = loader.runtime();
  const size_t own_row_bytes = static_cast<size_t>(source.cols) * sizeof(float);
  std::atomic<int64_t> refused = -1;
  const Status status = loader.send(
      source.rows, own_row_bytes, 1,
      [&](int64_t first, int64_t n, std::byte* host) {
        auto* const rows = reinterpret_cast<float*>(host);
        dequantize(source.type, source.data.data() + static_cast<size_t>(first) * row_bytes, n * source.cols, rows);
        if (!source.fp8) return;
        for (int64_t row = 0; row < n; ++row)
          if (!round_to_fp8(rows + row * source.cols, source.cols)) refused = first + row;
      },
      [&](int64_t first, int64_t n, const unsigned char* staging) {
        runtime.copy(to + first * source.cols, staging, static_cast<size_t>(n) * own_row_bytes);
      });
  if (refused >= 0) return not_finite(refused);
  return status;
}

// Uploads the rows as they are in the file, in chunks of whole tiles. `pack(first, n, rows)` packs the rows of a chunk
// into tiles on the device.
template <typename Pack>
Status upload_packed(Loader& loader, const MatrixSource& source, size_t row_bytes, const Pack& pack) {
  static_assert(kTileRows == kDenseTileRows);
  return loader.send(
      source.rows, row_bytes, kTileRows,
      [&](int64_t first, int64_t n, std::byte* host) {
        std::memcpy(host, source.data.data() + static_cast<size_t>(first) * row_bytes,
                    static_cast<size_t>(n) * row_bytes);
      },
      pack);
}

Status upload(Loader& loader, const MatrixSource& source, Format format, size_t row_bytes, unsigned char* to) {
  Runtime& runtime = loader.runtime();
  if (format == Format::kF32) return upload_f32(loader, source, row_bytes, reinterpret_cast<float*>(to));
  if (format == Format::kFp8) {
    const Fp8Matrix matrix = fp8_matrix(to, source.rows, source.cols);
    const auto pack = [&](int64_t first, int64_t n, const unsigned char* rows) {
      pack_fp8(runtime, matrix, source.type, rows, first, n, source.cols);
    };
    if (Status status = upload_packed(loader, source, row_bytes, pack); !status) return status;
    uint32_t refused = 0;
    loader.read(&refused, matrix.refused, sizeof refused);
    return refused > 0 ? Status(not_finite(int64_t{refused} - 1)) : Status{};
  }
  if (is_dense(format))
    return upload_packed(loader, source, row_bytes, [&](int64_t first, int64_t n, const unsigned char* rows) {
      pack_dense(runtime, rows, n, source.cols, to + dense_bytes(first, source.cols));
    });
  const QuantLayout layout = quant_layout(source.type, source.rows, source.cols);
  const auto pack = [&](int64_t first, int64_t n, const unsigned char* rows) {
    pack_quantized(runtime, layout, rows, first, n, to);
  };
  if (!is_expanded_type(source.type)) return upload_packed(loader, source, row_bytes, pack);
  const auto expanded_bytes =
      static_cast<size_t>(source.cols / traits_of(source.type).block_values) * packed_from_bytes(source.type);
  return loader.send(
      source.rows, expanded_bytes, kTileRows,
      [&](int64_t first, int64_t n, std::byte* host) {
        expand_blocks(source.type, source.data.data() + static_cast<size_t>(first) * row_bytes, n * source.cols, host);
      },
      pack);
}

}  // namespace

bool keeps_type(TensorType type, bool exact) {
  return exact || is_quantized(type) || traits_of(type).block_values == 1;
}

Format format_for(TensorType type, int64_t, int64_t, bool exact) {
  if (exact) return Format::kF32;
  if (is_quantized(type)) return Format::kQuant;
  if (type == TensorType::kBF16) return Format::kBf16;
  if (type == TensorType::kF16) return Format::kF16;
  if (type == TensorType::kF8E4M3) return Format::kFp8;
  return Format::kF32;
}

size_t matrix_bytes(Format format, TensorType type, int64_t rows, int64_t cols) {
  if (format == Format::kQuant) return quant_bytes(quant_layout(type, rows, cols));
  if (format == Format::kFp8) return fp8_bytes(rows, cols);
  if (is_dense(format)) return dense_bytes(rows, cols);
  return static_cast<size_t>(rows) * static_cast<size_t>(cols) * sizeof(float);
}

Result<std::unique_ptr<Matrix>> make_matrix(Loader& loader, const MatrixSource& source, bool exact) {
  Runtime& runtime = loader.runtime();
  const TensorTypeTraits& traits = traits_of(source.type);
  const int64_t row_bytes = source.cols / traits.block_values * traits.block_bytes;
  if (!keeps_type(source.type, exact) || source.rows < 1 || source.cols < 1 || source.cols % traits.block_values != 0 ||
      source.type == TensorType::kF8E4M3 || (source.fp8 && is_quantized(source.type)) ||
      static_cast<int64_t>(source.data.size()) / source.rows < row_bytes)
    return Error{ErrorCode::kUnsupported, "unsupported matrix: " + std::to_string(source.rows) + " rows, " +
                                              std::to_string(source.cols) + " columns, type " +
                                              std::string(traits.name) + " in " + std::to_string(source.data.size()) +
                                              " bytes"};
  const TensorType type = source.fp8 ? TensorType::kF8E4M3 : source.type;
  const Format format = format_for(type, source.rows, source.cols, exact);
  const size_t bytes = matrix_bytes(format, type, source.rows, source.cols);
  auto memory = runtime.allocate(bytes);
  if (!memory) return memory.error();
  auto matrix = std::make_unique<CudaMatrix>(runtime, format, *memory);
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->type = type;
  matrix->bytes = bytes;
  auto* const to = static_cast<unsigned char*>(*memory);
  if (Status status = upload(loader, source, format, static_cast<size_t>(row_bytes), to); !status)
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
