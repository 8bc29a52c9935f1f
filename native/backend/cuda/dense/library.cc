#include "backend/cuda/dense/library.h"

#include <algorithm>

namespace monolith::cuda {

bool library_serves(Format format, int64_t rows, int64_t cols, int64_t columns) {
  constexpr int64_t kMin = 128;  // A smaller matrix does not occupy a GPU in either case.
  return format == Format::kBf16 && columns >= kLibraryColumns && rows >= kMin && cols >= kMin;
}

Result<std::unique_ptr<DenseLibrary>> DenseLibrary::open(Runtime& runtime, const std::string& path,
                                                         size_t weight_bytes) {
  std::unique_ptr<DenseLibrary> opened(new DenseLibrary(runtime, weight_bytes));
  const auto memory = runtime.allocate(CublasLt::kWorkspaceBytes + weight_bytes);
  if (!memory) return memory.error();
  opened->memory_ = *memory;
  auto library = CublasLt::open(runtime, path, *memory);
  if (!library) return library.error();
  opened->library_ = std::move(*library);
  return opened;
}

DenseLibrary::~DenseLibrary() { runtime_.free(memory_); }

void DenseLibrary::convert(const DenseScratch& scratch, const float* x, int64_t cols, int64_t n_columns) {
  convert_rows(runtime_, x, cols, n_columns, scratch.activations());
}

int64_t DenseLibrary::multiply(const DenseScratch& scratch, const MatmulTarget& target, int64_t n_columns) {
  const auto& matrix = static_cast<const CudaMatrix&>(*target.weight);
  const int64_t stride = dense_blocks(matrix.cols) * kDenseBlockK;
  const auto tile_bytes = static_cast<int64_t>(dense_bytes(kDenseTileRows, matrix.cols));
  // Rows that are unpacked together.
  const int64_t most = static_cast<int64_t>(weight_bytes_) / tile_bytes * kDenseTileRows;
  unsigned char* const weights = static_cast<unsigned char*>(memory_) + CublasLt::kWorkspaceBytes;
  for (int64_t first = 0; first < matrix.rows; first += most) {
    const int64_t rows = std::min(most, matrix.rows - first);
    if (most == 0) return first;
    unpack_dense(runtime_, matrix.data(), matrix.cols, first, dense_tiles(rows) * kDenseTileRows, weights);
    float* const out = target.out + first;
    const CublasLt::Product product{.rows = rows,
                                    .columns = n_columns,
                                    .k = stride,
                                    .out_stride = target.out_stride,
                                    .weights = weights,
                                    .x = scratch.activations(),
                                    .out = out,
                                    .add = target.add_to_out};
    if (!library_->multiply(product)) return first;
    if (target.bias) add_bias(runtime_, out, target.out_stride, target.bias + first, rows, n_columns);
  }
  return matrix.rows;
}

}  // namespace monolith::cuda
