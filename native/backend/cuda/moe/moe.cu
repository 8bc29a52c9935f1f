#include "backend/cuda/moe/moe.h"

#include <algorithm>
#include <string>

#include "backend/cuda/device/launch.h"
#include "backend/cuda/rows.h"

namespace monolith::cuda {
namespace {

constexpr int kThreads = 256;

// Multiplies tokens by their router weights and writes them to their slots, for models that apply the weights to the
// experts' input. Launched with one block per (token, expert) pair.
__global__ void __launch_bounds__(kThreads) weigh_kernel(const Floats4* x, const int32_t* slots, const float* weights,
                                                         int n_used, int64_t quads, Floats4* out) {
  start_after_inputs();
  const int64_t pair = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (i >= quads) return;
  const float weight = weights[pair];
  const Floats4 value = x[pair / n_used * quads + i];
  out[slots[pair] * quads + i] = {value.x * weight, value.y * weight, value.z * weight, value.w * weight};
}

// Sums the results of a token's experts from first to last choice, with one thread per four values. kAtOnce results are
// loaded before the first one is added, because each load has to wait for its slot number. If `weights` is null, all
// weights are 1.
constexpr int kAtOnce = 8;
__global__ void __launch_bounds__(kThreads)
    combine_kernel(const Floats4* result, const int32_t* slots, const float* weights, int n_used, int64_t quads,
                   Floats4* out, bool add_to_out) {
  start_after_inputs();
  const int64_t row = blockIdx.x, i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (i >= quads) return;
  Floats4 sum{0, 0, 0, 0};
  if (add_to_out) sum = out[row * quads + i];
  for (int begin = 0; begin < n_used; begin += kAtOnce) {
    int64_t places[kAtOnce];
    float weight[kAtOnce];
    Floats4 x[kAtOnce];
    MONOLITH_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {  // Beyond the last expert, the last one is loaded again and not added.
      const int64_t pair = row * n_used + (begin + j < n_used ? begin + j : n_used - 1);
      weight[j] = weights ? weights[pair] : 1.0f;
      places[j] = slots[pair] * quads + i;
    }
    MONOLITH_UNROLL
    for (int j = 0; j < kAtOnce; ++j) x[j] = result[places[j]];
    MONOLITH_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      const Floats4 next{fmaf(weight[j], x[j].x, sum.x), fmaf(weight[j], x[j].y, sum.y), fmaf(weight[j], x[j].z, sum.z),
                         fmaf(weight[j], x[j].w, sum.w)};
      const bool inside = begin + j < n_used;  // A select instead of a branch, so that the loads are not serialized.
      sum = {inside ? next.x : sum.x, inside ? next.y : sum.y, inside ? next.z : sum.z, inside ? next.w : sum.w};
    }
  }
  out[row * quads + i] = sum;
}

// Divides one allocation into the arrays of Scratch. If `memory` is null, only adds up their sizes.
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

CudaMixture::Scratch::Scratch(unsigned char* memory, int max_rows, const MixtureShape& shape) {
  const int64_t slots = slots_of(max_rows, shape), pairs = int64_t{max_rows} * shape.n_used;
  Parts parts(memory);
  gate = parts.take<float>(slots * shape.n_ff);
  up = parts.take<float>(slots * shape.n_ff);
  result = parts.take<float>(slots * shape.n_embd);
  routing = {.chosen = parts.take<int32_t>(pairs),
             .weights = parts.take<float>(pairs),
             .slots = parts.take<int32_t>(pairs),
             .arrived = parts.take<int32_t>(shape.n_experts),
             .source = parts.take<int32_t>(slots),
             .first_slot = parts.take<int32_t>(shape.n_experts),
             .count = parts.take<int32_t>(shape.n_experts),
             .tiles = parts.take<ColumnTile>(most_tiles(pairs, shape.n_experts, kSlotMultiple))};
  bytes = parts.bytes();
}

size_t CudaMixture::bytes_for(int max_rows, const MixtureShape& shape) {
  return shape.n_experts == 0 ? 0 : Scratch(nullptr, max_rows, shape).bytes;
}

Status CudaMixture::reserve(int max_rows, const MixtureShape& shape) {
  if (shape.n_experts == 0) return {};
  if (shape_.n_experts > 0 && !(shape == shape_))
    return Error{ErrorCode::kUnsupported, "the CUDA backend does not support MoE layers of different shapes"};
  constexpr int kMaxRows = 1 << 16, kMaxValues = 1 << 20;
  const auto in_range = [](int value, int high) { return value >= 1 && value <= high; };
  if (!in_range(max_rows, kMaxRows) || !in_range(shape.n_experts, kMaxExperts) ||
      !in_range(shape.n_used, shape.n_experts) || !in_range(shape.n_embd, kMaxValues) ||
      !in_range(shape.n_ff, kMaxValues) || shape.n_embd % kExpertRowMultiple != 0 ||
      shape.n_ff % kExpertRowMultiple != 0 || int64_t{max_rows} * shape.n_used > (1 << 24))
    return Error{ErrorCode::kInvalidArgument,
                 "MoE shape is out of range: " + std::to_string(shape.n_experts) + " experts, " +
                     std::to_string(shape.n_used) + " per token, dimensions " + std::to_string(shape.n_embd) + " and " +
                     std::to_string(shape.n_ff) + ", for " + std::to_string(max_rows) + " tokens"};
  if (max_rows <= max_rows_) return {};
  runtime_.free(memory_);
  memory_ = nullptr;
  max_rows_ = 0;
  auto memory = runtime_.allocate(bytes_for(max_rows, shape));
  if (!memory) return memory.error();
  memory_ = static_cast<unsigned char*>(*memory);
  shape_ = shape;
  max_rows_ = max_rows;
  by_token_.reserve(static_cast<size_t>(max_rows) * static_cast<size_t>(std::min(shape.n_used, kMaxByToken)));
  return {};
}

Status CudaMixture::check(const Mixture& mixture) {
  const Router& router = mixture.router;
  const auto refused = [](const std::string& what) {
    return Error{ErrorCode::kUnsupported, "the CUDA backend does not support MoE layers with " + what};
  };
  if (mixture.shape.n_experts > kMaxExperts)
    return refused(std::to_string(mixture.shape.n_experts) + " experts; the maximum is " + std::to_string(kMaxExperts));
  if (router.experts_per_chunk > 1) return refused("chunk experts (GroveMoE)");
  if (router.groups > kMaxExpertGroups)
    return refused(std::to_string(router.groups) + " expert groups; the maximum is " +
                   std::to_string(kMaxExpertGroups));
  if (mixture.by_token.of_token != nullptr && mixture.shape.n_used > kMaxByToken)
    return refused(std::to_string(mixture.shape.n_used) + " experts per token id; the maximum is " +
                   std::to_string(kMaxByToken));
  return {};
}

std::span<const int32_t> CudaMixture::experts_of_tokens(const Mixture& mixture, int n_rows) {
  const TokenExperts& by_token = mixture.by_token;
  const int n_used = shape_.n_used;
  by_token_.clear();
  for (int row = 0; row < n_rows && by_token.of_token != nullptr; ++row) {
    const int32_t token = by_token.tokens[by_token.rows != nullptr ? by_token.rows[row] : row];
    const int32_t* const own = by_token.of_token + int64_t{token} * n_used;
    by_token_.insert(by_token_.end(), own, own + n_used);
  }
  return by_token_;
}

void CudaMixture::run(const MatmulContext& context, const Mixture& mixture, const float* router_logits, const float* x,
                      int n_rows, float* out, bool add_to_out, const int32_t* given) {
  if (n_rows == 0) return;
  const Scratch parts(memory_, max_rows_, shape_);
  const int64_t n_ff = shape_.n_ff, n_embd = shape_.n_embd;
  const MatmulTarget both[] = {{mixture.gate, parts.gate, n_ff, mixture.gate_bias},
                               {mixture.up, parts.up, n_ff, mixture.up_bias}};
  const std::span<const MatmulTarget> inner = std::span(both).subspan(mixture.gate ? 0 : 1);
  const int width = grouped_tile_columns(runtime_, context, inner, n_rows * shape_.n_used, shape_.n_experts);
  ColumnGroups groups = route(runtime_, mixture.router, shape_, router_logits, n_rows, width, parts.routing, given);
  const int64_t quads = n_embd / 4;
  const auto pieces = static_cast<unsigned>((quads + kThreads - 1) / kThreads);
  if (mixture.apply_router_weight_on_input) {
    float* const weighed = parts.result;  // This memory is read before the down projections write to it.
    launch(runtime_, weigh_kernel, dim3{static_cast<unsigned>(n_rows * shape_.n_used), pieces, 1}, kThreads, 0,
           reinterpret_cast<const Floats4*>(x), parts.routing.slots, parts.routing.weights, shape_.n_used, quads,
           reinterpret_cast<Floats4*>(weighed));
    groups.source = nullptr;
    x = weighed;
  }
  matmul_grouped(runtime_, context, inner, x, groups);
  groups.source = nullptr;  // From here on each slot reads its own row.
  const MatmulTarget outer{mixture.down, parts.result, n_embd, mixture.down_bias};
  if (!mixture.gate) {
    activate(runtime_, mixture.activation.activation, parts.up, groups.n_slots * n_ff);
    matmul_grouped(runtime_, context, {&outer, 1}, parts.up, groups);
    return combine(mixture, parts, n_rows, out, add_to_out);
  }
  const InputForm form =
      context.fused ? input_form(static_cast<const CudaMatrix*>(mixture.down)->format()) : InputForm::kFloats;
  gated_input(runtime_, mixture.activation, parts.gate, parts.up, groups.n_slots, n_ff,
              form == InputForm::kFloats ? parts.gate : nullptr, input_of(context, form, groups.n_slots, n_ff));
  matmul_grouped(runtime_, context, {&outer, 1}, parts.gate, groups, form);
  combine(mixture, parts, n_rows, out, add_to_out);
}

void CudaMixture::combine(const Mixture& mixture, const Scratch& parts, int n_rows, float* out, bool add_to_out) {
  const int64_t quads = shape_.n_embd / 4;
  const dim3 grid{static_cast<unsigned>(n_rows), static_cast<unsigned>((quads + kThreads - 1) / kThreads), 1};
  launch(runtime_, combine_kernel, grid, kThreads, 0, reinterpret_cast<const Floats4*>(parts.result),
         parts.routing.slots, mixture.apply_router_weight_on_input ? nullptr : parts.routing.weights, shape_.n_used,
         quads, reinterpret_cast<Floats4*>(out), add_to_out);
}

}  // namespace monolith::cuda
