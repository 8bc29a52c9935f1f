// All HTTP routes under /v1/responses. The WebSocket is separate.
import type { Route } from '../../http/exchange.js';
import { compactRoute } from './compact.js';
import { createRoute } from './create.js';
import { inputTokensRoute } from './input-tokens.js';
import { storedRoutes } from './stored-routes.js';
import type { ResponsesDeps } from './deps.js';

export function responsesRoutes(deps: ResponsesDeps): Route[] {
  return [createRoute(deps), compactRoute(deps), inputTokensRoute(deps), ...storedRoutes(deps)];
}
