// Background responses, which are generated without an open client connection, and the events that webhooks send.

import { BackgroundResponses } from '../../protocol/responses/background.js';
import { WebhookEvents } from '../../webhooks/webhook-events.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Background extends Module {
  readonly background: BackgroundResponses;
  readonly events: WebhookEvents;
}

export function openBackground({
  telemetry,
  storage: { responses, webhooks, directory, bus },
}: AppContext & { storage: Storage }): Promise<Background> {
  return openModule((undo) => {
    const events = new WebhookEvents(webhooks, bus, directory.now);
    const background = new BackgroundResponses(responses, telemetry, bus, events);
    undo.add(() => background.close());
    return { background, events };
  });
}
