// Matrices of 16-bit integers with scales (called steps), and their matmul. kernels.h describes the arithmetic. Called
// on the engine thread. Only create() and reserve() allocate memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/fixed16/kernels.h"
#include "backend/cpu/machine/mapping.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

// Returns null if the instruction set has no 16-bit fixed-point kernels.
const Fixed16Kernels* fixed16_kernels(CpuIsa isa);

// Layout: panels of 32 rows. Each panel consists of blocks of columns with [pairs][32][2] integers. The steps follow
// all panels: [panels][blocks][32].
class Fixed16Matrix final : public Matrix {
 public:
  // Bytes that create() allocates.
  static size_t bytes_for(int64_t rows, int64_t cols);
  // Errors: kUnsupported (unsupported type or shape), kInvalidArgument (data too short), kOutOfMemory.
  static Result<std::unique_ptr<Fixed16Matrix>> create(const MatrixSource& source, ThreadPool& pool);

  int64_t panels() const { return (rows + kFixed16Lanes - 1) / kFixed16Lanes; }
  int64_t blocks() const { return (cols + kFixed16Block - 1) / kFixed16Block; }
  int64_t pairs() const { return (cols + 1) / 2; }
  const int16_t* block(int64_t panel, int64_t block) const {
    return integers() + (panel * pairs() + block * (kFixed16Block / 2)) * kFixed16Lanes * 2;
  }
  const float* steps(int64_t panel, int64_t block) const {
    return reinterpret_cast<const float*>(integers() + panels() * pairs() * kFixed16Lanes * 2) +
           (panel * blocks() + block) * kFixed16Lanes;
  }

 private:
  Fixed16Matrix() = default;
  int16_t* integers() const { return reinterpret_cast<int16_t*>(memory_.data()); }
  void pack_panel(const MatrixSource& source, int64_t panel, std::span<float> numbers);
  Mapping memory_;
};

// Packed activations: [blocks][rows][256] integers and [blocks][rows] steps.
class Fixed16Scratch {
 public:
  static size_t bytes_for(int max_rows, int64_t max_cols);
  // Errors: kOutOfMemory. Reuses the existing memory if it is large enough.
  Status reserve(int max_rows, int64_t max_cols);
  int16_t* integers() const { return reinterpret_cast<int16_t*>(memory_.data()); }
  float* steps() const { return reinterpret_cast<float*>(memory_.data() + step_offset_); }
  bool holds(int64_t rows, int64_t cols) const;

 private:
  Mapping memory_;
  int max_rows_ = 0;
  int64_t max_blocks_ = 0;
  size_t step_offset_ = 0;
};

// Like Operations::matmul. All weights must be Fixed16Matrix objects with the same `cols`. The scratch memory must be
// large enough (asserted).
void fixed16_matmul(const Fixed16Kernels& kernels, ThreadPool& pool, const Fixed16Scratch& scratch,
                    std::span<const MatmulTarget> targets, const float* x, int n_rows);

}  // namespace monolith
