import t from 'tap';
import { notReady } from '../../src/http/health-routes.js';
import type { ModelHealth } from '../../src/http/health-routes.js';
import type { ThreadState } from '../../src/shared/thread-states.js';

const model = (more: Partial<ModelHealth>): ModelHealth => ({ name: 'm', state: 'ready', progress: 1, error: null, running: 0, waiting: 0, lastStepAgeMs: 0, ...more });
const verdict = (...models: Partial<ModelHealth>[]): string | null => notReady({ draining: false, threads: [], models: models.map(model) }, 1_000);

t.test('readiness means progress', (t) => {
  t.equal(verdict({}), null);
  t.equal(verdict({ running: 3, waiting: 2, lastStepAgeMs: 1_000 }), null, 'within the bound');
  t.match(verdict({ running: 1, lastStepAgeMs: 1_001 }), /^m has requests but ended no step for 1001 ms$/);
  t.match(verdict({ waiting: 1, lastStepAgeMs: 1_001 }), /ended no step/, 'a first step that hangs has admitted nothing yet');
  t.equal(verdict({ lastStepAgeMs: 1e9 }), null, 'idle');
  t.match(verdict({}, { name: 'other', state: 'failed' }), /^other is failed$/, 'every model counts');
  t.match(verdict({ state: 'loading' }), /^m is loading$/);
  t.equal(verdict(), 'no model');
  t.equal(notReady({ draining: true, threads: [], models: [model({})] }, 1_000), 'draining');
  const threads = (...states: ThreadState[]): string | null => notReady({ draining: false, threads: states, models: [model({})] }, 1_000);
  t.equal(threads('serving', 'lost'), null, 'the others serve on');
  t.equal(threads('starting', 'lost'), 'no answering thread serves');
  t.end();
});
