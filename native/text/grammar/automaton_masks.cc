// Computes the mask of tokens that may come next in a state.
#include "text/grammar/automaton.h"

#include <algorithm>

namespace monolith::grammar {
namespace {

constexpr uint32_t kNodesOfAStep = 16;  // Trie nodes charged as one fuel step if their transitions are cached.

}  // namespace

void Automaton::walk(const TokenTree& tree, uint32_t first, uint32_t end, StateId state, TokenMask& mask) {
  const auto& nodes = tree.nodes;
  if (first == end) return;
  const uint32_t base = nodes[first].depth;  // The parent of the first node corresponds to `state`.
  if (stack_.size() < TokenTrie::kLongest + 2) stack_.resize(TokenTrie::kLongest + 2);
  stack_[base - 1] = state;
  const bool plain = &tree == &trie_.plain();
  uint32_t n_seen = 0;
  for (uint32_t i = first; i < end;) {
    const TokenTree::Node& node = nodes[i];
    ++n_seen;
    const StateId next = step(stack_[node.depth - 1], node.byte);
    if (next == kDead) {
      if (failed()) return;
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
  // If this uses up the fuel, the next operation stops, but this walk is still complete.
  pool_.fuel().spend(n_seen / kNodesOfAStep);
}

// Returns whether most tokens are allowed because arbitrary characters may follow their first byte. The mask then
// starts with all tokens set, and only the other first bytes are checked.
bool Automaton::mostly_free(StateId state) {
  const TokenTree& tree = trie_.plain();
  uint32_t n_free = 0;
  for (uint32_t i = 0; i < tree.nodes.size(); i = tree.nodes[i].end) {
    const StateId next = step(state, tree.nodes[i].byte);
    if (next != kDead && headers_[next].free >= tree.nodes[i].height && headers_[next].free > 0)
      n_free += tree.tokens_behind(tree.nodes[i].end) - tree.nodes[i].first_token;
  }
  return n_free * 2 >= tree.tokens.size();
}

// Computes the mask one first byte at a time. If the fuel runs out, the results for completed first bytes are kept.
void Automaton::find_allowed(StateId state, TokenMask& mask) {
  Walk& done = unfinished_;
  if (done.state != state) {
    mask.clear();
    done = {state, false, 0, 0};
    if (headers_[state].free >= trie_.longest_plain() && headers_[state].free > 0) {
      mask.add(trie_.plain_mask());
      done.tree = 1;
    } else {
      done.subtracts = mostly_free(state);
      if (failed()) return void(done.state = kDead);
      if (done.subtracts) mask.add(trie_.plain_mask());
    }
  }
  for (; done.tree < 2; ++done.tree, done.node = 0) {
    const TokenTree& tree = done.tree == 0 ? trie_.plain() : trie_.other();
    const bool subtracts = done.tree == 0 && done.subtracts;
    while (done.node < tree.nodes.size()) {
      const TokenTree::Node& node = tree.nodes[done.node];
      const StateId next = step(state, node.byte);
      if (failed()) return;
      if (subtracts && !(next != kDead && headers_[next].free >= node.height && headers_[next].free > 0)) {
        const uint32_t behind = tree.tokens_behind(node.end);
        for (uint32_t t = node.first_token; t < behind; ++t) mask.reset(tree.tokens[t]);
        if (next != kDead) walk(tree, done.node, node.end, state, mask);
      } else if (!subtracts && next != kDead) {
        walk(tree, done.node, node.end, state, mask);
      }
      if (failed()) return;
      done.node = node.end;
    }
  }
  done.state = kDead;
}

void Automaton::allowed(StateId state, TokenMask& mask) { mask.copy(allowed(state)); }

const TokenMask& Automaton::allowed(StateId state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known_masks_[known->second].mask;
  const size_t most = std::max<size_t>(options_.most_mask_bytes / (trie_.n_tokens() / 8 + sizeof(KnownMask)), 16);
  if (next_mask_ == most) next_mask_ = 0;
  if (next_mask_ == known_masks_.size()) known_masks_.push_back({kDead, TokenMask(trie_.n_tokens())});
  KnownMask& place = known_masks_[next_mask_];
  masks_.erase(place.state);
  place.state = kDead;
  find_allowed(state, place.mask);
  if (failed()) return place.mask;  // The cache entry remains free.
  place.state = state;
  masks_.emplace(state, static_cast<uint32_t>(next_mask_++));
  return place.mask;
}

}  // namespace monolith::grammar
