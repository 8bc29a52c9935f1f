// Loading: allocates a CpuMatrix and repacks the weights into it in parallel.
#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/repack.h"
#include "base/checked.h"

namespace monolith {
namespace {

// Maximum number of elements. It bounds every size computed below: 2^40 values of four bytes exceed the memory of any
// supported machine.
constexpr int64_t kMaxValues = int64_t{1} << 40;

bool shape_supported(TensorType type, int64_t rows, int64_t cols) {
  const bool known = type == TensorType::kF8Scaled || tensor_type_traits(static_cast<uint32_t>(type)) != nullptr;
  if (!known || type == TensorType::kI32 || type == TensorType::kI64) return false;
  const auto values = checked_mul(rows, cols);
  return rows > 0 && cols > 0 && values && *values <= kMaxValues && cols % traits_of(type).block_values == 0;
}

// Panels per task while loading: about half a megabyte for a typical matrix.
constexpr int64_t kLoadGrain = 8;
// A matrix is divided among NUMA nodes only if each node gets at least this many bytes on average.
constexpr size_t kDividedBytes = size_t{4} << 20;

}  // namespace

size_t CpuMatrix::bytes_for(TensorType stored, int64_t rows, int64_t cols) {
  if (!shape_supported(stored, rows, cols)) return 0;
  return panel_layout(stored, cols).bytes() * static_cast<size_t>((rows + kPanelRows - 1) / kPanelRows);
}

Result<std::unique_ptr<CpuMatrix>> CpuMatrix::create(const MatrixSource& source, TensorType stored, ThreadPool& pool) {
  assert(stored == source.type || stored == TensorType::kF32);
  const std::string shape =
      "matrix [" + std::to_string(source.rows) + ", " + std::to_string(source.cols) + "] of " +
      std::string(source.type == TensorType::kF8Scaled ? traits_of(source.type).name
                                                       : tensor_type_name(static_cast<uint32_t>(source.type)));
  if (!shape_supported(source.type, source.rows, source.cols))
    return Error{ErrorCode::kUnsupported, shape + ": shape or type not supported"};
  const TensorTypeTraits& traits = traits_of(source.type);
  const size_t row_bytes = static_cast<size_t>(source.cols / traits.block_values * traits.block_bytes);
  const size_t wanted = row_bytes * static_cast<size_t>(source.rows);
  if (source.data.size() < wanted)
    return Error{ErrorCode::kInvalidArgument,
                 shape + ": needs " + std::to_string(wanted) + " bytes, got " + std::to_string(source.data.size())};

  std::unique_ptr<CpuMatrix> matrix(new CpuMatrix());
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->type = source.type;
  matrix->layout_ = panel_layout(stored, source.cols);
  matrix->bytes = bytes_for(stored, source.rows, source.cols);
  if (!source.factors.empty()) {
    assert(static_cast<int64_t>(source.factors.size()) == source.rows);
    matrix->factors_.assign(source.factors.begin(), source.factors.end());
    matrix->factors_.resize(factor_bytes(source.rows) / sizeof(float), 1.0f);
    matrix->bytes += factor_bytes(source.rows);
  }
  auto memory = Mapping::create(bytes_for(stored, source.rows, source.cols));
  if (!memory) return Error{memory.error().code, shape + ": " + memory.error().message};
  matrix->memory_ = std::move(*memory);

  if (!source.stacked) matrix->divide_among_nodes(pool);
  std::byte* const to = matrix->memory_.data();
  std::byte* const block_scales = to + static_cast<size_t>(matrix->n_panels()) * matrix->layout_.records;
  const PanelLayout& layout = matrix->layout_;
  pool.parallel_for(matrix->n_panels(), kLoadGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first_row = i * kPanelRows;
      const int n_rows = static_cast<int>(std::min<int64_t>(kPanelRows, source.rows - first_row));
      pack_panel(source.type, source.data.data() + static_cast<size_t>(first_row) * row_bytes, row_bytes, n_rows,
                 layout, to + static_cast<size_t>(i) * layout.records,
                 block_scales + static_cast<size_t>(i) * layout.block_scales);
    }
  });
  return matrix;
}

// Node k gets the panels that its threads compute (Product in matmul.cc). Small matrices stay interleaved, because a
// node's part would hardly contain a whole huge page.
void CpuMatrix::divide_among_nodes(const ThreadPool& pool) {
  if (pool.n_nodes() == 1) return;
  const auto n_panels = static_cast<size_t>(this->n_panels());
  for (const auto& [begin, panel_bytes] :
       {std::pair(size_t{0}, layout_.records), std::pair(n_panels * layout_.records, layout_.block_scales)}) {
    if (n_panels * panel_bytes < kDividedBytes * static_cast<size_t>(pool.n_nodes())) continue;
    for (int node = 0; node < pool.n_nodes(); ++node) {
      const auto offset = [&](int of) {
        return begin + static_cast<size_t>(pool.node_end(of, static_cast<int64_t>(n_panels))) * panel_bytes;
      };
      memory_.place_on_node(offset(node - 1), offset(node), pool.node_id(node));
    }
  }
}

void CpuMatrix::dequantize_row(int64_t row, float* out) const {
  assert(row >= 0 && row < rows);
  unpack_row(layout_, panel(row / kPanelRows), block_scales(row / kPanelRows), static_cast<int>(row % kPanelRows), out);
  if (factors_.empty()) return;
  const float factor = factors_[static_cast<size_t>(row)];
  for (int64_t i = 0; i < cols; ++i) out[i] *= factor;
}

}  // namespace monolith
