// Tests complete tuning runs on simulated engines. They must find settings that are as good as the result of an
// exhaustive grid search in a tenth of its time, and must restore the previous settings.
import t from 'tap';
import { MIN_TRIALS } from '../../src/bench/tune/plan.js';
import type { TunePlan } from '../../src/bench/tune/plan.js';
import { tune } from '../../src/bench/tune/tune.js';
import type { TuneRun } from '../../src/shared/wire/tuning.js';
import { exhaustive, measuring, MAX_LOAD, SimulatedEngine, TOLERANCE, truth } from './engine-grid.js';
import { SURFACES } from './engine-surface.js';

t.setTimeout(300_000); // the machine may be busy

const BEFORE = { max_batch_tokens: 256, max_sequences: 32, step_ms: 250 };
const plan = (more: Partial<TunePlan> = {}): TunePlan => ({
  id: 'tun_1',
  model: 'hal-1.0',
  by: 'test',
  startedAt: '2026-01-01T00:00:00.000Z',
  objectives: [],
  workload: '',
  loadKind: 'concurrency',
  minLoad: 1,
  maxLoad: MAX_LOAD,
  trials: 48,
  trialSeconds: 1,
  seed: 1,
  apply: false,
  ...more,
});
const never = new AbortController().signal;

for (const [name, surface] of Object.entries(SURFACES)) {
  t.test(`${name}: reaches 95 percent of the best grid point in a tenth of the time`, async (t) => {
    const grid = exhaustive(surface, { max_batch_tokens: 5, max_sequences: 5, step_ms: 4, load: 8 });
    for (const seed of [1, 2]) {
      const engine = new SimulatedEngine(BEFORE);
      const { trials, result } = await tune(plan({ seed }), {
        engine,
        measure: measuring(surface, engine),
        signal: never,
        onChange: () => undefined,
      });
      const best = result?.best ?? null;
      if (best === null) throw new Error(`seed ${seed}: ${result?.says ?? 'no result'}`);
      const seconds = trials.reduce((sum, trial) => sum + trial.seconds, 0);
      const found = truth(surface, best.settings, best.load);
      t.comment(
        `seed ${seed}: ${trials.length} of ${grid.points} measurements, ${((seconds / grid.seconds) * 100).toFixed(1)} percent of the time, ${((found.throughput / grid.best) * 100).toFixed(1)} percent of the best, ${JSON.stringify(best.settings)} at ${best.load}`,
      );
      t.ok(found.throughput >= 0.95 * grid.best, 'throughput is at least 95 percent of the best');
      t.ok(found.worst <= TOLERANCE, `objectives are met: ${found.worst.toFixed(3)}`);
      t.ok(seconds <= 0.1 * grid.seconds, `in ${seconds.toFixed(0)} of ${grid.seconds.toFixed(0)} s`);
      t.ok(result?.gain === null || (result?.gain ?? 0) > 1, 'the result is better than the previous settings');
    }
  });
}

const { documents } = SURFACES;

t.test('a stopped, failed or preempted run restores the previous settings and keeps its measurements', async (t) => {
  for (const end of ['stop', 'take', 'fail'] as const) {
    const engine = new SimulatedEngine(BEFORE);
    const stop = new AbortController();
    const measure = measuring(documents, engine);
    let seen = 0;
    const run = await tune(plan(), {
      engine,
      measure: async (asked) => {
        if (++seen === 5) {
          if (end === 'fail') throw new Error('The server does not answer.');
          if (end === 'stop') stop.abort();
          else engine.taken.abort(new Error('An operator changed the settings.'));
          asked.signal.throwIfAborted();
        }
        return await measure(asked);
      },
      signal: stop.signal,
      onChange: () => undefined,
    });
    t.same(engine.inForce, BEFORE, end);
    t.equal(engine.released, 1);
    t.match(run, {
      state: end === 'stop' ? 'stopped' : 'failed',
      error: { stop: /Stopped/, take: /operator changed/, fail: /does not answer/ }[end],
      result: null,
    });
    t.ok(run.ended_at);
    t.equal(run.trials.length, 4);
  }
});

t.test('the best settings are applied on request after a confirmation run', async (t) => {
  const engine = new SimulatedEngine(BEFORE);
  const seen: TuneRun[] = [];
  const { result, trials } = await tune(plan({ apply: true, trials: 40 }), {
    engine,
    measure: measuring(documents, engine),
    signal: never,
    onChange: (run) => seen.push(structuredClone(run)),
  });
  t.equal(result?.outcome, 'applied');
  t.same(engine.kept, result?.best?.settings);
  t.same(engine.inForce, engine.kept);
  t.equal(trials.filter(({ phase }) => phase === 'verify').length, 3);
  t.ok(trials.length <= 40);
  t.same(seen.map((run) => run.trials.length).slice(0, 4), [0, 1, 2, 3], 'the run is reported after every trial');
  t.ok(trials.some(({ front }) => front) && !trials.every(({ front }) => front));
});

t.test('the previous settings are restored if the confirmation run misses an objective', async (t) => {
  const engine = new SimulatedEngine(BEFORE);
  let trials = 0;
  const measure = measuring(documents, engine, () => (trials >= 37 ? 2 : 1));
  const { result } = await tune(plan({ apply: true, trials: 40 }), {
    engine,
    measure,
    signal: never,
    onChange: (run) => {
      trials = run.trials.length;
    },
  });
  t.equal(result?.outcome, 'rolled_back');
  t.match(result?.says, /missed ttft|missed itl/);
  t.same(engine.kept, BEFORE);
  t.same(engine.inForce, BEFORE);
});

t.test('reports objectives that no settings meet, and keeps settings that cannot be improved', async (t) => {
  const engine = new SimulatedEngine(BEFORE);
  const hopeless = await tune(plan({ trials: MIN_TRIALS }), {
    engine,
    measure: measuring({ ...documents, ttftMs: 1 }, engine),
    signal: never,
    onChange: () => undefined,
  });
  t.match(hopeless, {
    state: 'done',
    result: { outcome: 'nothing_meets', best: null, current: null, says: /Closest: max_batch_tokens/ },
  });
  const found = await tune(plan(), {
    engine,
    measure: measuring(documents, engine),
    signal: never,
    onChange: () => undefined,
  });
  const good = new SimulatedEngine(found.result?.best?.settings ?? BEFORE);
  const again = await tune(plan({ seed: 2, apply: true }), {
    engine: good,
    measure: measuring(documents, good),
    signal: never,
    onChange: () => undefined,
  });
  t.equal(again.result?.outcome, 'kept', again.result?.says ?? 'no result');
  t.same(good.kept, good.before);
});
