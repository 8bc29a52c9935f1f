#include "engine/tiers/page_tier.h"

#include <algorithm>
#include <new>
#include <vector>

namespace monolith {
namespace {

// The shares of a step's duration that copies may take while sequences decode, and the time limit of one call while no
// sequence decodes.
constexpr int kImportShare = 20, kExportShare = 50;  // One part in this many.
constexpr std::chrono::milliseconds kAlone{10};
// Pinned pages become evictable after this many consecutive plans in which pages were lacking and no sequence was
// running.
constexpr int kMaxStalledPlans = 4;

}  // namespace

// Writes zeros to one page and one window page. On a CPU, the first page of each layer and head commits a huge page,
// which has room for many more pages (docs/internals/memory.md).
void PageTier::touch_pool() {
  if (cache_.pool().touched() > 0) return;
  const PageSizes& sizes = copier_.sizes();
  std::vector<std::byte> zeros;
  try {
    zeros.resize(std::max(sizes.full, sizes.window));
  } catch (const std::bad_alloc&) {
    return;
  }
  const PageId full = sizes.full > 0 ? cache_.allocate() : kNoPage;
  const PageId window = sizes.window > 0 ? cache_.allocate_window() : kNoPage;
  for (const PageId page : {full, window})
    if (page != kNoPage) copier_.write_group(cache_.pool(), page, zeros.data());
  if (full != kNoPage) cache_.release(full);
  if (window != kNoPage) cache_.release_window(window);
}

void PageTier::yield_before_step() {
  if (!importer_.holds_any()) return;
  const int64_t needed = std::ssize(scheduler_.running()) + 1 + pages_for(scheduler_.max_batch_tokens());
  if (!cache_.has_room(needed, needed)) importer_.drop_holds();
}

void PageTier::yield_after_plan() {
  // Only sequences that lack pages count. Sequences that wait for an image or for their consumer do not need pages yet.
  const bool lacked_pages = scheduler_.lacked_pages();
  if (lacked_pages && importer_.holds_any()) importer_.drop_holds();
  n_stalled_plans_ = lacked_pages && scheduler_.running().empty() ? n_stalled_plans_ + 1 : 0;
  if (n_stalled_plans_ >= kMaxStalledPlans && importer_.pins_any()) importer_.drop_pins();
}

bool PageTier::advance(Clock::duration step, bool decoding) {
  const Clock::time_point start = Clock::now();
  importer_.expire(start);
  if (!pending()) return false;
  // At least one page is copied per step, however short the step was.
  const Clock::time_point import_until = start + (decoding ? step / kImportShare : kAlone);
  do {
    if (!importer_.pending()) break;
    importer_.advance(std::ssize(scheduler_.running()));
  } while (Clock::now() < import_until);
  const Clock::time_point export_until = start + (decoding ? step / kExportShare : kAlone);
  do {
    if (!exporter_.pending()) break;
    exporter_.advance();
  } while (Clock::now() < export_until);
  return true;
}

bool PageTier::consistent() const {
  std::vector<const KvState*> held;
  importer_.collect(held);
  return scheduler_.consistent(held);
}

}  // namespace monolith
