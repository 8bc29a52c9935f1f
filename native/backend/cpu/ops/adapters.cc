// LoRA adapters on the CPU: the layout of the factors in memory, and the distribution of the work to threads.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "base/checked.h"
#include "base/half.h"

namespace monolith {
namespace {

constexpr int kRowsPerPiece = 32;
constexpr int64_t kOutputsPerPiece = 1024;
static_assert(kOutputsPerPiece % kLanes == 0);

// Stores A and B as binary16 if binary16 represents every value of both exactly, otherwise as binary32.
class CpuAdapterMatrix final : public AdapterMatrix {
 public:
  bool halves = false;
  float scale = 0;
  int64_t padded_cols = 0;
  Mapping memory;

  size_t value_bytes() const { return halves ? sizeof(uint16_t) : sizeof(float); }
  const std::byte* a(int first_rank) const {
    return memory.data() + static_cast<size_t>(first_rank * padded_cols) * value_bytes();
  }
  const std::byte* b(int64_t first_output) const {
    return a(rank) + static_cast<size_t>(first_output * rank) * value_bytes();
  }
};

bool are_halves(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return half_to_float(float_to_half(value)) == value; });
}

void store(float value, bool half, std::byte* to) {
  if (half) {
    const uint16_t bits = float_to_half(value);
    std::memcpy(to, &bits, sizeof bits);
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

int64_t pieces_of(int64_t count, int64_t per_piece) { return (count + per_piece - 1) / per_piece; }

// The work is split into pieces, each of which belongs to a single target. This class numbers the pieces of all targets
// consecutively.
class Pieces {
 public:
  template <typename Count>
  Pieces(std::span<const AdapterTarget> targets, Count count) : n_targets_(targets.size()) {
    ends_[0] = 0;
    for (size_t i = 0; i < n_targets_; ++i) ends_[i + 1] = ends_[i] + count(targets[i]);
  }
  int64_t count() const { return ends_[n_targets_]; }
  // Returns the index of the target that contains the piece, and changes `piece` to its number within that target.
  size_t target_of(int64_t& piece) const {
    const auto end = ends_.begin() + static_cast<int64_t>(n_targets_) + 1;
    const auto next = std::upper_bound(ends_.begin(), end, piece);
    piece -= *(next - 1);
    return static_cast<size_t>(next - ends_.begin()) - 1;
  }

 private:
  size_t n_targets_;
  std::array<int64_t, kMaxAdapterTargets + 1> ends_;
};

const CpuAdapterMatrix& matrix_of(const AdapterTarget& target) {
  return static_cast<const CpuAdapterMatrix&>(*target.matrix);
}

}  // namespace

Result<std::unique_ptr<AdapterMatrix>> CpuBackend::adapter_matrix(const AdapterSource& source) {
  auto matrix = std::make_unique<CpuAdapterMatrix>();
  matrix->rank = source.rank;
  matrix->rows = source.rows;
  matrix->cols = source.cols;
  matrix->scale = source.scale;
  matrix->halves = are_halves(source.a) && are_halves(source.b);
  matrix->padded_cols = round_up_to_lanes(source.cols);
  const int64_t padded_rows = round_up_to_lanes(source.rows);
  const size_t size = matrix->value_bytes();
  const auto values = checked_mul<int64_t>(matrix->padded_cols + padded_rows, source.rank);
  const auto bytes = values ? checked_mul<int64_t>(*values, static_cast<int64_t>(size)) : std::nullopt;
  if (!bytes) return Error{ErrorCode::kOutOfMemory, "the adapter is too large"};
  auto memory = Mapping::create(static_cast<size_t>(*bytes));
  if (!memory) return memory.error();
  matrix->memory = std::move(*memory);
  matrix->bytes = matrix->memory.size();
  std::byte* const a = matrix->memory.data();
  for (int64_t j = 0; j < source.rank; ++j) {
    const int64_t first = j / kAdapterRanks * kAdapterRanks, n = std::min<int64_t>(kAdapterRanks, source.rank - first);
    for (int64_t i = 0; i < source.cols; ++i) {
      const int64_t at = first * matrix->padded_cols + (i / kLanes * n + j - first) * kLanes + i % kLanes;
      store(source.a[static_cast<size_t>(j * source.cols + i)], matrix->halves, a + static_cast<size_t>(at) * size);
    }
  }
  std::byte* const b = a + static_cast<size_t>(source.rank * matrix->padded_cols) * size;
  for (int64_t row = 0; row < source.rows; ++row)
    for (int64_t j = 0; j < source.rank; ++j)
      store(source.b[static_cast<size_t>(row * source.rank + j)], matrix->halves,
            b + static_cast<size_t>((row / kLanes * source.rank + j) * kLanes + row % kLanes) * size);
  return std::unique_ptr<AdapterMatrix>(std::move(matrix));
}

void CpuBackend::add_adapters(std::span<const AdapterTarget> targets, float* scratch) {
  // For each target, the offset in `scratch`, in floats, of scale * (A x), an array of shape [rows][rank].
  std::array<int64_t, kMaxAdapterTargets> starts;
  int64_t start = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    starts[i] = start;
    start += static_cast<int64_t>(targets[i].rows.size()) * targets[i].matrix->rank;
  }
  const auto row_pieces = [](const AdapterTarget& target) {
    return pieces_of(static_cast<int64_t>(target.rows.size()), kRowsPerPiece);
  };
  const auto rows_in = [](const AdapterTarget& target, int64_t first) {
    return static_cast<int>(std::min<int64_t>(kRowsPerPiece, static_cast<int64_t>(target.rows.size()) - first));
  };

  const Pieces down(targets, [&](const AdapterTarget& target) {
    return row_pieces(target) * pieces_of(target.matrix->rank, kAdapterRanks);
  });
  pool_.parallel_for(down.count(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t piece = i;
      const size_t at = down.target_of(piece);
      const AdapterTarget& target = targets[at];
      const CpuAdapterMatrix& matrix = matrix_of(target);
      const int64_t n = row_pieces(target), row = piece % n * kRowsPerPiece;
      const int rank = static_cast<int>(piece / n) * kAdapterRanks;
      ops_.adapter_down({.a = matrix.a(rank),
                         .halves = matrix.halves,
                         .n_ranks = std::min(kAdapterRanks, matrix.rank - rank),
                         .cols = matrix.cols,
                         .x = target.x,
                         .rows = target.rows.data() + row,
                         .n_rows = rows_in(target, row),
                         .scale = matrix.scale,
                         .out = scratch + starts[at] + row * matrix.rank + rank,
                         .out_stride = matrix.rank});
    }
  });

  const Pieces up(targets, [&](const AdapterTarget& target) {
    return row_pieces(target) * pieces_of(target.matrix->rows, kOutputsPerPiece);
  });
  pool_.parallel_for(up.count(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t piece = i;
      const size_t at = up.target_of(piece);
      const AdapterTarget& target = targets[at];
      const CpuAdapterMatrix& matrix = matrix_of(target);
      const int64_t n = row_pieces(target), row = piece % n * kRowsPerPiece, first = piece / n * kOutputsPerPiece;
      ops_.adapter_up({.b = matrix.b(first),
                       .halves = matrix.halves,
                       .rank = matrix.rank,
                       .count = std::min(kOutputsPerPiece, matrix.rows - first),
                       .t = scratch + starts[at] + row * matrix.rank,
                       .out = target.out + first,
                       .out_stride = target.out_stride,
                       .rows = target.rows.data() + row,
                       .n_rows = rows_in(target, row)});
    }
  });
}

}  // namespace monolith
