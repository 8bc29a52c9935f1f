// The passes in resize.h, written as loops that compilers vectorize. For each instruction set, one source file includes
// this file in an unnamed namespace, so only that source file can call these functions.

void to_floats(const uint8_t* bytes, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(bytes[i]);
}

void lerp_columns(const float* row, const int32_t* const* at, const float* t, int64_t count, float* out) {
  const int32_t *const left = at[0], *const right = at[1];
  for (int64_t i = 0; i < count; ++i) {
    const float a = row[left[i]], b = row[right[i]];
    out[i] = a + (b - a) * t[i];
  }
}

void lerp_rows(const float* const* rows, float t, int64_t count, uint8_t* out) {
  const float *const above = rows[0], *const below = rows[1];
  for (int64_t i = 0; i < count; ++i) {
    const float value = above[i] + (below[i] - above[i]) * t;
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(value));
  }
}

// Evaluates the cubic polynomial through p0 .. p3. The terms with thirds and sixths are summed in double precision.
inline float cubic(float p0, float p1, float p2, float p3, float t) {
  const float d0 = p0 - p1, d2 = p2 - p1, d3 = p3 - p1;
  const float a1 = static_cast<float>(-1.0 / 3 * d0 + d2 - 1.0 / 6 * d3);
  const float a2 = static_cast<float>(1.0 / 2 * d0 + 1.0 / 2 * d2);
  const float a3 = static_cast<float>(-1.0 / 6 * d0 - 1.0 / 2 * d2 + 1.0 / 6 * d3);
  return p1 + a1 * t + a2 * t * t + a3 * t * t * t;
}

void cubic_columns(const float* row, const int32_t* const* at, const float* t, int64_t count, float* out) {
  const int32_t *const a = at[0], *const b = at[1], *const c = at[2], *const d = at[3];
  for (int64_t i = 0; i < count; ++i) out[i] = cubic(row[a[i]], row[b[i]], row[c[i]], row[d[i]], t[i]);
}

void cubic_rows(const float* const* rows, float t, int64_t count, uint8_t* out) {
  const float *const a = rows[0], *const b = rows[1], *const c = rows[2], *const d = rows[3];
  for (int64_t i = 0; i < count; ++i) {
    float value = cubic(a[i], b[i], c[i], d[i], t);
    value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
    const auto whole = static_cast<int32_t>(value);
    out[i] = static_cast<uint8_t>(whole + (value - static_cast<float>(whole) >= 0.5f ? 1 : 0));
  }
}

constexpr ResizeKernels kKernels = {to_floats, lerp_columns, lerp_rows, cubic_columns, cubic_rows};
