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
  // The backend frees memory from allocate() only when it is destroyed, so the rank is rounded up to a power of two to
  // limit the number of reallocations.
  const int next = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rank)));
  auto memory = inner_.allocate(int64_t{max_rows_} * static_cast<int64_t>(kMaxTargets) * next);
  if (!memory) return memory.error();
  scratch_ = *memory;
  reserved_rank_ = next;
  return {};
}

// Determines which rows use each adapter and writes the result to `to`. If `logit_rows` is empty, rows are the step's
// tokens. Otherwise, only tokens with logits have a row: row i is token logit_rows[i].
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
  // If logits are requested for all tokens, all_ and logits_ are equal, so either can be used.
  const bool is_all = rows.value() == n_rows_;
  const Grouping& grouping = is_all ? all_ : logits_;
  targets_.clear();
  for (const Group& group : grouping.groups)
    for (const MatmulTarget& target : targets)
      if (const AdapterMatrix* const matrix = group.adapter->find(target.weight))
        targets_.push_back(
            {matrix, x, target.out, target.out_stride, std::span(grouping.rows).subspan(group.first, group.count)});
  if (targets_.empty()) return inner_.matmul(targets, x, rows, use);
  // Every matmul with a weight that adapters can change is computed either for all tokens of the step or only for the
  // tokens with logits.
  assert(is_all || rows.value() == n_logit_rows_);
  assert(targets.size() <= kMaxTargets);
  inner_.matmul(targets, x, rows, InputUse::kAgain);
  inner_.add_adapters(targets_, scratch_);
}

}  // namespace monolith
