#include "model/adapter_operations.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace monolith {

AdapterOperations::AdapterOperations(Backend& backend, int max_rows) : ForwardingBackend(backend), max_rows_(max_rows) {
  for (Grouping* grouping : {&all_, &logits_}) {
    grouping->rows.reserve(static_cast<size_t>(max_rows));
    grouping->groups.reserve(kMaxAtOnce);
  }
  targets_.reserve(kMaxAdapterTargets);
}

Status AdapterOperations::reserve(int rank) {
  if (rank <= reserved_rank_) return {};
  // The backend never frees floats, so the size grows by powers of two.
  const int next = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rank)));
  auto memory = inner_.allocate(int64_t{max_rows_} * static_cast<int64_t>(kMaxTargets) * next);
  if (!memory) return memory.error();
  scratch_ = *memory;
  reserved_rank_ = next;
  return {};
}

// Lists the rows of each adapter. With `logit_rows`, row i is the token logit_rows[i].
void AdapterOperations::group(std::span<const AdapterRows> adapters, std::span<const int32_t> logit_rows,
                              Grouping& to) {
  to.rows.clear();
  to.groups.clear();
  for (const AdapterRows& range : adapters)
    if (std::ranges::find(to.groups, range.adapter, &Group::adapter) == to.groups.end())
      to.groups.push_back({range.adapter, 0, 0});
  assert(to.groups.size() <= kMaxAtOnce);
  for (Group& group : to.groups) {
    group.first = to.rows.size();
    for (const AdapterRows& range : adapters) {
      if (range.adapter != group.adapter) continue;
      const int end = range.first_row + range.n_rows;
      if (logit_rows.empty()) {
        for (int row = range.first_row; row < end; ++row) to.rows.push_back(row);
        continue;
      }
      auto at = std::ranges::lower_bound(logit_rows, range.first_row);
      for (; at != logit_rows.end() && *at < end; ++at)
        to.rows.push_back(static_cast<int32_t>(at - logit_rows.begin()));
    }
    group.count = to.rows.size() - group.first;
  }
  std::erase_if(to.groups, [](const Group& group) { return group.count == 0; });
}

void AdapterOperations::begin(int n_rows, std::span<const int32_t> logit_rows, std::span<const AdapterRows> adapters) {
  n_rows_ = n_rows;
  n_logit_rows_ = static_cast<int>(logit_rows.size());
  group(adapters, {}, all_);
  group(logit_rows.empty() ? std::span<const AdapterRows>() : adapters, logit_rows, logits_);
}

void AdapterOperations::matmul(std::span<const MatmulTarget> targets, const float* x, RowCount rows, InputUse use) {
  // If all tokens have logits, both lists are the same.
  const bool is_all = rows.value() == n_rows_;
  const Grouping& grouping = is_all ? all_ : logits_;
  targets_.clear();
  for (const Group& group : grouping.groups)
    for (const MatmulTarget& target : targets)
      if (const AdapterMatrix* const matrix = group.adapter->find(target.weight))
        targets_.push_back(
            {matrix, x, target.out, target.out_stride, std::span(grouping.rows).subspan(group.first, group.count)});
  if (targets_.empty()) return inner_.matmul(targets, x, rows, use);
  // Blocks compute the adaptable matrices for all tokens or for those with logits.
  assert(is_all || rows.value() == n_logit_rows_);
  assert(targets.size() <= kMaxTargets);
  inner_.matmul(targets, x, rows, InputUse::kAgain);
  inner_.add_adapters(targets_, scratch_);
}

}  // namespace monolith
