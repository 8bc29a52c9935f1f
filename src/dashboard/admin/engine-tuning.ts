// Engine settings that operators change at run time. They are stored and applied again when an engine is loaded. All
// threads share one engine object, so a change on any thread takes effect immediately on all of them. After a load, the
// primary thread applies the stored values. A setting given at startup (flag, environment variable or file) replaces a
// stored change, which is deleted. While an engine is leased (settings-leases.ts), the lease's trial values override
// the stored ones.

import { z } from 'zod';
import type { Actor } from '../../accounts/audit.js';
import { settings } from '../../config/settings.js';
import type { Config } from '../../config/settings.js';
import type {
  EngineHoldRequest,
  EngineTunables,
  EngineTunablesPatch,
  Tunable,
  TunableName,
} from '../../shared/wire/tunables.js';
import type { NativeStats, NativeTunables } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import type { ModelPool, PooledEngine } from '../../engine/model-pool.js';
import { apiError } from '../../shared/errors.js';
import type { FieldFault } from '../../shared/errors.js';
import type { Log } from '../../telemetry/types.js';
import { MAX_HOLD_S } from './settings-leases.js';
import type { SettingsLeases } from './settings-leases.js';
import type { EngineSettingsStore, EngineValues } from './engine-settings-store.js';

interface Declared {
  name: TunableName;
  native: keyof NativeTunables;
  min: number;
  max(stats: NativeStats): number;
  /**
   * Replaces the setting's help text if the allowed range is different at run time: 0 (automatic) is accepted only at
   * startup.
   */
  help?: string;
}

const DECLARED: readonly Declared[] = [
  {
    name: 'max_batch_tokens',
    native: 'maxBatchTokens',
    min: 1,
    max: (stats) => stats.mostBatchTokens,
    help: 'Maximum tokens per engine step. Decode tokens are scheduled first.',
  },
  { name: 'max_sequences', native: 'maxSequences', min: 1, max: (stats) => stats.mostSequences },
  { name: 'step_ms', native: 'stepMs', min: 0, max: () => 60_000 },
  { name: 'queue_max', native: 'queueMax', min: 1, max: () => 1_000_000 },
  { name: 'queue_max_tokens', native: 'queueMaxTokens', min: 1, max: () => 1_000_000_000 },
];

const number = z.number().int().nullish();
export const tunablesPatch = z.object({
  max_batch_tokens: number,
  max_sequences: number,
  step_ms: number,
  queue_max: number,
  queue_max_tokens: number,
}) satisfies z.ZodType<{ [K in keyof EngineTunablesPatch]: unknown }>;

/**
 * `is_new`: true takes the lease, false renews it. `seconds`: how long the lease lasts from this call on, unless it is
 * renewed.
 */
export const holdBody = z.object({
  id: z.string().min(8).max(64),
  is_new: z.boolean(),
  seconds: z.number().int().min(1).max(MAX_HOLD_S),
  values: z.object({ max_batch_tokens: z.number().int(), max_sequences: z.number().int(), step_ms: z.number().int() }),
}) satisfies z.ZodType<EngineHoldRequest>;

/**
 * How often the server checks for expired leases. An engine's settings can be restored this much later than its lease
 * expires.
 */
const SWEEP_MS = 1_000;

export class EngineTuning {
  #sweeping: NodeJS.Timeout | null = null;

  constructor(
    private readonly store: EngineSettingsStore,
    private readonly holds: SettingsLeases,
    private readonly pool: ModelPool,
    private readonly config: Pick<Config, 'engine' | 'given'>,
    private readonly log: Log,
  ) {}

  /** Loaded engines. An engine with several names is listed once. */
  async list(): Promise<EngineTunables[]> {
    const kept = await this.store.all();
    const running = this.pool
      .engines()
      .flatMap((pooled) => (pooled.status.state === 'ready' ? [{ pooled, engine: pooled.status.engine }] : []));
    return await Promise.all(
      running.map(({ pooled, engine }) => this.describe(pooled, engine, kept.get(keyOf(pooled)) ?? {})),
    );
  }

  /** `model`: any of the engine's names. Rejects with ApiError 404 or 503. */
  async get(model: string): Promise<EngineTunables> {
    const { pooled, engine } = this.find(model);
    return await this.describe(pooled, engine, await this.store.get(keyOf(pooled)));
  }

  /**
   * A change takes effect with the engine's next step or submission. Resolves when the change is stored. Rejects with
   * ApiError 404, 422 or 503.
   */
  async change(model: string, patch: EngineTunablesPatch, actor: Actor): Promise<EngineTunables> {
    const { pooled, engine } = this.find(model);
    const stats = engine.stats();
    checkRanges(stats, patch);
    const next = await this.store.change(keyOf(pooled), patch, {
      actor,
      action: 'engine.tunables_changed',
      detail: patch as Record<string, unknown>,
    });
    // An operator's change takes precedence over trial settings, so it ends the lease.
    await this.holds.end(keyOf(pooled), null);
    engine.configure(this.native(stats, next));
    return await this.describe(pooled, engine, next);
  }

  /**
   * Applies trial settings starting with the next step, without storing them. Rejects with ApiError 404, 422 or 503.
   */
  async hold(model: string, { id, is_new: isNew, values, seconds }: EngineHoldRequest): Promise<EngineTunables> {
    const { pooled, engine } = this.find(model);
    const stats = engine.stats();
    checkRanges(stats, values);
    const now = Date.now();
    const taken = await this.holds.take({ engine: keyOf(pooled), id, values, until: now + seconds * 1000 }, isNew, now);
    if (!taken)
      throw apiError(
        'conflicting_parameters',
        isNew
          ? 'Settings are already being tried on this engine. Only one run at a time is allowed.'
          : 'The settings lease is no longer valid: an operator changed the settings, or it was not renewed in time.',
        'id',
      );
    const kept = await this.store.get(keyOf(pooled));
    engine.configure(this.native(stats, { ...kept, ...values }));
    return await this.describe(pooled, engine, kept);
  }

  /** Restores the stored settings. Idempotent. Rejects with ApiError 404 or 503. */
  async release(model: string, id: string): Promise<EngineTunables> {
    const { pooled, engine } = this.find(model);
    const kept = await this.store.get(keyOf(pooled));
    if (await this.holds.end(keyOf(pooled), id)) engine.configure(this.native(engine.stats(), kept));
    return await this.describe(pooled, engine, kept);
  }

  /** The current holder of an engine's lease, by engine name; null if there is none. */
  async holderOf(engine: string): Promise<string | null> {
    return (await this.holds.of(engine))?.id ?? null;
  }

  /**
   * Called on the primary thread before any engine is loaded. Ends the leases left behind by the previous server
   * process. After that, periodically ends leases that have expired.
   */
  async watchHolds(): Promise<void> {
    for (const { engine } of await this.holds.endPast(Infinity))
      this.log.warn(
        { model: engine },
        'ended a settings lease of the previous server process; restored the stored engine settings',
      );
    const sweep = async (): Promise<void> => {
      for (const { engine: model } of await this.holds.endPast(Date.now())) {
        const pooled = this.pool.engines().find((one) => keyOf(one) === model);
        if (pooled?.status.state === 'ready')
          pooled.status.engine.configure(this.native(pooled.status.engine.stats(), await this.store.get(model)));
        this.log.warn({ model }, 'tuning client timed out; restored the previous engine settings');
      }
    };
    const next = (): void => {
      this.#sweeping = setTimeout(
        () =>
          void sweep()
            .catch((err: unknown) => this.log.error({ err }, 'cannot read settings leases'))
            .finally(() => {
              if (this.#sweeping !== null) next();
            }),
        SWEEP_MS,
      ).unref();
    };
    next();
  }

  close(): void {
    if (this.#sweeping !== null) clearTimeout(this.#sweeping);
    this.#sweeping = null;
  }

  /**
   * Called once at startup, before any engine is loaded. Deletes stored changes to settings that were given at this
   * startup.
   */
  async forgetGiven(): Promise<void> {
    const given = DECLARED.filter(({ name }) => this.givenBy(name) !== null);
    if (given.length === 0) return;
    for (const [model, kept] of await this.store.all()) {
      const over = given.filter(({ name }) => kept[name] !== undefined);
      if (over.length === 0) continue;
      await this.store.change(model, Object.fromEntries(over.map(({ name }) => [name, null])), null);
      for (const { name } of over) {
        this.log.info(
          {
            model,
            setting: `engine.${name}`,
            value: this.config.engine[name],
            by: this.givenBy(name),
            forgotten: kept[name],
          },
          'setting given at startup replaces the one set on the dashboard',
        );
      }
    }
  }

  /** Applies the stored changes to a newly loaded engine. */
  async apply(pooled: PooledEngine, engine: Engine): Promise<void> {
    const values = { ...(await this.store.get(keyOf(pooled))), ...(await this.holds.of(keyOf(pooled)))?.values };
    if (Object.keys(values).length === 0) return;
    engine.configure(this.native(engine.stats(), values));
    this.log.info({ model: keyOf(pooled), ...values }, 'applied engine settings from the dashboard');
  }

  private givenBy(name: TunableName): string | null {
    return this.config.given[`engine.${name}`] ?? null;
  }

  private native(stats: NativeStats, values: EngineValues): NativeTunables {
    return Object.fromEntries(DECLARED.map((one) => [one.native, this.value(one, stats, values)]));
  }

  /** `kept`: the stored values, which do not include a lease's trial values. */
  private async describe(pooled: PooledEngine, engine: Engine, kept: EngineValues): Promise<EngineTunables> {
    const stats = engine.stats();
    const hold = await this.holds.of(keyOf(pooled));
    const values = { ...kept, ...hold?.values };
    const tunables = DECLARED.map(
      (one): Tunable => ({
        name: one.name,
        value: this.value(one, stats, values),
        default: this.value(one, stats, {}),
        min: one.min,
        max: one.max(stats),
        help: one.help ?? settings.engine[one.name].help,
        given: this.givenBy(one.name),
      }),
    );
    return {
      model: keyOf(pooled),
      names: [...pooled.names],
      tunables,
      held_until: hold === null ? null : new Date(hold.until).toISOString(),
    };
  }

  /** Returns the effective value for a loaded engine. A value larger than the engine's allocation is clamped. */
  private value({ name, min, max }: Declared, stats: NativeStats, values: EngineValues): number {
    // An automatic value depends on the device, so the value that was determined when the engine was loaded is used.
    const unchanged =
      name === 'max_batch_tokens' && this.config.engine[name] === 0
        ? stats.loadedBatchTokens
        : this.config.engine[name];
    return Math.min(Math.max(values[name] ?? unchanged, min), max(stats));
  }

  private find(model: string): { pooled: PooledEngine; engine: Engine } {
    const pooled = this.pool.engines().find(({ names }) => names.includes(model));
    if (pooled === undefined) throw apiError('resource_not_found', 'Model not found.', 'model');
    if (pooled.status.state === 'loading') throw apiError('model_loading', `${model} is loading.`);
    if (pooled.status.state !== 'ready') throw apiError('model_unavailable', `${model} is not loaded.`);
    return { pooled, engine: pooled.status.engine };
  }
}

function checkRanges(stats: NativeStats, values: EngineTunablesPatch): void {
  const fields = DECLARED.flatMap(({ name, min, max }): FieldFault[] => {
    const value = values[name] ?? null;
    return value !== null && (value < min || value > max(stats))
      ? [
          {
            param: name,
            code: 'value_out_of_range',
            message: `${name} must be between ${min} and ${max(stats)}.`,
          },
        ]
      : [];
  });
  const [first] = fields;
  if (first !== undefined)
    throw apiError(first.code, first.message, first.param, fields.length === 1 ? {} : { fields });
}

const keyOf = ({ names, file }: PooledEngine): string => names[0] ?? file;
