#include "engine/output/section_bans.h"

#include <algorithm>

namespace monolith {
namespace {

SectionBans make_marker_bans(const GenerationRequest& request, const Tokenizer& tokenizer) {
  const ReasoningParams& reasoning = request.reasoning;
  const TokenId open = reasoning.open.token, close = reasoning.close.token, call_close = request.calls.close.token;
  // The markers of tool results are banned everywhere, because tool results come only from the client.
  const TokenId result_open = tokenizer.find("<tool_response>"), result_close = tokenizer.find("</tool_response>");
  const auto list = [&](std::vector<TokenId> markers) {
    markers.insert(markers.end(), {result_open, result_close});
    std::vector<TokenId> banned = request.sampling.banned;
    for (const TokenId token : markers)
      if (token != kNoToken && !tokenizer.is_end_of_generation(token) &&
          std::ranges::find(banned, token) == banned.end())
        banned.push_back(token);
    return banned;
  };
  SectionBans bans;
  // With a reasoning budget of 0, the open marker is banned too.
  bans.undecided = list({close, call_close, reasoning.budget == 0 ? open : kNoToken});
  bans.reasoning = list({open});
  bans.content = list({open, close, call_close});
  bans.call = list({open, close});
  return bans;
}

SectionBans make_early_bans(const GenerationRequest& request, const SectionBans& always, const Tokenizer& tokenizer) {
  const auto list = [&](const std::vector<TokenId>& of_section) {
    std::vector<TokenId> banned = always.any() ? of_section : request.sampling.banned;
    banned.insert(banned.end(), request.stop_tokens.begin(), request.stop_tokens.end());
    if (!request.ignore_eos)
      banned.insert(banned.end(), tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end());
    return banned;
  };
  return {list(always.undecided), list(always.reasoning), list(always.content), list(always.call)};
}

}  // namespace

OutputBans make_bans(const GenerationRequest& request, const Tokenizer& tokenizer) {
  OutputBans bans;
  if (request.markers_in_place) bans.always = make_marker_bans(request, tokenizer);
  if (request.min_tokens > 0) bans.early = make_early_bans(request, bans.always, tokenizer);
  return bans;
}

}  // namespace monolith
