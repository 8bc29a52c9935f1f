// POST /v1/completions: completes plain text without a conversation. Benchmark and evaluation tools use it. Event-loop
// thread only.
//
//   parse ─► model ─► content ─► batch.ts: prompts admitted one by one and run ─► response
import type { Exchange, Route } from '../../http/exchange.js';
import type { GenerationDeps } from '../admit.js';
import { findModel } from '../admit.js';
import { annotateEndUser, annotateModel, callerOf } from '../caller.js';
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
    handler: (exchange) => read(deps, exchange).run(),
  };
}

/** A separate function, so that the body can be garbage-collected during generation. */
function read(deps: GenerationDeps, exchange: Exchange): CompletionBatch {
  annotateModel(exchange, exchange.body);
  const parsed = parseCompletion(exchange.body);
  const caller = callerOf(exchange, PATH, 'chat');
  const model = findModel(deps, caller, parsed.model);
  const asked = parsed.content(deps.limits);
  nameIgnored({ parameters: asked.ignored }, exchange);
  annotateEndUser(exchange, asked.endUser);
  return new CompletionBatch(deps, exchange, caller, model, asked);
}
