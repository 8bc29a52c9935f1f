// The live view of the engines, and its history.

import { LiveRecorder } from '../../dashboard/admin/live-recorder.js';
import { LiveView } from '../../dashboard/admin/live-view.js';
import { openModule } from '../module.js';
import type { AppContext, Module } from '../module.js';
import type { Alerts } from './alerts.js';
import type { Engines } from './engines.js';
import type { Storage } from './storage.js';

export interface Live extends Module {
  readonly live: LiveView;
}

export function openLive({
  telemetry,
  primary,
  storage: { history, bus },
  engines: { pool },
  alerts: { counted },
}: AppContext & { storage: Storage; engines: Engines; alerts: Alerts }): Promise<Live> {
  return openModule((undo) => {
    const recorder = primary
      ? new LiveRecorder(history, (err) => telemetry.log.error({ err }, 'cannot write the live view history'))
      : null;
    undo.add(() => recorder?.close());
    const live = new LiveView({
      pool,
      telemetry,
      bus,
      primary,
      counted,
      ...(recorder === null ? {} : { history: recorder }),
    });
    undo.add(() => live.close());
    return { live };
  });
}
