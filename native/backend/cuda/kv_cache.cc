#include "backend/cuda/kv_cache.h"

#include <cstdint>
#include <string>

#include "base/checked.h"

namespace monolith::cuda {
namespace {

int64_t number_bytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

}  // namespace

size_t CudaKvCache::bytes_for(const KvShape& shape) {
  if (shape.n_layers <= 0 || shape.n_kv_heads <= 0 || shape.head_dim <= 0 || shape.n_pages <= 0) return SIZE_MAX;
  size_t bytes = 2 * kPageTokens * static_cast<size_t>(number_bytes(shape.type));
  for (const int64_t factor : {int64_t{shape.n_layers}, int64_t{shape.n_kv_heads}, int64_t{shape.head_dim}, shape.n_pages + 1}) {
    const auto product = checked_mul(bytes, static_cast<size_t>(factor));
    if (!product) return SIZE_MAX;
    bytes = *product;
  }
  return bytes;
}

Result<std::unique_ptr<CudaKvCache>> CudaKvCache::create(Runtime& runtime, const KvShape& shape) {
  if (shape.type == KvType::kQ8_0)
    return Error{ErrorCode::kUnsupported, "the CUDA backend keeps keys and values in f16 or f32, not q8_0"};
  const size_t bytes = bytes_for(shape);
  if (bytes == SIZE_MAX)
    return Error{ErrorCode::kInvalidArgument, "KV cache of " + std::to_string(shape.n_layers) + " layers, " +
                                                  std::to_string(shape.n_kv_heads) + " KV heads, head size " +
                                                  std::to_string(shape.head_dim) + ", " + std::to_string(shape.n_pages) +
                                                  " pages: every number must be positive and the product addressable"};
  std::unique_ptr<CudaKvCache> cache(new CudaKvCache(runtime));
  auto memory = runtime.allocate(bytes);
  if (!memory) return memory.error();
  cache->data_ = static_cast<unsigned char*>(*memory);
  cache->shape = shape;
  cache->bytes = bytes;
  return cache;
}

int64_t CudaKvCache::page_bytes() const {
  return 2 * number_bytes(shape.type) * kPageTokens * shape.n_kv_heads * shape.head_dim;
}

KvView CudaKvCache::view(int layer) const {
  return {data_ + (layer * (shape.n_pages + 1) - kSparePage) * page_bytes(), page_bytes(), page_bytes() / 2, shape.n_kv_heads,
          shape.head_dim};
}

void CudaKvCache::copy_page(int32_t from, int32_t to) {
  for (int layer = 0; layer < shape.n_layers; ++layer) {
    unsigned char* pages = view(layer).data;
    runtime_.copy(pages + to * page_bytes(), pages + from * page_bytes(), static_cast<size_t>(page_bytes()));
  }
}

}  // namespace monolith::cuda
