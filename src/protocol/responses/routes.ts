// Everything under /v1/responses but the WebSocket.
import type { Config } from '../../config.js';
import type { Route } from '../../http/exchange.js';
import type { BackgroundResponses } from './background.js';
import { compactRoute } from './compact.js';
import { createRoute } from './create.js';
import { inputTokensRoute } from './input-tokens.js';
import { storedRoutes } from './stored-routes.js';
import type { TurnDeps } from './turn.js';

export interface ResponsesDeps extends TurnDeps {
  settings: Config['responses'];
  background: BackgroundResponses;
}

export function responsesRoutes(deps: ResponsesDeps): Route[] {
  return [createRoute(deps), compactRoute(deps), inputTokensRoute(deps), ...storedRoutes(deps)];
}
