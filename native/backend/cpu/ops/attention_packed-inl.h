// Unpacking of 4- and 5-bit pages (KvType::kQ4_0 and kQ5_0) to the layout of 8-bit pages, in a tile's scratch memory.
// ops/attention_q8-inl.h then computes attention as for KvType::kQ8_0. The queries of a tile share the unpacked pages.
// Compiled once per instruction set, inside an unnamed namespace, after ops/attention_q8-inl.h and before
// ops/attention_latents-inl.h.

// Number of dimensions that are mixed by the rotation of keys, values and queries: the largest power of two that
// divides the size of a head, at most kMaxHadamard. The factor is one divided by the square root of that number.
constexpr int64_t kMaxHadamard = 128;
inline int64_t hadamard_size(int64_t dim) {
  int64_t size = 1;
  while (size < kMaxHadamard && dim % (2 * size) == 0) size *= 2;
  return size;
}
inline float hadamard_factor(int64_t size) {
  float factor = 1.0f;
  for (; size >= 4; size /= 4) factor *= 0.5f;
  return size == 2 ? factor * 0.70710678f : factor;
}

// In every pair of lanes whose indices differ only in `Distance`, computes the sum in the first lane and the difference
// in the second one.
template <int Distance>
inline Vec butterfly(Vec x) {
  float signs[kLanes];
  for (int i = 0; i < kLanes; ++i) signs[i] = (i & Distance) == 0 ? 1.0f : -1.0f;
  Vec swapped;
  if constexpr (Distance == 1)
    swapped = swap_pairs(x);
  else
    swapped = swap_lanes<Distance>(x);
  return add(swapped, mul(x, load(signs)));
}

// Multiplies `dim` dimensions by a Hadamard matrix in place, hadamard_size(dim) at a time. A few dimensions of a head
// are often much larger than the others and determine the scale of their block. The rotation spreads them evenly, which
// reduces the rounding error (Ashkboos et al. 2024, arXiv:2404.00456). Scalar products do not change if both sides are
// rotated. Rotating twice restores the values, except for rounding.
void rotate_hadamard(float* x, int64_t dim) {
  const int64_t size = hadamard_size(dim);
  const float factor = hadamard_factor(size);
  for (float* const end = x + dim; x < end; x += size) {
    int64_t half = 1;
    if (size >= kLanes) {
      for (int64_t i = 0; i < size; i += kLanes)
        store(x + i, butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(load(x + i))))));
      for (half = kLanes; half < size; half *= 2)
        for (int64_t first = 0; first < size; first += 2 * half)
          for (int64_t i = first; i < first + half; i += kLanes) {
            const Vec a = load(x + i), b = load(x + i + half);
            store(x + i, add(a, b));
            store(x + i + half, sub(a, b));
          }
      scale(x, size, factor);
      continue;
    }
    for (; half < size; half *= 2)
      for (int64_t i = 0; i < size; ++i)
        if ((i & half) == 0) {
          const float a = x[i], b = x[i + half];
          x[i] = a + b;
          x[i + half] = a - b;
        }
    for (int64_t i = 0; i < size; ++i) x[i] *= factor;
  }
}

inline void prefetch_line(const uint8_t* page, int64_t line) {
  if constexpr (kPrefetchQueries > 0) prefetch(page + 64 * line);
}

// Copies `blocks` vectors of scales.
inline void copy_scales(const uint8_t* from, int blocks, int8_t* to) {
  __builtin_memcpy(to, from, static_cast<size_t>(blocks) * kPageTokens * sizeof(uint16_t));
}

// Unpacks a page of keys and prefetches the page `next`. `to` has room for unpacked_page_bytes() bytes.
template <KvType Type>
[[gnu::noinline]] void unpack_keys(int key_dim, const uint8_t* page, const uint8_t* next, int8_t* to) {
  constexpr int kPairs = kQ8Block / 8, kLine = 4 * kPageTokens;
  const int n_pairs = packed_pairs(key_dim), n_blocks = q8_blocks(key_dim);
  const int64_t bytes = packed_keys_bytes(key_dim, Type);
  for (int block = 0; block < n_blocks; ++block) {
    const uint8_t* const top = Type == KvType::kQ5_0 ? page + int64_t{n_pairs + block} * kLine : nullptr;
    const int64_t first = int64_t{block} * kPairs;
    const auto unpack = [&](int pair) __attribute__((always_inline)) {
      prefetch_line(next, first + pair);
      unpack_quads(page + (first + pair) * kLine, top, pair, to + (first + pair) * 2 * kLine);
    };
    if (first + kPairs <= n_pairs) {
      MONOLITH_UNROLL
      for (int pair = 0; pair < kPairs; ++pair) unpack(pair);
    } else {
      for (int pair = 0; first + pair < n_pairs; ++pair) unpack(pair);
    }
  }
  copy_scales(page + bytes, n_blocks, to + int64_t{q8_quads(key_dim)} * kLine);
  for (int64_t line = n_pairs; line * 64 < bytes + n_blocks * 2 * kPageTokens; ++line) prefetch_line(next, line);
}

// Unpacks a page of values, or of latents, whose rows have `stride` dimensions, and prefetches the page `next`.
[[gnu::noinline]] void unpack_rows(KvType type, int64_t stride, const uint8_t* page, const uint8_t* next, int8_t* to) {
  const int64_t n_lines = stride * kPageTokens / (4 * kQ8Block);  // Four blocks of all rows are one line.
  const int64_t bytes = packed_rows_bytes(stride, kPageTokens, type);
  if (type == KvType::kQ4_0) {
    for (int64_t line = 0; line < n_lines; ++line) {
      prefetch_line(next, line);
      unpack_blocks(page + 64 * line, nullptr, to + 128 * line);
    }
  } else {
    const uint8_t* const signs = page + 64 * n_lines;
    for (int64_t line = 0; line < n_lines; ++line) {
      prefetch_line(next, line);
      unpack_blocks(page + 64 * line, signs + 16 * line, to + 128 * line);
    }
  }
  const auto n_blocks = static_cast<int>(stride / kQ8Block);
  copy_scales(page + bytes, n_blocks, to + stride * kPageTokens);
  for (int64_t line = n_lines; line * 64 < bytes + n_blocks * 2 * kPageTokens; ++line) prefetch_line(next, line);
}

// Unpacked pages of a span, in a tile's scratch memory.
class UnpackedPages {
 public:
  explicit UnpackedPages(const AttentionTile& tile)
      : tile_(tile),
        keys_(reinterpret_cast<int8_t*>(tile.unpacked)),
        values_(keys_ == nullptr ? nullptr : keys_ + kUnpackedKeys * unpacked_page_bytes(tile.key_dim)) {
    for (int& page : held_) page = -1;
  }
  // Each returns the memory for the page with index p in the span.
  int8_t* keys(int p) const { return keys_ + p % kUnpackedKeys * unpacked_page_bytes(tile_.key_dim); }
  int8_t* values(int p) const { return values_ + p % kUnpackedValues * unpacked_page_bytes(tile_.value_dim); }

  void add_keys(int p, const int8_t* page, const int8_t* next) {
    const auto unpack = tile_.type == KvType::kQ4_0 ? unpack_keys<KvType::kQ4_0> : unpack_keys<KvType::kQ5_0>;
    unpack(tile_.key_dim, reinterpret_cast<const uint8_t*>(page), reinterpret_cast<const uint8_t*>(next), keys(p));
  }
  // Does nothing if the unpacked page is still in the scratch memory.
  void add_values(int p, const int8_t* page, const int8_t* next) {
    int& held = held_[p % kUnpackedValues];
    if (held == p) return;
    held = p;
    unpack_rows(tile_.type, tile_.value_stride, reinterpret_cast<const uint8_t*>(page),
                reinterpret_cast<const uint8_t*>(next), values(p));
  }

 private:
  const AttentionTile& tile_;
  int8_t* keys_;
  int8_t* values_;
  int held_[kUnpackedValues];
};
