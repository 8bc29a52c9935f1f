// Computes the mask of the tokens that may come next in a state.
#include "text/grammar/automaton.h"

#include <algorithm>

namespace monolith::grammar {
namespace {

constexpr uint32_t kNodesOfAStep = 16;  // Trie nodes charged as one fuel step if their transitions are cached.

}  // namespace

// Adds the allowed tokens of the subtree at `root`, a node of depth 1. With `subtracts`, the mask must already contain
// all tokens of the subtree, and the function removes the tokens that are not allowed.
void Automaton::walk(const TokenTree& tree, uint32_t root, StateId state, TokenMask& mask, bool subtracts) {
  const uint32_t end = tree.nodes[root].end;
  if (stack_.size() < TokenTrie::kLongest + 2) stack_.resize(TokenTrie::kLongest + 2);
  stack_[0] = state;
  const bool plain = &tree == &trie_.plain();
  uint32_t n_seen = 0;
  for (uint32_t i = root; i < end;) {
    const TokenTree::Node& node = tree.nodes[i];
    ++n_seen;
    const StateId next = step(stack_[node.depth - 1], node.byte);
    if (next == kDead) {
      if (failed()) return;
      if (subtracts) mask.reset(tree.tokens_below(node));
      i = node.end;
    } else if (plain && is_free(next, node)) {
      if (!subtracts) mask.set(tree.tokens_below(node));
      i = node.end;
    } else {
      if (!subtracts) mask.set(tree.own_tokens(node));
      stack_[node.depth] = next;
      ++i;
    }
  }
  // If this call uses up the fuel, the current walk is still completed, and the next operation stops.
  pool_.fuel().spend(n_seen / kNodesOfAStep);
}

// Returns whether most plain tokens start with a byte that is allowed next. Such tokens are usually allowed as a whole.
// In that case, it is cheaper to start with all plain tokens set and to remove the tokens that are not allowed.
bool Automaton::allows_most_beginnings(StateId state) {
  const TokenTree& tree = trie_.plain();
  size_t n_tokens = 0;
  for (uint32_t i = 0; i < tree.nodes.size(); i = tree.nodes[i].end)
    if (step(state, tree.nodes[i].byte) != kDead) n_tokens += tree.tokens_below(tree.nodes[i]).size();
  return n_tokens * 2 >= tree.tokens.size();
}

// Computes the mask in parts, one for each possible first byte of a token. If the fuel runs out, the results for
// completed first bytes are kept.
void Automaton::find_allowed(StateId state, TokenMask& mask) {
  Walk& done = unfinished_;
  if (done.state != state) {
    mask.clear();
    done = {state, false, 0, 0};
    if (headers_[state].free >= trie_.longest_plain() && headers_[state].free > 0) {
      mask.add(trie_.plain_mask());
      done.tree = 1;
    } else {
      done.subtracts = allows_most_beginnings(state);
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
      if (next == kDead) {
        if (subtracts) mask.reset(tree.tokens_below(node));
      } else if (!(subtracts && is_free(next, node))) {
        walk(tree, done.node, state, mask, subtracts);
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
