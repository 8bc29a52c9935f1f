// Records usage and the request log, and erases both after their retention periods.

import { RequestRecorder } from '../../usage/requests/request-recorder.js';
import { RequestSweep } from '../../usage/requests/request-sweep.js';
import { UsageRecorder } from '../../usage/usage-recorder.js';
import { UsageSweep } from '../../usage/usage-sweep.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Storage } from './storage.js';

export interface Recorders extends Module {
  readonly usage: UsageRecorder;
  readonly requests: RequestRecorder;
}

export function openRecorders({
  config,
  telemetry: { log },
  primary,
  storage: { usage: usageStore, requests: requestLog, directory, gate },
}: AppContext & { storage: Storage }): Promise<Recorders> {
  return openModule((undo) => {
    const usage = new UsageRecorder(usageStore, log);
    undo.add(() => usage.close());
    const usageSweep = primary
      ? new UsageSweep(
          usageStore,
          config.usage,
          (err) => log.error({ err }, 'sweeping usage failed'),
          gate,
          directory.now,
        )
      : null;
    undo.add(() => usageSweep?.close());
    const requests = new RequestRecorder(requestLog, config.requests, log);
    undo.add(() => requests.close());
    const requestSweep = primary
      ? new RequestSweep(
          requestLog,
          config.requests,
          (err) => log.error({ err }, 'sweeping the request log failed'),
          gate,
          directory.now,
        )
      : null;
    undo.add(() => requestSweep?.close());
    return { usage, requests };
  });
}
