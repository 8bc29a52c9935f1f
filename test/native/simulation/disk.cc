#include "simulation/disk.h"

namespace monolith::simulation {

void Disk::attach(PageTier& tier) {
  open_.clear();
  outbox_ = std::make_shared<TierOutbox>(2000, [] {});
  tier.open(outbox_);
}

std::string Disk::key(uint64_t organization, const PageText& text, int index) {
  std::string key =
      std::to_string(organization) + "a" + std::to_string(text.adapter.high) + "." + std::to_string(text.adapter.low);
  for (int p = 0; p < (index + 1) * kPageTokens; ++p) {
    const InputSpan* span = span_from(text.spans, p);
    if (span && span->first <= p)
      key += "i" + std::to_string(span->hash.high) + "." + std::to_string(span->hash.low) + "." +
             std::to_string(p - span->first) + (span->bidirectional ? "b" + std::to_string(span->n_rows) : "");
    else
      key += " " + std::to_string(text.tokens[static_cast<size_t>(p)]);
  }
  return key;
}

void Disk::prefetch(PageTier& tier, const GenerationRequest& request) {
  PageImport import{.id = next_id_++,
                    .organization = request.organization,
                    .text = PageText::of(request.prompt, request.spans, static_cast<int>(request.prompt.size()))};
  open_[import.id] = import;
  tier.open_import(std::move(import));
}

void Disk::store(const PageExport& item) {
  for (const ExportedPage& page : item.pages) {
    Page& kept = pages_[key(item.organization, *item.text, page.index)];
    const char* at = reinterpret_cast<const char*>(page.bytes.get());
    if (page.full_bytes > 0) kept.full.assign(at, page.full_bytes);
    if (page.window_bytes > 0) kept.window.assign(at + page.full_bytes, page.window_bytes);
    if (page.snapshot_bytes > 0) kept.snapshot.assign(at + page.full_bytes + page.window_bytes, page.snapshot_bytes);
    ++exported_;
    outbox_->acknowledge(page.size());
  }
}

void Disk::answer(PageTier& tier, const ImportReply& reply) {
  const auto at = open_.find(reply.id);
  if (at == open_.end()) return;
  if (!reply.opened) {
    imported_ += reply.n_written;
    tier.close_import(reply.id);
    open_.erase(at);
    return;
  }
  const auto owner = std::make_shared<std::vector<Page>>();
  const int n_pages = (static_cast<int>(at->second.text.tokens.size()) - 1) / kPageTokens;
  owner->reserve(static_cast<size_t>(n_pages));
  std::vector<ImportedPage> pages;
  const auto bytes = [](const std::string& text) {
    return text.empty() ? nullptr : reinterpret_cast<const std::byte*>(text.data());
  };
  for (int index = 0; index < n_pages; ++index) {
    const bool is_held = static_cast<size_t>(index) < reply.pages.size();
    const auto stored = pages_.find(key(at->second.organization, at->second.text, index));
    if (stored == pages_.end()) {
      if (!is_held) break;
      continue;
    }
    const Page& page = owner->emplace_back(stored->second);
    pages.push_back({index, bytes(page.full), bytes(page.window), bytes(page.snapshot)});
  }
  tier.write_import(reply.id, std::move(pages), owner);
}

void Disk::close_all(PageTier& tier) {
  for (const auto& [id, import] : open_) tier.close_import(id);
  open_.clear();
}

void Disk::work(PageTier& tier) {
  Random random(seed_, ++turn_);
  if (random.one_in(3)) return;
  std::vector<PageExport> exports;
  std::vector<ImportReply> replies;
  outbox_->drain(exports, replies);
  for (const PageExport& item : exports) store(item);
  for (const ImportReply& reply : replies) answer(tier, reply);
  if (random.one_in(200)) tier.forget_exports();
  if (random.one_in(20) && !open_.empty()) {  // A request was cancelled while its pages were imported.
    tier.close_import(open_.begin()->first);
    open_.erase(open_.begin());
  }
}

}  // namespace monolith::simulation
