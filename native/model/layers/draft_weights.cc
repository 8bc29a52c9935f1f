#include "model/layers/draft_weights.h"

#include "model/weight_list.h"

namespace monolith {

void list_weights(DraftWeights& weights, WeightList& list) {
  const HyperParams& p = list.params();
  list.vector("nextn.enorm.weight", p.n_embd, weights.token_norm);
  list.vector("nextn.hnorm.weight", p.n_embd, weights.hidden_norm);
  list.matrix("nextn.eh_proj.weight", p.n_embd, 2 * int64_t{p.n_embd}, weights.projection);
  if (p.draft.own_embedding) list.matrix("nextn.embed_tokens.weight", p.n_vocab, p.n_embd, weights.embedding);
  if (p.draft.own_head) list.matrix("nextn.shared_head_head.weight", p.n_vocab, p.n_embd, weights.head);
  if (!p.draft.head_norm_name.empty()) list.norm(p.draft.head_norm_name, p.n_embd, weights.head_norm);
}

}  // namespace monolith
