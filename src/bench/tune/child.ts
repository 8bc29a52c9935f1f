// The process that generates the load for a tuning run started on the dashboard. It is a separate process, so that
// sending requests does not take time from the server's event loops and its garbage collection does not pause the
// server's threads. It ends when the server ends.

import { parseObjectives } from '../load/objectives.js';
import type { ChildStart, ToChild, ToParent, SettingsRequest } from './child-protocol.js';
import { measuringLoad } from './load.js';
import type { HeldEngine } from './ports.js';
import { tune } from './tune.js';

const send = (message: ToParent): void => {
  process.send?.(message);
};
const stop = new AbortController();
const lost = new AbortController();

const asked = new Map<number, { resolve(): void; reject(error: Error): void }>();
const ask = (request: SettingsRequest): Promise<void> =>
  new Promise((resolve, reject) => {
    const number = asked.size === 0 ? 1 : Math.max(...asked.keys()) + 1;
    asked.set(number, { resolve, reject });
    send({ type: 'ask', number, request });
  });

async function start({ plan, slo, target, workload, before, ranges }: ChildStart): Promise<void> {
  const engine: HeldEngine = {
    before,
    ranges,
    lost: lost.signal,
    set: (settings) => ask({ what: 'set', settings }),
    apply: (settings) => ask({ what: 'apply', settings }),
    release: () => ask({ what: 'release' }),
  };
  const measure = await measuringLoad({
    target,
    workload,
    objectives: parseObjectives(slo),
    loadKind: plan.loadKind,
    seconds: plan.trialSeconds,
  });
  await tune(plan, { engine, measure, signal: stop.signal, onChange: (run) => send({ type: 'run', run }) });
}

process.on('message', (message: ToChild) => {
  switch (message.type) {
    case 'start':
      start(message).then(
        () => process.disconnect(),
        (error: unknown) => {
          send({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
          process.disconnect();
        },
      );
      break;
    case 'answer': {
      const waiting = asked.get(message.number);
      asked.delete(message.number);
      if (message.error === null) waiting?.resolve();
      else waiting?.reject(new Error(message.error));
      break;
    }
    case 'stop':
      stop.abort();
      break;
    case 'lost':
      lost.abort(new Error(message.message));
      break;
  }
});
process.on('disconnect', () => process.exit(0));
// Ctrl-C in a terminal reaches all processes started from it, but the server decides when this process stops.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => stop.abort());
