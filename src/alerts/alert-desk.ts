// Provides alert state and test alerts to operators. Every HTTP worker thread has its own instance.

import type { ThreadBus } from '../shared/bus.js';
import type { AlertMeasure, AlertState, AlertTest } from '../shared/wire/alerts.js';
import type { Telemetry } from '../telemetry/types.js';
import { MAX_INCIDENTS } from './alert-store.js';
import type { AlertProcesses, AlertStore } from './alert-store.js';
import type { Destinations } from './destinations.js';
import { incidentObject } from './incident.js';
import { testMessage } from './message.js';
import { kindsOff } from './thresholds.js';
import type { Thresholds } from './thresholds.js';

const MAX_RECENT = 50;

export interface AlertDeskDeps {
  store: AlertStore;
  processes: AlertProcesses;
  destinations: Destinations;
  thresholds: Thresholds;
  /** Set only on the primary thread. The other threads (null) query the primary thread over the bus. */
  measures: (() => Promise<AlertMeasure[]>) | null;
  bus: Pick<ThreadBus, 'ask'>;
  telemetry: Pick<Telemetry, 'alertDelivered'>;
  process: string;
  base: string | null;
  now: () => number;
  signal: AbortSignal;
}

export class AlertDesk {
  constructor(private readonly deps: AlertDeskDeps) {}

  async state(): Promise<AlertState> {
    const { store, processes, destinations, thresholds, now } = this.deps;
    const active = (await store.open()).filter(({ endedAt }) => endedAt === null);
    const incidents = await store.newest(MAX_INCIDENTS);
    const seen = processes.shared ? await processes.all() : [];
    return {
      object: 'alerts',
      active: active.sort((a, b) => b.beganAt - a.beganAt).map(incidentObject),
      recent: incidents
        .filter(({ endedAt }) => endedAt !== null)
        .slice(0, MAX_RECENT)
        .map(incidentObject),
      measures: await this.#measures(),
      off: kindsOff(thresholds),
      destinations: destinations.all.map(({ id, type, label }) => ({ id, type, label })),
      processes: seen.map(({ name, alive, leads, silentMs }) => ({
        name,
        alive,
        sends: leads,
        seen_at: new Date(now() - silentMs).toISOString(),
      })),
      watches_down: thresholds.downMs > 0 && seen.length > 1,
    };
  }

  has(destination: string): boolean {
    return this.deps.destinations.get(destination) !== undefined;
  }

  /** Makes one delivery attempt. `id`: ID of an existing destination. */
  async test(id: string): Promise<AlertTest> {
    const { destinations, telemetry, process, base, now, signal } = this.deps;
    const destination = destinations.get(id);
    if (destination === undefined) throw new Error(`There is no destination ${id}.`);
    const start = performance.now();
    let error: string | null = null;
    try {
      await destinations.send(destination, testMessage(process, base, now()), signal);
    } catch (thrown) {
      error = thrown instanceof Error ? thrown.message : String(thrown);
    }
    telemetry.alertDelivered(destination.type, error === null ? 'delivered' : 'failed');
    return {
      object: 'alert_test',
      destination: id,
      delivered: error === null,
      error,
      ms: Math.round(performance.now() - start),
    };
  }

  async #measures(): Promise<AlertMeasure[] | null> {
    const { measures, bus } = this.deps;
    if (measures !== null) return measures();
    const [answer] = await bus.ask('alerts.measures', {});
    return answer === undefined ? null : [...answer];
  }
}
