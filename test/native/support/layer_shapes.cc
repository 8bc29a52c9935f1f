#include "support/layer_shapes.h"

namespace monolith::testing {

std::vector<float> attend_alone(Backend& backend, KvCache& cache, int layer, const int32_t* pages, float* q, float* kv,
                                float* out, int n_heads, bool stores) {
  constexpr int kRows = 40, kWanted = 3;
  const LayerState& own = cache.shape.layers[static_cast<size_t>(layer)];
  const int64_t q_dim = int64_t{n_heads} * own.key_dim, kv_dim = int64_t{own.n_kv_heads} * own.key_dim;
  std::vector<float> numbers(static_cast<size_t>(kRows * std::max(q_dim, kv_dim)));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] =
        static_cast<float>((i * 2654435761u + static_cast<size_t>(own.key_dim * own.n_kv_heads)) % 1000) / 500.0f -
        1.0f;
  backend.write_floats(q, numbers.data(), static_cast<int64_t>(numbers.size()));
  backend.write_floats(kv, numbers.data(), static_cast<int64_t>(numbers.size()));
  const RopeParams none{RopeStyle::kHalves, 0, nullptr, 1};
  const Segment pieces[] = {{0, 21, 0, pages}, {21, kRows - 21, 21, pages}};
  if (stores) backend.rope_and_store({none, pieces, q, q_dim, n_heads, kv, kv_dim, kv, kv_dim, layer, cache});
  const Segment wanted{0, kWanted, kRows - kWanted, pages};
  backend.attention({{&wanted, 1}, q, q_dim, n_heads, layer, cache, {.scale = 0.1f}, out, q_dim});
  std::vector<float> result(static_cast<size_t>(kWanted * q_dim));
  backend.wait();
  backend.read_floats(result.data(), out, static_cast<int64_t>(result.size()));
  return result;
}

void check_layers_of_different_shapes(Backend& backend, KvType type) {
  constexpr int kHeads = 8, kPages = 12;
  REQUIRE(backend.reserve(64, 2048, 64, 256).ok());
  // Four layers share slot 0 of a page. Compared with the first layer, the second has the same number of bytes but
  // different heads, the third has fewer bytes, and the fourth has more. Two equal layers share slot 1.
  const KvShape shape{{{StateKind::kKeysAndValues, 4, 64, 64, 0},
                       {StateKind::kKeysAndValues, 2, 128, 128, 0},
                       {StateKind::kKeysAndValues, 1, 40, 40, 0},
                       {StateKind::kKeysAndValues, 8, 80, 80, 0},
                       {StateKind::kKeysAndValues, 2, 64, 64, 1},
                       {StateKind::kKeysAndValues, 2, 64, 64, 1}},
                      kPages,
                      type};
  // Page lists of the sequences, one per layer. Layers that share a slot use different pages.
  const std::vector<std::vector<int32_t>> pages = {{5, 2, 8}, {0, 7, 4}, {3, 1, 6}, {9, 10, 11}, {5, 2, 8}, {0, 7, 4}};
  auto made = backend.kv_cache(shape);
  REQUIRE(made.ok());
  KvCache& cache = **made;
  CHECK_EQ(cache.bytes, backend.kv_cache_bytes(shape));
  constexpr int64_t kMax = 40 * kHeads * 128;
  float* const q = *backend.allocate(kMax);
  float* const kv = *backend.allocate(kMax);
  float* const out = *backend.allocate(kMax);
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const LayerState& layer = shape.layers[i];
    auto alone = backend.kv_cache(KvShape::of_equal_layers(1, layer.n_kv_heads, layer.key_dim, 3, type));
    REQUIRE(alone.ok());
    const int32_t in_order[] = {0, 1, 2};
    expected.push_back(attend_alone(backend, **alone, 0, in_order, q, kv, out, kHeads, true));
    attend_alone(backend, cache, static_cast<int>(i), pages[i].data(), q, kv, out, kHeads, true);
  }
  const auto check = [&](size_t i, const int32_t* of_sequence, const char* what) {
    const std::vector<float> found =
        attend_alone(backend, cache, static_cast<int>(i), of_sequence, q, kv, out, kHeads, false);
    if (found.size() != expected[i].size() ||
        std::memcmp(found.data(), expected[i].data(), found.size() * sizeof(float)) != 0)
      check::fail(__FILE__, __LINE__, std::string(what) + " differ in layer " + std::to_string(i));
  };
  for (size_t i = 0; i < shape.layers.size(); ++i) check(i, pages[i].data(), "keys and values");
  // A copy of a page is valid for the layer that wrote the page, regardless of the layer's shape.
  for (size_t i = 0; i < 4; ++i) {
    const int32_t other = pages[(i + 1) % 4][0];
    backend.copy_page(cache, pages[i][0], other);
    const int32_t copied[] = {other, pages[i][1], pages[i][2]};
    check(i, copied, "copies");
    attend_alone(backend, cache, static_cast<int>((i + 1) % 4), pages[(i + 1) % 4].data(), q, kv, out, kHeads, true);
  }
}

void check_layers_that_share_a_slot(Backend& backend, KvType type) {
  constexpr int kHeads = 8, kPages = 6;
  REQUIRE(backend.reserve(64, 2048, 64, 256).ok());
  const KvShape shape{{{StateKind::kKeysAndValues, 8, 48, 48, 0},
                       {StateKind::kKeysAndValues, 2, 96, 96, 0, 0},
                       {StateKind::kKeysAndValues, 2, 96, 96, 0, 1}},
                      kPages,
                      type};
  const std::vector<std::vector<int32_t>> pages = {{5, 2, 0}, {4, 1, 3}, {4, 1, 3}};
  auto made = backend.kv_cache(shape);
  REQUIRE(made.ok());
  KvShape large{{shape.layers[0]}, kPages, type};
  CHECK_EQ((*made)->bytes, backend.kv_cache_bytes(large));  // The small layers need no additional memory.
  constexpr int64_t kMax = 40 * kHeads * 96;
  float* const q = *backend.allocate(kMax);
  float* const kv = *backend.allocate(kMax);
  float* const out = *backend.allocate(kMax);
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const LayerState& layer = shape.layers[i];
    auto alone = backend.kv_cache(KvShape::of_equal_layers(1, layer.n_kv_heads, layer.key_dim, 3, type));
    REQUIRE(alone.ok());
    const int32_t in_order[] = {0, 1, 2};
    expected.push_back(attend_alone(backend, **alone, 0, in_order, q, kv, out, kHeads, true));
    attend_alone(backend, **made, static_cast<int>(i), pages[i].data(), q, kv, out, kHeads, true);
  }
  for (size_t i = 0; i < shape.layers.size(); ++i) {
    const std::vector<float> found =
        attend_alone(backend, **made, static_cast<int>(i), pages[i].data(), q, kv, out, kHeads, false);
    if (found.size() != expected[i].size() ||
        std::memcmp(found.data(), expected[i].data(), found.size() * sizeof(float)) != 0)
      check::fail(__FILE__, __LINE__, "keys and values differ in layer " + std::to_string(i));
  }
  // A copy of a page must contain the data of both small layers.
  backend.copy_page(**made, pages[1][0], pages[0][0]);
  for (size_t i = 1; i < 3; ++i) {
    const int32_t copied[] = {pages[0][0], pages[i][1], pages[i][2]};
    const std::vector<float> found =
        attend_alone(backend, **made, static_cast<int>(i), copied, q, kv, out, kHeads, false);
    if (found.size() != expected[i].size() ||
        std::memcmp(found.data(), expected[i].data(), found.size() * sizeof(float)) != 0)
      check::fail(__FILE__, __LINE__, "a copied page differs in layer " + std::to_string(i));
  }
}

void check_refused_states(Backend& backend, const KeptStates& keeps) {
  KvShape shape = KvShape::of_equal_layers(3, 2, 64, 4, KvType::kF16);
  const auto refused = [&](const char* what) {
    const auto made = backend.kv_cache(shape);
    CHECK_EQ(backend.kv_cache_bytes(shape), SIZE_MAX);
    const Status asked = backend.supports(shape);
    CHECK(!asked.ok() && !made.ok() && asked.error().message == made.error().message);
    if (made.ok() || made.error().code != ErrorCode::kUnsupported ||
        made.error().message.find(what) == std::string::npos)
      check::fail(__FILE__, __LINE__, made.ok() ? what : made.error().message);
  };
  shape.layers[1].kind = StateKind::kLatents;
  if (!keeps.latents) refused("layer 1 keeps latents");
  shape.layers[1].kind = StateKind::kSlot;
  refused("layer 1 keeps recurrent state");
  shape.layers[1] = shape.layers[0];
  shape.layers[1].place = 1;
  if (!keeps.places) refused("layer 1 shares a page slot");
  shape.layers[1] = {StateKind::kLatents, 1, 64, 64, 1, 0, 4};
  if (keeps.latents && !keeps.blocks) refused("layer 1 keeps latents of blocks");
  shape.layers[1] = shape.layers[0];
  shape.layers[2].value_dim = 32;
  if (!keeps.other_values) refused("layer 2 has keys of 64 dimensions and values of 32");
}

}  // namespace monolith::testing
