// Admission while Redis is unreachable: this process's share of every limit, counted in memory shared by its threads.
// Requests admitted through Redis are counted here too, and the buckets start from the last known state of the shared
// buckets. This works because a bucket stores what fraction of its limit is empty, regardless of the limit itself.
// Event-loop thread only.

import { apiError } from '../../shared/errors.js';
import type { ApiError } from '../../shared/errors.js';
import type { Config } from '../../config/settings.js';
import type { Limited, Reservation, ReserveRequest } from '../admission.js';
import { Counters } from '../counters.js';
import { LimitScopes } from '../limit-scopes.js';
import type { LimitScope } from '../limit-scopes.js';
import { LocalAdmission } from '../local-admission.js';
import { monthNumber, MonthUse, type StoredMonth } from '../month-use.js';
import { RecordTable } from '../record-table.js';
import { capUsed, countsFull, promptTooLong } from '../refusals.js';
import type { Processes } from './processes.js';
import type { LimitSnapshot } from './limit-snapshot.js';

export interface LocalQuotaOptions {
  processes: Processes;
  buffer: SharedArrayBuffer;
  ledger?: Int32Array | undefined;
  storedMonth: StoredMonth;
  /** Best estimate of the current time by Redis's clock. */
  wall: () => number;
}

/** Maximum number of organizations whose monthly usage is tracked here. */
const MAX_MONTHS = 100_000;

/** A request that was admitted through Redis. */
export interface SharedReservation {
  scopes: readonly LimitScope[];
  /** State of each limit scope, as reported by Redis. */
  seen: readonly LimitSnapshot[];
  /** Reserved tokens for each limit scope. */
  reserved: readonly number[];
  n: number;
  organizationId: string;
  /** Tokens that the organization has used this month. Null without a cap. */
  monthUsed: number | null;
}
/** The local copy of a reservation made through Redis. */
export interface Mirrored {
  leave(end: { tokens: number; refunded: boolean }): void;
}

export class LocalQuota {
  /** Enforces this process's share of the limits. */
  readonly local: LocalAdmission;
  readonly #table: RecordTable;
  readonly #counters: Counters;
  readonly #months: MonthUse;
  readonly #scopes: LimitScopes;
  /** Each organization's monthly usage at the time when Redis became unreachable. */
  readonly #usedBefore = new Map<string, number>();

  constructor(
    settings: Config['limits'],
    private readonly options: LocalQuotaOptions,
  ) {
    const { processes, buffer, ledger, storedMonth, wall } = options;
    this.local = new LocalAdmission(settings, {
      buffer,
      wall,
      storedMonth,
      part: (limits) => processes.partOf(limits),
      ...(ledger === undefined ? {} : { ledger }),
    });
    this.#table = new RecordTable(buffer, { now: process.hrtime.bigint, month: () => monthNumber(wall()), ledger });
    this.#counters = new Counters(this.#table);
    this.#months = new MonthUse(this.#table, storedMonth, wall);
    this.#scopes = new LimitScopes(settings);
  }

  /** Throws or rejects with ApiError 429 or 503. */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation> {
    const { identity, model, promptTokens } = request;
    const counted = this.#checkCap(identity, model);
    if (counted !== null) return counted.then(() => this.reserve(request));
    for (const { owner, limits } of this.#scopes.of(identity, model)) {
      const { rpm, tpm, concurrency } = limits;
      if (promptTokens.exact && tpm !== null && promptTokens.tokens > tpm)
        throw promptTooLong(owner, model, promptTokens.tokens, tpm, (format) =>
          this.local.headers(identity, model, format),
        );
      if ([rpm, tpm, concurrency].some((limit) => limit !== null && this.options.processes.part(limit) === 0))
        throw noPart(owner, model);
    }
    // The token count is passed as an estimate, so that a prompt larger than this process's share is admitted by taking
    // the whole share. Later requests wait until the share has refilled.
    return this.local.reserve({
      ...request,
      identity: { ...identity, monthlyTokenCap: null },
      promptTokens: { tokens: promptTokens.tokens, exact: false },
    });
  }

  mirror({ scopes, seen, reserved, n, organizationId, monthUsed }: SharedReservation): Mirrored {
    const now = process.hrtime.bigint();
    if (monthUsed !== null) this.#months.saw(organizationId, monthUsed);
    const records = scopes.map(({ key }, at) => {
      const record = this.#table.enter(key, n, null);
      if (record < 0) return -1; // its buckets then count as full here
      const { rpmUs, tpmUs } = seen[at] as LimitSnapshot;
      this.#table.store(record, 'rpm', now + BigInt(Math.round(rpmUs * 1000)));
      this.#table.store(record, 'tpm', now + BigInt(Math.round(tpmUs * 1000)));
      return record;
    });
    return {
      leave: ({ tokens, refunded }) => {
        const at = process.hrtime.bigint();
        for (const [index, record] of records.entries()) {
          if (record < 0) continue;
          const { rpm, tpm } = (scopes[index] as LimitScope).limits;
          if (tpm !== null) this.#counters.give(record, 'tpm', (reserved[index] as number) - tokens, tpm, at);
          if (rpm !== null && refunded) this.#counters.give(record, 'rpm', 1, rpm, at);
          if (!refunded) this.#table.took(record, Number(at - now) / 1e6);
          this.#table.leave(record, n);
        }
        if (!refunded) this.#months.add(organizationId, tokens, monthUsed !== null);
      },
    };
  }

  /** Visits every record with a bucket that is not full. Walks the whole table. */
  forEachAhead(visit: (key: Int32Array, rpmUs: number, tpmUs: number) => void): void {
    this.#table.forEachAhead(process.hrtime.bigint(), (key, rpm, tpm) =>
      visit(key, Number(rpm) / 1000, Number(tpm) / 1000),
    );
  }

  /** Called when Redis is reachable again. */
  over(): void {
    this.#usedBefore.clear();
  }

  /**
   * Checks the monthly cap: this process may use its share of the month's remaining tokens. Returns a promise if the
   * cap cannot be checked yet.
   */
  #checkCap({ monthlyTokenCap: cap, organizationId, ...identity }: Limited, model: string): Promise<void> | null {
    if (cap === null) return null;
    const used = this.#months.used(organizationId);
    if (used === null) throw countsFull();
    if (typeof used !== 'number') return used;
    const before = this.#usedBefore.get(organizationId) ?? used;
    if (this.#usedBefore.size < MAX_MONTHS) this.#usedBefore.set(organizationId, before);
    else if (!this.#usedBefore.has(organizationId)) throw countsFull();
    if (used >= cap)
      throw capUsed(cap, monthNumber(this.options.wall()), (format) =>
        this.local.headers({ ...identity, organizationId, monthlyTokenCap: cap }, model, format),
      );
    if (used - before >= this.options.processes.part(cap - before))
      throw unreachable(`this organization has used up this process's share of its ${cap} tokens per month`);
    return null;
  }
}

/** `what`: what happens as a result, as a clause of the error message. */
export const unreachable = (what: string): ApiError =>
  apiError(
    'capacity_exhausted',
    `The shared rate-limit counters are unreachable at the moment, and ${what}. Retry later.`,
    null,
    { retryAfterMs: 1_000 },
  );

const noPart = (owner: LimitScope['owner'], model: string): ApiError =>
  unreachable(
    `the limit of the ${owner} on ${model} is too small to be divided among all processes: this process has no share of it`,
  );
