#include "engine/tiers/page_copier.h"

#include <cstdint>

namespace monolith {
namespace {

PageSizes sizes_of(Model& model) {
  const KvLayout& layout = model.memory().layout;
  const size_t page = model.kv().page_bytes;
  return {.full = static_cast<size_t>(layout.full) * page,
          .window = static_cast<size_t>(layout.windowed) * page,
          .snapshot = model.memory().slot_bytes};
}

}  // namespace

PageCopier::PageCopier(Model& model) : model_(model), page_bytes_(model.kv().page_bytes), sizes_(sizes_of(model)) {}

void PageCopier::read_group(const PagePool& pool, PageId first, std::byte* to) {
  for (PageId page = first; page != kNoPage; page = pool.next(page), to += page_bytes_)
    model_.backend().read_page(model_.kv(), page, to);
}

void PageCopier::write_group(const PagePool& pool, PageId first, const std::byte* from) {
  for (PageId page = first; page != kNoPage; page = pool.next(page), from += page_bytes_)
    model_.backend().write_page(model_.kv(), page, from);
}

void PageCopier::read_slot(SlotId slot, std::byte* to) {
  model_.backend().read_floats(reinterpret_cast<float*>(to), model_.state_slots().of(slot),
                               static_cast<int64_t>(sizes_.snapshot / sizeof(float)));
}

void PageCopier::write_slot(SlotId slot, const std::byte* from) {
  model_.backend().write_floats(model_.state_slots().of(slot), reinterpret_cast<const float*>(from),
                                static_cast<int64_t>(sizes_.snapshot / sizeof(float)));
}

}  // namespace monolith
