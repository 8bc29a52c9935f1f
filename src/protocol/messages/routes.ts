// POST /v1/messages and /v1/messages/count_tokens.
import type { Route } from '../../http/exchange.js';
import type { Sealer } from '../../sealing/sealer.js';
import type { GenerationDeps } from '../generation-run.js';

export interface MessagesDeps extends GenerationDeps {
  sealer: Sealer;
  foreignThinking: 'reject' | 'drop';
}

export function messagesRoutes(_deps: MessagesDeps): Route[] {
  return [];
}
