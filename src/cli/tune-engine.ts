// Leases a server's engine through the operator API while settings are being tried.

import { setTimeout as sleep } from 'node:timers/promises';
import type { HeldEngine, TuneRanges } from '../bench/tune/ports.js';
import type { RequestShape } from '../bench/tune/workload.js';
import type { ListPage } from '../shared/wire/list.js';
import type { EngineHoldRequest, EngineTunables, TunableName } from '../shared/wire/tunables.js';
import type { TuneRun, TuneSettings } from '../shared/wire/tuning.js';
import { UsageError } from '../config/arguments.js';

const HOLD_S = 30;
const PROLONG_MS = 10_000;
const ANSWER_WITHIN_MS = 20_000;
/** Maximum number of attempts to release the lease while the server does not respond. */
const TRIES = 3;
const NAMES = ['max_batch_tokens', 'max_sequences', 'step_ms'] as const satisfies readonly TunableName[];

/** Thrown if the server refused the request. */
class Refused extends Error {}

export class OperatorApi {
  /** `url`: includes /admin/api. */
  constructor(
    readonly url: string,
    private readonly token: string,
  ) {}

  /**
   * Sends a request to the operator API. Rejects with UsageError if the operator API is disabled or the token is wrong,
   * with Refused if the server refuses the request, and otherwise with the network error.
   */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    let response: Response;
    try {
      response = await fetch(`${this.url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${this.token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      });
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error);
      throw new Error(`The operator API at ${this.url} cannot be reached: ${cause.message}`, { cause: error });
    }
    const text = await response.text();
    if (response.ok) return JSON.parse(text) as T;
    let message = `status ${response.status}`;
    try {
      message = (JSON.parse(text) as { error: { message: string } }).error.message;
    } catch {
      // The body is not a response from Monolith, so only the status is meaningful.
    }
    if (response.status === 401 || response.status === 404)
      throw new UsageError(`bench tune: ${this.url}${path}: ${message}`);
    throw new Refused(message);
  }

  engine(model: string): Promise<EngineTunables> {
    return this.call<EngineTunables>('GET', `/tunables/${encodeURIComponent(model)}`);
  }

  async shapes(model: string): Promise<RequestShape[]> {
    const { data } = await this.call<
      ListPage<{ at: string; input_tokens: number; cached_tokens: number; output_tokens: number }>
    >('GET', `/request-shapes?model=${encodeURIComponent(model)}`);
    return data.map((one) => ({
      at: Date.parse(one.at),
      inputTokens: one.input_tokens,
      cachedTokens: one.cached_tokens,
      outputTokens: one.output_tokens,
    }));
  }

  async report(run: TuneRun): Promise<void> {
    await this.call('PUT', `/tuning/${run.id}`, run);
  }
}

export const settingsOf = ({ tunables }: EngineTunables, which: 'value' | 'min' | 'max' = 'value'): TuneSettings =>
  Object.fromEntries(
    NAMES.map((name) => [name, tunables.find((one) => one.name === name)?.[which] ?? 0]),
  ) as unknown as TuneSettings;

/** Starts the lease, which is renewed until release(). */
export class ApiEngine implements HeldEngine {
  readonly before: TuneSettings;
  readonly ranges: TuneRanges;
  readonly #lost = new AbortController();
  #values: TuneSettings | null;
  readonly #prolonging: NodeJS.Timeout;

  private constructor(
    private readonly api: OperatorApi,
    private readonly engine: EngineTunables,
    private readonly id: string,
  ) {
    this.before = settingsOf(engine);
    this.#values = this.before;
    const [min, max] = [settingsOf(engine, 'min'), settingsOf(engine, 'max')];
    this.ranges = Object.fromEntries(
      NAMES.map((name) => [name, { min: min[name], max: max[name] }]),
    ) as unknown as TuneRanges;
    this.#prolonging = setInterval(() => void this.#prolong(), PROLONG_MS);
  }

  static async hold(api: OperatorApi, engine: EngineTunables, id: string): Promise<ApiEngine> {
    const held = new ApiEngine(api, engine, id);
    try {
      await held.#put(held.before, true);
      return held;
    } catch (error) {
      clearInterval(held.#prolonging);
      throw error;
    }
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async set(settings: TuneSettings): Promise<void> {
    await this.#put(settings, false);
    this.#values = settings;
  }

  async apply(settings: TuneSettings): Promise<void> {
    this.#values = null;
    await this.api.call('PATCH', this.#path(''), settings);
  }

  async release(): Promise<void> {
    clearInterval(this.#prolonging);
    this.#values = null;
    for (let tries = 1; ; tries++) {
      try {
        await this.api.call('DELETE', this.#path(`/hold?id=${this.id}`));
        return;
      } catch (error) {
        // When the lease expires, the server restores the settings on its own.
        if (tries >= TRIES)
          throw new Error(
            `${(error as Error).message} (the server restores its settings by itself within ${HOLD_S} seconds)`,
            {
              cause: error,
            },
          );
        await sleep(1_000);
      }
    }
  }

  #path(end: string): string {
    return `/tunables/${encodeURIComponent(this.engine.model)}${end}`;
  }

  async #put(values: TuneSettings, isNew: boolean): Promise<void> {
    const body: EngineHoldRequest = { id: this.id, is_new: isNew, seconds: HOLD_S, values };
    await this.api.call('PUT', this.#path('/hold'), body);
  }

  async #prolong(): Promise<void> {
    const values = this.#values;
    if (values === null) return;
    try {
      await this.#put(values, false);
    } catch (error) {
      // A network error may be temporary, but a rejection is final.
      if (error instanceof Refused) this.#lost.abort(error);
    }
  }
}
