#include "backend/cpu/matmul/panels.h"

#include <cassert>

#include "backend/cpu/matmul/panels_plain.h"

namespace monolith {
namespace {

template <TensorType T>
PanelLayout quantized_layout(int64_t cols) {
  constexpr PanelForm form = panel_form(T);
  constexpr PanelRecord record = panel_record(form);
  static_assert(record.bytes % 64 == 0);
  const size_t d_bytes = static_cast<size_t>(cols / form.record) * kPanelRows * d_size(form);
  PanelLayout layout{};
  layout.records = static_cast<size_t>(cols / form.record * record.bytes);
  layout.block_scales = d_bytes;
  layout.d_min = form.scale == PanelForm::kDelta ? 0 : d_bytes;
  if (form.minima && layout.d_min != layout.d) layout.block_scales += d_bytes;
  return layout;
}

}  // namespace

PanelLayout panel_layout(TensorType type, int64_t cols) {
  assert(cols > 0 && cols % traits_of(type).block_values == 0);
  PanelLayout layout{};
  if (!for_quantized(type, [&]<TensorType T>() { layout = quantized_layout<T>(cols); })) {
    const int64_t multiple = type == TensorType::kBF16 ? 32 : 16;
    const int64_t padded = (cols + multiple - 1) / multiple * multiple;
    layout.records = type == TensorType::kF8Scaled
                         ? static_cast<size_t>(cols / kF8Record * kF8RecordBytes)
                         : static_cast<size_t>(padded * kPanelRows * traits_of(type).block_bytes);
  }
  layout.type = type;
  layout.cols = cols;
  layout.records = (layout.records + 63) / 64 * 64;
  layout.block_scales = (layout.block_scales + 63) / 64 * 64;
  return layout;
}

}  // namespace monolith
