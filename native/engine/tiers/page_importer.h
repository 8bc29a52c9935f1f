// Imports pages from the storage tier into the prefix cache, a few per step. Engine thread only.
//
//   open() ──► reply: leading pages that are in the pool, now held ──► write() ... ──► reply ──► close()
//
// An open import holds a reference to each leading node of its prompt, so that none of them is evicted before the
// request that waits for them is admitted. Holds have the lowest priority: they are dropped as soon as running or
// waiting sequences could need their pages (StepLoop), and after kMaxHold. The pages then stay in the cache as the most
// recently used pages.
//
// A pinned import holds its pages until it is closed, without a time limit. There is one exception: if no sequence at
// all can run for lack of pages, drop_pins() drops the holds of all pinned imports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "engine/kv/prefix_cache.h"
#include "engine/tiers/page_copier.h"
#include "engine/tiers/page_text.h"
#include "engine/tiers/tier_outbox.h"

namespace monolith {

// Data of one page of an import. Parts that the pool already contains are omitted. The bytes belong to the caller and
// stay valid until `owner` is released.
struct ImportedPage {
  int index = 0;
  const std::byte* full = nullptr;      // PageSizes::full bytes.
  const std::byte* window = nullptr;    // PageSizes::window bytes.
  const std::byte* snapshot = nullptr;  // PageSizes::snapshot bytes.
};

struct PageImport {
  uint64_t id = 0;  // Chosen by the caller; unique among open imports.
  uint64_t organization = 0;
  PageText text;  // The prompt. Only full pages count, and never the prompt's last token.
  bool pinned = false;
};

class PageImporter {
 public:
  static constexpr size_t kMaxOpen = 64;      // Maximum number of open unpinned imports.
  static constexpr size_t kMaxPinned = 1024;  // Maximum number of open pinned imports.
  static constexpr std::chrono::seconds kMaxHold{60};

  // `note_added` is called with an organization after pages have been added to the organization's part of the cache.
  PageImporter(PrefixCache& cache, PageCopier& pages, std::function<void(uint64_t)> note_added)
      : cache_(cache), pages_(pages), note_added_(std::move(note_added)) {}

  // Opens an import. The reply lists the leading pages of the prompt that are in the pool. An import above the limits
  // is rejected.
  void open(PageImport import, const std::shared_ptr<TierOutbox>& outbox, Clock::time_point now);
  // Adds pages, in ascending order without gaps after the leading pages in the pool. Always replies to `outbox`: with
  // the number of pages that were written, which is lower if a page could not be written or if the import is closed.
  void write(uint64_t id, std::vector<ImportedPage> pages, std::shared_ptr<const void> owner,
             std::shared_ptr<TierOutbox> outbox);
  void close(uint64_t id);
  void close_all();

  bool pending() const { return !writes_.empty(); }
  // Writes one page. `n_running`: number of running sequences, for each of which one page is left free.
  void advance(int64_t n_running);

  // Drops the page references of all unpinned imports, so that the pages can be evicted. The imports stay open.
  void drop_holds();
  // Drops the page references of all pinned imports, so that the pages can be evicted. The imports stay open.
  void drop_pins();
  // Closes all unpinned imports that were opened kMaxHold or longer ago, and drops their page references.
  void expire(Clock::time_point now);
  bool holds_any() const { return n_held_ > 0; }
  bool pins_any() const { return n_pinned_ > 0; }
  // Appends the KV states that hold pages to `states`, the argument of PrefixCache::consistent().
  void collect(std::vector<const KvState*>& states) const;
  uint64_t n_imported() const { return n_imported_; }  // Pages imported since start.

 private:
  struct Open {
    uint64_t organization = 0;
    PageText text;
    KvState kv;  // Nodes and pages that this import references. Empty after they were dropped.
    Clock::time_point opened_at;
    bool pinned = false;
  };
  struct Write {
    uint64_t id = 0;
    std::vector<ImportedPage> pages;
    std::shared_ptr<const void> owner;
    std::shared_ptr<TierOutbox> outbox;
    size_t next = 0;
    int n_written = 0;
  };

  int64_t& n_held(const Open& import) { return import.pinned ? n_pinned_ : n_held_; }
  // Returns the maximum number of nodes that all pinned imports together may hold: a quarter of the pool. The same
  // maximum applies separately to all unpinned imports together.
  int64_t max_held() const;
  bool write_page(Open& import, const ImportedPage& page, int64_t n_running);
  bool add_node(Open& import, const ImportedPage& page);
  void add_window(Open& import, const ImportedPage& page);
  void add_snapshot(const Open& import, const ImportedPage& page);
  void release(Open& import);

  PrefixCache& cache_;
  PageCopier& pages_;
  const std::function<void(uint64_t)> note_added_;
  std::unordered_map<uint64_t, Open> open_;
  std::deque<Write> writes_;
  int64_t n_held_ = 0, n_pinned_ = 0;  // Number of nodes held by unpinned and by pinned imports.
  size_t n_open_pinned_ = 0;           // Number of open pinned imports.
  uint64_t n_imported_ = 0;
};

}  // namespace monolith
