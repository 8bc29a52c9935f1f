#include "backend/cpu/moe.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/matmul/kernel_choice.h"

namespace monolith {
namespace {

// Tuning constants, as in matmul.cc. kPanelBytes: weights that stay in the L2 cache while several tiles of rows use
// them. kStreamBytes: a contiguous range of weights that a single tile streams. kPiecesPerThread: minimum number of
// tasks per thread. kWorkAlone and kPackAlone: amounts of work below which a single thread is faster.
constexpr int64_t kPanelBytes = 512 * 1024;
constexpr int64_t kStreamBytes = 32 * 1024;
constexpr int64_t kPiecesPerThread = 4;
constexpr int64_t kWorkAlone = 64 * 1024;
constexpr int64_t kPackAlone = 16 * 1024;
// Number of router logits that one thread processes in about the time it takes to start a parallel section.
constexpr int64_t kLogitsAlone = 4 * 1024;

const CpuMatrix& cpu_matrix(const Matrix& matrix) { return static_cast<const CpuMatrix&>(matrix); }

int64_t slots_of(int max_rows, const MixtureShape& shape) { return int64_t{max_rows} * shape.n_used; }

int64_t floats_for(int max_rows, const MixtureShape& shape) {
  return slots_of(max_rows, shape) * (2 * int64_t{shape.n_ff} + shape.n_embd + 1) +
         int64_t{max_rows} * 3 * shape.n_experts;
}

int64_t ints_for(int max_rows, const MixtureShape& shape) {
  return 6 * slots_of(max_rows, shape) + 2 * int64_t{shape.n_experts} + 1;
}

int64_t widest(const MixtureShape& shape) { return std::max(shape.n_embd, shape.n_ff); }

}  // namespace

size_t CpuMixture::bytes_for(int max_rows, const MixtureShape& shape) {
  if (shape.n_experts == 0) return 0;
  return static_cast<size_t>(floats_for(max_rows, shape)) * sizeof(float) +
         static_cast<size_t>(ints_for(max_rows, shape)) * sizeof(int32_t) +
         static_cast<size_t>(shape.n_experts) * sizeof(KernelKind) +
         MatmulScratch::bytes_for(static_cast<int>(slots_of(max_rows, shape)), widest(shape));
}

Status CpuMixture::reserve(int max_rows, const MixtureShape& shape) {
  if (shape.n_experts == 0) return {};
  // Upper limits that keep all size computations far from overflow.
  constexpr int kMaxRows = 1 << 16, kMaxExperts = 1 << 16, kMaxValues = 1 << 20;
  const auto in_range = [](int value, int high) { return value >= 1 && value <= high; };
  if (!in_range(max_rows, kMaxRows) || !in_range(shape.n_experts, kMaxExperts) ||
      !in_range(shape.n_used, shape.n_experts) || !in_range(shape.n_embd, kMaxValues) ||
      !in_range(shape.n_ff, kMaxValues) || shape.n_embd % kExpertRowMultiple != 0 ||
      shape.n_ff % kExpertRowMultiple != 0 || slots_of(max_rows, shape) > (1 << 24))
    return Error{ErrorCode::kInvalidArgument,
                 "cannot reserve memory for MoE layers with " + std::to_string(shape.n_experts) + " experts, " +
                     std::to_string(shape.n_used) + " per token, sizes " + std::to_string(shape.n_embd) + " and " +
                     std::to_string(shape.n_ff) + ", for " + std::to_string(max_rows) + " rows"};
  const int64_t slots = slots_of(max_rows, shape);
  auto memory = Mapping::create(static_cast<size_t>(floats_for(max_rows, shape)) * sizeof(float));
  if (!memory) return memory.error();
  if (Status s = lines_.reserve(static_cast<int>(slots), widest(shape)); !s) return s;
  memory_ = std::move(*memory);
  gate_ = reinterpret_cast<float*>(memory_.data());
  up_ = gate_ + slots * shape.n_ff;
  result_ = up_ + slots * shape.n_ff;
  weights_ = result_ + slots * shape.n_embd;
  scores_ = weights_ + slots;
  for (auto* list : {&chosen_, &slot_of_, &row_of_, &expert_of_, &tile_of_, &tile_rows_})
    list->assign(static_cast<size_t>(slots), 0);
  first_slot_.assign(static_cast<size_t>(shape.n_experts) + 1, 0);
  kernels_of_.assign(static_cast<size_t>(shape.n_experts), KernelKind::kPanel);
  active_.reserve(static_cast<size_t>(shape.n_experts));
  shape_ = largest_ = shape;
  max_rows_ = max_rows;
  return {};
}

void CpuMixture::choose_largest(const float* by, int n, int32_t* best) const {
  const int n_used = shape_.n_used;
  int kept = 0;
  for (int32_t expert = 0; expert < n; ++expert) {
    // A comparison with NaN is false, so a NaN is added only while the list is not full yet.
    if (kept == n_used && !(by[expert] > by[best[kept - 1]])) continue;
    int at = kept < n_used ? kept++ : n_used - 1;
    for (; at > 0 && by[expert] > by[best[at - 1]]; --at) best[at] = best[at - 1];
    best[at] = expert;
  }
}

void CpuMixture::score(const Router& router, const float* logits, int n, float* scores) const {
  if (router.score == RouterScore::kSigmoid) {
    for (int e = 0; e < n; ++e) scores[e] = -logits[e];
    ops_.logits.exp(scores, n, 0.0f, scores);
    for (int e = 0; e < n; ++e) scores[e] = 1.0f / (1.0f + scores[e]);
    return;
  }
  if (router.score == RouterScore::kRootSoftplus) {
    float* const zeros = scores + n;  // This part of the buffer later receives the selection scores.
    std::fill_n(zeros, n, 0.0f);
    std::copy_n(logits, n, scores);
    ops_.softplus(scores, zeros, n);
    for (int e = 0; e < n; ++e) scores[e] = std::sqrt(scores[e]);
    return;
  }
  const float top = ops_.logits.max(logits, n);
  ops_.logits.exp(logits, n, top, scores);
  const float share = 1.0f / static_cast<float>(ops_.logits.sum_exp(logits, n, top));
  for (int e = 0; e < n; ++e) scores[e] *= share;
}

void CpuMixture::keep_groups(const Router& router, float* by, float* sums) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int size = shape_.n_experts / router.groups;
  for (int group = 0; group < router.groups; ++group) {
    float first = kNever, second = kNever;
    for (int e = group * size; e < (group + 1) * size; ++e) {
      second = std::max(second, std::min(first, by[e]));
      first = std::max(first, by[e]);
    }
    sums[group] = first + second;
  }
  for (int group = 0; group < router.groups; ++group) {
    int better = 0;  // Among equal groups, the one with the lower index ranks higher.
    for (int other = 0; other < router.groups; ++other)
      better += sums[other] > sums[group] || (other < group && sums[other] == sums[group]) ? 1 : 0;
    if (better >= router.groups_used) std::fill_n(by + group * size, size, kNever);
  }
}

void CpuMixture::choose(const Mixture& mixture, const float* logits, int row) {
  const Router& router = mixture.router;
  const TokenExperts& by_token = mixture.by_token;
  const int n_used = shape_.n_used;
  int32_t* const best = chosen_.data() + int64_t{row} * n_used;
  float* const weights = weights_ + int64_t{row} * n_used;
  float sum = 0;
  const bool given = by_token.of_token != nullptr;
  const int n_logits = shape_.n_experts * router.experts_per_chunk;
  if (router.score == RouterScore::kSoftmax && router.bias == nullptr && router.groups == 1 && !given &&
      router.experts_per_chunk == 1) {
    // Logits have the same order as their softmax scores, and only the scores of the selected experts are needed.
    choose_largest(logits, n_logits, best);
    for (int i = 0; i < n_used; ++i) weights[i] = logits[best[i]];
    const float top = weights[0];
    ops_.logits.exp(weights, n_used, top, weights);
    if (router.normalized) {
      for (int i = 0; i < n_used; ++i) sum += weights[i];
    } else {
      sum = static_cast<float>(ops_.logits.sum_exp(logits, shape_.n_experts, top));
    }
  } else {
    float* const scores = scores_ + int64_t{row} * 3 * n_logits;
    float* const by = scores + n_logits;
    score(router, logits, n_logits, scores);
    if (given) {
      const int32_t token = by_token.tokens[by_token.rows != nullptr ? by_token.rows[row] : row];
      std::copy_n(by_token.of_token + int64_t{token} * n_used, n_used, best);
    } else {
      for (int e = 0; e < n_logits; ++e) by[e] = router.bias != nullptr ? scores[e] + router.bias[e] : scores[e];
      if (router.groups > 1) keep_groups(router, by, by + shape_.n_experts);
      choose_largest(by, n_logits, best);
      for (int i = 0; i < n_used && router.experts_per_chunk > 1; ++i) best[i] /= router.experts_per_chunk;
    }
    for (int i = 0; i < n_used; ++i) {
      weights[i] = scores[best[i]];
      sum += weights[i];
    }
    // The lower limit avoids a division by zero if all scores underflow to 0. With several experts per chunk, scores
    // can be small because the logits of all chunks are small. kMinChunkSum is the same limit as in llama.cpp.
    constexpr float kMinChunkSum = 0x1p-14f;
    const float least = router.experts_per_chunk > 1 ? kMinChunkSum : std::numeric_limits<float>::min();
    sum = router.normalized ? std::max(sum, least) : 1.0f;
  }
  const float share = router.scale / sum;
  for (int i = 0; i < n_used; ++i) weights[i] *= share;
  if (router.expert_scales == nullptr) return;
  for (int i = 0; i < n_used; ++i) weights[i] *= router.expert_scales[best[i]];
}

void CpuMixture::arrange(const Mixture& mixture, int n_rows) {
  const int64_t n_slots = slots_of(n_rows, shape_);
  std::ranges::fill(first_slot_, 0);
  for (int64_t i = 0; i < n_slots; ++i) ++first_slot_[chosen_[i] + 1];
  active_.clear();
  for (int32_t expert = 0; expert < shape_.n_experts; ++expert) {
    if (first_slot_[expert + 1] > 0) active_.push_back(expert);
    first_slot_[expert + 1] += first_slot_[expert];
  }
  // Until it is restored below, first_slot_ holds each expert's next free slot.
  for (int64_t i = 0; i < n_slots; ++i) {
    const int32_t slot = first_slot_[chosen_[i]]++;
    slot_of_[i] = slot;
    row_of_[slot] = static_cast<int32_t>(i / shape_.n_used);
    expert_of_[slot] = chosen_[i];
  }
  for (int32_t expert = shape_.n_experts; expert > 0; --expert) first_slot_[expert] = first_slot_[expert - 1];
  first_slot_[0] = 0;
  for (const int32_t expert : active_) {
    const int32_t first = first_slot_[expert], rows = first_slot_[expert + 1] - first;
    KernelChoice choice(matmul_, rows);
    for (const Matrix* weight : {mixture.gate, mixture.up, mixture.down})
      if (weight != nullptr) choice.add(cpu_matrix(*weight).layout().type, false);
    kernels_of_[expert] = choice.kind();
    const Tiles tiles = split_rows(matmul_, choice.kind(), rows);
    for (int tile = 0; tile < tiles.count; ++tile) {
      const int32_t begin = first + tiles.first_row(tile);
      std::fill_n(tile_of_.begin() + begin, tiles.rows(tile), begin);
      std::fill_n(tile_rows_.begin() + begin, tiles.rows(tile), tiles.rows(tile));
    }
  }
}

ActivationKind CpuMixture::kind_of(const Matrix& matrix, int32_t expert) const {
  return activation_kind(matmul_, kernels_of_[expert], cpu_matrix(matrix).layout().type);
}

// Packs row x_row of x into the activation lines of `slot`.
void CpuMixture::pack(ActivationKind kind, const float* x, int64_t x_row, int64_t cols, int slot) const {
  const size_t row_bytes = static_cast<size_t>(lines_per_row(kind, cols)) * kLineBytes;
  std::byte* const lines = lines_.lines(kind) + static_cast<size_t>(tile_of_[slot]) * row_bytes;
  matmul_.pack[static_cast<int>(kind)](x + x_row * cols, cols,
                                       lines + static_cast<size_t>(slot - tile_of_[slot]) * kLineBytes,
                                       static_cast<size_t>(tile_rows_[slot]) * kLineBytes);
}

template <typename Fn>
void CpuMixture::for_slots(int n, int64_t values, Fn fn) {
  const int64_t grain = n * values <= kPackAlone ? n : std::max<int64_t>(1, kPackAlone / 4 / values);
  pool_.parallel_for(n, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) fn(static_cast<int>(i));
  });
}

// Matmul of each active expert's weights with the packed input rows of the tokens routed to it. A piece is a range of
// one expert's panels in one target.
struct CpuMixture::Product {
  const CpuMixture& mixture;
  std::span<const MatmulTarget> targets;
  int64_t panels_per_expert, panels_per_piece, pieces_per_expert, cols;
  bool shared_lines;

  void compute(int64_t piece, int thread) const {
    const int64_t per_expert = pieces_per_expert * static_cast<int64_t>(targets.size());
    const int32_t expert = mixture.active_[piece / per_expert];
    const MatmulTarget& target = targets[piece % per_expert / pieces_per_expert];
    const int64_t before = piece % pieces_per_expert * panels_per_piece;
    const int64_t count = std::min(panels_per_piece, panels_per_expert - before);
    if (tile_kernels(mixture.matmul_, mixture.kernels_of_[expert]) != nullptr)
      compute_tiles(target, expert, before, count, thread);
    else
      compute_panels(target, expert, before, count);
  }

  // Computes panels [before, before + count) of an expert.
  void compute_panels(const MatmulTarget& target, int32_t expert, int64_t before, int64_t count) const {
    const CpuMatrix& matrix = cpu_matrix(*target.weight);
    const MatmulKernels& kernels = mixture.matmul_;
    const ActivationKind kind = mixture.kind_of(matrix, expert);
    const size_t row_bytes = static_cast<size_t>(lines_per_row(kind, cols)) * kLineBytes;
    const int type = panel_type_index(matrix.layout().type);
    const bool pairs = mixture.kernels_of_[expert] == KernelKind::kPair;
    // While the first rows are multiplied by two panels, the next two panels are prefetched through PanelTile::ahead,
    // because pair kernels do not prefetch anything on their own.
    const auto panel_lines = static_cast<int64_t>(matrix.layout().records / kLineBytes);
    const int64_t blocks = std::max<int64_t>(cols / 32, 1);  // At least 1, because `cols` may be 16.
    const int next_lines = static_cast<int>((2 * panel_lines + blocks - 1) / blocks);
    const int32_t begin = mixture.first_slot_[expert], end = mixture.first_slot_[expert + 1];
    for (int32_t slot = begin; slot < end; slot += mixture.tile_rows_[slot]) {
      const size_t lines_at = shared_lines ? 0 : static_cast<size_t>(slot) * row_bytes;
      for (int64_t panel = before, width; panel < before + count; panel += width) {
        width = pairs && panel + 1 < before + count ? 2 : 1;
        const int64_t in_matrix = expert * panels_per_expert + panel;
        const bool prefetches = width == 2 && slot == begin && in_matrix + width < matrix.n_panels();
        run_tile(width == 2 ? kernels.pair[type] : kernels.panel[type],
                 {.panel = matrix.panel(in_matrix),
                  .block_scales = matrix.block_scales(in_matrix),
                  .layout = &matrix.layout(),
                  .lines = mixture.lines_.lines(kind) + lines_at,
                  .n_rows = mixture.tile_rows_[slot],
                  .lanes = static_cast<int>(width * kPanelRows),
                  .out = target.out + slot * target.out_stride + panel * kPanelRows,
                  .out_stride = target.out_stride,
                  .bias = target.bias != nullptr ? target.bias + in_matrix * kPanelRows : nullptr,
                  .add_to_out = false,
                  .ahead = prefetches ? matrix.panel(in_matrix + width) : nullptr,
                  .ahead_lines = prefetches ? next_lines : 0},
                 matrix.factors(in_matrix));
      }
    }
  }

  void compute_tiles(const MatmulTarget& target, int32_t expert, int64_t before, int64_t count, int thread) const {
    assert(!shared_lines);
    const CpuMatrix& matrix = cpu_matrix(*target.weight);
    const KernelKind kernels = mixture.kernels_of_[expert];
    const TileKernels& of_tiles = *tile_kernels(mixture.matmul_, kernels);
    const size_t row_bytes = static_cast<size_t>(lines_per_row(of_tiles.lines, cols)) * kLineBytes;
    const int32_t slot = mixture.first_slot_[expert], n_rows = mixture.first_slot_[expert + 1] - slot;
    const Tiles tiles = split_rows(mixture.matmul_, kernels, n_rows);
    const int64_t per_group = panels_per_tile_group(of_tiles, matrix.layout(), n_rows);
    for (int64_t panel = before; panel < before + count; panel += per_group) {
      const int64_t in_matrix = expert * panels_per_expert + panel;
      const int n_panels = static_cast<int>(std::min(per_group, before + count - panel));
      const int64_t next_panels = std::min(per_group, matrix.n_panels() - in_matrix - n_panels);
      multiply_tiles(of_tiles,
                     {.matrix = matrix,
                      .first_panel = in_matrix,
                      .n_panels = n_panels,
                      .lanes = n_panels * kPanelRows,
                      .lines = mixture.lines_.lines(of_tiles.lines) + static_cast<size_t>(slot) * row_bytes,
                      .row_bytes = row_bytes,
                      .tiles = tiles,
                      .first_tile = 0,
                      .last_tile = tiles.count,
                      .out = target.out + slot * target.out_stride + panel * kPanelRows,
                      .out_stride = target.out_stride,
                      .bias = target.bias != nullptr ? target.bias + in_matrix * kPanelRows : nullptr,
                      .add_to_out = false,
                      .next_weights = next_panels > 0 ? matrix.panel(in_matrix + n_panels) : nullptr,
                      .next_bytes = next_panels * static_cast<int64_t>(matrix.layout().records)},
                     scratch_of(thread));
    }
  }
  std::byte* scratch_of(int thread) const { return mixture.tile_scratch_.tiles(thread); }
};

void CpuMixture::multiply(std::span<const MatmulTarget> targets, int64_t rows_per_expert, int64_t cols,
                          bool shared_lines) {
  matmul_.calls->fetch_add(1, std::memory_order_relaxed);
  const int64_t n_targets = static_cast<int64_t>(targets.size());
  const int64_t n_active = static_cast<int64_t>(active_.size());
  const int64_t panels = rows_per_expert / kPanelRows;
  const auto panel_bytes = static_cast<int64_t>(cpu_matrix(*targets[0].weight).layout().bytes());
  const bool single_tiles = first_slot_[static_cast<size_t>(shape_.n_experts)] <= n_active * matmul_.max_tile_rows;
  const int64_t by_cache = (single_tiles ? kStreamBytes : kPanelBytes) / panel_bytes;
  const int64_t by_balance =
      pool_.size() == 1 ? panels : n_active * n_targets * panels / (kPiecesPerThread * pool_.size());
  Product product{*this, targets, panels, 0, 0, cols, shared_lines};
  product.panels_per_piece = std::clamp<int64_t>(std::min(by_cache, by_balance), 1, panels);
  if (!single_tiles) product.panels_per_piece += product.panels_per_piece % 2;  // For pair kernels.
  product.pieces_per_expert = (panels + product.panels_per_piece - 1) / product.panels_per_piece;
  const int64_t pieces = n_active * n_targets * product.pieces_per_expert;
  const auto compute = [&](int64_t begin, int64_t end, int thread) {
    for (int64_t piece = begin; piece < end; ++piece) product.compute(piece, thread);
  };
  if (n_active * n_targets * panels * panel_bytes <= kWorkAlone)
    compute(0, pieces, 0);
  else if (single_tiles)
    pool_.parallel_runs(pieces, [&](int64_t piece, int thread) { product.compute(piece, thread); });
  else
    pool_.parallel_for(pieces, 1, compute);
}

void CpuMixture::run(const Mixture& mixture, const float* router_logits, const float* x, int n_rows, float* out,
                     bool add_to_out) {
  assert(mixture.shape.n_experts * mixture.router.experts_per_chunk <= largest_.n_experts && n_rows <= max_rows_);
  assert(mixture.shape.n_used <= largest_.n_used && mixture.shape.n_ff <= largest_.n_ff);
  assert(mixture.shape.n_embd == largest_.n_embd);
  shape_ = mixture.shape;
  const int64_t n_embd = shape_.n_embd, n_ff = shape_.n_ff;
  const int n_slots = static_cast<int>(slots_of(n_rows, shape_));

  const int64_t n_logits = int64_t{shape_.n_experts} * mixture.router.experts_per_chunk;
  pool_.parallel_for(n_rows, std::max<int64_t>(1, kLogitsAlone / n_logits), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) choose(mixture, router_logits + row * n_logits, static_cast<int>(row));
  });
  arrange(mixture, n_rows);

  const bool gateless = mixture.gate == nullptr;
  const MatmulTarget both[] = {{mixture.gate, gate_, n_ff, mixture.gate_bias},
                               {mixture.up, gateless ? gate_ : up_, n_ff, mixture.up_bias}};
  const std::span<const MatmulTarget> inner = std::span(both).subspan(gateless ? 1 : 0);
  // With a single row, every slot has the same packed input, and each slot is a tile of its own, so the packed input is
  // shared. It is not shared if the same expert may run twice for a token.
  const bool shared_lines = n_rows == 1 && mixture.router.experts_per_chunk == 1;
  const int packed_slots = shared_lines ? 1 : n_slots;
  for_slots(packed_slots, n_embd, [&](int slot) {
    const int32_t expert = expert_of_[slot];
    bool packed[kActivationKinds] = {};
    for (const MatmulTarget& target : inner) {
      const ActivationKind kind = kind_of(*target.weight, expert);
      if (packed[static_cast<int>(kind)]) continue;
      pack(kind, x, row_of_[slot], n_embd, slot);
      packed[static_cast<int>(kind)] = true;
    }
  });
  multiply(inner, n_ff, n_embd, shared_lines);

  const OpKernels::Plain plain = ops_.plain(mixture.activation.activation);
  for_slots(n_slots, n_ff, [&](int choice) {
    const int slot = slot_of_[choice];
    float* const inside = gate_ + slot * n_ff;
    // With apply_router_weight_on_input, the router weight scales the expert's input. Experts then have no biases, so
    // scaling the outputs of the gate and up matmuls is equivalent.
    if (mixture.apply_router_weight_on_input) {
      ops_.scale(inside, n_ff, weights_[choice]);
      if (!gateless) ops_.scale(up_ + slot * n_ff, n_ff, weights_[choice]);
    }
    if (gateless)
      plain(inside, n_ff);
    else
      ops_.gated(mixture.activation, inside, up_ + slot * n_ff, n_ff, inside);
    pack(kind_of(*mixture.down, expert_of_[slot]), gate_, slot, n_ff, slot);
  });
  const MatmulTarget outer{mixture.down, result_, n_embd, mixture.down_bias};
  multiply({&outer, 1}, n_embd, n_ff, false);

  for_slots(n_rows, n_embd * shape_.n_used, [&](int row) {
    float* const sum = out + row * n_embd;
    if (!add_to_out) std::memset(sum, 0, static_cast<size_t>(n_embd) * sizeof(float));
    for (int64_t i = int64_t{row} * shape_.n_used; i < int64_t{row + 1} * shape_.n_used; ++i)
      ops_.add_scaled(sum, result_ + slot_of_[i] * n_embd, mixture.apply_router_weight_on_input ? 1.0f : weights_[i],
                      nullptr, n_embd);
  });
}

}  // namespace monolith
