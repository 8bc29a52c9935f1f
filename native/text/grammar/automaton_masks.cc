// The tokens that may come next at a state.
#include "text/grammar/automaton.h"

#include <algorithm>

namespace monolith::grammar {

void Automaton::walk(const TokenTree& tree, uint32_t first, uint32_t end, StateId state, TokenMask& mask) {
  const auto& nodes = tree.nodes;
  if (first == end) return;
  const uint32_t base = nodes[first].depth;   // the first node's parent is at `state`
  if (stack_.size() < TokenTrie::kLongest + 2) stack_.resize(TokenTrie::kLongest + 2);
  stack_[base - 1] = state;
  const bool plain = &tree == &trie_.plain();
  for (uint32_t i = first; i < end;) {
    const TokenTree::Node& node = nodes[i];
    const StateId next = step(stack_[node.depth - 1], node.byte);
    if (next == kDead) {
      i = node.end;
      continue;
    }
    if (plain && headers_[next].free >= node.height && headers_[next].free > 0) {
      const uint32_t behind = tree.tokens_behind(node.end);
      for (uint32_t t = node.first_token; t < behind; ++t) mask.set(tree.tokens[t]);
      i = node.end;
      continue;
    }
    for (uint32_t t = node.first_token; t < node.first_token + node.n_own; ++t) mask.set(tree.tokens[t]);
    stack_[node.depth] = next;
    ++i;
  }
}

void Automaton::walk_plain(StateId state, TokenMask& mask) {
  const TokenTree& tree = trie_.plain();
  const uint32_t n = static_cast<uint32_t>(tree.nodes.size());
  // Where most first bytes lead to where anything may follow, all is allowed first and the rest looked at.
  uint32_t n_free = 0;
  for (uint32_t i = 0; i < n; i = tree.nodes[i].end) {
    const StateId next = step(state, tree.nodes[i].byte);
    if (next != kDead && headers_[next].free >= tree.nodes[i].height && headers_[next].free > 0)
      n_free += tree.tokens_behind(tree.nodes[i].end) - tree.nodes[i].first_token;
  }
  if (n_free * 2 < tree.tokens.size()) return walk(tree, 0, n, state, mask);
  mask.add(trie_.plain_mask());
  for (uint32_t i = 0; i < n; i = tree.nodes[i].end) {
    const TokenTree::Node& node = tree.nodes[i];
    const StateId next = step(state, node.byte);
    if (next != kDead && headers_[next].free >= node.height && headers_[next].free > 0) continue;
    const uint32_t behind = tree.tokens_behind(node.end);
    for (uint32_t t = node.first_token; t < behind; ++t) mask.reset(tree.tokens[t]);
    if (next != kDead) walk(tree, i, node.end, state, mask);
  }
}

void Automaton::find_allowed(StateId state, TokenMask& mask) {
  mask.clear();
  if (headers_[state].free >= trie_.longest_plain() && headers_[state].free > 0) mask.add(trie_.plain_mask());
  else walk_plain(state, mask);
  walk(trie_.other(), 0, static_cast<uint32_t>(trie_.other().nodes.size()), state, mask);
}

void Automaton::allowed(StateId state, TokenMask& mask) { mask.copy(allowed(state)); }

const TokenMask& Automaton::allowed(StateId state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known_masks_[known->second].mask;
  const size_t most = std::max<size_t>(options_.most_mask_bytes / (trie_.n_tokens() / 8 + sizeof(KnownMask)), 16);
  uint32_t at;
  if (known_masks_.size() < most) {
    at = static_cast<uint32_t>(known_masks_.size());
    known_masks_.push_back({kDead, TokenMask(trie_.n_tokens())});
  } else {
    at = static_cast<uint32_t>(next_mask_++ % most);
    masks_.erase(known_masks_[at].state);
  }
  known_masks_[at].state = state;
  find_allowed(state, known_masks_[at].mask);
  if (!failed()) masks_.emplace(state, at);
  return known_masks_[at].mask;
}

}  // namespace monolith::grammar
