import t from 'tap';
import { healthRoutes, notReady } from '../../src/http/health-routes.js';
import type { ModelHealth } from '../../src/http/health-routes.js';
import type { ThreadState } from '../../src/shared/thread-states.js';
import { createTelemetry } from '../../src/telemetry/telemetry.js';
import { startRoutes } from './running-server.js';

const model = (more: Partial<ModelHealth>): ModelHealth => ({
  name: 'm',
  state: 'ready',
  awaited: false,
  progress: 1,
  error: null,
  isRequired: true,
  stopped: false,
  running: 0,
  waiting: 0,
  lastStepAgeMs: 0,
  ...more,
});
const verdict = (...models: Partial<ModelHealth>[]): string | null =>
  notReady({ draining: false, threads: [], models: models.map(model) }, 1_000);

t.test('readiness requires progress of every engine', (t) => {
  t.equal(verdict({}), null);
  t.equal(
    verdict({ running: 3, waiting: 2, lastStepAgeMs: 1_000 }),
    null,
    'an engine whose last step is within the limit is ready',
  );
  t.match(verdict({ running: 1, lastStepAgeMs: 1_001 }), /^m has requests but completed no step for 1001 ms$/);
  t.match(
    verdict({ waiting: 1, lastStepAgeMs: 1_001 }),
    /completed no step/,
    'a first step that hangs has not admitted any request yet',
  );
  t.equal(verdict({ lastStepAgeMs: 1e9 }), null, 'an engine without requests is ready');
  t.match(verdict({}, { name: 'other', state: 'failed' }), /^other is failed$/, 'every model counts');
  t.equal(
    verdict({}, { name: 'other', state: 'failed', isRequired: false }),
    null,
    'a LoRA adapter that an operator has loaded does not count',
  );
  t.match(verdict({ state: 'loading' }), /^m is loading$/);
  t.equal(verdict({ state: 'idle' }), null, 'a model that is loaded on demand is ready');
  t.equal(
    verdict({ state: 'loading', awaited: true }),
    null,
    'the server is ready although requests wait for the load',
  );
  t.equal(verdict(), 'no model');
  t.equal(
    notReady({ draining: true, storage: 'the disk', threads: [], models: [model({})] }, 1_000),
    'the disk',
    'a draining server reports the reason',
  );
  t.equal(notReady({ draining: true, threads: [], models: [model({})] }, 1_000), 'draining');
  const threads = (...states: ThreadState[]): string | null =>
    notReady({ draining: false, threads: states, models: [model({})] }, 1_000);
  t.equal(threads('serving', 'lost'), null, 'one lost HTTP worker does not make the server unready');
  t.equal(threads('starting', 'lost'), 'no HTTP worker is serving');
  t.end();
});

t.test('liveness fails if an engine fails', async (t) => {
  let models: ModelHealth[] = [];
  const telemetry = createTelemetry({ format: 'json', level: 'silent' });
  const server = await startRoutes(
    healthRoutes({
      health: () => ({ draining: false, threads: [], models }),
      telemetry,
      stallMs: 1_000,
      metricsPublic: true,
      readers: { check: async () => undefined, has: async () => true },
    }),
  );
  t.teardown(() => server.close());
  const live = async (...those: Partial<ModelHealth>[]): Promise<[number, unknown]> => {
    models = those.map(model);
    const response = await fetch(`${server.url}/livez`);
    return [response.status, await response.json()];
  };
  t.match(await live({}, { state: 'loading' }, { state: 'unloaded' }), [200, { status: 'ok', pid: process.pid }]);
  t.match(
    await live({ state: 'failed', error: '/models/m.gguf: cut short' }),
    [200, { status: 'ok' }],
    'liveness stays OK because a restart would not fix a file that cannot be loaded',
  );
  t.match(await live({}, { name: 'other', state: 'failed', error: 'x', stopped: true }), [
    503,
    { status: 'failed', reason: /^other: the engine stopped/ },
  ]);
});
