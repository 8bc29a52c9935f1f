// MoE layers on the CPU: implements Operations::mixture.
//
// A slot is one (row, expert) pair of the step. Slots are ordered by (expert, row), so an expert's rows are
// consecutive. Each expert's matrices are multiplied by all of its rows at once, with the kernels and the arithmetic
// described in panels.h. The tasks of all experts' matrices form a single parallel section, so threads do not have to
// wait for each other after every expert. A row's result is the sum over its own slots, from the most to the least
// preferred expert. It does not depend on other rows, except with Arithmetic::kFast, where the bits also depend on the
// number of rows of each expert.
//
// Called on the engine thread, which shares the work with the ThreadPool. Only reserve() allocates memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/machine/mapping.h"
#include "backend/cpu/matmul/kernel_choice.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/ops/logits.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace monolith {

struct OpKernels;

class CpuMixture {
 public:
  // tile_scratch: the memory of each thread in which tile kernels expand weights.
  CpuMixture(const MatmulKernels& matmul, const OpKernels& ops, ThreadPool& pool, const MatmulScratch& tile_scratch)
      : matmul_(matmul), ops_(ops), pool_(pool), tile_scratch_(tile_scratch) {}

  // Number of bytes that reserve() allocates; 0 if there are no experts.
  static size_t bytes_for(int max_rows, const MixtureShape& shape);
  // Errors: kInvalidArgument (more experts per token than experts in total, or sizes that are not multiples of
  // kExpertRowMultiple), kOutOfMemory.
  Status reserve(int max_rows, const MixtureShape& shape);

  // Implements Operations::mixture. The shape must not exceed the one passed to reserve() (asserted).
  void run(const Mixture& mixture, const float* router_logits, const float* x, int n_rows, float* out, bool add_to_out);

 private:
  struct Product;
  // Selects the experts for one row and computes their weights.
  void choose(const Mixture& mixture, const float* logits, int row);
  // Sets `best` to the indices of the n_used largest of the `n` values in `by`, in descending order of value.
  void choose_largest(const float* by, int n, int32_t* best) const;
  void score(const Router& router, const float* logits, int n, float* scores) const;
  // Group-limited routing: sets the selection scores of experts outside the best groups to minus infinity. `sums` is
  // scratch memory with one element per group.
  void keep_groups(const Router& router, float* by, float* sums) const;
  // Assigns slots to the (row, expert) pairs, chooses each expert's kernels, and splits its rows into tiles.
  void arrange(const Mixture& mixture, int n_rows);
  void pack(ActivationKind kind, const float* x, int64_t x_row, int64_t cols, int slot) const;
  // If shared_lines is set, every slot reads the packed input of slot 0.
  void multiply(std::span<const MatmulTarget> targets, int64_t rows_per_expert, int64_t cols, bool shared_lines);
  // Calls fn(i) for 0 <= i < n, on several threads if that is faster. `values` is the number of values that one call
  // processes.
  template <typename Fn>
  void for_slots(int n, int64_t values, Fn fn);
  ActivationKind kind_of(const Matrix& matrix, int32_t expert) const;

  const MatmulKernels& matmul_;
  const OpKernels& ops_;
  ThreadPool& pool_;
  const MatmulScratch& tile_scratch_;
  MixtureShape largest_;  // The shape passed to reserve().
  MixtureShape shape_;    // The shape of the current mixture.
  int max_rows_ = 0;
  MatmulScratch lines_;  // Packed input of every slot.
  Mapping memory_;
  float* gate_ = nullptr;     // Shape [slot][n_ff].
  float* up_ = nullptr;       // Shape [slot][n_ff].
  float* result_ = nullptr;   // Shape [slot][n_embd].
  float* weights_ = nullptr;  // Shape [row][n_used].
  float* scores_ = nullptr;   // Shape [row][3][router logits]: scores, selection scores, sums per group.
  // State of the current step.
  std::vector<int32_t> chosen_;         // Shape [row][n_used]: experts in order of preference.
  std::vector<int32_t> slot_of_;        // Shape [row][n_used].
  std::vector<int32_t> row_of_;         // Shape [slot].
  std::vector<int32_t> expert_of_;      // Shape [slot].
  std::vector<int32_t> tile_of_;        // Shape [slot]: first slot of its tile.
  std::vector<int32_t> tile_rows_;      // Shape [slot]: number of rows in its tile.
  std::vector<int32_t> first_slot_;     // Shape [n_experts + 1].
  std::vector<KernelKind> kernels_of_;  // Shape [n_experts]. Set only for active experts.
  std::vector<int32_t> active_;         // Experts with at least one row, ascending.
};

}  // namespace monolith
