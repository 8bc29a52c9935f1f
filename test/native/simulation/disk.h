// Simulates the storage tier's consumer: keeps exported pages across restarts of the engine, and imports them for new
// prompts. The key of a page is the complete content up to and including the page, so different pages never have the
// same key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/tiers/page_tier.h"
#include "simulation/random.h"

namespace monolith::simulation {

class Disk {
 public:
  explicit Disk(uint64_t seed) : seed_(seed) {}

  void attach(PageTier& tier);
  // Opens an import for a request's prompt.
  void prefetch(PageTier& tier, const GenerationRequest& request);
  // Processes the engine's messages and replies to them.
  void work(PageTier& tier);
  void close_all(PageTier& tier);
  int64_t imported() const { return imported_; }
  int64_t exported() const { return exported_; }

 private:
  struct Page {
    std::string full, window, snapshot;
  };
  static std::string key(uint64_t organization, const PageText& text, int index);
  void store(const PageExport& item);
  void answer(PageTier& tier, const ImportReply& reply);

  const uint64_t seed_;
  uint64_t turn_ = 0;
  std::shared_ptr<TierOutbox> outbox_;
  std::map<std::string, Page> pages_;
  std::map<uint64_t, PageImport> open_;
  uint64_t next_id_ = 1;
  int64_t imported_ = 0, exported_ = 0;
};

}  // namespace monolith::simulation
