#include "backend/cuda/attention/kv_cache.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "backend/cuda/loader.h"
#include "base/checked.h"

namespace monolith::cuda {
namespace {

// Returns the bytes of the keys or values of one position and head.
int64_t row_bytes(KvType type, int64_t head_dim) {
  switch (type) {
    case KvType::kF32: return 4 * head_dim;
    case KvType::kF16: return 2 * head_dim;
    case KvType::kQ8_0: return head_dim + 2 * ((head_dim + 31) / 32);
    case KvType::kFp8:
    case KvType::kQ4_0:
    case KvType::kQ5_0: break;  // check() rejects kQ4_0 and kQ5_0.
  }
  return head_dim + 2;
}

// Number of bytes that the keys and the values of one head occupy in a page.
struct HeadBytes {
  int64_t keys, values;
};
HeadBytes head_bytes(const LayerState& layer, KvType type) {
  const bool latents = layer.kind == StateKind::kLatents, scales = kv_block(type, layer.key_dim) > 0;
  return {(scales ? kPageTokens : layer.page_rows) * row_bytes(type, layer.key_dim),
          latents ? 0 : kPageTokens * row_bytes(type, layer.value_dim)};
}

}  // namespace

std::vector<int64_t> CudaKvCache::slot_bytes(const KvShape& shape) {
  std::vector<int64_t> bytes(static_cast<size_t>(shape.n_slots()));
  for (const LayerState& layer : shape.layers) {
    if (layer.kind == StateKind::kNothing) continue;
    int64_t& slot = bytes[static_cast<size_t>(layer.slot)];
    const HeadBytes of_head = head_bytes(layer, shape.type);
    constexpr int64_t kAligned = 16;  // Alignment in bytes. Data that follows a page with few rows must be aligned too.
    slot = std::max(slot, (layer.n_kv_heads * (of_head.keys + of_head.values) + kAligned - 1) / kAligned * kAligned);
  }
  return bytes;
}

Status CudaKvCache::check(KvType type) {
  if (type != KvType::kQ4_0 && type != KvType::kQ5_0) return {};
  return Error{ErrorCode::kUnsupported, std::string("kv_type ") + (type == KvType::kQ4_0 ? "q4_0" : "q5_0") +
                                            " is supported only on CPUs (engine.device cpu): a GPU stores keys and "
                                            "values in f16, q8_0, fp8 or f32"};
}

Status CudaKvCache::check(const KvShape& shape) {
  if (Status status = check(shape.type); !status) return status;
  if (Status status = check_shape(shape, kKeeps); !status) return status;
  for (size_t i = 0; i < shape.layers.size(); ++i)
    if (const LayerState& layer = shape.layers[i]; layer.kind == StateKind::kLatents && layer.key_dim > kMaxLatentDims)
      return Error{ErrorCode::kUnsupported, "layer " + std::to_string(i) + ": latent dimension " +
                                                std::to_string(layer.key_dim) + " exceeds the limit of " +
                                                std::to_string(kMaxLatentDims) + " of the CUDA backend"};
  // Compressed blocks are read in place, so kMaxChosen does not apply. The indexer checks how many of them are selected
  // (select_positions()).
  const bool blocks =
      std::ranges::any_of(shape.layers, [](const LayerState& layer) { return layer.page_rows != kPageTokens; });
  if (!blocks && shape.most_chosen > kMaxChosen)
    return Error{ErrorCode::kUnsupported, "sparse attention selects " + std::to_string(shape.most_chosen) +
                                              " positions, more than the limit of " + std::to_string(kMaxChosen) +
                                              " of the CUDA backend"};
  return {};
}

ChosenScores CudaKvCache::scores_for(const KvShape& shape) {
  if (shape.most_chosen <= 0) return {};
  constexpr int64_t kMaxScores = 1 << 24, kMaxRows = 64;  // 64 MiB of scores, unless a single row needs more.
  const int64_t positions = shape.n_pages * kPageTokens;
  return {nullptr, positions, static_cast<int>(std::clamp<int64_t>(kMaxScores / positions, 1, kMaxRows))};
}

size_t CudaKvCache::bytes_for(const KvShape& shape) {
  if (!check(shape)) return SIZE_MAX;
  size_t all = 0;
  for (const int64_t bytes : slot_bytes(shape)) {
    const auto pages = checked_mul(static_cast<size_t>(bytes), static_cast<size_t>(shape.n_pages) + 1);
    const auto sum = pages ? checked_add(all, *pages) : std::nullopt;
    if (!sum) return SIZE_MAX;
    all = *sum;
  }
  const ChosenScores scores = scores_for(shape);
  const auto of_scores =
      checked_mul(static_cast<size_t>(scores.positions), static_cast<size_t>(scores.rows) * sizeof(float));
  const auto sum = of_scores ? checked_add(all, *of_scores) : std::nullopt;
  return sum ? *sum : SIZE_MAX;
}

Result<std::unique_ptr<CudaKvCache>> CudaKvCache::create(Runtime& runtime, const KvShape& shape) {
  if (Status status = check(shape); !status) return status.error();
  const size_t bytes = bytes_for(shape);
  if (bytes == SIZE_MAX)
    return Error{ErrorCode::kInvalidArgument, "KV cache of " + std::to_string(shape.layers.size()) + " layers, " +
                                                  std::to_string(shape.n_pages) + " pages exceeds the address space"};
  std::unique_ptr<CudaKvCache> cache(new CudaKvCache(runtime));
  auto memory = runtime.allocate(bytes);
  if (!memory) return memory.error();
  cache->data_ = static_cast<unsigned char*>(*memory);
  cache->shape = shape;
  cache->bytes = bytes;
  unsigned char* at = cache->data_;
  for (const int64_t page_bytes : slot_bytes(shape)) {
    cache->slots_.push_back({at - kSparePage * page_bytes, page_bytes});
    cache->page_bytes += static_cast<size_t>(page_bytes);
    at += (shape.n_pages + 1) * page_bytes;
  }
  cache->scores_ = scores_for(shape);
  cache->scores_.data = reinterpret_cast<float*>(at);
  for (const LayerState& layer : shape.layers) {
    if (layer.kind == StateKind::kNothing) {
      cache->views_.push_back({});
      continue;
    }
    const Slot& slot = cache->slots_[static_cast<size_t>(layer.slot)];
    const HeadBytes of_head = head_bytes(layer, shape.type);
    const bool latents = layer.kind == StateKind::kLatents;
    cache->views_.push_back({.data = slot.page_0,
                             .page_bytes = slot.page_bytes,
                             .head_bytes = of_head.keys,
                             .values = latents ? 0 : layer.n_kv_heads * of_head.keys,
                             .n_kv_heads = layer.n_kv_heads,
                             .head_dim = layer.key_dim,
                             .value_dim = layer.value_dim,
                             .value_bytes = latents ? of_head.keys : of_head.values,
                             .page_rows = layer.page_rows});
  }
  return cache;
}

void CudaKvCache::copy_page(int32_t from, int32_t to) {
  for (const Slot& slot : slots_)
    runtime_.copy(slot.page_0 + to * slot.page_bytes, slot.page_0 + from * slot.page_bytes,
                  static_cast<size_t>(slot.page_bytes));
}

void CudaKvCache::read_page(Loader& loader, int32_t page, std::byte* host_to) const {
  for (const Slot& slot : slots_) {
    loader.read(host_to, slot.page_0 + page * slot.page_bytes, static_cast<size_t>(slot.page_bytes));
    host_to += slot.page_bytes;
  }
}

void CudaKvCache::write_page(Loader& loader, int32_t page, const std::byte* host_from) {
  for (const Slot& slot : slots_) {
    loader.write(slot.page_0 + page * slot.page_bytes, host_from, static_cast<size_t>(slot.page_bytes));
    host_from += slot.page_bytes;
  }
}

}  // namespace monolith::cuda
