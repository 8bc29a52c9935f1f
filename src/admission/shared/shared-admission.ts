// Admission for several processes: all counters are in Redis, with one call to reserve and one to settle, using only
// Redis's clock. Each thread has its own connection. While Redis is unreachable, the `redis.when_unavailable` setting
// applies: either this process enforces its share of every limit (local-quota.ts), or nothing is admitted. A process
// never applies the full limits on its own. Event-loop thread only.

import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../../shared/errors.js';
import type { ErrorFormat } from '../../shared/errors.js';
import type { Config } from '../../config/settings.js';
import type {
  Admission,
  CountersHealth,
  Limited,
  LimitedOrganization,
  Reservation,
  ReserveRequest,
  Standing,
} from '../admission.js';
import { LimitScopes } from '../limit-scopes.js';
import type { LimitScope } from '../limit-scopes.js';
import type { Limits } from '../limits.js';
import { monthName, monthNumber, type StoredMonth } from '../month-use.js';
import {
  capUsed,
  nextSlotMs,
  noSlot,
  promptTooLong,
  tooManyChoices,
  tooManyRequests,
  tooManyTokens,
  type HeadersOf,
} from '../refusals.js';
import { Leases, type Lease, type Settlement } from './leases.js';
import { ConnectionLost, RedisConnection, type RedisConnectionOptions } from './redis-connection.js';
import { LocalQuota, unreachable } from './local-quota.js';
import { Processes } from './processes.js';
import { SCRIPT_EPOCH_MS, SharedKeys } from './scripts.js';
import { costUs, headersOf, readSnapshots, stateOf, waitMs, type LimitSnapshot } from './limit-snapshot.js';

export type CountersNews =
  | { type: 'away'; reason: string; policy: 'share' | 'refuse'; processes: number }
  | { type: 'back'; awayMs: number; processes: number };

export interface SharedOptions {
  /** The address of Redis, and the policy while Redis is unreachable. */
  redis: Config['redis'] & { url: string };
  /** This process's ID, the same on all its threads. */
  process: string;
  /** Index of the thread within the process. */
  thread: number;
  buffer: SharedArrayBuffer;
  ledger?: Int32Array;
  storedMonth: StoredMonth;
  report(news: CountersNews): void;
  called?: RedisConnectionOptions['called'];
}

/** Timeout for the first connection at startup. */
const START_MS = 5_000;
/** How long to wait for the other processes after Redis has lost its data, before recalculating the shares. */
const REUNION_MS = 2_000;
const REUNION_LOOK_MS = 50;
/** How long a month's counter is kept. Longer than a month, because clocks differ. */
const MONTH_MS = 33 * 86_400_000;
/** Number of buckets per call. */
const FLOORS_AT_ONCE = 250;
/** Maximum number of organizations whose monthly tokens are kept until Redis is reachable again. */
const MAX_MONTHS = 100_000;
/**
 * Maximum number of used buckets that are remembered individually while Redis is unreachable. If there are more, all
 * buckets are sent after the reconnect.
 */
const MAX_TOUCHED = 131_072;

export class SharedAdmission implements Admission {
  readonly #scopes: LimitScopes;
  readonly #keys: SharedKeys;
  readonly #processes: Processes;
  readonly #connection: RedisConnection;
  readonly #leases: Leases;
  readonly #own: LocalQuota;
  /** Tokens used while Redis was unreachable, by the Redis key of the month. */
  readonly #unreported = new Map<string, number>();
  readonly #beginning = new Map<string, Promise<void>>();
  /** Buckets from which requests took while Redis was unreachable. Their state is sent to Redis after the reconnect. */
  readonly #touched = new Set<string>();
  #beat: NodeJS.Timeout | null = null;
  #renewing = false;
  #awaySince: number | null = performance.now();
  /** Offset of Redis's clock from this machine's clock, in ms. */
  #ahead = 0;

  /** Rejects with StartError if Redis is unreachable, because this process's share of the limits is then unknown. */
  static async open(settings: Config['limits'], options: SharedOptions): Promise<SharedAdmission> {
    const admission = new SharedAdmission(settings, options);
    try {
      await admission.#connection.open(START_MS);
    } catch (error) {
      await admission.#connection.close();
      throw new StartError(
        `redis.url: ${shown(options.redis.url)} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
        error,
      );
    }
    admission.#beat = setInterval(() => void admission.#renew(true), options.redis.lease_ms / 3).unref();
    return admission;
  }

  private constructor(
    private readonly settings: Config['limits'],
    private readonly options: SharedOptions,
  ) {
    const { redis, buffer, ledger, storedMonth } = options;
    this.#scopes = new LimitScopes(settings);
    this.#keys = new SharedKeys(redis.prefix);
    this.#processes = new Processes(options.process);
    this.#leases = new Leases(
      () => this.#connection,
      `${options.process}${options.thread.toString(36)}-${randomBytes(3).toString('hex')}-`,
      redis.lease_ms,
    );
    this.#own = new LocalQuota(settings, {
      processes: this.#processes,
      buffer,
      ledger,
      storedMonth,
      wall: () => this.#wall(),
    });
    this.#connection = new RedisConnection({
      url: redis.url,
      timeoutMs: redis.timeout_ms,
      attach: () => this.#attach(),
      lost: (reason) => this.#lost(reason),
      ...(options.called === undefined ? {} : { called: options.called }),
    });
  }

  reserve(request: ReserveRequest): Reservation | Promise<Reservation> {
    return this.#connection.up ? this.#reserveShared(request) : this.#reserveAway(request);
  }

  async headers(identity: Limited, model: string, format: ErrorFormat): Promise<[string, string][]> {
    const scopes = this.#scopes.of(identity, model);
    const seen = await this.#look(scopes);
    return seen === null ? this.#own.local.headers(identity, model, format) : headersOf(scopes, seen, 0, format);
  }

  async standing(organization: LimitedOrganization, model: string): Promise<Standing> {
    const scope = this.#scopes.organization(organization, model);
    const [seen] = (await this.#look([scope])) ?? [];
    return seen === undefined
      ? this.#own.local.standing(organization, model)
      : { state: stateOf(scope, seen, 0), unfinished: seen.count };
  }

  limitsOf(organization: LimitedOrganization, model: string): Limits {
    return this.#scopes.limitsOf(organization, model);
  }

  read(identity: Pick<Limited, 'keyId'>): void {
    this.#own.local.read(identity);
  }

  connect(organizationId: string, limit: number): () => void {
    return this.#own.local.connect(organizationId, limit);
  }

  leaveAll(ledger: Int32Array): void {
    this.#own.local.leaveAll(ledger);
  }

  health(): CountersHealth {
    return {
      state: this.#connection.up ? 'shared' : 'away',
      policy: this.options.redis.when_unavailable,
      processes: this.#processes.count,
    };
  }

  async close(): Promise<void> {
    if (this.#beat !== null) clearInterval(this.#beat);
    if (this.#connection.connected) {
      try {
        await this.#leases.settleAll();
        if (this.options.thread === 0)
          await this.#connection.run('leave', [this.#keys.processes], [this.options.process]);
      } catch {
        // errors are ignored, because the leases expire on their own
      }
    }
    await this.#connection.close();
  }

  async #reserveShared(request: ReserveRequest, attempts = 3): Promise<Reservation> {
    const { identity, model, n, promptTokens } = request;
    const { organizationId, monthlyTokenCap: cap } = identity;
    const scopes = this.#scopes.of(identity, model);
    const wanted = this.#wanted(request);
    const reserved = scopes.map(({ limits: { tpm } }) => (tpm === null ? 0 : Math.min(wanted, tpm)));
    const id = this.#leases.nextId();
    const month = monthNumber(this.#wall());
    const monthKey = this.#keys.month(organizationId, month);
    let answer: unknown[];
    try {
      answer = (await this.#connection.run(
        'reserve',
        [
          this.#keys.processes,
          monthKey,
          ...scopes.flatMap(({ key }) => [this.#keys.bucket(key), this.#keys.leases(key)]),
        ],
        [
          id,
          n,
          this.options.redis.lease_ms,
          wanted,
          promptTokens.exact ? promptTokens.tokens : -1,
          cap ?? -1,
          ...scopes.flatMap(({ limits }) => [limits.concurrency ?? -1, limits.rpm ?? -1, limits.tpm ?? -1]),
        ],
      )) as unknown[];
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      this.#leases.doubt({
        id,
        n,
        ...this.#settlement(scopes, reserved, monthKey, { tokens: 0, refunded: true, tookMs: -1 }),
      });
      return this.#reserveAway(request);
    }
    const [verdict, which, processes] = [String(answer[0]), Number(answer[1]), Number(answer[2])];
    if (processes !== this.#processes.count) void this.#renew(false);
    const seen = readSnapshots(answer, 4);
    const at = performance.now();
    const headers: HeadersOf = (format) => headersOf(scopes, seen, (performance.now() - at) * 1000, format);
    if (verdict === 'month' && attempts > 0) {
      await this.#beginMonth(organizationId, month, monthKey);
      return this.#reserveShared(request, attempts - 1);
    }
    if (verdict === 'month') throw unreachable("this organization's usage of the month is not known");
    if (verdict === 'cap') throw capUsed(cap ?? 0, month, headers);
    if (verdict !== 'admitted') throw this.#refusal(verdict, which - 1, { scopes, seen, request, wanted, headers });

    const lease: Lease = { id, n, keys: scopes.map(({ key }) => this.#keys.leases(key)), reported: true, place: null };
    this.#leases.open(lease);
    const mirrored = this.#own.mirror({
      scopes,
      seen,
      reserved,
      n,
      organizationId,
      monthUsed: cap === null ? null : Number(answer[3]),
    });
    return this.#reservation({ scopes, reserved, lease, monthKey }, headers, (end) => {
      mirrored.leave(end);
      scopes.forEach(({ limits: { rpm, tpm } }, index) => {
        const one = seen[index] as LimitSnapshot;
        one.count -= n;
        if (end.refunded && rpm !== null) one.rpmUs -= costUs(1, rpm);
        if (tpm !== null) one.tpmUs -= costUs((reserved[index] as number) - end.tokens, tpm);
      });
    });
  }

  /**
   * Admits or rejects a request while Redis is unreachable, according to `redis.when_unavailable`. Throws or rejects
   * with ApiError 429 or 503.
   */
  #reserveAway(request: ReserveRequest): Reservation | Promise<Reservation> {
    if (this.options.redis.when_unavailable === 'refuse')
      throw unreachable('this server is configured to reject requests in that case');
    const { identity, model, n } = request;
    const admitted = (own: Reservation): Reservation => {
      const scopes = this.#scopes.of(identity, model);
      const wanted = this.#wanted(request);
      const reserved = scopes.map(({ limits: { tpm } }) =>
        tpm === null ? 0 : Math.min(wanted, this.#processes.part(tpm)),
      );
      const lease: Lease = {
        id: this.#leases.nextId(),
        n,
        keys: scopes.map(({ key }) => this.#keys.leases(key)),
        reported: false,
        place: null,
      };
      this.#leases.open(lease);
      if (this.#touched.size < MAX_TOUCHED) for (const { key } of scopes) this.#touched.add(this.#keys.bucket(key));
      const monthKey = this.#keys.month(identity.organizationId, monthNumber(this.#wall()));
      return this.#reservation(
        { scopes, reserved, lease, monthKey },
        (format) => own.headers(format),
        ({ tokens, refunded }) => (refunded ? own.refund() : own.settle(tokens)),
      );
    };
    const own = this.#own.reserve(request);
    return own instanceof Promise ? own.then(admitted) : admitted(own);
  }

  /** A reservation that is settled exactly once, both locally (`ended`) and in Redis. */
  #reservation(
    {
      scopes,
      reserved,
      lease,
      monthKey,
    }: { scopes: readonly LimitScope[]; reserved: readonly number[]; lease: Lease; monthKey: string },
    headers: HeadersOf,
    ended: (end: { tokens: number; refunded: boolean }) => void,
  ): Reservation {
    const began = performance.now();
    let open = true;
    const end = (tokens: number, refunded: boolean): void => {
      if (!open) return;
      open = false;
      ended({ tokens, refunded });
      this.#leases.end(
        lease,
        this.#settlement(scopes, reserved, monthKey, {
          tokens,
          refunded,
          tookMs: refunded ? -1 : Math.round(performance.now() - began),
        }),
      );
      if (!lease.reported && tokens > 0 && this.#unreported.size < MAX_MONTHS)
        this.#unreported.set(monthKey, (this.#unreported.get(monthKey) ?? 0) + tokens);
    };
    return { headers, settle: (tokens) => end(tokens, false), refund: () => end(0, true) };
  }

  #settlement(
    scopes: readonly LimitScope[],
    reserved: readonly number[],
    monthKey: string,
    { tokens, refunded, tookMs }: { tokens: number; refunded: boolean; tookMs: number },
  ): Omit<Settlement, 'id' | 'n'> {
    return {
      keys: [monthKey, ...scopes.flatMap(({ key }) => [this.#keys.bucket(key), this.#keys.leases(key)])],
      tokens,
      tookMs,
      scopes: scopes.flatMap(({ limits: { rpm, tpm } }, at) => [
        refunded ? (rpm ?? -1) : -1,
        (reserved[at] as number) - tokens,
        tpm ?? -1,
      ]),
    };
  }

  #wanted({ promptTokens, statedCap, modelMaximum, n }: ReserveRequest): number {
    return promptTokens.tokens + n * (statedCap ?? Math.min(modelMaximum, this.settings.tpm_default_reservation));
  }

  /** `which`: index of the scope that rejected the request. */
  #refusal(
    verdict: string,
    which: number,
    {
      scopes,
      seen,
      request: { model, n, promptTokens },
      wanted,
      headers,
    }: {
      scopes: readonly LimitScope[];
      seen: readonly LimitSnapshot[];
      request: ReserveRequest;
      wanted: number;
      headers: HeadersOf;
    },
  ): Error {
    const { owner, limits } = scopes[which] as LimitScope;
    const { count, meanMs } = seen[which] as LimitSnapshot;
    const [places, rpm, tpm] = [limits.concurrency ?? 0, limits.rpm ?? 0, limits.tpm ?? 0];
    // Returns the time until every bucket has enough for the request, not only the bucket that rejected it first.
    const wait = Math.max(
      1,
      ...scopes.flatMap(({ limits: their }, at) => {
        const { rpmUs, tpmUs } = seen[at] as LimitSnapshot;
        return [
          their.rpm === null ? 0 : waitMs(rpmUs, 1, their.rpm),
          their.tpm === null ? 0 : waitMs(tpmUs, Math.min(wanted, their.tpm), their.tpm),
        ];
      }),
    );
    switch (verdict) {
      case 'places':
        return n > places
          ? tooManyChoices(owner, n, places, headers)
          : noSlot(owner, model, places, nextSlotMs(meanMs, count), headers);
      case 'rpm':
        return tooManyRequests(owner, model, rpm, wait, headers);
      case 'prompt':
        return promptTooLong(owner, model, promptTokens.tokens, tpm, headers);
      case 'tpm':
        return tooManyTokens(owner, model, { reserved: Math.min(wanted, tpm), limit: tpm }, wait, headers);
      default:
        return new Error(`unexpected reply from Redis: ${verdict}`);
    }
  }

  /** Returns null if Redis is unreachable. */
  async #look(scopes: readonly LimitScope[]): Promise<LimitSnapshot[] | null> {
    if (!this.#connection.up) return null;
    try {
      return readSnapshots(
        (await this.#connection.run(
          'look',
          scopes.flatMap(({ key }) => [this.#keys.bucket(key), this.#keys.leases(key)]),
          [],
        )) as unknown[],
        0,
      );
    } catch (error) {
      if (error instanceof ConnectionLost) return null;
      throw error;
    }
  }

  /**
   * Starts a month's counter, once for all of this thread's requests that are waiting for it. Tokens settled in the
   * meantime are counted.
   */
  #beginMonth(organizationId: string, month: number, key: string): Promise<void> {
    let begun = this.#beginning.get(key);
    if (begun === undefined) {
      begun = (async () => {
        try {
          await this.#connection.run('claim_month', [key], [MONTH_MS]);
          const stored = Math.round(await this.options.storedMonth(organizationId, monthName(month)));
          await this.#connection.run('begin_month', [key], [stored]);
        } catch (error) {
          if (!(error instanceof ConnectionLost)) throw error; // waiting requests retry and then get the error
        }
      })().finally(() => this.#beginning.delete(key));
      this.#beginning.set(key, begun);
    }
    return begun;
  }

  #wall(): number {
    return Date.now() + this.#ahead;
  }

  async #join(): Promise<{ fresh: boolean; all: string[] }> {
    const [now, fresh, ...all] = (await this.#connection.run(
      'join',
      [this.#keys.processes],
      [this.options.process, this.options.redis.lease_ms],
    )) as [string, number, ...string[]];
    this.#ahead = SCRIPT_EPOCH_MS + Number(now) / 1000 - Date.now();
    return { fresh: fresh === 1, all };
  }

  /** Periodically renews this process's registration and, if `leases` is true, its open leases. */
  async #renew(leases: boolean): Promise<void> {
    if (this.#renewing || !this.#connection.up) return;
    this.#renewing = true;
    try {
      const { all } = await this.#join();
      this.#processes.see(all);
      if (leases) await this.#leases.renew();
    } catch {
      // errors are ignored, because a lost connection is reported elsewhere
    } finally {
      this.#renewing = false;
    }
  }

  /**
   * Joins the processes that share the limits, and reports this process's state. Until this is complete, the process
   * keeps its previous share, and newly seen processes are not counted.
   */
  async #attach(): Promise<void> {
    const before = this.#processes.count;
    let { fresh, all } = await this.#join();
    // If this process is not registered, Redis has lost its data or dropped the process, so the full state is sent.
    await this.#reportAll(fresh);
    for (const until = performance.now() + REUNION_MS; fresh && all.length < before && performance.now() < until; ) {
      await sleep(REUNION_LOOK_MS);
      ({ all } = await this.#join());
    }
    await this.#reportAll(false);
    this.#processes.see(all);
    this.#own.over();
    if (this.#awaySince !== null && this.#beat !== null)
      this.options.report({
        type: 'back',
        awayMs: Math.round(performance.now() - this.#awaySince),
        processes: all.length,
      });
    this.#awaySince = null;
    setImmediate(() => void this.#renew(true)); // renews leases of requests admitted at the last moment
  }

  /**
   * Sends all state that Redis may lack: leases, settlements and buckets. If `every` is true, sends all buckets that
   * are not full; otherwise, sends only the buckets that were used while Redis was unreachable.
   */
  async #reportAll(every: boolean): Promise<void> {
    const ahead: [string, number, number][] = [];
    if (every || this.#touched.size > 0) {
      const all = every || this.#touched.size >= MAX_TOUCHED;
      this.#own.forEachAhead((key, rpmUs, tpmUs) => {
        const name = this.#keys.bucket(key);
        if (all || this.#touched.has(name)) ahead.push([name, rpmUs, tpmUs]);
      });
    }
    this.#touched.clear();
    for (let at = 0; at < ahead.length; at += FLOORS_AT_ONCE) {
      const some = ahead.slice(at, at + FLOORS_AT_ONCE);
      await this.#connection.run(
        'floor',
        some.map(([name]) => name),
        some.flatMap(([, rpmUs, tpmUs]) => [rpmUs.toFixed(3), tpmUs.toFixed(3)]),
      );
    }
    await this.#leases.renew();
    await this.#leases.settleAll();
    while (this.#unreported.size > 0) {
      const some = [...this.#unreported].slice(0, FLOORS_AT_ONCE);
      await this.#connection.run(
        'add_months',
        some.map(([key]) => key),
        some.map(([, tokens]) => tokens),
      );
      for (const [key, tokens] of some) {
        const left = (this.#unreported.get(key) ?? 0) - tokens;
        if (left > 0) this.#unreported.set(key, left);
        else this.#unreported.delete(key);
      }
    }
  }

  #lost(reason: string): void {
    this.#awaySince = performance.now();
    this.options.report({
      type: 'away',
      reason,
      policy: this.options.redis.when_unavailable,
      processes: this.#processes.count,
    });
  }
}

/** Removes the secret parts of the URL. */
function shown(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}
