// Tuning runs that operators start on the server. A child process generates the load. The thread that received the
// request holds the engine's lease for as long as the child runs. Results are stored as they arrive, so every thread
// can see them.

import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Accounts } from '../../accounts/accounts.js';
import type { Actor } from '../../accounts/audit.js';
import { apiError } from '../../shared/errors.js';
import { newAccountId } from '../../shared/ids.js';
import { LoadError } from '../../bench/load/load-error.js';
import { parseObjectives, showObjective } from '../../bench/load/objectives.js';
import type { RequestLog } from '../../usage/requests/request-log.js';
import type { ThreadBus } from '../../shared/bus.js';
import type { Log } from '../../telemetry/types.js';
import type { ToChild, ToParent, SettingsRequest } from '../../bench/tune/child-protocol.js';
import type { TuneWorkload } from '../../bench/tune/load.js';
import { BY_COMMAND, newRun, type TunePlan } from '../../bench/tune/plan.js';
import type { TuneRanges } from '../../bench/tune/ports.js';
import { workloadOf, workloadText } from '../../bench/tune/workload.js';
import type { EngineTunables, TunableName } from '../../shared/wire/tunables.js';
import type { TuneRun, TuneSettings, TuneStart } from '../../shared/wire/tuning.js';
import type { EngineTuning } from './engine-tuning.js';
import { recentShapes } from './request-shapes.js';
import type { TuneRunStore } from './tune-runs.js';

const CHILD = fileURLToPath(new URL('../../bench/tune/child.js', import.meta.url));
/** Duration of a lease. Renewed every PROLONG_MS, well before it expires. */
const HOLD_S = 30;
const PROLONG_MS = 10_000;
/** How long a child may take to exit on its own. */
const END_MS = 3_000;
/** Minimum number of requests needed to derive a workload. */
const MIN_SHAPES = 20;
/** Maximum load of a run, in concurrent requests, unless the operator specifies another maximum. */
const MAX_LOAD = 1_024;
const KEY_LIFE_MS = 24 * 3_600_000;

export interface TuningsDeps {
  readonly runs: TuneRunStore;
  readonly tuning: EngineTuning;
  readonly accounts: Accounts;
  readonly requestLog: Pick<RequestLog, 'list'>;
  readonly bus: ThreadBus;
  readonly log: Log;
  /** This server's address; null until the server is reachable. */
  url(): string | null;
  /**
   * The first organization's concurrency limit for the model, which applies because the run uses that organization's
   * key. Null means no limit.
   */
  concurrencyLimit(model: string): Promise<number | null>;
}

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  stop(): void;
}

export class Tunings {
  readonly #running = new Map<string, Running>();
  readonly #stopListening: () => void;

  constructor(private readonly deps: TuningsDeps) {
    this.#stopListening = deps.bus.on('tuning.stop', ({ id }) => this.#running.get(id)?.stop());
  }

  /** Resolves when the run has started. Rejects with ApiError 404, 422 or 503. */
  async start(asked: TuneStart, actor: Actor): Promise<TuneRun> {
    const { tuning, runs, accounts } = this.deps;
    const url = this.deps.url();
    if (url === null) throw apiError('model_loading', 'The server is starting.');
    const objectives = objectivesOf(asked.slo);
    const engine = await tuning.get(asked.model);
    const workload = await this.#workload(asked, engine.names);
    const plan: TunePlan = {
      id: newAccountId('tun'),
      model: engine.model,
      by: actor.email ?? 'the operator token',
      startedAt: new Date().toISOString(),
      objectives,
      workload: workloadText(workload),
      loadKind: asked.load,
      minLoad: asked.load === 'rate' ? 0.05 : 1,
      maxLoad: await this.#maxLoad(asked, engine),
      trials: asked.trials,
      trialSeconds: asked.trial_s,
      seed: Date.now() % 100_000,
      apply: asked.apply,
    };
    const before = settingsOf(engine, 'value');
    await tuning.hold(plan.model, { id: plan.id, is_new: true, seconds: HOLD_S, values: before });
    try {
      const { key, secret } = await accounts.createKey(
        {
          name: 'tuning run',
          scopes: ['inference', 'models.read', 'tokens.count'],
          expiresAt: new Date(Date.now() + KEY_LIFE_MS),
          temporary: true,
        },
        undefined,
        actor,
      );
      const run = newRun(plan, before);
      await runs.put(run, key.id);
      const revoke = async (): Promise<void> => {
        await accounts.keys.revoke(key.organizationId, key.id, actor);
      };
      this.#running.set(
        plan.id,
        this.#drive(run, actor, revoke, {
          type: 'start',
          plan,
          slo: asked.slo,
          target: {
            url: `${url}/v1`,
            model: engine.names[0] ?? plan.model,
            headers: { authorization: `Bearer ${secret}` },
          },
          workload,
          before,
          ranges: rangesOf(engine),
        }),
      );
      return run;
    } catch (error) {
      await tuning.release(plan.model, plan.id);
      throw error;
    }
  }

  /**
   * Marks command-line runs as ended if their process disappeared without a report (kill -9) and they no longer hold
   * their engine's lease. Runs started by the server are tracked directly.
   */
  async endLost(): Promise<void> {
    const { runs, tuning } = this.deps;
    for (const { id, model, state, by } of await runs.list()) {
      if (state !== 'running' || by !== BY_COMMAND || (await tuning.holderOf(model)) === id) continue;
      const run = await runs.get(id);
      if (run?.state === 'running')
        await runs.put(
          {
            ...run,
            state: 'failed',
            error: 'The client that drove the run stopped responding.',
            ended_at: new Date().toISOString(),
          },
          null,
        );
    }
  }

  /** Idempotent. Works for a run on any thread. */
  stop(id: string): void {
    this.#running.get(id)?.stop();
    this.deps.bus.publish('tuning.stop', { id });
  }

  /** Stops this thread's runs, so that a shutdown does not wait for the requests that they send. */
  drain(): void {
    for (const one of this.#running.values()) one.stop();
  }

  async close(): Promise<void> {
    this.#stopListening();
    this.drain();
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  #drive(started: TuneRun, actor: Actor, revoke: () => Promise<void>, start: ToChild): Running {
    const { tuning, runs, log } = this.deps;
    const { id, model } = started;
    const child = fork(CHILD, [], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], execArgv: [] });
    const send = (message: ToChild): void => {
      if (child.connected) child.send(message, () => undefined);
    };
    let run = started;
    let values: TuneSettings | null = started.before; // null: no longer held
    let writing = Promise.resolve();
    const write = (next: TuneRun): void => {
      run = next;
      writing = writing
        .then(() => runs.put(next, null))
        .catch((err: unknown) => log.error({ err, run: id }, 'cannot store a tuning run'));
    };
    const hold = async (next: TuneSettings): Promise<void> => {
      await tuning.hold(model, { id, is_new: false, seconds: HOLD_S, values: next });
      values = next;
    };
    const grant = async (request: SettingsRequest): Promise<void> => {
      if (request.what === 'set') return await hold(request.settings);
      values = null;
      if (request.what === 'apply') await tuning.change(model, { ...request.settings }, actor);
      else await tuning.release(model, id);
    };
    const prolonging = setInterval(() => {
      if (values !== null)
        hold(values).catch((error: unknown) => send({ type: 'lost', message: (error as Error).message }));
    }, PROLONG_MS);

    child.on('message', (message: ToParent) => {
      if (message.type === 'run') write(message.run);
      else if (message.type === 'failed')
        write({ ...run, state: 'failed', error: message.message, ended_at: new Date().toISOString() });
      else
        grant(message.request).then(
          () => send({ type: 'answer', number: message.number, error: null }),
          (error: unknown) => send({ type: 'answer', number: message.number, error: (error as Error).message }),
        );
    });
    child.on('error', (err) => log.error({ err, run: id }, 'tuning process failed'));
    log.info({ model, run: id, objectives: run.objectives }, 'tuning run started');
    send(start);
    const ended = new Promise<void>((resolve) => {
      child.once('close', () => resolve());
    }).then(async () => {
      clearInterval(prolonging);
      this.#running.delete(id);
      if (run.state === 'running')
        write({
          ...run,
          state: 'failed',
          error: 'The process that generated the load exited.',
          ended_at: new Date().toISOString(),
        });
      await Promise.allSettled([tuning.release(model, id), revoke(), writing]);
      log.info({ model, run: id, state: run.state, outcome: run.result?.outcome ?? null }, 'tuning run ended');
    });
    let isStopping = false;
    const stop = (): void => {
      if (isStopping) return;
      isStopping = true;
      send({ type: 'stop' });
      const late = setTimeout(() => child.kill('SIGKILL'), END_MS);
      void ended.then(() => clearTimeout(late));
    };
    return { child, ended, stop };
  }

  async #workload({ workload }: TuneStart, names: readonly string[]): Promise<TuneWorkload> {
    if (workload.kind === 'fixed')
      return { kind: 'fixed', promptTokens: workload.prompt_tokens, outputTokens: workload.output_tokens };
    const shapes = await recentShapes(this.deps.requestLog, names, await this.deps.runs.keyIds());
    if (shapes.length < MIN_SHAPES)
      throw apiError(
        'invalid_value',
        `The request log has ${shapes.length} completed requests for this model, but a workload needs ${MIN_SHAPES}. Specify prompt and output lengths instead.`,
        'workload',
      );
    return workloadOf(shapes);
  }

  async #maxLoad({ load, max_load: most }: TuneStart, engine: EngineTunables): Promise<number> {
    if (load === 'rate') {
      if (most === undefined)
        throw apiError(
          'missing_required_parameter',
          'A load given as a request rate requires max_load: the maximum number of requests per second to try.',
          'max_load',
        );
      return most;
    }
    const limit = await this.deps.concurrencyLimit(engine.names[0] ?? engine.model);
    return Math.max(1, Math.min(most ?? Math.min(MAX_LOAD, 2 * rangesOf(engine).max_sequences.max), limit ?? Infinity));
  }
}

function objectivesOf(slo: string): string[] {
  try {
    return parseObjectives(slo).map(showObjective);
  } catch (error) {
    if (error instanceof LoadError) throw apiError('invalid_value', error.message, 'slo');
    throw error;
  }
}

const NAMES = ['max_batch_tokens', 'max_sequences', 'step_ms'] as const satisfies readonly TunableName[];
const found = ({ tunables }: EngineTunables, name: TunableName): EngineTunables['tunables'][number] =>
  tunables.find((one) => one.name === name) as EngineTunables['tunables'][number];

function settingsOf(engine: EngineTunables, which: 'value' | 'min' | 'max'): TuneSettings {
  const [max_batch_tokens, max_sequences, step_ms] = NAMES.map((name) => found(engine, name)[which]) as [
    number,
    number,
    number,
  ];
  return { max_batch_tokens, max_sequences, step_ms };
}

function rangesOf(engine: EngineTunables): TuneRanges {
  const [min, max] = [settingsOf(engine, 'min'), settingsOf(engine, 'max')];
  return Object.fromEntries(NAMES.map((name) => [name, { min: min[name], max: max[name] }])) as unknown as TuneRanges;
}
