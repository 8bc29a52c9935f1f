#include "engine/text/marker_bans.h"

#include <algorithm>

namespace monolith {

MarkerBans make_marker_bans(const GenerationRequest& request, const Tokenizer& tokenizer) {
  const ReasoningParams& reasoning = request.reasoning;
  const TokenId open = reasoning.open.token, close = reasoning.close.token, call_close = request.calls.close.token;
  const auto list = [&](std::initializer_list<TokenId> markers) {
    std::vector<TokenId> banned = request.sampling.banned;
    for (const TokenId token : markers)
      if (token != kNoToken && !tokenizer.is_end_of_generation(token) && std::ranges::find(banned, token) == banned.end())
        banned.push_back(token);
    return banned;
  };
  MarkerBans bans;
  // Whoever may not reason does not begin to.
  bans.undecided = list({close, call_close, reasoning.budget == 0 ? open : kNoToken});
  bans.reasoning = list({open});
  bans.content = list({open, close, call_close});
  bans.call = list({open, close});
  return bans;
}

}  // namespace monolith
