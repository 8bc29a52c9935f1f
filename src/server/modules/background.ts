// Responses that are generated without an open client connection.

import { BackgroundResponses } from '../../protocol/responses/background.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Background extends Module {
  readonly background: BackgroundResponses;
}

export function openBackground({
  telemetry,
  storage: { responses, bus },
}: AppContext & { storage: Storage }): Promise<Background> {
  return openModule((undo) => {
    const background = new BackgroundResponses(responses, telemetry, bus);
    undo.add(() => background.close());
    return { background };
  });
}
