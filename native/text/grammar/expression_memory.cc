// Removes the expressions that were added to a pool during use, and imports them again on demand.
#include "text/grammar/expression.h"

#include <algorithm>
#include <type_traits>

namespace monolith::grammar {

void ExpressionPool::keep(size_t most_nodes) {
  kept_nodes_ = nodes_.size();
  kept_lists_ = lists_.size();
  kept_sets_ = sets_.size();
  most_nodes_ = kept_nodes_ + kept_lists_ / 8 + most_nodes;
  derivatives_ = {};
  searches_.clear();
}

void ExpressionPool::forget() {
  std::erase_if(by_hash_, [&](const auto& entry) { return entry.second >= kept_nodes_; });
  std::erase_if(sets_by_hash_, [&](const auto& entry) { return entry.second * words_per_set_ >= kept_sets_; });
  nodes_.resize(kept_nodes_, Node{Kind::kNothing, false});
  life_.resize(kept_nodes_);
  lists_.resize(kept_lists_);
  sets_.resize(kept_sets_);
  derivatives_ = {};
  searches_.clear();
  halt_ = Halt::kNone;
}

std::unique_ptr<ExpressionPool::Past> ExpressionPool::forget_into_past() {
  auto past = std::make_unique<Past>();
  past->first_node = kept_nodes_;
  past->first_list = kept_lists_;
  past->first_set = kept_sets_;
  const auto behind = [](const auto& all, size_t kept) {
    return std::remove_cvref_t<decltype(all)>(all.begin() + static_cast<ptrdiff_t>(kept), all.end());
  };
  past->nodes = behind(nodes_, kept_nodes_);
  past->life = behind(life_, kept_nodes_);
  past->lists = behind(lists_, kept_lists_);
  past->sets = behind(sets_, kept_sets_);
  forget();
  return past;
}

// Imports the operands of an expression before the expression itself. Uses an explicit stack instead of recursion,
// because expressions may be nested as deeply as the text is long. An operand's ID is always lower than the IDs of the
// expressions that contain it.
ExprId ExpressionPool::recall(Past& past, ExprId wanted) {
  const auto of_now = [&](ExprId e) { return e < past.first_node ? e : past.recalled.at(e); };
  const auto is_known = [&](ExprId e) { return e < past.first_node || past.recalled.contains(e); };
  const auto list_of = [&](const Node& node, std::vector<ExprId>& parts) {
    parts.clear();
    for (uint32_t i = node.a; i < node.b; ++i)
      parts.push_back(i < past.first_list ? lists_[i] : past.lists[i - past.first_list]);
  };
  std::vector<ExprId> open{wanted}, needed, parts;
  std::unordered_set<ExprId> seen;
  while (!open.empty()) {
    const ExprId e = open.back();
    open.pop_back();
    if (is_known(e) || !seen.insert(e).second) continue;
    needed.push_back(e);
    const Node& node = past.nodes[e - past.first_node];
    switch (node.kind) {
      case Kind::kConcat: open.push_back(node.a), open.push_back(node.b); break;
      case Kind::kEither:
      case Kind::kBoth: list_of(node, parts), open.insert(open.end(), parts.begin(), parts.end()); break;
      case Kind::kNegate:
      case Kind::kRepeat:
      case Kind::kNonEmpty: open.push_back(node.a); break;
      default: break;
    }
  }
  std::sort(needed.begin(), needed.end());
  for (const ExprId e : needed) {
    const Node& node = past.nodes[e - past.first_node];
    ExprId now = kNothing;
    switch (node.kind) {
      case Kind::kSet: {
        const size_t first = node.a * words_per_set_;
        std::vector<uint64_t> bits(words_per_set_);
        for (size_t w = 0; w < words_per_set_; ++w)
          bits[w] = first + w < past.first_set ? sets_[first + w] : past.sets[first + w - past.first_set];
        now = set_of_classes(bits);
        break;
      }
      case Kind::kConcat: now = concat(of_now(node.a), of_now(node.b)); break;
      case Kind::kEither:
      case Kind::kBoth: {
        list_of(node, parts);
        for (ExprId& part : parts) part = of_now(part);
        now = node.kind == Kind::kEither ? either(parts) : both(parts);
        break;
      }
      case Kind::kNegate: now = negate(of_now(node.a)); break;
      case Kind::kRepeat: now = repeat(of_now(node.a), node.b, node.c); break;
      case Kind::kNonEmpty: now = non_empty(of_now(node.a)); break;
      default: now = intern(node); break;
    }
    if (failed()) return kFailed;
    if (const Life life = past.life[e - past.first_node]; life != Life::kUnknown && life_[now] == Life::kUnknown)
      life_[now] = life;
    past.recalled.emplace(e, now);
  }
  return of_now(wanted);
}

size_t ExpressionPool::bytes() const {
  constexpr size_t kEntry = 48;  // Estimated bytes per hash table entry.
  return nodes_.size() * (sizeof(Node) + 1 + kEntry) + lists_.size() * 4 + sets_.size() * 8 +
         sets_by_hash_.size() * kEntry + derivatives_.size() * kEntry + definitions_.size() * 4;
}

}  // namespace monolith::grammar
