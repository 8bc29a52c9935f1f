// The work of one engine step.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/kv/page_pool.h"
#include "engine/kv/state_slots.h"
#include "engine/schedule/scheduled_sequence.h"

namespace monolith {

// Decoding sequences, oldest first, then prompts.
struct StepPlan {
  struct Item {
    ScheduledSequence* sequence;
    int n_tokens;
    bool is_last;                       // True if the step computes the sequence's last token.
    bool wants_logits;                  // True if the logits of the item's last token are needed.
    int first_position = 0;             // Position in the sequence of the item's first token.
    int n_drafts = 0;                   // Draft tokens computed after the item's tokens; the logits of each are needed.
    int first_chunk = 0, n_chunks = 0;  // Range in `chunks`; empty for models without recurrent state.
    // Number of consecutive prompt tokens from whose logits the log-probability of the respective next token is
    // computed.
    int n_scored = 0;
    int first_scored = 0;  // Index of the first of the `n_scored` tokens within the item.
    // The sequence finishes with this step without generating a token.
    bool ends() const { return is_last && !wants_logits; }
    int logit_rows() const { return n_scored + (wants_logits ? 1 + n_drafts : 0); }
  };
  struct PageCopy {
    PageId from, to;
  };
  // A run of an item's tokens, and the recurrent-state slots that it reads and writes. A run ends where a snapshot is
  // stored.
  struct Chunk {
    int n_tokens;
    SlotId from, to;
  };
  std::vector<Item> items;
  std::vector<PageCopy> copies;  // Page copies to make before the step, in this order.
  std::vector<Chunk> chunks;
  int n_rows = 0;
  int n_decodes = 0;          // Number of decoding sequences in the step.
  int n_ahead = 0;            // Tokens of decoding items beyond one per item.
  int n_drafts = 0;           // Number of draft tokens in the step.
  bool first_tokens = false;  // True for a step of first tokens: all other running sequences are left out.

  std::span<const Chunk> chunks_of(const Item& item) const {
    return std::span(chunks).subspan(static_cast<size_t>(item.first_chunk), static_cast<size_t>(item.n_chunks));
  }
};

}  // namespace monolith
