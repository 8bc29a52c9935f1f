#include "engine/tiers/page_importer.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace monolith {
namespace {

PageKeys keys_of(const PageText& text, int index, uint64_t seed) {
  return page_keys(text.tokens, text.spans, index * kPageTokens, seed, text.adapter);
}

// Returns the number of full pages in the prompt without its last token, which is always computed because its logits
// are needed.
int full_pages(const PageText& text) { return std::max(static_cast<int>(text.tokens.size()) - 1, 0) / kPageTokens; }

}  // namespace

void PageImporter::open(PageImport import, const std::shared_ptr<TierOutbox>& outbox, Clock::time_point now) {
  ImportReply opened{.id = import.id, .opened = true, .refused = false, .pages = {}, .n_written = 0};
  const auto refuse = [&] {
    opened.refused = true;
    outbox->add(std::move(opened));
  };
  const int n_pages = full_pages(import.text);
  const bool is_full = import.pinned ? n_open_pinned_ >= kMaxPinned : open_.size() - n_open_pinned_ >= kMaxOpen;
  if (is_full || open_.contains(import.id) || n_pages == 0) return refuse();
  try {
    Open& added = open_[import.id];
    added.organization = import.organization;
    added.text = std::move(import.text);
    added.opened_at = now;
    added.pinned = import.pinned;
    opened.pages.reserve(static_cast<size_t>(n_pages));
    added.kv.allocate(static_cast<size_t>(n_pages), cache_.layout());
  } catch (const std::bad_alloc&) {
    open_.erase(opened.id);
    return refuse();
  }
  Open& added = open_.at(opened.id);
  if (added.pinned) ++n_open_pinned_;
  KvState& kv = added.kv;
  for (int index = 0; index < n_pages; ++index) {
    const NodeId node = cache_.find(added.organization, kv.last_node(), keys_of(added.text, index, cache_.seed()));
    if (node == kNoNode || (added.pinned && n_pinned_ >= max_held())) break;
    cache_.share(node);
    ++n_held(added);
    kv.nodes.push_back(node);
    if (cache_.layout().full > 0) kv.pages.push_back(cache_.page_of(node), cache_.pool());
    uint8_t flags = ImportReply::kHasPage;
    if (cache_.layout().windowed > 0) {
      const PageId window = cache_.window_of(node);
      if (window != kNoPage) cache_.share_window(window);
      kv.window_pages.push_back(window, cache_.pool());
      if (window != kNoPage) flags |= ImportReply::kHasWindow;
    }
    if (cache_.slots().snapshot_of(node) != kNoSlot) flags |= ImportReply::kHasSnapshot;
    opened.pages.push_back(flags);
  }
  outbox->add(std::move(opened));
}

void PageImporter::write(uint64_t id, std::vector<ImportedPage> pages, std::shared_ptr<const void> owner,
                         std::shared_ptr<TierOutbox> outbox) {
  writes_.push_back({.id = id,
                     .pages = std::move(pages),
                     .owner = std::move(owner),
                     .outbox = std::move(outbox),
                     .next = 0,
                     .n_written = 0});
}

void PageImporter::advance(int64_t n_running) {
  if (writes_.empty()) return;
  Write& write = writes_.front();
  const auto at = open_.find(write.id);
  const bool written = at != open_.end() && write.next < write.pages.size() &&
                       write_page(at->second, write.pages[write.next], n_running);
  if (written) {
    ++write.next;
    ++write.n_written;
  }
  if (written && write.next < write.pages.size()) return;
  write.outbox->add({.id = write.id, .opened = false, .refused = false, .pages = {}, .n_written = write.n_written});
  writes_.pop_front();
}

int64_t PageImporter::max_held() const {
  return std::max<int64_t>(cache_.pool().size() / (4 * cache_.layout().tables()), 1);
}

// Writes the missing parts of one page. Returns false if there is no free page for it, or if it does not directly
// follow the pages that the import holds.
bool PageImporter::write_page(Open& import, const ImportedPage& page, int64_t n_running) {
  KvState& kv = import.kv;
  if (page.index > kv.n_indexed() || page.index >= full_pages(import.text)) return false;
  // One free page is left for each running sequence.
  const int64_t reserve = 1 + n_running;
  if (!cache_.has_room(1 + reserve, 1 + reserve) || n_held(import) >= max_held()) return false;
  const bool is_new = page.index == kv.n_indexed();
  if (is_new && !add_node(import, page)) return false;
  if (page.window != nullptr) add_window(import, page);
  if (page.snapshot != nullptr) add_snapshot(import, page);
  ++n_imported_;
  note_added_(import.organization);
  return true;
}

bool PageImporter::add_node(Open& import, const ImportedPage& page) {
  KvState& kv = import.kv;
  // Pages of a model without attention layers have no bytes.
  const bool has_full = cache_.layout().full > 0, has_bytes = has_full && pages_.sizes().full > 0;
  if (has_bytes && page.full == nullptr) return false;
  PageId first = kNoPage;
  if (has_full) {
    first = cache_.allocate();
    if (first == kNoPage) return false;
    if (has_bytes) pages_.write_group(cache_.pool(), first, page.full);
  }
  const NodeId node =
      cache_.insert(import.organization, kv.last_node(), keys_of(import.text, page.index, cache_.seed()), first);
  if (node == kNoNode) {
    if (has_full) cache_.release(first);
    return false;
  }
  ++n_held(import);
  kv.nodes.push_back(node);
  if (has_full) kv.pages.push_back(cache_.page_of(node), cache_.pool());
  if (cache_.layout().windowed == 0) return true;
  // If another sequence computed the page in the meantime, the node may have a window page already.
  const PageId window = cache_.window_of(node);
  if (window != kNoPage) cache_.share_window(window);
  kv.window_pages.push_back(window, cache_.pool());
  return true;
}

void PageImporter::add_window(Open& import, const ImportedPage& page) {
  KvState& kv = import.kv;
  const auto index = static_cast<size_t>(page.index);
  if (kv.window_pages[index] != kNoPage) return;
  PageId window = cache_.window_of(kv.nodes[index]);
  if (window != kNoPage) {
    cache_.share_window(window);
  } else {
    window = cache_.allocate_window();
    if (window == kNoPage) return;
    pages_.write_group(cache_.pool(), window, page.window);
    window = cache_.insert_window(kv.nodes[index], window);
  }
  kv.window_pages.set(index, window, cache_.pool());
}

// An imported snapshot may replace only unused snapshots, and at least one slot must remain for running sequences.
void PageImporter::add_snapshot(const Open& import, const ImportedPage& page) {
  StateSlots& slots = cache_.slots();
  const NodeId node = import.kv.nodes[static_cast<size_t>(page.index)];
  if (!slots.any() || slots.snapshot_of(node) != kNoSlot || slots.available() < 2) return;
  const SlotId slot = slots.allocate();
  if (slot == kNoSlot) return;
  pages_.write_slot(slot, page.snapshot);
  slots.keep(node, slot);
  slots.release(slot);
}

void PageImporter::release(Open& import) {
  n_held(import) -= import.kv.n_indexed();
  cache_.release_all(import.kv);
}

void PageImporter::drop_holds() {
  for (auto& [id, import] : open_)
    if (!import.pinned) release(import);
  assert(n_held_ == 0);
}

void PageImporter::drop_pins() {
  for (auto& [id, import] : open_)
    if (import.pinned) release(import);
  assert(n_pinned_ == 0);
}

void PageImporter::expire(Clock::time_point now) {
  for (auto at = open_.begin(); at != open_.end();) {
    const auto entry = at++;  // Only this entry is erased.
    if (entry->second.pinned || now - entry->second.opened_at < kMaxHold) continue;
    release(entry->second);
    open_.erase(entry);
  }
}

void PageImporter::close(uint64_t id) {
  const auto at = open_.find(id);
  if (at == open_.end()) return;
  release(at->second);
  if (at->second.pinned) --n_open_pinned_;
  open_.erase(at);
}

void PageImporter::close_all() {
  for (auto& [id, import] : open_) release(import);
  open_.clear();
  n_open_pinned_ = 0;
  writes_.clear();
}

void PageImporter::collect(std::vector<const KvState*>& states) const {
  for (const auto& [id, import] : open_) states.push_back(&import.kv);
}

}  // namespace monolith
