// Mixtures of experts on the CPU: Backend::mixture.
//
// A slot is one (row, expert) pair of the step, and slots lie in the order of (expert, row): an
// expert's rows are consecutive, and its matrices pass over them as a product of that many rows,
// with the kernels and the arithmetic of strips.h. Pieces of all experts' matrices are one parallel
// section, so that threads do not wait for each other expert by expert. A row's result is the sum
// over its own slots in the order of its own choice, so no other row has a part in it.
//
// Threads: the engine thread calls; work is spread over the ThreadPool. Only reserve() allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/ops/logits.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

struct OpKernels;

class CpuMixture {
 public:
  CpuMixture(const MatmulKernels& matmul, const OpKernels& ops, ThreadPool& pool)
      : matmul_(matmul), ops_(ops), pool_(pool) {}

  // What reserve() takes from the system; 0 without experts.
  static size_t bytes_for(int max_rows, const MixtureShape& shape);
  // Errors: kInvalidArgument (more experts used than there are, sizes that are no multiple of
  // kExpertRowMultiple), kOutOfMemory.
  Status reserve(int max_rows, const MixtureShape& shape);

  // Backend::mixture; the shape must be the one reserved for (asserted).
  void run(const Mixture& mixture, const float* router_logits, const float* x, int n_rows, float* out, bool add_to_out);

 private:
  struct Product;
  // Chooses one row's experts and their weights.
  void choose(const Mixture& mixture, const float* logits, int row);
  // The experts with the largest of `by`, in that order.
  void choose_largest(const float* by, int32_t* best) const;
  void score(const Router& router, const float* logits, float* scores) const;
  // What the experts of other groups are chosen by becomes minus infinity. `sums`: one for each group.
  void keep_groups(const Router& router, float* by, float* sums) const;
  // Orders the slots, and their rows into tiles.
  void arrange(int n_rows);
  void pack(ActivationKind kind, const float* x, int64_t x_row, int64_t cols, int slot) const;
  // shared_lines: every slot reads the lines of slot 0.
  void multiply(std::span<const MatmulTarget> targets, int64_t rows_per_expert, int64_t cols, bool shared_lines);
  // fn(i) for 0 <= i < n, `values` numbers each, spread over the threads where that pays.
  template <typename Fn>
  void for_slots(int n, int64_t values, Fn fn);
  ActivationKind kind_of(const Matrix& matrix) const;

  const MatmulKernels& matmul_;
  const OpKernels& ops_;
  ThreadPool& pool_;
  MixtureShape shape_;
  int max_rows_ = 0;
  MatmulScratch lines_;  // packed input of every slot
  Mapping memory_;
  float* gate_ = nullptr;     // [slot][n_ff]
  float* up_ = nullptr;       // [slot][n_ff]
  float* result_ = nullptr;   // [slot][n_embd]
  float* weights_ = nullptr;  // [row][n_used]
  float* scores_ = nullptr;   // [row][3][n_experts] scores, what is chosen by, sums of groups
  // Of the step.
  std::vector<int32_t> chosen_;      // [row][n_used] experts, the first choice first
  std::vector<int32_t> slot_of_;     // [row][n_used]
  std::vector<int32_t> row_of_;      // [slot]
  std::vector<int32_t> tile_of_;     // [slot] first slot of its tile
  std::vector<int32_t> tile_rows_;   // [slot] rows of its tile
  std::vector<int32_t> first_slot_;  // [n_experts + 1]
  std::vector<int32_t> active_;      // experts with rows, ascending
};

}  // namespace monolith
