// Exports finished sequences' pages to the storage tier, a few per step. Engine thread only.
//
// enqueue() records which nodes a sequence had, without references to them, so pending exports never take pages or
// slots from running sequences. If a node is evicted before it is copied, the export ends there, because the store
// could not find the pages after it. Nodes that were exported before are not copied again until forget() starts a new
// export period.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/kv/prefix_cache.h"
#include "engine/schedule/scheduled_sequence.h"
#include "engine/tiers/page_copier.h"
#include "engine/tiers/tier_outbox.h"

namespace monolith {

class PageExporter {
 public:
  static constexpr size_t kMaxPending = 256;           // Maximum number of sequences whose pages are not yet copied.
  static constexpr size_t kMaxPendingPages = 1 << 18;  // Maximum number of their pages, including copied ones.
  static constexpr size_t kMaxExportBytes = 4 << 20;   // An export is sent when it has this many bytes.

  PageExporter(PrefixCache& cache, PageCopier& pages) : cache_(cache), pages_(pages) {}

  // Sets the outbox that receives all further exports. If it is null, nothing is exported, and pending exports are
  // dropped.
  void open(std::shared_ptr<TierOutbox> outbox);
  // Exports all previously exported pages again.
  void forget() { ++period_; }
  // Schedules the export of the full pages of a sequence that holds its pages. If memory runs out, these pages are
  // skipped.
  void enqueue(const ScheduledSequence& sequence, const std::string& label);

  bool pending() const { return !jobs_.empty(); }
  uint64_t n_pending() const { return n_pending_pages_; }  // Pages of sequences whose export is not complete.
  // Copies one page with its snapshot. May throw std::bad_alloc, in which case the page is skipped.
  void advance();
  uint64_t n_exported() const { return n_exported_; }  // Pages exported since start.
  uint64_t n_skipped() const { return n_skipped_; }    // Pages skipped since start.

 private:
  static constexpr uint8_t kPage = 1, kWindow = 2, kSnapshot = 4;  // Flags of PrefixCache::exported().
  struct Node {
    NodeId id;
    uint32_t generation;
  };
  struct Job {
    PageExport batch;         // The export being filled.
    std::vector<Node> nodes;  // The sequence's nodes in order.
    size_t next = 0;          // Index of the next node to copy.
    size_t bytes = 0;         // Bytes of `batch`.
  };

  uint8_t missing(const Node& node) const;
  void copy_next(Job& job);
  void send(Job& job, bool is_last);
  void drop_jobs();

  PrefixCache& cache_;
  PageCopier& pages_;
  std::shared_ptr<TierOutbox> outbox_;
  std::deque<Job> jobs_;
  size_t n_pending_pages_ = 0;
  uint32_t period_ = 1;
  uint64_t n_sequences_ = 0, n_exported_ = 0, n_skipped_ = 0;
};

}  // namespace monolith
