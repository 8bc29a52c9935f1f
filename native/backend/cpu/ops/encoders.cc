// Operations for vision encoders: patches, interpolated positions, 2-D RoPE, and attention without a causal mask.
// Attention uses the text model's kernels, with keys and values in consecutive pages.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/ops/pieces.h"
#include "backend/encoder_operations.h"

namespace monolith {
namespace {

// Layout of EncoderKeys::memory: the page table, keys and values, in floats.
struct KeyLayout {
  int64_t pages, key_page, value_stride, value_page;
  int64_t keys_at, values_at, all;

  KeyLayout(int max_rows, int n_heads, int head_dim)
      : pages((int64_t{max_rows} + kPageTokens - 1) / kPageTokens),
        key_page(int64_t{head_dim} * kPageTokens),
        value_stride(round_up_to_lanes(head_dim)),
        value_page(value_stride * kPageTokens),
        keys_at(round_up_to_lanes(pages)),
        values_at(keys_at + n_heads * pages * key_page),
        all(values_at + n_heads * pages * value_page) {}
  explicit KeyLayout(const EncoderKeys& keys) : KeyLayout(keys.max_rows, keys.n_heads, keys.head_dim) {}
};

}  // namespace

void CpuBackend::take_patches(const PatchImage& image, std::span<const PatchPlace> places, float* out) {
  const int64_t p = image.patch_size, patch = 3 * p * p;
  pool_.parallel_for(static_cast<int64_t>(places.size()), rows_per_piece(patch), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const PatchPlace place = places[static_cast<size_t>(i)];
      const uint8_t* from = image.pixels + (place.row * p * image.width + place.column * p) * 3;
      float* red = out + i * patch;
      float *green = red + p * p, *blue = green + p * p;
      for (int64_t y = 0; y < p; ++y, from += int64_t{image.width} * 3)
        for (int64_t x = 0; x < p; ++x) {
          *red++ = image.levels[from[3 * x]];
          *green++ = image.levels[256 + from[3 * x + 1]];
          *blue++ = image.levels[512 + from[3 * x + 2]];
        }
    }
  });
}

void CpuBackend::add_table_rows(const TableTaps& taps, const float* table, int n_rows, int64_t dim, float* x) {
  pool_.parallel_for(n_rows, rows_per_piece(dim * taps.conv_kernel_size), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t tap = row * taps.conv_kernel_size; tap < (row + 1) * taps.conv_kernel_size; ++tap)
        if (taps.weights[tap] != 0.0f)
          ops_.add_scaled(x + row * dim, table + taps.rows[tap] * dim, taps.weights[tap], nullptr, dim);
  });
}

void CpuBackend::rotate_rows(const RowRotation& rotation, int n_rows, float* x, int64_t row_stride, int n_heads,
                             int head_dim) {
  assert(rotation.section % 2 == 0 && head_dim % rotation.section == 0);
  pool_.parallel_for(n_rows, rows_per_piece(int64_t{n_heads} * head_dim), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int head = 0; head < n_heads; ++head)
        for (int at = 0; at < head_dim; at += rotation.section)
          ops_.rotate(x + row * row_stride + int64_t{head} * head_dim + at, rotation.own + row * head_dim + at,
                      rotation.partner + row * head_dim + at, rotation.section, rotation.style);
  });
}

int64_t CpuBackend::encoder_key_floats(int max_rows, int n_heads, int head_dim) const {
  return KeyLayout(max_rows, n_heads, head_dim).all;
}

void CpuBackend::store_encoder_keys(const EncoderKeys& keys, const float* k, const float* v, int64_t stride,
                                    int first_row, int n_rows) {
  if (keys.fixed16) return fixed16_store_keys(*fixed16_, pool_, keys, k, v, stride, first_row, n_rows);
  assert(first_row >= 0 && first_row + n_rows <= keys.max_rows);
  const KeyLayout layout(keys);
  auto* const pages = reinterpret_cast<int32_t*>(keys.memory);
  for (int page = first_row / kPageTokens; page * kPageTokens < first_row + n_rows; ++page) pages[page] = page;
  const int64_t dim = keys.head_dim;
  // The work is split by page, so that no two threads write to the same vector of keys.
  const int64_t first_page = first_row / kPageTokens, end_page = (first_row + n_rows + kPageTokens - 1) / kPageTokens;
  pool_.parallel_for(
      (end_page - first_page) * keys.n_heads, rows_per_piece(dim * kPageTokens), [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t head = i % keys.n_heads, page = first_page + i / keys.n_heads;
          float* const key_page = keys.memory + layout.keys_at + (head * layout.pages + page) * layout.key_page;
          float* const value_page = keys.memory + layout.values_at + (head * layout.pages + page) * layout.value_page;
          const int64_t from = std::max<int64_t>(first_row, page * kPageTokens);
          const int64_t to = std::min<int64_t>(first_row + n_rows, (page + 1) * kPageTokens);
          for (int64_t row = from; row < to; ++row) {
            const int64_t slot = row - page * kPageTokens, at = (row - first_row) * stride + head * dim;
            for (int64_t d = 0; d < dim; ++d) key_page[d * kPageTokens + slot] = k[at + d];
            float* const value = value_page + slot * layout.value_stride;
            std::memcpy(value, v + at, static_cast<size_t>(dim) * sizeof(float));
            std::fill(value + dim, value + layout.value_stride, 0.0f);
          }
        }
      });
}

void CpuBackend::attend_rows(const RowAttention& call) {
  const EncoderKeys& keys = call.keys;
  const int n_heads = call.n_heads > 0 ? call.n_heads : keys.n_heads, of_each = n_heads / keys.n_heads;
  if (keys.fixed16) {
    assert(n_heads == keys.n_heads && call.bias == nullptr);
    return fixed16_attend(*fixed16_, pool_, fixed16_attention_, call);
  }
  const int dim = keys.head_dim;
  assert(dim <= ops_scratch_.max_head_dim_ && pool_.size() <= ops_scratch_.threads_);
  const KeyLayout layout(keys);
  const int64_t state_floats = attention_state_floats(dim);
  const int64_t tiles = (int64_t{call.n_rows} + kTileQueries - 1) / kTileQueries;
  pool_.parallel_for(tiles * n_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t piece = begin; piece < end; ++piece) {
      // Tiles of the same head are computed one after another, so the head's keys and values stay in the cache.
      const int64_t head = piece / tiles, key_head = head / of_each, first = piece % tiles * kTileQueries;
      const int n = static_cast<int>(std::min<int64_t>(kTileQueries, call.n_rows - first));
      float* const packed = ops_scratch_.tile(thread);
      float* const scores = packed + kTileQueries * round_up_to_lanes(dim);
      float* const states = scores + kTileQueries * kScoreStride;
      float* const next = states + kTileQueries * state_floats;
      for (int i = 0; i < n; ++i) {
        const float* const from = call.q + (first + i) * call.stride + head * dim;
        for (int64_t d = 0; d < dim; ++d) packed[d * n + i] = from[d] * call.scale;
      }
      const AttentionTile tile{.n_queries = n,
                               .key_dim = dim,
                               .value_dim = dim,
                               .starts = call.starts + first,
                               .limits = call.limits + first,
                               .q = packed,
                               .q_stride = n,
                               .pages = reinterpret_cast<const int32_t*>(keys.memory),
                               .keys = reinterpret_cast<const std::byte*>(keys.memory + layout.keys_at +
                                                                          key_head * layout.pages * layout.key_page),
                               .values = reinterpret_cast<const std::byte*>(
                                   keys.memory + layout.values_at + key_head * layout.pages * layout.value_page),
                               .key_page_bytes = static_cast<size_t>(layout.key_page) * sizeof(float),
                               .value_page_bytes = static_cast<size_t>(layout.value_page) * sizeof(float),
                               .value_stride = layout.value_stride,
                               .type = KvType::kF32,
                               .soft_cap = 0.0f,
                               .scores = scores,
                               .rows = nullptr,
                               .bias = call.bias == nullptr ? nullptr : call.bias + head * call.bias_stride,
                               .first_query = call.first_position + static_cast<int>(first)};
      const int first_span = tile.starts[0] / kAttentionSpan,
                n_spans = (tile.limits[n - 1] + kAttentionSpan - 1) / kAttentionSpan;
      ops_.attention_span(tile, first_span, states);
      for (int span = first_span + 1; span < n_spans; ++span) {
        ops_.attention_span(tile, span, next);
        ops_.attention_merge_tile(tile, span, states, next);
      }
      for (int i = 0; i < n; ++i)
        ops_.attention_finish(states + i * state_floats, dim, call.out + (first + i) * call.stride + head * dim);
    }
  });
}

void CpuBackend::add_up_rows(const float* x, int group, float factor, int n_out, int64_t dim, float* out) {
  pool_.parallel_for(n_out, rows_per_piece(dim * group), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(out + i * dim, x + i * group * dim, static_cast<size_t>(dim) * sizeof(float));
      for (int64_t row = i * group + 1; row < (i + 1) * group; ++row)
        ops_.add_scaled(out + i * dim, x + row * dim, 1.0f, nullptr, dim);
      ops_.scale(out + i * dim, dim, factor);
    }
  });
}

void CpuBackend::clamp(float* x, int64_t count, float low, float high) {
  pool_.parallel_for(count, kElementsPerPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) x[i] = x[i] < low ? low : x[i] > high ? high : x[i];
  });
}

}  // namespace monolith
