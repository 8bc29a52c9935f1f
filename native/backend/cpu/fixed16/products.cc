#include "backend/cpu/fixed16/products.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cpu/matmul/row_tiles.h"

namespace monolith {
namespace {

// Maximum number of elements in a matrix. Keeps all size computations far from overflow.
constexpr int64_t kMaxValues = int64_t{1} << 32;
// Tasks per thread: enough for dynamic scheduling to balance the load.
constexpr int64_t kPiecesPerThread = 4;
constexpr size_t kMaxTargets = 4;
// The tile unit is used only for at least this many rows, because expanding the weights takes time. Each tile of rows
// of a larger matmul has at least this many rows, too.
constexpr int kMinUnitRows = 32;
// Number of panels of which a block is expanded at the same time for the tile unit. The expanded blocks take 64 KiB.
// With several panels, the rows are read less often.
constexpr int64_t kUnitPanels = 4;

int64_t blocks_of(int64_t cols) { return (cols + kFixed16Block - 1) / kFixed16Block; }

// Returns the step used to quantize one block of a row of weights. The step limits the sum of the weights so that, with
// activations up to kFixed16Most, integer sums stay within 31 bits.
float weight_step(const float* numbers, int64_t count) {
  double sum = 0;
  float most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(numbers[i])) return std::numeric_limits<float>::quiet_NaN();
    sum += std::fabs(numbers[i]);
    most = std::max(most, std::fabs(numbers[i]));
  }
  // Leaves a margin for rounding.
  constexpr double kMaxSum = static_cast<double>(0x7fffffff / kFixed16Most - kFixed16Block);
  const double step = std::max(static_cast<double>(most) / 32767, sum / kMaxSum);
  return step < 0x1p-100 ? 0.0f : static_cast<float>(step * (1 + 0x1p-20));
}

}  // namespace

const Fixed16Kernels* fixed16_kernels(CpuIsa isa) {
#if defined(__x86_64__)
  static const Fixed16Kernels with_amx = [] {
    Fixed16Kernels kernels = kAvx512Fixed16;
    kernels.tiles = &kAmxFixed16;
    return kernels;
  }();
  if (isa == CpuIsa::kAmx) return &with_amx;
  if (isa == CpuIsa::kAvx512) return &kAvx512Fixed16;
#endif
  static_cast<void>(isa);
  return nullptr;
}

size_t Fixed16Matrix::bytes_for(int64_t rows, int64_t cols) {
  if (rows < 1 || cols < 1 || rows > kMaxValues / cols) return 0;
  const int64_t panels = (rows + kFixed16Lanes - 1) / kFixed16Lanes;
  return static_cast<size_t>(panels * kFixed16Lanes) * (static_cast<size_t>((cols + 1) / 2) * 2 * sizeof(int16_t) +
                                                        static_cast<size_t>(blocks_of(cols)) * sizeof(float));
}

void Fixed16Matrix::pack_panel(const MatrixSource& source, int64_t panel, std::span<float> numbers) {
  const TensorTypeTraits& traits = traits_of(source.type);
  const size_t row_bytes = static_cast<size_t>(cols / traits.block_values * traits.block_bytes);
  const int64_t first = panel * kFixed16Lanes, n_rows = std::min<int64_t>(kFixed16Lanes, rows - first);
  for (int64_t lane = 0; lane < n_rows; ++lane) {  // Lanes beyond the last row remain zero.
    dequantize(source.type, source.data.data() + static_cast<size_t>(first + lane) * row_bytes, cols, numbers.data());
    for (int64_t b = 0; b < blocks(); ++b) {
      const float* const from = numbers.data() + b * kFixed16Block;
      const int64_t count = std::min<int64_t>(kFixed16Block, cols - b * kFixed16Block);
      const float step = weight_step(from, count);
      const_cast<float*>(steps(panel, b))[lane] = step;
      if (!(step > 0)) continue;
      int16_t* const to = const_cast<int16_t*>(block(panel, b));
      for (int64_t i = 0; i < count; ++i)
        to[(i / 2 * kFixed16Lanes + lane) * 2 + i % 2] = static_cast<int16_t>(std::lrint(from[i] / step));
    }
  }
}

Result<std::unique_ptr<Fixed16Matrix>> Fixed16Matrix::create(const MatrixSource& source, ThreadPool& pool) {
  const std::string shape = "matrix [" + std::to_string(source.rows) + ", " + std::to_string(source.cols) + "] of " +
                            std::string(tensor_type_name(static_cast<uint32_t>(source.type)));
  const size_t bytes = bytes_for(source.rows, source.cols);
  const auto known = tensor_type_traits(static_cast<uint32_t>(source.type));
  if (bytes == 0 || !known || source.type == TensorType::kI32 || source.cols % known->block_values != 0)
    return Error{ErrorCode::kUnsupported, shape + ": shape or type not supported"};
  const size_t wanted =
      static_cast<size_t>(source.cols / known->block_values * known->block_bytes) * static_cast<size_t>(source.rows);
  if (source.data.size() < wanted)
    return Error{ErrorCode::kInvalidArgument,
                 shape + ": needs " + std::to_string(wanted) + " bytes, got " + std::to_string(source.data.size())};
  auto memory = Mapping::create(bytes);
  if (!memory) return Error{memory.error().code, shape + ": " + memory.error().message};
  std::unique_ptr<Fixed16Matrix> matrix(new Fixed16Matrix());
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->type = source.type;
  matrix->bytes = bytes;
  matrix->memory_ = std::move(*memory);
  std::vector<float> numbers(static_cast<size_t>(pool.size()) * static_cast<size_t>(source.cols));
  pool.parallel_for(matrix->panels(), 1, [&](int64_t begin, int64_t end, int thread) {
    const auto own = std::span(numbers).subspan(static_cast<size_t>(thread) * static_cast<size_t>(source.cols),
                                                static_cast<size_t>(source.cols));
    for (int64_t panel = begin; panel < end; ++panel) matrix->pack_panel(source, panel, own);
  });
  return matrix;
}

size_t Fixed16Scratch::bytes_for(int max_rows, int64_t max_cols) {
  return static_cast<size_t>(blocks_of(max_cols) * max_rows) * (kFixed16Block * sizeof(int16_t) + sizeof(float));
}

Status Fixed16Scratch::reserve(int max_rows, int64_t max_cols) {
  max_rows = std::max(max_rows, max_rows_);
  max_cols = std::max(max_cols, max_blocks_ * kFixed16Block);
  if (holds(max_rows, max_cols)) return {};
  auto memory = Mapping::create(bytes_for(max_rows, max_cols));
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  max_rows_ = max_rows;
  max_blocks_ = blocks_of(max_cols);
  step_offset_ = static_cast<size_t>(max_blocks_ * max_rows) * kFixed16Block * sizeof(int16_t);
  return {};
}

bool Fixed16Scratch::holds(int64_t rows, int64_t cols) const {
  return rows * blocks_of(cols) <= max_rows_ * max_blocks_ && max_rows_ > 0;
}

void fixed16_matmul(const Fixed16Kernels& kernels, ThreadPool& pool, const Fixed16Scratch& scratch,
                    std::span<const MatmulTarget> targets, const float* x, int n_rows) {
  for (; targets.size() > kMaxTargets; targets = targets.subspan(kMaxTargets))
    fixed16_matmul(kernels, pool, scratch, targets.first(kMaxTargets), x, n_rows);
  if (targets.empty() || n_rows <= 0) return;
  const int64_t cols = targets[0].weight->cols, blocks = blocks_of(cols);
  assert(scratch.holds(n_rows, cols));
  int16_t* const integers = scratch.integers();
  float* const steps = scratch.steps();
  const auto count_of = [&](int64_t block) {
    return static_cast<int>(std::min<int64_t>(kFixed16Block, cols - block * kFixed16Block));
  };
  const Fixed16TileKernels* const unit = n_rows >= kMinUnitRows ? kernels.tiles : nullptr;
  pool.parallel_for(n_rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t block = 0; block < blocks; ++block) {
        int16_t* const packed = integers + (block * n_rows + row) * kFixed16Block;
        steps[block * n_rows + row] =
            kernels.pack(x + row * cols + block * kFixed16Block, count_of(block), kFixed16Most, packed);
        if (unit != nullptr) unit->split(packed, (count_of(block) + 1) / 2 * 2);
      }
  });

  int64_t all_panels = 0;
  for (const MatmulTarget& target : targets) all_panels += static_cast<const Fixed16Matrix&>(*target.weight).panels();
  // With a tile unit, large tasks need less memory bandwidth, but each thread should still get several tasks.
  int64_t panels_per_group = unit != nullptr ? kUnitPanels : 1;
  int rows_per_tile = unit != nullptr ? kFixed16UnitRows : kFixed16Rows;
  const auto has_enough_tasks = [&] {
    const int64_t row_tiles = (n_rows + rows_per_tile - 1) / rows_per_tile;
    return all_panels / panels_per_group * row_tiles >= kPiecesPerThread * pool.size();
  };
  if (unit != nullptr) {
    while (rows_per_tile > kMinUnitRows && !has_enough_tasks()) rows_per_tile /= 2;
    if (!has_enough_tasks()) panels_per_group = 1;
  }
  const Tiles tiles(n_rows, rows_per_tile);
  std::array<int64_t, kMaxTargets> groups{};
  int64_t all_groups = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const int64_t panels = static_cast<const Fixed16Matrix&>(*targets[i].weight).panels();
    all_groups += groups[i] = (panels + panels_per_group - 1) / panels_per_group;
  }
  // With few panels and many threads, the rows are divided among tasks as well. With a tile unit, the rows are always
  // divided. All panels are then computed for one range of rows before the next range, so that the range's rows stay in
  // the cache.
  const int64_t wanted = (kPiecesPerThread * pool.size() + all_groups - 1) / all_groups;
  const int64_t ranges = unit != nullptr    ? tiles.count
                         : pool.size() == 1 ? 1
                                            : std::clamp<int64_t>(wanted, 1, tiles.count);
  const int64_t tiles_per_range = (tiles.count + ranges - 1) / ranges;
  const auto compute = [&](const MatmulTarget& target, int64_t group, int64_t first_tile) {
    const auto& matrix = static_cast<const Fixed16Matrix&>(*target.weight);
    const int64_t first_panel = group * panels_per_group;
    const int64_t last_panel = std::min(first_panel + panels_per_group, matrix.panels());
    const int64_t last_tile = std::min<int64_t>(first_tile + tiles_per_range, tiles.count);
    alignas(64) std::byte expanded[kUnitPanels][kFixed16PanelBytes];  // Used only with a tile unit.
    // Each block of weights stays in the CPU caches while all rows are multiplied by it.
    for (int64_t block = 0; block < blocks; ++block) {
      const int pairs = (count_of(block) + 1) / 2;
      if (unit != nullptr)
        for (int64_t panel = first_panel; panel < last_panel; ++panel)
          unit->expand(matrix.block(panel, block), pairs, expanded[panel - first_panel]);
      for (int64_t i = first_tile; i < last_tile; ++i) {
        const int tile = static_cast<int>(i);
        const int64_t row = tiles.first_row(tile);
        for (int64_t panel = first_panel; panel < last_panel; ++panel) {
          const int64_t first_out = panel * kFixed16Lanes;
          const auto multiply = unit != nullptr ? unit->multiply : kernels.multiply;
          multiply({.weights = matrix.block(panel, block),
                    .expanded = unit != nullptr ? expanded[panel - first_panel] : nullptr,
                    .weight_steps = matrix.steps(panel, block),
                    .x = integers + (block * n_rows + row) * kFixed16Block,
                    .x_steps = steps + block * n_rows + row,
                    .pairs = pairs,
                    .n_rows = tiles.rows(tile),
                    .n_lanes = static_cast<int>(std::min<int64_t>(kFixed16Lanes, matrix.rows - first_out)),
                    .out = target.out + row * target.out_stride + first_out,
                    .out_stride = target.out_stride,
                    .first = block == 0,
                    .add_to_out = target.add_to_out,
                    .bias = target.bias != nullptr ? target.bias + first_out : nullptr});
        }
      }
    }
  };
  pool.parallel_for(all_groups * ranges, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      int64_t group = unit != nullptr ? piece % all_groups : piece / ranges;
      const int64_t range = unit != nullptr ? piece / all_groups : piece % ranges;
      size_t target = 0;
      while (group >= groups[target]) group -= groups[target++];
      compute(targets[target], group, range * tiles_per_range);
    }
  });
}

}  // namespace monolith
