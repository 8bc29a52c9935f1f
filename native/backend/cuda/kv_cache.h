// Keys and values in device memory: [layer][page][keys, values][kv head][token of the page][dimension], so that what
// attention reads of one head and page is one run of memory. Before page 0 lies one more, number kSparePage, which
// padding writes to.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cuda/device/runtime.h"

namespace monolith::cuda {

inline constexpr int32_t kSparePage = -1;

// As kernels see it.
struct KvView {
  unsigned char* data;         // page 0 of one layer
  int64_t page_bytes;          // of one layer: keys and values of all heads
  int64_t values;              // bytes from a page's keys to its values
  int32_t n_kv_heads;
  int32_t head_dim;
};

class CudaKvCache final : public KvCache {
 public:
  static size_t bytes_for(const KvShape& shape);   // SIZE_MAX if out of range
  static Result<std::unique_ptr<CudaKvCache>> create(Runtime& runtime, const KvShape& shape);
  CudaKvCache(const CudaKvCache&) = delete;
  CudaKvCache& operator=(const CudaKvCache&) = delete;
  ~CudaKvCache() override { runtime_.free(data_); }

  KvView view(int layer) const;
  void copy_page(int32_t from, int32_t to);

 private:
  explicit CudaKvCache(Runtime& runtime) : runtime_(runtime) {}
  int64_t page_bytes() const;
  Runtime& runtime_;
  unsigned char* data_ = nullptr;
};

}  // namespace monolith::cuda
