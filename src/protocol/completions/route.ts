// POST /v1/completions: text as it stands, without a conversation, and what benchmark and evaluation tools need of it.
// Event-loop thread only.
//
//   parse ─► model ─► content ─► batch.ts: each prompt admitted and run in turn ─► answer
import type { Exchange, Route } from '../../http/exchange.js';
import type { GenerationDeps } from '../admit.js';
import { findModel } from '../admit.js';
import { annotateEndUser, callerOf } from '../caller.js';
import { nameIgnored } from '../ignored.js';
import { CompletionBatch } from './batch.js';
import { parseCompletion } from './parse.js';

const PATH = '/v1/completions';

export function completionsRoute(deps: GenerationDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    serve: (exchange) => read(deps, exchange).run(),
  };
}

/** Its own function, so that nothing of the body lives on while the answer is generated. */
function read(deps: GenerationDeps, exchange: Exchange): CompletionBatch {
  const parsed = parseCompletion(exchange.body);
  const caller = callerOf(exchange, PATH, 'chat');
  const model = findModel(deps, caller, parsed.model);
  const asked = parsed.content(deps.limits);
  nameIgnored(asked.ignored, (name, value) => exchange.setHeader(name, value));
  annotateEndUser(exchange, asked.endUser);
  return new CompletionBatch(deps, exchange, caller, model, asked);
}
