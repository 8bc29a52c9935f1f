// Takes measurements every few seconds, opens and closes incidents, and has their messages delivered. Every process
// takes measurements; the process that holds the lease evaluates them and sends alerts for the whole service. One per
// server, on the primary thread.

import type { SeenProcess, AlertProcesses, AlertStore } from './alert-store.js';
import { organizationOfBudget } from './budget-conditions.js';
import { GONE } from './condition.js';
import type { Condition } from './condition.js';
import type { Courier } from './courier.js';
import type { Destination } from './destinations.js';
import { incidentId, pendingDelivery } from './incident.js';
import type { Delivery, Incident } from './incident.js';
import type { Readings } from './readings.js';
import { ALERT_KINDS } from '../shared/wire/alerts.js';
import type { AlertKind, AlertMeasure } from '../shared/wire/alerts.js';
import type { Log, Telemetry } from '../telemetry/types.js';

/**
 * Maximum number of active incidents, not counting budget incidents. No further incidents are opened until one of them
 * closes.
 */
const MAX_ACTIVE = 200;
/**
 * Maximum number of active budget incidents, in total and per organization. Budget incidents have separate limits,
 * because organizations choose their budgets and must not be able to hold back other alerts.
 */
const MAX_BUDGETS = 100;
const MAX_BUDGETS_OF_ORGANIZATION = 10;
/** A process that is down for this long is no longer monitored. */
const FORGET_MS = 86_400_000;

export interface Measured {
  readonly conditions: readonly Condition[];
  /** Kinds that currently cannot be measured. Their incidents are neither opened nor closed. */
  readonly unmeasured: ReadonlySet<AlertKind>;
}

export interface AlertWatchDeps {
  store: AlertStore;
  processes: AlertProcesses;
  courier: Courier;
  destinations: readonly Destination[];
  clearMs: number;
  /** This process's readings. */
  read(): Promise<Readings>;
  /** Returns all measured conditions. `processes`: all processes of the service. */
  conditions(processes: readonly SeenProcess[]): Promise<Measured>;
  /** Returns, for each destination, why it must not receive messages about the condition, or null if it may. */
  skips(condition: Condition): Promise<(destination: Destination) => string | null>;
  telemetry: Pick<Telemetry, 'alerting'> & { log: Pick<Log, 'info' | 'warn' | 'error'> };
  now: () => number;
}

export class AlertWatch {
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void>;
  #closed = false;
  #failing = false;
  #full = false;
  /** For each active incident, by key: when the value of its condition returned to within the threshold. */
  readonly #withinSince = new Map<string, number>();

  constructor(
    private readonly deps: AlertWatchDeps,
    everyMs: number,
  ) {
    const round = async (): Promise<void> => {
      try {
        await this.run();
        if (this.#failing) deps.telemetry.log.info({}, 'measuring for alerts works again');
        this.#failing = false;
      } catch (err) {
        // Logged only once per outage, because a round runs every few seconds.
        if (!this.#failing && !this.#closed) deps.telemetry.log.error({ err }, 'measuring for alerts failed');
        this.#failing = true;
      }
      if (!this.#closed)
        this.#timer = setTimeout(() => {
          this.#running = round();
        }, everyMs).unref();
    };
    this.#running = round();
  }

  /** The measured conditions with their current values. */
  async measures(): Promise<AlertMeasure[]> {
    const { conditions } = await this.deps.conditions(await this.deps.processes.all());
    return conditions.map(({ kind, name, level, shownValue, shownThreshold, note }) => ({
      kind,
      name,
      value: shownValue,
      threshold: shownThreshold,
      state: level === 'over' ? 'alert' : level === 'unknown' ? 'unknown' : 'ok',
      note,
    }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async run(): Promise<void> {
    const { processes, store, courier, destinations, read } = this.deps;
    const leads = await processes.report(await read(), destinations.length > 0);
    if (leads) {
      const seen = await processes.all();
      await this.#forget(seen);
      await this.#judge(await this.deps.conditions(seen));
    } else this.#withinSince.clear();
    const open = await store.open();
    this.#count(open);
    if (leads && !this.#closed) courier.deliver(open);
  }

  async #judge({ conditions, unmeasured }: Measured): Promise<void> {
    const { store } = this.deps;
    const active = new Map((await store.open()).filter(isActive).map((one) => [one.key, one]));
    const byKey = new Map(conditions.map((one) => [one.key, one]));
    for (const [key, incident] of active)
      if (!unmeasured.has(incident.kind)) await this.#follow(incident, byKey.get(key));
    for (const key of this.#withinSince.keys()) if (!active.has(key)) this.#withinSince.delete(key);
    const begun = conditions.filter(({ key, level }) => level === 'over' && !active.has(key));
    const admitted = withinLimits(begun, [...active.values()]);
    const waiting = begun.length - admitted.length;
    if (waiting > 0 && !this.#full)
      this.deps.telemetry.log.warn({ active: active.size, waiting }, 'too many alerts are active');
    this.#full = waiting > 0;
    for (const condition of admitted) {
      if (this.#closed) return;
      await this.#begin(condition);
    }
  }

  /** Closes an active incident whose condition has been back within its threshold for long enough. */
  async #follow({ id, key, kind }: Incident, condition: Condition | undefined): Promise<void> {
    const { now, clearMs, store } = this.deps;
    const level = condition?.level ?? 'within';
    if (level === 'over' || level === 'between') {
      this.#withinSince.delete(key);
      return;
    }
    const at = now();
    const since = this.#withinSince.get(key) ?? at;
    this.#withinSince.set(key, since);
    if (at - since < clearMs) return;
    const ended = await store.change(id, (before) =>
      before.endedAt !== null
        ? null
        : {
            ...before,
            endedAt: at,
            end: condition?.now ?? GONE[kind],
            deliveries: [...before.deliveries, ...before.deliveries.map((one) => endOf(one, at))],
          },
    );
    this.#withinSince.delete(key);
    if (ended !== null)
      this.deps.telemetry.log.info({ incident: id, kind, title: ended.title, end: ended.end }, 'alert ended');
  }

  async #begin(condition: Condition): Promise<void> {
    const { now, store, destinations, skips, telemetry } = this.deps;
    const { key, kind, value, threshold } = condition;
    const description = await condition.describe();
    const skipped = await skips(condition);
    const at = now();
    const incident: Incident = {
      id: incidentId(at),
      key,
      kind,
      ...description,
      value,
      threshold,
      beganAt: at,
      endedAt: null,
      end: null,
      deliveries: destinations.map((one) => {
        const error = skipped(one);
        const delivery = pendingDelivery(one, 'began', at);
        return error === null ? delivery : { ...delivery, state: 'skipped', error };
      }),
    };
    if (await store.begin(incident))
      telemetry.log.warn(
        { incident: incident.id, kind, title: incident.title, process: incident.process },
        'alert began',
      );
  }

  async #forget(seen: readonly SeenProcess[]): Promise<void> {
    for (const { name, alive, silentMs } of seen)
      if (!alive && silentMs > FORGET_MS) await this.deps.processes.forget(name);
  }

  #count(open: readonly Incident[]): void {
    const active = open.filter(isActive);
    this.deps.telemetry.alerting(
      Object.fromEntries(ALERT_KINDS.map((kind) => [kind, active.filter((one) => one.kind === kind).length])),
    );
  }
}

/** The conditions for which incidents may be opened. */
function withinLimits(begun: readonly Condition[], active: readonly Incident[]): Condition[] {
  const counts = new Map<string, number>();
  const add = (name: string): number => {
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return count;
  };
  const fits = ({ kind, key }: Pick<Condition, 'kind' | 'key'>): boolean =>
    kind === 'budget'
      ? add(`of ${organizationOfBudget(key)}`) <= MAX_BUDGETS_OF_ORGANIZATION && add('budgets') <= MAX_BUDGETS
      : add('others') <= MAX_ACTIVE;
  active.forEach(fits);
  return begun.filter(fits);
}

const isActive = ({ endedAt }: Incident): boolean => endedAt === null;

/** The delivery of the closing message to a destination of the opening message. */
const endOf = (began: Delivery, at: number): Delivery => ({
  ...pendingDelivery({ id: began.destination, label: began.label }, 'ended', at),
  ...(began.state === 'skipped' ? { state: 'skipped', error: began.error } : {}),
});
