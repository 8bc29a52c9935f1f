// Everything under /v1/responses but the WebSocket.
import type { Config } from '../../config.js';
import type { Route } from '../../http/exchange.js';
import type { Sealer } from '../../sealing/sealer.js';
import type { Store } from '../../storage/store.js';
import type { GenerationDeps } from '../generation-run.js';

export interface ResponsesDeps extends GenerationDeps {
  sealer: Sealer;
  store: Store;
  settings: Config['responses'];
}

export function responsesRoutes(_deps: ResponsesDeps): Route[] {
  return [];
}
