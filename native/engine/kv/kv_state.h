// What a sequence holds of the KV cache. The scheduler fills it, and a preempted sequence loses it.
#pragma once

#include "engine/kv/page_table.h"
#include "engine/kv/state_slots.h"

namespace monolith {

struct KvState {
  PageTable pages;          // Page table: the page of position p is pages[p / kPageTokens].
  PageTable window_pages;   // Page table of sliding-window layers; empty if these have no separate pages.
  int n_computed = 0;       // Tokens whose keys and values are stored in `pages`.
  int n_indexed = 0;        // Number of leading pages that are in the prefix cache.
  int n_out_of_window = 0;  // Number of leading window pages that were released because no later token attends to them.
  int n_planned = 0;        // Tokens that the step being planned computes.
  int n_drafted = 0;        // Draft tokens of the step in flight that are not yet accepted.
  // Recurrent-state slots: the state after n_computed tokens, and the state after the draft tokens of the step in
  // flight. kNoSlot: none.
  SlotId slot = kNoSlot, draft_slot = kNoSlot;
  // Last output page whose node holds a snapshot stored by this sequence; kNoPage: none.
  PageId answer_snapshot = kNoPage;
};

}  // namespace monolith
