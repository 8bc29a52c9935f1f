// Operator alerts: incidents, measurements and destinations.

export const ALERT_KINDS = ['error_rate', 'latency', 'disk', 'budget', 'down'] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** Each incident sends one message when it is opened and one when it is closed. */
export type AlertEvent = 'began' | 'ended';
export type AlertDestinationType = 'mail' | 'webhook' | 'slack';

export interface AlertDelivery {
  /** ID of an AlertDestination. */
  destination: string;
  /** The destination, in a form that is safe to display. */
  label: string;
  event: AlertEvent;
  /** skipped: the recipient receives the same information in an organization's budget notification. */
  state: 'pending' | 'delivered' | 'failed' | 'skipped';
  attempts: number;
  /** Why the last attempt failed or the delivery was skipped. */
  error: string | null;
  /** Time of the last attempt. */
  tried_at: string | null;
  /** Time of the next attempt, if pending. */
  next_at: string | null;
}

export interface AlertIncident {
  object: 'alert_incident';
  id: string;
  kind: AlertKind;
  title: string;
  /** The measurement when the incident was opened, compared with its threshold. */
  what: string;
  /** The process that took the measurement; null if it is not specific to a process. */
  process: string | null;
  look_at: string;
  began_at: string;
  /** Null while the incident is active. */
  ended_at: string | null;
  /** The measurement when the incident was closed. */
  end: string | null;
  deliveries: AlertDelivery[];
}

/** One measured quantity. */
export interface AlertMeasure {
  kind: AlertKind;
  /** Name of the measurement, such as "Error rate" or "ttft_p99 of hal-1.0". */
  name: string;
  /** The current value; null if nothing was measured (see `note`). */
  value: string | null;
  threshold: string;
  /** unknown: there is too little data. */
  state: 'ok' | 'alert' | 'unknown';
  note: string | null;
}

export interface AlertDestination {
  id: string;
  type: AlertDestinationType;
  label: string;
}

/** A process of the service. */
export interface AlertProcess {
  name: string;
  alive: boolean;
  /** Whether this process currently sends the alerts. */
  sends: boolean;
  seen_at: string;
}

export interface AlertState {
  object: 'alerts';
  /** Active incidents, newest first. */
  active: AlertIncident[];
  /** Closed incidents, newest first; at most 50. */
  recent: AlertIncident[];
  /** Null if the thread that takes the measurements did not respond in time. */
  measures: AlertMeasure[] | null;
  /** Alert kinds that are disabled in the settings. */
  off: AlertKind[];
  destinations: AlertDestination[];
  /** Empty if the processes cannot watch each other because there is no shared database. */
  processes: AlertProcess[];
  /** Whether the processes report each other's outages. */
  watches_down: boolean;
}

/** The result of sending a test alert. */
export interface AlertTest {
  object: 'alert_test';
  destination: string;
  delivered: boolean;
  error: string | null;
  ms: number;
}
