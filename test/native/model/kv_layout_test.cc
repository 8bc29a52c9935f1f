// Tests how layers are arranged in KV pages, using the shapes of published models.
#include "model/kv_layout.h"

#include <array>
#include <set>

#include "check.h"
#include "model/model.h"

namespace monolith {
namespace {

// Every `period`-th layer has full attention, the others a sliding window. If `period` is 0, no layer has full
// attention.
HyperParams network(int n_layers, int period, int window) {
  HyperParams params{};
  params.n_layers = n_layers;
  params.layers.assign(static_cast<size_t>(n_layers), {.n_kv_heads = 2, .key_dim = 64, .value_dim = 64});
  for (int i = 0; i < n_layers; ++i) {
    const bool sees_all = period > 0 && i % period == period - 1;
    params.layers[static_cast<size_t>(i)].window = sees_all ? 0 : window;
  }
  return params;
}

struct Shape {
  const char* name;
  int n_layers, period, window;
  int layers_per_page, full, windowed;
};
constexpr Shape kShapes[] = {
    {"gemma3 270m", 18, 6, 512, 3, 1, 5},   {"gemma3 1b", 26, 6, 512, 2, 2, 11},
    {"gemma3 4b", 34, 6, 1024, 5, 1, 6},    {"gemma3 12b", 48, 6, 1024, 8, 1, 5},
    {"gemma3 27b", 62, 6, 1024, 13, 1, 4},  {"gemma2 2b", 26, 2, 4096, 13, 1, 1},
    {"exaone4 32b", 64, 4, 4096, 16, 1, 3}, {"mistral 7b 0.1", 32, 0, 4096, 32, 0, 1},
    {"llama", 32, 1, 0, 32, 1, 0},          {"one full of many", 64, 64, 128, 7, 1, 9},
};

}  // namespace

TEST(layers_fill_pages_of_one_size) {
  for (const Shape& shape : kShapes) {
    const HyperParams params = network(shape.n_layers, shape.period, shape.window);
    const KvLayout layout = kv_layout(params, true);
    check::note(std::string(shape.name) + ": " + std::to_string(layout.layers_per_page) + " layers a page, " +
                std::to_string(layout.full) + " + " + std::to_string(layout.windowed) + " tables");
    CHECK_EQ(layout.layers_per_page, shape.layers_per_page);
    CHECK_EQ(layout.full, shape.full);
    CHECK_EQ(layout.windowed, shape.windowed);
    CHECK_EQ(layout.window, shape.window);
    const std::vector<KvPlace> places = kv_places(params, layout);
    REQUIRE(places.size() == static_cast<size_t>(shape.n_layers));
    std::set<std::pair<int, int>> taken;
    for (size_t i = 0; i < places.size(); ++i) {
      CHECK(places[i].slot >= 0 && places[i].slot < layout.layers_per_page);
      CHECK(places[i].table >= 0 && places[i].table < layout.tables());
      CHECK_EQ(places[i].table >= layout.full, params.layers[i].window > 0);
      CHECK(taken.insert({places[i].table, places[i].slot}).second);
    }
    // If there are no separate tables for sliding windows, all layers share one page table.
    const KvLayout whole = kv_layout(params, false);
    CHECK_EQ(whole.layers_per_page, shape.n_layers);
    CHECK_EQ(whole.tables(), 1);
    CHECK_EQ(kv_places(params, whole).back().slot, shape.n_layers - 1);
  }
}

// Published shapes in which sliding-window layers store fewer or more bytes per position than full-attention layers.
struct Mixed {
  const char* name;
  int n_layers, period;  // Every `period`-th layer has full attention.
  LayerParams full, windowed;
};
const Mixed kMixed[] = {
    {"gemma4 31b",
     60,
     6,
     {.n_kv_heads = 4, .key_dim = 512, .value_dim = 512},
     {.n_kv_heads = 16, .key_dim = 256, .value_dim = 256}},
    {"gemma4 26b a4b",
     30,
     6,
     {.n_kv_heads = 2, .key_dim = 512, .value_dim = 512},
     {.n_kv_heads = 8, .key_dim = 256, .value_dim = 256}},
    {"mimo2",
     48,
     6,
     {.n_kv_heads = 4, .key_dim = 192, .value_dim = 128},
     {.n_kv_heads = 8, .key_dim = 192, .value_dim = 128}},
    {"step35",
     45,
     4,
     {.n_kv_heads = 8, .key_dim = 128, .value_dim = 128},
     {.n_kv_heads = 8, .key_dim = 128, .value_dim = 128}},
    {"the other way",
     24,
     4,
     {.n_kv_heads = 8, .key_dim = 128, .value_dim = 128},
     {.n_kv_heads = 2, .key_dim = 128, .value_dim = 128}},
};

TEST(small_layers_share_the_slot_of_a_large_one) {
  for (const Mixed& shape : kMixed) {
    HyperParams params = network(shape.n_layers, shape.period, 128);
    for (LayerParams& layer : params.layers) {
      const int window = layer.window;
      layer = window > 0 ? shape.windowed : shape.full;
      layer.window = window;
    }
    const KvLayout layout = kv_layout(params, true, true);
    check::note(std::string(shape.name) + ": " + std::to_string(layout.layers_per_page) + " slots a page, " +
                std::to_string(layout.full) + " + " + std::to_string(layout.windowed) + " tables, filled to " +
                std::to_string(filled(params, layout)));
    CHECK(filled(params, layout) > 0.9);
    CHECK(filled(params, kv_layout(params, true)) <= filled(params, layout));
    std::set<std::array<int, 3>> taken;
    for (const KvPlace& place : kv_places(params, layout)) {
      CHECK(place.slot < layout.layers_per_page && place.table < layout.tables());
      CHECK(taken.insert({place.table, place.slot, place.place}).second);
    }
    // In the shape passed to the KV cache, no layer may be larger than its slot.
    const KvShape kept = kv_shape(params, layout, 4, KvType::kF16);
    for (const LayerState& layer : kept.layers)
      for (const LayerState& large : kept.layers)
        if (large.slot == layer.slot && large.place == 0 &&
            large.n_kv_heads * large.key_dim > layer.n_kv_heads * layer.key_dim)
          CHECK((layer.place + 1) * layer.n_kv_heads * layer.key_dim <= large.n_kv_heads * large.key_dim);
  }
}

TEST(kv_shapes_match_the_layers_of_a_page) {
  HyperParams params = network(6, 3, 128);
  for (size_t i = 0; i < 6; ++i) {
    LayerParams& layer = params.layers[i];
    layer.n_kv_heads = layer.window > 0 ? 8 : 2;
    layer.key_dim = layer.value_dim = layer.window > 0 ? 64 : 256 + static_cast<int>(i);
  }
  const KvLayout layout = kv_layout(params, true);
  CHECK_EQ(layout.layers_per_page, 2);
  const KvShape shape = kv_shape(params, layout, 7, KvType::kF16);
  CHECK_EQ(shape.n_pages, 7);
  CHECK_EQ(shape.n_slots(), 2);
  CHECK_EQ(shape.most_kv_heads(), 8);
  REQUIRE(shape.layers.size() == 6);
  const std::vector<KvPlace> places = kv_places(params, layout);
  for (size_t i = 0; i < 6; ++i) {
    const LayerParams& layer = params.layers[i];
    CHECK(shape.layers[i] ==
          (LayerState{StateKind::kKeysAndValues, layer.n_kv_heads, layer.key_dim, layer.value_dim, places[i].slot}));
  }
}

TEST(window_pages_cover_the_positions_in_the_window) {
  for (const int window : {1, 2, 15, 16, 17, 37, 64}) {
    const KvLayout layout{.full = 1, .windowed = 2, .window = window};
    for (const int rows : {1, 2, 16, 33}) {
      int64_t most = 0;
      for (int first = 0; first < 200; ++first) {
        const int seen = std::max(0, first - window + 1), last = first + rows - 1;
        most = std::max<int64_t>(most, last / kPageTokens - seen / kPageTokens + 1);
      }
      CHECK_EQ(layout.window_pages(rows), most);
    }
  }
}

TEST(the_longest_sequence_fits_the_pages) {
  for (const KvLayout& layout : {KvLayout{.full = 1, .windowed = 5, .window = 100},
                                 KvLayout{.full = 2, .windowed = 1, .window = 40}, KvLayout{}}) {
    for (int64_t n_pages = layout.tables(); n_pages < 300; ++n_pages) {
      const int64_t positions = layout.positions_in(n_pages, 20);
      CHECK(positions >= kPageTokens && positions % kPageTokens == 0);
      CHECK(layout.pages_at_once(positions, 20) <= n_pages);
      CHECK(layout.pages_at_once(positions + 1, 20) > n_pages);
    }
  }
  const KvLayout windows{.full = 0, .windowed = 1, .window = 100};
  CHECK_EQ(windows.positions_in(3, 20), 3 * kPageTokens);
  CHECK(windows.positions_in(windows.window_pages(20) + 1, 20) > 1'000'000'000);
}

// Tests how much KV memory sliding windows save for a decoding sequence. The memory is counted in layers times
// positions.
TEST(long_sequences_of_sliding_window_models_need_a_fraction_of_the_memory) {
  const KvLayout layout = kv_layout(network(48, 6, 1024), true);
  const auto taken = [&](int64_t positions) {
    return layout.pages_at_once(positions, 1) * layout.layers_per_page * kPageTokens;
  };
  const auto before = [](int64_t positions) { return 48 * positions; };
  check::note("at 8192 positions " +
              std::to_string(static_cast<double>(before(8192)) / static_cast<double>(taken(8192))) +
              " times fewer, at 131072 " +
              std::to_string(static_cast<double>(before(131072)) / static_cast<double>(taken(131072))));
  CHECK_EQ(taken(1024), before(1024));  // Short sequences never need more memory than without sliding-window tables.
  CHECK(3 * taken(8192) < before(8192));
  CHECK(5 * taken(131072) < before(131072));
}

}  // namespace monolith
