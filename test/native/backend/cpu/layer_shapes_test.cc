#include "support/layer_shapes.h"

#include "backend/cpu/cpu_backend.h"

namespace monolith {
namespace {

TEST(layers_of_different_shapes_share_pages) {
  for (const CpuIsa isa : available_cpu_isas())
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0}) {
      auto backend = make_cpu_backend({.threads = 2, .isa = cpu_isa_name(isa)});
      REQUIRE(backend.ok());
      testing::check_layers_of_different_shapes(**backend, type);
    }
}

TEST(small_layers_share_a_slot_with_a_large_one) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0}) {
    auto backend = make_cpu_backend({.threads = 2});
    REQUIRE(backend.ok());
    testing::check_layers_that_share_a_slot(**backend, type);
  }
}

TEST(unsupported_states_are_rejected_by_name) {
  auto backend = make_cpu_backend({.threads = 1});
  REQUIRE(backend.ok());
  testing::check_refused_states(**backend, {.other_values = true, .latents = true, .blocks = true, .places = true});
}

}  // namespace
}  // namespace monolith
