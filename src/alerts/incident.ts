// An incident: a measured value has crossed its threshold. It is opened once and closed once, and both events are
// delivered to every destination.

import { base62 } from '../shared/ids.js';
import type { AlertDelivery, AlertEvent, AlertIncident, AlertKind } from '../shared/wire/alerts.js';

/** Times are in milliseconds since the Unix epoch. */
export interface Delivery {
  readonly destination: string;
  readonly label: string;
  readonly event: AlertEvent;
  readonly state: AlertDelivery['state'];
  readonly attempts: number;
  readonly error: string | null;
  readonly triedAt: number | null;
  /** A pending delivery is not attempted before this time. */
  readonly nextAt: number;
}

export interface Incident {
  /** Starts with the time, so that incidents sort chronologically. */
  readonly id: string;
  /** Identifies the condition. Only one incident per key is active. */
  readonly key: string;
  readonly kind: AlertKind;
  readonly title: string;
  readonly what: string;
  readonly process: string | null;
  readonly lookAt: string;
  /** Null if the condition has no numeric value. */
  readonly value: number | null;
  readonly threshold: number | null;
  readonly beganAt: number;
  readonly endedAt: number | null;
  readonly end: string | null;
  readonly deliveries: readonly Delivery[];
}

const TIME_DIGITS = 9; // in base 36, until the year 5188

export const incidentId = (at: number): string =>
  `inc_${Math.max(0, Math.floor(at)).toString(36).padStart(TIME_DIGITS, '0')}${base62(12)}`;

/** Whether the incident can still change. */
export const isOpen = ({ endedAt, deliveries }: Incident): boolean =>
  endedAt === null || deliveries.some(({ state }) => state === 'pending');

export const pendingDelivery = (
  destination: { id: string; label: string },
  event: AlertEvent,
  at: number,
): Delivery => ({
  destination: destination.id,
  label: destination.label,
  event,
  state: 'pending',
  attempts: 0,
  error: null,
  triedAt: null,
  nextAt: at,
});

/** Returns a copy of the incident with one delivery changed. */
export const withDelivery = (
  incident: Incident,
  { destination, event }: Pick<Delivery, 'destination' | 'event'>,
  change: Partial<Delivery>,
): Incident => ({
  ...incident,
  deliveries: incident.deliveries.map((one) =>
    one.destination === destination && one.event === event ? { ...one, ...change } : one,
  ),
});

const time = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString());

export const incidentObject = (incident: Incident): AlertIncident => ({
  object: 'alert_incident',
  id: incident.id,
  kind: incident.kind,
  title: incident.title,
  what: incident.what,
  process: incident.process,
  look_at: incident.lookAt,
  began_at: new Date(incident.beganAt).toISOString(),
  ended_at: time(incident.endedAt),
  end: incident.end,
  deliveries: incident.deliveries.map(({ destination, label, event, state, attempts, error, triedAt, nextAt }) => ({
    destination,
    label,
    event,
    state,
    attempts,
    error,
    tried_at: time(triedAt),
    next_at: state === 'pending' ? time(nextAt) : null,
  })),
});
