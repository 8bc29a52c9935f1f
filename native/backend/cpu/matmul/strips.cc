#include "backend/cpu/matmul/strips.h"

#include <cassert>

#include "backend/cpu/matmul/strips_plain.h"

namespace monolith {
namespace {

template <TensorType T>
StripLayout quantized_layout(int64_t cols) {
  constexpr StripForm form = strip_form(T);
  constexpr StripRecord record = strip_record(form);
  static_assert(record.bytes % 64 == 0);
  const size_t d_bytes = static_cast<size_t>(cols / form.record) * kStripRows * d_size(form);
  StripLayout layout{};
  layout.records = static_cast<size_t>(cols / form.record * record.bytes);
  layout.halves = d_bytes;
  layout.d_min = form.scale == StripForm::kDelta ? 0 : d_bytes;
  if (form.minima && layout.d_min != layout.d) layout.halves += d_bytes;
  return layout;
}

}  // namespace

StripLayout strip_layout(TensorType type, int64_t cols) {
  assert(cols > 0 && cols % traits_of(type).block_values == 0);
  StripLayout layout{};
  if (!for_quantized(type, [&]<TensorType T>() { layout = quantized_layout<T>(cols); })) {
    const int64_t multiple = type == TensorType::kBF16 ? 32 : 16;
    const int64_t padded = (cols + multiple - 1) / multiple * multiple;
    layout.records = type == TensorType::kF8Scaled
                         ? static_cast<size_t>(cols / kF8Record * kF8RecordBytes)
                         : static_cast<size_t>(padded * kStripRows * traits_of(type).block_bytes);
  }
  layout.type = type;
  layout.cols = cols;
  layout.records = (layout.records + 63) / 64 * 64;
  layout.halves = (layout.halves + 63) / 64 * 64;
  return layout;
}

}  // namespace monolith
