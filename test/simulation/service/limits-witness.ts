// A second implementation of the limits, independent of src/admission: a bucket is stored as the fraction that is
// missing, and concurrency slots are counted from the running requests. It predicts the outcome of every reservation,
// in any process or thread, and compares the prediction with the actual outcome.
import { ApiError } from '../../../src/shared/errors.js';
import type {
  Admission,
  Limited,
  LimitedOrganization,
  Reservation,
  ReserveRequest,
  Standing,
} from '../../../src/admission/admission.js';
import { organizationLimits, keyLimits, type Limits } from '../../../src/admission/limits.js';
import type { Config } from '../../../src/config/settings.js';
import type { SimTime } from './sim-time.js';

const MINUTE_US = 60_000_000;
/** Rounding tolerance for bucket fractions. */
const CLOSE = 1e-6;

/** The fraction that is missing from a full bucket. */
interface Bucket {
  missing: number;
  at: number;
}

/**
 * Lower and upper bounds on a month's tokens. They differ because a request that ends during the first lookup of a
 * month may or may not be included in the stored sum.
 */
interface Counted {
  readonly least: number;
  readonly most: number;
}

interface Gate {
  readonly name: string;
  readonly limits: Limits;
  rpm: Bucket;
  tpm: Bucket;
  places: number;
}

type Outcome =
  | 'admitted'
  | 'insufficient_quota'
  | 'concurrency_limit_exceeded'
  | 'rpm_limit_exceeded'
  | 'tpm_limit_exceeded'
  | 'request_exceeds_tpm_limit';

export const monthOf = (wall: number): string => new Date(wall).toISOString().slice(0, 7);

export class LimitsWitness {
  readonly #gates = new Map<string, Gate>();
  /** Counted tokens by organization and month. If an entry is missing, this process has not looked it up yet. */
  readonly #months = new Map<string, Counted>();
  /** Tokens of requests that ended before their month was looked up. The stored sum may already include them. */
  readonly #early = new Map<string, number>();
  readonly #sockets = new Map<string, number>();
  admitted = 0;
  readonly refused = new Map<string, number>();

  constructor(
    private readonly settings: Config['limits'],
    private readonly time: SimTime,
    private readonly violated: (what: string) => void,
  ) {}

  watch(admission: Admission): Admission {
    return {
      reserve: (request) => this.#reserve(admission, request),
      headers: (identity, model, shape) => admission.headers(identity, model, shape),
      standing: (organization, model) => admission.standing(organization, model),
      limitsOf: (organization, model) => admission.limitsOf(organization, model),
      read: (identity) => {
        this.#read(admission, identity);
      },
      connect: (organizationId, limit) => this.#connect(admission, organizationId, limit),
      leaveAll: (ledger) => admission.leaveAll(ledger),
      health: () => admission.health(),
      close: () => admission.close(),
    };
  }

  storedMonth(organizationId: string, month: string, tokens: number): void {
    const key = `${organizationId} ${month}`;
    this.#months.set(key, { least: tokens, most: tokens + (this.#early.get(key) ?? 0) });
    this.#early.delete(key);
  }

  /** Frees the concurrency slots of a thread that has exited. */
  left(identity: Limited, model: string, n: number): void {
    for (const gate of this.#gatesOf(identity, model)) gate.places -= n;
  }

  leftSocket(organizationId: string): void {
    this.#sockets.set(organizationId, (this.#sockets.get(organizationId) ?? 0) - 1);
  }

  standing(admission: Admission, organization: LimitedOrganization, model: string, inFlight: number): void {
    const { state, unfinished } = admission.standing(organization, model) as Standing;
    if (unfinished !== inFlight)
      this.violated(
        `${unfinished} concurrency slots of ${organization.organizationId} on ${model} are taken, but ${inFlight} requests run`,
      );
    const { name, limits, rpm, tpm } = this.#organization(organization, model);
    for (const [what, told, bucket, limit] of [
      ['requests', state.requests, rpm, limits.rpm],
      ['tokens', state.tokens, tpm, limits.tpm],
    ] as const) {
      if (told === null || limit === null) continue;
      const expected = Math.max(0, limit * (1 - this.#missing(bucket)));
      if (Math.abs(told.remaining - expected) > 1 + limit * CLOSE)
        this.violated(`${name} has ${told.remaining} ${what} left, but should have ${expected.toFixed(3)}`);
    }
  }

  #missing(bucket: Bucket): number {
    return Math.max(0, bucket.missing - (this.time.now - bucket.at) / MINUTE_US);
  }

  #change(bucket: Bucket, share: number): void {
    bucket.missing = Math.max(0, this.#missing(bucket) + share);
    bucket.at = this.time.now;
  }

  #gate(name: string, limits: Limits): Gate {
    const kept = this.#gates.get(name);
    const gate = {
      name,
      limits,
      rpm: kept?.rpm ?? { missing: 0, at: 0 },
      tpm: kept?.tpm ?? { missing: 0, at: 0 },
      places: kept?.places ?? 0,
    };
    if (kept === undefined) this.#gates.set(name, gate);
    else Object.assign(kept, { limits });
    return kept ?? gate;
  }

  #organization({ organizationId, limits }: LimitedOrganization, model: string): Gate {
    return this.#gate(
      `organization ${organizationId} on ${model}`,
      organizationLimits(this.settings, organizationId, limits, model),
    );
  }

  #gatesOf(identity: Limited, model: string): Gate[] {
    const own = keyLimits(identity.keyLimits, model);
    return [
      this.#organization(identity, model),
      ...(own === null ? [] : [this.#gate(`key ${identity.keyId} on ${model}`, own)]),
    ];
  }

  #foretold({ identity, model, promptTokens, statedCap, modelMaximum, n }: ReserveRequest): {
    outcomes: Set<Outcome>;
    wanted: number;
  } {
    const wanted =
      promptTokens.tokens + n * (statedCap ?? Math.min(modelMaximum, this.settings.tpm_default_reservation));
    const outcomes = new Set<Outcome>();
    const only = (outcome: Outcome): { outcomes: Set<Outcome>; wanted: number } => ({
      outcomes: outcomes.add(outcome),
      wanted,
    });
    const used = this.#months.get(`${identity.organizationId} ${monthOf(this.time.wall)}`);
    if (identity.monthlyTokenCap !== null && used !== undefined && used.most >= identity.monthlyTokenCap) {
      outcomes.add('insufficient_quota');
      if (used.least >= identity.monthlyTokenCap) return { outcomes, wanted };
    }
    const gates = this.#gatesOf(identity, model);
    for (const { limits, places } of gates)
      if (limits.concurrency !== null && places + n > limits.concurrency) return only('concurrency_limit_exceeded');
    // If the bucket is nearly full, either outcome is correct.
    const take = (bucket: Bucket, amount: number, limit: number, refusal: Outcome): boolean => {
      const over = this.#missing(bucket) + amount / limit - 1;
      if (over > -CLOSE) outcomes.add(refusal);
      return over <= CLOSE;
    };
    for (const { limits, rpm } of gates)
      if (limits.rpm !== null && !take(rpm, 1, limits.rpm, 'rpm_limit_exceeded')) return { outcomes, wanted };
    for (const { limits, tpm } of gates) {
      if (limits.tpm === null) continue;
      if (promptTokens.exact && promptTokens.tokens > limits.tpm) return only('request_exceeds_tpm_limit');
      if (!take(tpm, Math.min(wanted, limits.tpm), limits.tpm, 'tpm_limit_exceeded')) return { outcomes, wanted };
    }
    return only('admitted');
  }

  #reserve(admission: Admission, request: ReserveRequest): Reservation | Promise<Reservation> {
    const { outcomes, wanted } = this.#foretold(request);
    try {
      const reserved = admission.reserve(request);
      if (!(reserved instanceof Promise)) return this.#reserved(reserved, request, outcomes, wanted);
      // The month's usage had to be looked up first, so the outcome can be predicted only now. The prediction of
      // `wanted`, the number of tokens to reserve, remains valid.
      return reserved.then(
        (reservation) => this.#reserved(reservation, request, this.#foretold(request).outcomes, wanted),
        (error: unknown) => this.#refused(error, request, this.#foretold(request).outcomes),
      );
    } catch (error) {
      return this.#refused(error, request, outcomes);
    }
  }

  #refused(error: unknown, { identity }: ReserveRequest, outcomes: ReadonlySet<Outcome>): never {
    if (!(error instanceof ApiError)) throw error;
    this.refused.set(error.code, (this.refused.get(error.code) ?? 0) + 1);
    if (!outcomes.has(error.code as Outcome))
      this.violated(
        `a request of ${identity.organizationId} is refused with ${error.code}: ${error.message} Expected: ${[...outcomes].join(' or ')}`,
      );
    throw error;
  }

  #reserved(
    reservation: Reservation,
    { identity, model, n }: ReserveRequest,
    outcomes: ReadonlySet<Outcome>,
    wanted: number,
  ): Reservation {
    this.admitted++;
    if (!outcomes.has('admitted'))
      this.violated(
        `a request of ${identity.organizationId} on ${model} is admitted, but should have been refused with ${[...outcomes].join(' or ')}`,
      );
    const gates = this.#gatesOf(identity, model).map((gate) => ({
      gate,
      limits: gate.limits,
      tokens: Math.min(wanted, gate.limits.tpm ?? 0),
    }));
    for (const { gate, limits, tokens } of gates) {
      gate.places += n;
      if (limits.concurrency !== null && gate.places > limits.concurrency)
        this.violated(`${gate.name} has ${gate.places} of ${limits.concurrency} concurrency slots`);
      if (limits.rpm !== null) this.#change(gate.rpm, 1 / limits.rpm);
      if (limits.tpm !== null) this.#change(gate.tpm, tokens / limits.tpm);
    }
    let open = true;
    const close = (used: number, isRefund: boolean): void => {
      if (!open) return;
      open = false;
      for (const { gate, limits, tokens } of gates) {
        gate.places -= n;
        if (limits.tpm !== null) this.#change(gate.tpm, (used - tokens) / limits.tpm);
        if (limits.rpm !== null && isRefund) this.#change(gate.rpm, -1 / limits.rpm);
      }
      const month = `${identity.organizationId} ${monthOf(this.time.wall)}`;
      const counted = this.#months.get(month);
      if (isRefund) return;
      if (counted === undefined) this.#early.set(month, (this.#early.get(month) ?? 0) + used);
      else this.#months.set(month, { least: counted.least + used, most: counted.most + used });
    };
    return {
      headers: (shape) => reservation.headers(shape),
      settle: (tokens) => {
        reservation.settle(tokens);
        close(tokens, false);
      },
      refund: () => {
        reservation.refund();
        close(0, true);
      },
    };
  }

  #read(admission: Admission, identity: Pick<Limited, 'keyId'>): void {
    const limit = this.settings.read_rpm;
    const { rpm } = this.#gate(`reads of ${identity.keyId}`, { rpm: limit, tpm: null, concurrency: null });
    const over = limit === null ? -1 : this.#missing(rpm) + 1 / limit - 1;
    let isRefused = false;
    try {
      admission.read(identity);
      if (limit !== null) this.#change(rpm, 1 / limit);
    } catch (error) {
      isRefused = true;
      throw error;
    } finally {
      if (isRefused ? over < -CLOSE : over > CLOSE)
        this.violated(
          `a read of ${identity.keyId} is ${isRefused ? 'refused' : 'admitted'} with ${over} over its limit`,
        );
    }
  }

  #connect(admission: Admission, organizationId: string, limit: number): () => void {
    const open = this.#sockets.get(organizationId) ?? 0;
    let leave: () => void;
    try {
      leave = admission.connect(organizationId, limit);
    } catch (error) {
      if (open < limit) this.violated(`a connection of ${organizationId} is refused with ${open} of ${limit} open`);
      throw error;
    }
    if (open >= limit) this.violated(`${organizationId} has ${open + 1} of ${limit} connections`);
    this.#sockets.set(organizationId, open + 1);
    return leave;
  }
}
