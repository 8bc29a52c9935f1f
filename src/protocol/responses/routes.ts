// All HTTP routes under /v1/responses. The WebSocket route is separate.
import type { Route } from '../../http/exchange.js';
import { compactRoute, type CompactDeps } from './compact.js';
import { createRoute, type CreateDeps } from './create.js';
import { inputTokensRoute, type InputTokensDeps } from './input-tokens.js';
import { storedRoutes, type StoredRouteDeps } from './stored-routes.js';

export function responsesRoutes(deps: CreateDeps & CompactDeps & InputTokensDeps & StoredRouteDeps): Route[] {
  return [createRoute(deps), compactRoute(deps), inputTokensRoute(deps), ...storedRoutes(deps)];
}
