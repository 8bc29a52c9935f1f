// The engine's messages to its storage tier: exported pages and replies to imports. The engine thread fills it, and the
// tier's thread empties it.
//
// The bytes of exported pages are bounded. They count towards the bound until the consumer acknowledges them, so that
// the bound covers everything between the pool and the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/tiers/page_text.h"

namespace monolith {

// One full page of a sequence. `bytes` contains, one after another, the page group of layers without a sliding window,
// the page group of layers with one, and the recurrent state. The size of a missing part is 0.
struct ExportedPage {
  int index = 0;          // The page starts at position index * kPageTokens of the sequence.
  bool has_full = false;  // Also true for models that store nothing outside of windows, with full_bytes = 0.
  size_t full_bytes = 0, window_bytes = 0, snapshot_bytes = 0;
  std::unique_ptr<std::byte[]> bytes;

  size_t size() const { return full_bytes + window_bytes + snapshot_bytes; }
};

// Pages of one sequence. A sequence may be split into several exports.
struct PageExport {
  uint64_t organization = 0;
  std::string label;      // GenerationRequest::retain.
  uint64_t sequence = 0;  // Number of the exported sequence; the exports of one sequence follow each other.
  std::shared_ptr<const PageText> text;  // All full pages of the sequence, including pages without an ExportedPage.
  std::vector<ExportedPage> pages;
  int n_skipped = 0;  // Pages that were evicted or did not fit into the outbox.
  bool is_last = false;
};

// Reply to an import. If `opened` is set, the reply lists the leading pages of the prompt that are in the pool;
// otherwise, it reports how many pages have been written.
struct ImportReply {
  static constexpr uint8_t kHasPage = 1, kHasWindow = 2, kHasSnapshot = 4;

  uint64_t id = 0;
  bool opened = false;
  bool refused = false;        // `opened`: no import was opened, because of a limit.
  std::vector<uint8_t> pages;  // `opened`: flags of each leading page that is in the pool.
  int n_written = 0;           // Number of pages that were written; there was no room for more, or the import ended.
};

class TierOutbox {
 public:
  // `wake` is called after an item has been added to an empty outbox. It must not block, and is not called after
  // close(). Sequences with fewer than `min_tokens` positions in full pages are not exported.
  TierOutbox(size_t max_bytes, std::function<void()> wake, size_t min_tokens = 0)
      : max_bytes_(max_bytes), wake_(std::move(wake)), min_tokens_(min_tokens) {}

  size_t min_tokens() const { return min_tokens_; }

  // Reserves room for exported bytes. Returns false if the outbox is full or closed.
  bool reserve(size_t bytes) {
    const std::lock_guard lock(mutex_);
    // A page above the limit is accepted only into an empty outbox; otherwise it could never be exported.
    if (closed_ || (bytes_ > 0 && bytes > max_bytes_ - std::min(max_bytes_, bytes_))) return false;
    bytes_ += bytes;
    return true;
  }
  void acknowledge(size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ -= std::min(bytes_, bytes);
  }
  void add(PageExport item) { add_to(exports_, std::move(item)); }
  void add(ImportReply item) { add_to(replies_, std::move(item)); }
  void drain(std::vector<PageExport>& exports, std::vector<ImportReply>& replies) {
    exports.clear();
    replies.clear();
    const std::lock_guard lock(mutex_);
    std::swap(exports, exports_);
    std::swap(replies, replies_);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    exports_.clear();
    replies_.clear();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  template <typename Item>
  void add_to(std::vector<Item>& items, Item&& item) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const bool was_empty = exports_.empty() && replies_.empty();
    items.push_back(std::move(item));
    if (was_empty) wake_();  // With the lock held, so that it is not called after close().
  }

  const size_t max_bytes_;
  const std::function<void()> wake_;
  const size_t min_tokens_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0;
  bool closed_ = false;
  std::vector<PageExport> exports_;
  std::vector<ImportReply> replies_;
};

}  // namespace monolith
