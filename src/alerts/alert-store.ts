// Storage ports for alerts (see docs/internals/storage.md): incidents, and the processes that share them.

import type { Incident } from './incident.js';
import type { Readings } from './readings.js';

/** Maximum number of incidents kept. The oldest inactive ones are erased first. */
export const MAX_INCIDENTS = 500;

export interface AlertStore {
  /** Newest first. */
  newest(limit: number): Promise<Incident[]>;
  /** Active incidents, and inactive incidents with pending deliveries. */
  open(): Promise<Incident[]>;
  /**
   * Resolves to whether the incident was added. It is not added if an incident with the same key is already active, or
   * if another process holds the lease to send alerts. Erases old incidents.
   */
  begin(incident: Incident): Promise<boolean>;
  /**
   * Replaces an incident with the result of `change`, which receives the stored incident. Resolves to the new incident.
   * Resolves to null if no incident has this ID, if `change` returns null, or if another process holds the lease to
   * send alerts.
   */
  change(id: string, change: (before: Incident) => Incident | null): Promise<Incident | null>;
}

/** A process of the service, as last seen. */
export interface SeenProcess {
  readonly name: string;
  readonly readings: Readings;
  readonly alive: boolean;
  /** Whether this process holds the lease to send alerts. */
  readonly leads: boolean;
  /** Time since the process's last heartbeat, in milliseconds. */
  readonly silentMs: number;
}

export interface AlertProcesses {
  /** Whether processes are visible to each other. */
  readonly shared: boolean;
  /**
   * Stores this process's readings, and takes the lease to send alerts if it is free. `sends`: whether this process has
   * destinations; a process without destinations yields the lease to a process with destinations. Resolves to whether
   * this process holds the lease.
   */
  report(readings: Readings, sends: boolean): Promise<boolean>;
  /** All processes, including this one, except processes that shut down cleanly. */
  all(): Promise<SeenProcess[]>;
  /**
   * Whether a missing heartbeat means that its process has exited. False if the cause may be that no process could
   * reach the database.
   */
  readonly isSteady: boolean;
  /** Stops watching a process. */
  forget(name: string): Promise<void>;
  /** Called when this process shuts down cleanly. */
  leave(): Promise<void>;
}

/** The processes of a standalone server. */
export class SoleProcess implements AlertProcesses {
  readonly shared = false;
  readonly isSteady = true;
  #readings: Readings | null = null;

  constructor(private readonly name: string) {}

  async report(readings: Readings): Promise<boolean> {
    this.#readings = readings;
    return true;
  }

  async all(): Promise<SeenProcess[]> {
    const readings = this.#readings;
    return readings === null ? [] : [{ name: this.name, readings, alive: true, leads: true, silentMs: 0 }];
  }

  async forget(): Promise<void> {}
  async leave(): Promise<void> {}
}
