// The gate while the counting engine cannot be reached: this process's part of every limit, counted in the memory that its
// threads share. What was admitted while the engine was there counts here too, and the buckets begin with what was last
// seen of the shared ones: a bucket is the empty share of its limit, whatever that limit is. Event-loop thread only.

import { apiError } from '../../shared/errors.js';
import type { ApiError } from '../../shared/errors.js';
import type { Config } from '../../config/settings.js';
import type { Limited, Reservation, ReserveRequest } from '../admission.js';
import { Counters } from '../counters.js';
import { Gates } from '../gates.js';
import type { Gate } from '../gates.js';
import { LocalAdmission } from '../local-admission.js';
import { monthNumber, MonthUse, type StoredMonth } from '../month-use.js';
import { RecordTable } from '../record-table.js';
import { capUsed, countsFull, promptTooLong } from '../refusals.js';
import type { Processes } from './processes.js';
import type { GateSeen } from './seen.js';

export interface OwnShareOptions {
  processes: Processes;
  buffer: SharedArrayBuffer;
  ledger?: Int32Array | undefined;
  storedMonth: StoredMonth;
  /** By the engine's clock, as long as that was heard. */
  wall: () => number;
}

/** Organizations whose month is divided at once. */
const MOST_MONTHS = 100_000;

/** A request that the engine has admitted. */
export interface AdmittedElsewhere {
  gates: readonly Gate[];
  /** How the engine said that each gate stands. */
  seen: readonly GateSeen[];
  /** Tokens of each gate. */
  reserved: readonly number[];
  n: number;
  organizationId: string;
  /** Tokens of the organization's month; null without a cap. */
  monthUsed: number | null;
}
/** It, entered here as well. */
export interface Mirrored {
  leave(end: { tokens: number; refunded: boolean }): void;
}

export class OwnShare {
  /** Its limits are parts. */
  readonly local: LocalAdmission;
  readonly #table: RecordTable;
  readonly #counters: Counters;
  readonly #months: MonthUse;
  readonly #gates: Gates;
  /** What organizations had used of their month when this process began to count alone. */
  readonly #usedBefore = new Map<string, number>();

  constructor(
    settings: Config['limits'],
    private readonly options: OwnShareOptions,
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
    this.#gates = new Gates(settings);
  }

  /** Throws or rejects with ApiError 429, 503. */
  reserve(request: ReserveRequest): Reservation | Promise<Reservation> {
    const { identity, model, promptTokens } = request;
    const counted = this.#checkCap(identity, model);
    if (counted !== null) return counted.then(() => this.reserve(request));
    for (const { whose, limits } of this.#gates.of(identity, model)) {
      const { rpm, tpm, concurrency } = limits;
      if (promptTokens.exact && tpm !== null && promptTokens.tokens > tpm)
        throw promptTooLong(whose, model, promptTokens.tokens, tpm, (shape) =>
          this.local.headers(identity, model, shape),
        );
      if ([rpm, tpm, concurrency].some((limit) => limit !== null && this.options.processes.part(limit) === 0))
        throw noPart(whose, model);
    }
    // A prompt beyond this process's part takes all of it, and what it takes beyond is waited for afterwards.
    return this.local.reserve({
      ...request,
      identity: { ...identity, monthlyTokenCap: null },
      promptTokens: { tokens: promptTokens.tokens, exact: false },
    });
  }

  mirror({ gates, seen, reserved, n, organizationId, monthUsed }: AdmittedElsewhere): Mirrored {
    const now = process.hrtime.bigint();
    if (monthUsed !== null) this.#months.saw(organizationId, monthUsed);
    const records = gates.map(({ key }, at) => {
      const record = this.#table.enter(key, n, null);
      if (record < 0) return -1; // then its buckets count as full here
      const { rpmUs, tpmUs } = seen[at] as GateSeen;
      this.#table.store(record, 'rpm', now + BigInt(Math.round(rpmUs * 1000)));
      this.#table.store(record, 'tpm', now + BigInt(Math.round(tpmUs * 1000)));
      return record;
    });
    return {
      leave: ({ tokens, refunded }) => {
        const at = process.hrtime.bigint();
        for (const [index, record] of records.entries()) {
          if (record < 0) continue;
          const { rpm, tpm } = (gates[index] as Gate).limits;
          if (tpm !== null) this.#counters.give(record, 'tpm', (reserved[index] as number) - tokens, tpm, at);
          if (rpm !== null && refunded) this.#counters.give(record, 'rpm', 1, rpm, at);
          if (!refunded) this.#table.took(record, Number(at - now) / 1e6);
          this.#table.leave(record, n);
        }
        if (!refunded) this.#months.add(organizationId, tokens, monthUsed !== null);
      },
    };
  }

  /** Every record whose buckets are not full. Walks all memory. */
  forEachAhead(visit: (key: Int32Array, rpmUs: number, tpmUs: number) => void): void {
    this.#table.forEachAhead(process.hrtime.bigint(), (key, rpm, tpm) =>
      visit(key, Number(rpm) / 1000, Number(tpm) / 1000),
    );
  }

  /** The engine is asked again. */
  over(): void {
    this.#usedBefore.clear();
  }

  /** A promise: of the time when it can be checked. Of what was left of the month this process may use its part. */
  #checkCap({ monthlyTokenCap: cap, organizationId, ...identity }: Limited, model: string): Promise<void> | null {
    if (cap === null) return null;
    const used = this.#months.used(organizationId);
    if (used === null) throw countsFull();
    if (typeof used !== 'number') return used;
    const before = this.#usedBefore.get(organizationId) ?? used;
    if (this.#usedBefore.size < MOST_MONTHS) this.#usedBefore.set(organizationId, before);
    else if (!this.#usedBefore.has(organizationId)) throw countsFull();
    if (used >= cap)
      throw capUsed(cap, monthNumber(this.options.wall()), (shape) =>
        this.local.headers({ ...identity, organizationId, monthlyTokenCap: cap }, model, shape),
      );
    if (used - before >= this.options.processes.part(cap - before))
      throw unreachable(`this organization has used this process's part of the ${cap} tokens of its month`);
    return null;
  }
}

/** `what`: of what that follows. */
export const unreachable = (what: string): ApiError =>
  apiError(
    'capacity_exhausted',
    `The counters that all processes share cannot be reached at the moment, and ${what}. The request can be retried.`,
    null,
    { retryAfterMs: 1_000 },
  );

const noPart = (whose: Gate['whose'], model: string): ApiError =>
  unreachable(
    `the limit of the ${whose} on ${model} is too small to be divided among the processes: others have all of it`,
  );
