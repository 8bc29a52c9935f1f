#include "backend/cuda/mixture.h"

#include <algorithm>
#include <string>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/rows.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;

// Whether expert a with logit x comes before expert b with logit y.
MONOLITH_DEVICE bool before(float x, int a, float y, int b) { return x > y || (x == y && a < b); }

// A logit in that order: one that is no number comes last.
MONOLITH_DEVICE float order_of(float logit) { return logit == logit ? logit : -INFINITY; }

// One warp per row: each pass finds the first expert after the last one found.
__global__ void __launch_bounds__(kWarp)
    choose_kernel(const float* logits, int n_experts, int n_used, bool normalized, float scale, int32_t* chosen,
                  float* weights, int32_t* count, int32_t* place) {
  start_after_inputs();
  const int64_t row = blockIdx.x;
  const float* const own = logits + row * n_experts;
  const int lane = lane_id();
  float last = INFINITY;
  int last_expert = -1;
  float top = 0, sum = 0;
  for (int i = 0; i < n_used; ++i) {
    float best = -INFINITY;
    int expert = n_experts;   // none
    for (int e = lane; e < n_experts; e += kWarp) {
      const float logit = order_of(own[e]);
      if (before(last, last_expert, logit, e) && (expert == n_experts || before(logit, e, best, expert))) {
        best = logit;
        expert = e;
      }
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(kWholeWarp, best, distance);
      const int other_expert = __shfl_xor_sync(kWholeWarp, expert, distance);
      if (other_expert < n_experts && (expert == n_experts || before(other, other_expert, best, expert))) {
        best = other;
        expert = other_expert;
      }
    }
    last = best;
    last_expert = expert;
    const float logit = own[expert];
    if (i == 0) top = logit;
    const float weight = expf(logit - top);
    sum += weight;
    if (lane == 0) {
      const int64_t pair = row * n_used + i;
      chosen[pair] = expert;
      weights[pair] = weight;
      place[pair] = atomicAdd(count + expert, 1);
    }
  }
  if (!normalized) {
    sum = 0;
    for (int e = lane; e < n_experts; e += kWarp) sum += expf(own[e] - top);
    sum = warp_sum(sum);
  }
  if (lane == 0)
    for (int i = 0; i < n_used; ++i) weights[row * n_used + i] *= scale / sum;
}

// One block: where every expert's slots begin, at multiples of kSlotMultiple.
__global__ void __launch_bounds__(kThreads)
    first_slots_kernel(const int32_t* count, int n_experts, int32_t* first_slot) {
  start_after_inputs();
  auto& begins = shared_memory<int32_t[kThreads + 1]>();
  const int thread = static_cast<int>(threadIdx.x);
  const int run = (n_experts + kThreads - 1) / kThreads, first = thread * run;
  const int last = first + run < n_experts ? first + run : n_experts;
  const auto slots = [&](int expert) { return (count[expert] + kSlotMultiple - 1) / kSlotMultiple * kSlotMultiple; };
  int32_t n = 0;
  for (int expert = first; expert < last; ++expert) n += slots(expert);
  begins[thread + 1] = n;
  __syncthreads();
  if (thread == 0) {
    begins[0] = 0;
    for (int i = 1; i <= kThreads; ++i) begins[i] += begins[i - 1];
    first_slot[n_experts] = begins[kThreads];
  }
  __syncthreads();
  int32_t at = begins[thread];
  for (int expert = first; expert < last; ++expert) {
    first_slot[expert] = at;
    at += slots(expert);
  }
}

__global__ void __launch_bounds__(kThreads) place_kernel(const int32_t* chosen, const int32_t* first_slot, int n_pairs,
                                                         int n_used, int32_t* place, int32_t* source) {
  start_after_inputs();
  const int pair = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (pair >= n_pairs) return;
  const int32_t slot = first_slot[chosen[pair]] + place[pair];
  place[pair] = slot;
  source[slot] = pair / n_used;
}

__global__ void __launch_bounds__(kThreads)
    combine_kernel(const float* result, const int32_t* slots, const float* weights, int n_used, int64_t dim, float* out,
                   bool add_to_out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (i >= dim) return;
  float sum = add_to_out ? out[row * dim + i] : 0.0f;
  for (int j = 0; j < n_used; ++j) {
    const int64_t pair = row * n_used + j;
    sum = fmaf(weights[pair], result[slots[pair] * dim + i], sum);
  }
  out[row * dim + i] = sum;
}

// Hands out parts of one allocation; without one it only counts.
class Parts {
 public:
  explicit Parts(unsigned char* memory) : memory_(memory) {}
  template <typename T>
  T* take(int64_t count) {
    T* const part = memory_ ? reinterpret_cast<T*>(memory_ + bytes_) : nullptr;
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return part;
  }
  size_t bytes() const { return bytes_; }

 private:
  unsigned char* memory_;
  size_t bytes_ = 0;
};

int64_t slots_of(int64_t rows, const MixtureShape& shape) { return most_slots(rows * shape.n_used, shape.n_experts); }

}  // namespace

int64_t CudaMixture::most_columns(int max_rows, const MixtureShape& shape) {
  return shape.n_experts == 0 ? 0 : slots_of(max_rows, shape);
}

size_t CudaMixture::bytes_for(int max_rows, const MixtureShape& shape) {
  if (shape.n_experts == 0) return 0;
  const int64_t slots = slots_of(max_rows, shape), pairs = int64_t{max_rows} * shape.n_used;
  Parts parts(nullptr);
  for (int i = 0; i < 2; ++i) parts.take<float>(slots * shape.n_ff);
  parts.take<float>(slots * shape.n_embd);
  for (int i = 0; i < 3; ++i) parts.take<float>(pairs);
  parts.take<int32_t>(slots);
  for (int i = 0; i < 2; ++i) parts.take<int32_t>(shape.n_experts + 1);
  parts.take<ColumnTile>(most_tiles(pairs, shape.n_experts, kSlotMultiple));
  parts.take<int32_t>(1);
  return parts.bytes();
}

Status CudaMixture::reserve(int max_rows, const MixtureShape& shape) {
  if (shape.n_experts == 0) return {};
  if (shape_.n_experts > 0 && !(shape == shape_))
    return Error{ErrorCode::kUnsupported, "mixtures of experts of different shapes cannot be computed side by side"};
  constexpr int kMostRows = 1 << 16, kMostExperts = 1 << 16, kMostValues = 1 << 20;
  const auto in_range = [](int value, int high) { return value >= 1 && value <= high; };
  if (!in_range(max_rows, kMostRows) || !in_range(shape.n_experts, kMostExperts) ||
      !in_range(shape.n_used, shape.n_experts) || !in_range(shape.n_embd, kMostValues) ||
      !in_range(shape.n_ff, kMostValues) || shape.n_embd % kExpertRowMultiple != 0 ||
      shape.n_ff % kExpertRowMultiple != 0 || int64_t{max_rows} * shape.n_used > (1 << 24))
    return Error{ErrorCode::kInvalidArgument, "cannot reserve a mixture of " + std::to_string(shape.n_experts) +
                                                  " experts, " + std::to_string(shape.n_used) + " per row, of " +
                                                  std::to_string(shape.n_embd) + " and " + std::to_string(shape.n_ff) +
                                                  " values, for " + std::to_string(max_rows) + " rows"};
  if (max_rows <= max_rows_) return {};
  runtime_.free(memory_);
  memory_ = nullptr;
  max_rows_ = 0;
  auto memory = runtime_.allocate(bytes_for(max_rows, shape));
  if (!memory) return memory.error();
  memory_ = static_cast<unsigned char*>(*memory);
  shape_ = shape;
  max_rows_ = max_rows;
  const int64_t slots = slots_of(max_rows, shape), pairs = int64_t{max_rows} * shape.n_used;
  Parts parts(memory_);
  gate_ = parts.take<float>(slots * shape.n_ff);
  up_ = parts.take<float>(slots * shape.n_ff);
  result_ = parts.take<float>(slots * shape.n_embd);
  weights_ = parts.take<float>(pairs);
  chosen_ = parts.take<int32_t>(pairs);
  place_ = parts.take<int32_t>(pairs);
  source_ = parts.take<int32_t>(slots);
  count_ = parts.take<int32_t>(shape.n_experts + 1);
  first_slot_ = parts.take<int32_t>(shape.n_experts + 1);
  tiles_ = parts.take<ColumnTile>(most_tiles(pairs, shape.n_experts, kSlotMultiple));
  n_tiles_ = parts.take<int32_t>(1);
  return {};
}

Status CudaMixture::check(const Mixture& mixture) {
  const auto refused = [](const char* what) {
    return Error{ErrorCode::kUnsupported, std::string("the CUDA backend computes no mixtures of experts with ") + what};
  };
  if (mixture.router.score != RouterScore::kSoftmax || mixture.router.bias || mixture.router.groups != 1)
    return refused("routers but the plain softmax");
  if (mixture.gate_bias || mixture.up_bias || mixture.down_bias) return refused("biases");
  if (mixture.activation == Activation::kClampedSilu) return refused("a clamped activation");
  return {};
}

void CudaMixture::run(const MatmulContext& context, const Mixture& mixture, const float* router_logits, const float* x,
                      int n_rows, float* out, bool add_to_out) {
  if (n_rows == 0) return;
  const int n_experts = shape_.n_experts, n_used = shape_.n_used, n_pairs = n_rows * n_used;
  const auto n_slots = static_cast<int>(slots_of(n_rows, shape_));
  runtime_.fill(count_, 0, static_cast<size_t>(n_experts) * sizeof(int32_t));
  runtime_.fill(source_, 0xff, static_cast<size_t>(n_slots) * sizeof(int32_t));   // -1
  launch(runtime_, choose_kernel, dim3{static_cast<unsigned>(n_rows), 1, 1}, kWarp, 0, router_logits, n_experts, n_used,
         mixture.router.normalized, mixture.router.scale, chosen_, weights_, count_, place_);
  launch(runtime_, first_slots_kernel, dim3{1, 1, 1}, kThreads, sizeof(int32_t[kThreads + 1]), count_, n_experts,
         first_slot_);
  launch(runtime_, place_kernel, dim3{static_cast<unsigned>((n_pairs + kThreads - 1) / kThreads), 1, 1}, kThreads, 0,
         chosen_, first_slot_, n_pairs, n_used, place_, source_);

  ColumnGroups groups{source_, first_slot_, count_, tiles_, n_tiles_, n_slots, n_pairs, n_experts};
  const MatmulTarget inner[] = {{mixture.gate, gate_, shape_.n_ff}, {mixture.up, up_, shape_.n_ff}};
  matmul_grouped(runtime_, context, inner, x, groups);
  gated(runtime_, mixture.activation, gate_, up_, int64_t{n_slots} * shape_.n_ff, gate_);
  groups.source = nullptr;   // slots read themselves
  const MatmulTarget outer{mixture.down, result_, shape_.n_embd};
  matmul_grouped(runtime_, context, {&outer, 1}, gate_, groups);
  const dim3 grid{static_cast<unsigned>(n_rows), static_cast<unsigned>((shape_.n_embd + kThreads - 1) / kThreads), 1};
  launch(runtime_, combine_kernel, grid, kThreads, 0, result_, place_, weights_, n_used, shape_.n_embd, out,
         add_to_out);
}

}  // namespace monolith::cuda
