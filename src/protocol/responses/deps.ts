// Dependencies of the routes of the responses format.

import type { Config } from '../../config/settings.js';
import type { BackgroundResponses } from './background.js';
import type { ResponseRunDeps } from './response-run.js';

export interface ResponsesDeps extends ResponseRunDeps {
  settings: Config['responses'];
  background: BackgroundResponses;
}
