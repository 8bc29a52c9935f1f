// Reads single values from panels of quantized weights, for code that is not vectorized. Do not include this in files
// that are compiled for newer instruction sets, because these functions may be emitted out of line.
#pragma once

#include <cstring>

#include "backend/cpu/matmul/panels.h"
#include "base/half.h"

namespace monolith {

// If `type` is a quantized type, calls use.operator()<type>() and returns true; otherwise returns false.
template <typename Use>
bool for_quantized(TensorType type, Use&& use) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBF16:
    case TensorType::kI32:
    case TensorType::kI64:
    case TensorType::kF8Scaled:
    case TensorType::kF8E4M3: return false;
    case TensorType::kQ8_0: use.template operator()<TensorType::kQ8_0>(); break;
    case TensorType::kQ4_0: use.template operator()<TensorType::kQ4_0>(); break;
    case TensorType::kQ4_1: use.template operator()<TensorType::kQ4_1>(); break;
    case TensorType::kQ5_0: use.template operator()<TensorType::kQ5_0>(); break;
    case TensorType::kQ5_1: use.template operator()<TensorType::kQ5_1>(); break;
    case TensorType::kIQ4_NL: use.template operator()<TensorType::kIQ4_NL>(); break;
    case TensorType::kMXFP4: use.template operator()<TensorType::kMXFP4>(); break;
    case TensorType::kQ2_K: use.template operator()<TensorType::kQ2_K>(); break;
    case TensorType::kQ3_K: use.template operator()<TensorType::kQ3_K>(); break;
    case TensorType::kQ4_K: use.template operator()<TensorType::kQ4_K>(); break;
    case TensorType::kQ5_K: use.template operator()<TensorType::kQ5_K>(); break;
    case TensorType::kQ6_K: use.template operator()<TensorType::kQ6_K>(); break;
    case TensorType::kIQ4_XS: use.template operator()<TensorType::kIQ4_XS>(); break;
    case TensorType::kIQ1_S: use.template operator()<TensorType::kIQ1_S>(); break;
    case TensorType::kIQ1_M: use.template operator()<TensorType::kIQ1_M>(); break;
    case TensorType::kIQ2_XXS: use.template operator()<TensorType::kIQ2_XXS>(); break;
    case TensorType::kIQ2_XS: use.template operator()<TensorType::kIQ2_XS>(); break;
    case TensorType::kIQ2_S: use.template operator()<TensorType::kIQ2_S>(); break;
    case TensorType::kIQ3_XXS: use.template operator()<TensorType::kIQ3_XXS>(); break;
    case TensorType::kIQ3_S: use.template operator()<TensorType::kIQ3_S>(); break;
    case TensorType::kTQ1_0: use.template operator()<TensorType::kTQ1_0>(); break;
    case TensorType::kTQ2_0: use.template operator()<TensorType::kTQ2_0>(); break;
    case TensorType::kNVFP4: use.template operator()<TensorType::kNVFP4>(); break;
  }
  return true;
}

// Returns a value from an F8_E4M3_128 panel.
inline float f8_value(const uint8_t* panel, int64_t k, int lane) {
  const uint8_t* const record = panel + k / kF8Record * kF8RecordBytes;
  float scale;
  std::memcpy(&scale, record + 4 * lane, sizeof scale);
  const int code = record[kF8ScaleBytes + k % kF8Record * kPanelRows + lane];
  return half_to_float(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7)) * scale;
}

// A panel of a quantized type.
template <TensorType T>
struct PanelOf {
  static constexpr PanelForm form = panel_form(T);
  static constexpr PanelRecord record = panel_record(form);

  const uint8_t* panel;
  const uint8_t* block_scales;
  const PanelLayout& layout;
  PanelOf(const std::byte* records, const std::byte* scales, const PanelLayout& of)
      : panel(reinterpret_cast<const uint8_t*>(records)),
        block_scales(reinterpret_cast<const uint8_t*>(scales)),
        layout(of) {}

  const uint8_t* record_of(int64_t k) const { return panel + k / form.record * record.bytes; }

  // Returns the `bits`-bit field for index k from an array of [lane][4] vectors. k is relative to the start of the
  // record.
  static int part(const uint8_t* array, int bits, int k, int lane) {
    const int groups = 8 / bits;  // Groups per vector.
    const uint8_t byte = array[k / 4 / groups * 64 + lane * 4 + k % 4];
    return (byte >> (k / 4 % groups * bits)) & ((1 << bits) - 1);
  }
  int q(int64_t k, int lane) const {
    const uint8_t* record_at = record_of(k);
    const int in_record = static_cast<int>(k % form.record);
    int code = part(record_at, form.low_bits, in_record, lane);
    if constexpr (form.high_bits > 0)
      code |= part(record_at + record.high, form.high_bits, in_record, lane) << form.low_bits;
    if constexpr (form.levels != PanelForm::kNone)
      return levels_of(form.levels)[code];
    else
      return code - form.offset;
  }

  float half(size_t array, int64_t k, int lane) const {
    uint16_t bits;
    std::memcpy(&bits, block_scales + array + static_cast<size_t>(k / kDValues * kPanelRows + lane) * 2, sizeof bits);
    return half_to_float(bits);
  }
  // Returns a byte from a record's array of scales or minima.
  uint8_t number(int array, int64_t k, int lane) const {
    const int values = 32 / scales_of_block(form);  // Number of values that share a byte.
    return record_of(k)[array + static_cast<int>(k % form.record) / values * kPanelRows + lane];
  }
  float step(int64_t k, int lane) const {
    if constexpr (form.scale == PanelForm::kPower) {
      return mxfp4_step(block_scales[layout.d + static_cast<size_t>(k / 32 * kPanelRows + lane)]);
    } else if constexpr (form.scale == PanelForm::kE4m3) {
      return nvfp4_step(number(record.scales, k, lane) | 0x80);  // By this point, no scale byte is NaN.
    } else {
      const float d = half(layout.d, k, lane);
      if constexpr (form.scale == PanelForm::kHalf) return d;
      const uint8_t scale = number(record.scales, k, lane);
      if constexpr (form.scale == PanelForm::kSigned) return d * static_cast<float>(static_cast<int8_t>(scale));
      if constexpr (form.scale == PanelForm::kOddPair)
        return d * static_cast<float>(2 * (k / 16 % 2 == 0 ? scale & 15 : scale >> 4) + 1) * form.factor;
      const bool nibble = form.scale == PanelForm::kNibble || form.scale == PanelForm::kDelta;
      return d * static_cast<float>(nibble ? scale & 15 : scale) * form.factor;
    }
  }
  // Requires form.minima.
  float floor(int64_t k, int lane) const {
    if constexpr (form.scale == PanelForm::kDelta)
      return step(k, lane) * (number(record.scales, k, lane) & 0x80 ? 0.125f : -0.125f);
    const float d_min = half(layout.d_min, k, lane);
    if constexpr (form.scale == PanelForm::kHalf) return d_min;
    if constexpr (form.scale == PanelForm::kNibble)
      return d_min * static_cast<float>(number(record.scales, k, lane) >> 4);
    return d_min * static_cast<float>(number(record.minima, k, lane));
  }

 private:
  static constexpr int kDValues = form.record;  // Number of values that share a d.
};

}  // namespace monolith
