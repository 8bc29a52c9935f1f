#include "support/layer_shapes.h"

#include "backend/cuda/cuda_backend.h"

namespace monolith {
namespace {

TEST(cuda_layers_of_different_shapes_share_pages) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kFp8}) {
    auto backend = make_cuda_backend({.exact = type == KvType::kF32});
    REQUIRE(backend.ok());
    testing::check_layers_of_different_shapes(**backend, type);
  }
}

TEST(cuda_unsupported_states_are_rejected_by_name) {
  auto backend = make_cuda_backend({});
  REQUIRE(backend.ok());
  testing::check_refused_states(**backend, {.other_values = true, .latents = true, .blocks = true});
}

}  // namespace
}  // namespace monolith
