#include "backend/cuda/attention/kv_cache.h"

#include <cstdint>
#include <string>

#include "base/checked.h"

namespace monolith::cuda {
namespace {

// Of one position and head, keys or values.
int64_t row_bytes(KvType type, int64_t head_dim) {
  switch (type) {
    case KvType::kF32: return 4 * head_dim;
    case KvType::kF16: return 2 * head_dim;
    case KvType::kQ8_0: return head_dim + 2 * ((head_dim + 31) / 32);
    case KvType::kFp8: break;
  }
  return head_dim + 2;
}

}  // namespace

size_t CudaKvCache::bytes_for(const KvShape& shape) {
  if (shape.n_layers <= 0 || shape.n_kv_heads <= 0 || shape.head_dim <= 0 || shape.n_pages <= 0) return SIZE_MAX;
  size_t bytes = 2 * kPageTokens * static_cast<size_t>(row_bytes(shape.type, shape.head_dim));
  for (const int64_t factor : {int64_t{shape.n_layers}, int64_t{shape.n_kv_heads}, shape.n_pages + 1}) {
    const auto product = checked_mul(bytes, static_cast<size_t>(factor));
    if (!product) return SIZE_MAX;
    bytes = *product;
  }
  return bytes;
}

Result<std::unique_ptr<CudaKvCache>> CudaKvCache::create(Runtime& runtime, const KvShape& shape) {
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

int64_t CudaKvCache::head_bytes() const { return kPageTokens * row_bytes(shape.type, shape.head_dim); }

KvView CudaKvCache::view(int layer) const {
  unsigned char* const page_0 = data_ + (layer * (shape.n_pages + 1) - kSparePage) * page_bytes();
  return {page_0, page_bytes(), head_bytes(), page_bytes() / 2, shape.n_kv_heads, shape.head_dim};
}

void CudaKvCache::copy_page(int32_t from, int32_t to) {
  for (int layer = 0; layer < shape.n_layers; ++layer) {
    unsigned char* pages = view(layer).data;
    runtime_.copy(pages + to * page_bytes(), pages + from * page_bytes(), static_cast<size_t>(page_bytes()));
  }
}

}  // namespace monolith::cuda
