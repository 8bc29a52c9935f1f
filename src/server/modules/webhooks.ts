// Sends events to webhook endpoints. Primary thread only.

import { Dispatcher } from '../../webhooks/dispatcher.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Background } from './background.js';
import type { Secrets } from './secrets.js';
import type { Storage } from './storage.js';

export function openWebhooks({
  config,
  telemetry,
  primary,
  storage: { webhooks: store, responses, batches, directory },
  background: { events },
  secrets: { box },
}: AppContext & { storage: Storage; background: Background; secrets: Secrets }): Promise<Module> {
  return openModule((undo) => {
    if (!primary) return {};
    const { now } = directory;
    const settings = config.webhooks;
    const dispatcher = new Dispatcher({ store, events, responses, batches, box, settings, telemetry, now });
    undo.add(() => dispatcher.close());
    undo.add(events.onDue(() => dispatcher.wake()));
    return {};
  });
}
