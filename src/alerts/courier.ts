// Delivers incident messages. Each attempt is recorded before it is made, so that no other process repeats it while it
// is running. Failed attempts are retried with increasing delays until `retryMs` have passed since the event. Runs on
// the primary thread of the process that holds the lease to send alerts.

import type { Log, Telemetry } from '../telemetry/types.js';
import type { AlertStore } from './alert-store.js';
import type { Destinations } from './destinations.js';
import { withDelivery } from './incident.js';
import type { Delivery, Incident } from './incident.js';
import { alertMessage } from './message.js';

const FIRST_PAUSE_MS = 5_000;
const PAUSE_FACTOR = 3;
const MAX_PAUSE_MS = 600_000;
const MAX_REASON = 300;
/** Maximum number of concurrent deliveries. Alert emails wait in the same queue as emails to users. */
const MAX_SENDING = 10;

export interface CourierDeps {
  store: AlertStore;
  destinations: Destinations;
  telemetry: Pick<Telemetry, 'alertDelivered'> & { log: Pick<Log, 'warn' | 'error' | 'info'> };
  /** The dashboard's address; null if it is unknown. */
  base: string | null;
  retryMs: number;
  now: () => number;
}

export class Courier {
  readonly #closing = new AbortController();
  /** Deliveries in progress, by incident, destination and event. */
  readonly #sending = new Map<string, Promise<void>>();

  constructor(private readonly deps: CourierDeps) {}

  /** Starts due deliveries, up to the maximum number of concurrent deliveries. The remaining deliveries stay due. */
  deliver(incidents: readonly Incident[]): void {
    const now = this.deps.now();
    for (const incident of incidents)
      for (const delivery of incident.deliveries) {
        const name = `${incident.id} ${delivery.destination} ${delivery.event}`;
        if (delivery.state !== 'pending' || delivery.nextAt > now || this.#sending.has(name)) continue;
        if (this.#closing.signal.aborted || isBehindBegin(incident, delivery)) continue;
        if (this.#sending.size >= MAX_SENDING) return;
        const sending = this.#attempt(incident, delivery)
          .catch((err: unknown) => this.deps.telemetry.log.error({ err }, "cannot record an alert's delivery"))
          .finally(() => this.#sending.delete(name));
        this.#sending.set(name, sending);
      }
  }

  /** Aborts deliveries in progress. They stay pending. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#sending.values());
  }

  async #attempt({ id }: Incident, { destination: to, event }: Delivery): Promise<void> {
    const { store, destinations, base, now, telemetry, retryMs } = this.deps;
    const startedAt = now();
    const incident = await store.change(id, (before) => {
      const delivery = before.deliveries.find((one) => one.destination === to && one.event === event);
      if (delivery?.state !== 'pending' || delivery.nextAt > startedAt) return null;
      return withDelivery(before, delivery, {
        attempts: delivery.attempts + 1,
        triedAt: startedAt,
        nextAt: startedAt + destinations.timeoutMs + pauseMs(delivery.attempts + 1),
      });
    });
    const delivery = incident?.deliveries.find((one) => one.destination === to && one.event === event);
    if (incident == null || delivery === undefined) return; // another process has taken over
    const destination = destinations.get(to);
    const fields = { incident: id, kind: incident.kind, event, destination: delivery.label };
    if (destination === undefined) {
      await this.#record(id, delivery, { state: 'failed', error: 'this destination is no longer configured' });
      telemetry.log.error(fields, 'alert not delivered: its destination is no longer configured');
      return;
    }
    try {
      await destinations.send(destination, alertMessage(incident, event, base), this.#closing.signal);
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const reason = (error instanceof Error ? error.message : String(error)).slice(0, MAX_REASON);
      const until = (event === 'began' ? incident.beganAt : (incident.endedAt ?? incident.beganAt)) + retryMs;
      const nextAt = now() + pauseMs(delivery.attempts);
      const isLast = nextAt > until;
      await this.#record(id, delivery, { state: isLast ? 'failed' : 'pending', error: reason, nextAt });
      telemetry.alertDelivered(destination.type, isLast ? 'failed' : 'retried');
      const more = { ...fields, attempts: delivery.attempts, reason };
      if (isLast) telemetry.log.error(more, 'alert not delivered: giving up');
      else
        telemetry.log.warn({ ...more, next_s: Math.round((nextAt - now()) / 1000) }, 'alert not delivered, retrying');
      return;
    }
    await this.#record(id, delivery, { state: 'delivered', error: null });
    telemetry.alertDelivered(destination.type, 'delivered');
    telemetry.log.info(fields, 'alert delivered');
  }

  async #record(id: string, delivery: Delivery, change: Partial<Delivery>): Promise<void> {
    await this.deps.store.change(id, (before) => withDelivery(before, delivery, change));
  }
}

/** The closing message waits until the opening message has been delivered. */
const isBehindBegin = ({ deliveries }: Incident, { destination, event }: Delivery): boolean =>
  event === 'ended' &&
  deliveries.some((one) => one.destination === destination && one.event === 'began' && one.state === 'pending');

/** Delay before the next attempt: 5 s, 15 s, 45 s, … up to ten minutes. */
export const pauseMs = (attempts: number): number =>
  Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * PAUSE_FACTOR ** Math.max(0, attempts - 1));
