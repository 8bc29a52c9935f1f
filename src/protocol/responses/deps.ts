// Dependencies of the routes of the responses format.

import type { Config } from '../../config/settings.js';
import type { BackgroundResponses } from './background.js';
import type { TurnDeps } from './turn.js';

export interface ResponsesDeps extends TurnDeps {
  settings: Config['responses'];
  background: BackgroundResponses;
}
