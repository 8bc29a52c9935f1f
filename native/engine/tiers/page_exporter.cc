#include "engine/tiers/page_exporter.h"

#include <new>
#include <utility>

namespace monolith {

void PageExporter::open(std::shared_ptr<TierOutbox> outbox) {
  drop_jobs();
  outbox_ = std::move(outbox);
  forget();  // The new consumer has none of the pages.
}

void PageExporter::drop_jobs() {
  for (const Job& job : jobs_) n_skipped_ += job.nodes.size() - job.next;
  jobs_.clear();
  n_pending_pages_ = 0;
}

void PageExporter::enqueue(const ScheduledSequence& sequence, const std::string& label) {
  const std::vector<NodeId>& nodes = sequence.kv.nodes;
  if (!outbox_ || outbox_->closed() || nodes.empty() || label.empty()) return;
  if (nodes.size() * kPageTokens < outbox_->min_tokens()) return;
  if (jobs_.size() >= kMaxPending || n_pending_pages_ + nodes.size() > kMaxPendingPages) {
    n_skipped_ += nodes.size();
    return;
  }
  try {
    Job job;
    job.batch.organization = sequence.organization;
    job.batch.label = label;
    job.batch.sequence = ++n_sequences_;
    job.batch.text = std::make_shared<const PageText>(
        PageText::of(sequence.tokens, sequence.spans, sequence.kv.n_indexed() * kPageTokens, sequence.adapter_hash));
    job.nodes.reserve(nodes.size());
    for (const NodeId node : nodes) job.nodes.push_back({node, cache_.generation(node)});
    jobs_.push_back(std::move(job));
    n_pending_pages_ += nodes.size();
  } catch (const std::bad_alloc&) {
    n_skipped_ += nodes.size();
  }
}

// Returns the parts of the node that exist and were not exported in this period.
uint8_t PageExporter::missing(const Node& node) const {
  uint8_t present = kPage;
  if (cache_.window_of(node.id) != kNoPage) present |= kWindow;
  if (cache_.slots().snapshot_of(node.id) != kNoSlot) present |= kSnapshot;
  return present & static_cast<uint8_t>(~cache_.exported(node.id, period_));
}

void PageExporter::advance() {
  if (!pending()) return;
  if (outbox_->closed()) return open(nullptr);
  Job& job = jobs_.front();
  // Nodes that were exported before need no copy, so a single call skips all of them.
  while (job.next < job.nodes.size() && cache_.contains(job.nodes[job.next].id, job.nodes[job.next].generation) &&
         missing(job.nodes[job.next]) == 0)
    ++job.next;
  if (job.next < job.nodes.size()) copy_next(job);
  if (job.next == job.nodes.size()) {
    send(job, true);
    n_pending_pages_ -= job.nodes.size();
    jobs_.pop_front();
  } else if (job.bytes >= kMaxExportBytes) {
    send(job, false);
  }
}

void PageExporter::copy_next(Job& job) {
  const size_t index = job.next++;
  const Node& node = job.nodes[index];
  // The pages after a missing one are left for the next export of the sequence.
  const auto skip = [&] {
    const size_t n_left = job.nodes.size() - index;
    job.batch.n_skipped += static_cast<int>(n_left);
    n_skipped_ += n_left;
    job.next = job.nodes.size();
  };
  if (!cache_.contains(node.id, node.generation)) return skip();
  const uint8_t flags = missing(node);
  const PageSizes& sizes = pages_.sizes();
  ExportedPage page{.index = static_cast<int>(index),
                    .has_full = (flags & kPage) != 0,
                    .full_bytes = flags & kPage ? sizes.full : 0,
                    .window_bytes = flags & kWindow ? sizes.window : 0,
                    .snapshot_bytes = flags & kSnapshot ? sizes.snapshot : 0,
                    .bytes = nullptr};
  if (!outbox_->reserve(page.size())) return skip();
  try {
    page.bytes = std::make_unique_for_overwrite<std::byte[]>(page.size());
    job.batch.pages.reserve(job.batch.pages.size() + 1);
  } catch (const std::bad_alloc&) {
    outbox_->acknowledge(page.size());
    return skip();
  }
  std::byte* at = page.bytes.get();
  if (page.full_bytes > 0) pages_.read_group(cache_.pool(), cache_.page_of(node.id), at);
  at += page.full_bytes;
  if (page.window_bytes > 0) pages_.read_group(cache_.pool(), cache_.window_of(node.id), at);
  at += page.window_bytes;
  if (page.snapshot_bytes > 0) pages_.read_slot(cache_.slots().snapshot_of(node.id), at);
  cache_.set_exported(node.id, period_, static_cast<uint8_t>(cache_.exported(node.id, period_) | flags));
  job.bytes += page.size();
  job.batch.pages.push_back(std::move(page));
  ++n_exported_;
}

void PageExporter::send(Job& job, bool is_last) {
  PageExport next;
  next.organization = job.batch.organization;
  next.label = job.batch.label;
  next.sequence = job.batch.sequence;
  next.text = job.batch.text;
  job.batch.is_last = is_last;
  outbox_->add(std::move(job.batch));
  job.batch = std::move(next);
  job.bytes = 0;
}

}  // namespace monolith
