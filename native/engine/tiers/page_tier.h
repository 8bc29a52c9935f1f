// The engine's side of a storage tier under the page pool: exports finished sequences' pages and imports pages for new
// prompts, in short slices of time between steps. The consumer is responsible for the store itself, its keys and its
// encryption (docs/internals/kv-tiers.md). Engine thread only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "engine/tiers/page_copier.h"
#include "engine/tiers/page_exporter.h"
#include "engine/tiers/page_importer.h"
#include "engine/tiers/tier_outbox.h"
#include "model/model.h"

namespace monolith {

class PageTier {
 public:
  PageTier(Model& model, PrefixCache& cache, Scheduler& scheduler)
      : cache_(cache),
        scheduler_(scheduler),
        copier_(model),
        exporter_(cache, copier_),
        importer_(cache, copier_, [&scheduler](uint64_t organization) { scheduler.note_cached(organization); }) {}

  // Connects a consumer. Null disconnects the current consumer, drops pending exports and closes all imports.
  void open(std::shared_ptr<TierOutbox> outbox) {
    importer_.close_all();
    outbox_ = outbox;
    exporter_.open(std::move(outbox));
  }
  // Commits memory for the first pages of an unused pool, so that the first import does not have to wait for the
  // kernel. This may take a second if free memory is fragmented. Does nothing if pages of the pool have been used.
  void touch_pool();
  // These functions are documented in PageExporter and PageImporter.
  void forget_exports() { exporter_.forget(); }
  void open_import(PageImport import) {
    if (outbox_) importer_.open(std::move(import), outbox_, Clock::now());
  }
  void write_import(uint64_t id, std::vector<ImportedPage> pages, std::shared_ptr<const void> owner) {
    if (outbox_) importer_.write(id, std::move(pages), std::move(owner), outbox_);
  }
  void close_import(uint64_t id) { importer_.close(id); }
  // Calls PrefixCache::clear(). Pages of open imports, pinned or not, are kept, because the imports reference them.
  void clear_cache(std::optional<uint64_t> organization) { cache_.clear(organization); }

  PageExporter& exporter() { return exporter_; }
  const PageExporter& exporter() const { return exporter_; }
  const PageImporter& importer() const { return importer_; }

  // Drops the holds of imports if the step being planned could need their pages. Called before a step is planned.
  void yield_before_step();
  // Drops the holds of unpinned imports if the step that was just planned omits sequences for lack of pages. Also drops
  // the holds of pinned imports if in several consecutive plans, pages were lacking and no sequence was running.
  void yield_after_plan();
  bool pending() const { return exporter_.pending() || importer_.pending(); }
  // Copies pages. `step`: the duration of the last step. While sequences decode, the copies may take a small share of
  // that duration. Returns true if anything was copied.
  bool advance(Clock::duration step, bool decoding);
  // True if the scheduler and the open imports account for all references to pages.
  bool consistent() const;

 private:
  PrefixCache& cache_;
  Scheduler& scheduler_;
  PageCopier copier_;
  PageExporter exporter_;
  PageImporter importer_;
  std::shared_ptr<TierOutbox> outbox_;
  int n_stalled_plans_ = 0;  // Consecutive plans that lacked pages and had no running sequence.
};

}  // namespace monolith
