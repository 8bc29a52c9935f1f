// The messages of the alerts: as mail, as the JSON body of a webhook, and as text for Slack and compatible services.

import type { Mail } from '../accounts/mail/mailer.js';
import type { AlertEvent } from '../shared/wire/alerts.js';
import type { Incident } from './incident.js';
import { duration, moment } from './shown.js';

export interface AlertMessage {
  readonly subject: string;
  /** Lines of the text, without the subject. */
  readonly lines: readonly string[];
  /** The webhook's body. */
  readonly body: object;
}

/** The page about the alerts; null if the address of the dashboard is unknown. */
const pageOf = (base: string | null): string | null => (base === null ? null : `${base}/dashboard/operator/alerts`);

/** `base`: the dashboard's address, or null. */
export function alertMessage(incident: Incident, event: AlertEvent, base: string | null): AlertMessage {
  const { id, kind, title, what, process, lookAt, beganAt, endedAt, end, value, threshold } = incident;
  const url = pageOf(base);
  const more = url === null ? 'State and history: the "Alerts" page of the dashboard.' : `State and history: ${url}`;
  const where = process === null ? [] : [`Process: ${process}`];
  const lines =
    event === 'began'
      ? [`What: ${what}`, `Since: ${moment(beganAt)}`, ...where, `Look at: ${lookAt}`, more]
      : [
          `Now: ${end ?? ''}`,
          `Began: ${moment(beganAt)}`,
          `Ended: ${moment(endedAt ?? beganAt)}, after ${duration((endedAt ?? beganAt) - beganAt)}`,
          ...where,
          more,
        ];
  return {
    subject: `${event === 'began' ? 'Alert' : 'Alert ended'}: ${title}`,
    lines,
    body: {
      type: `alert.${event}`,
      id: `${id}.${event}`,
      incident: {
        id,
        kind,
        title,
        what,
        process,
        look_at: lookAt,
        value,
        threshold,
        began_at: new Date(beganAt).toISOString(),
        ended_at: endedAt === null ? null : new Date(endedAt).toISOString(),
        end,
      },
      url,
    },
  };
}

/** `process`: the process that sends it. */
export function testMessage(process: string, base: string | null, now: number): AlertMessage {
  const url = pageOf(base);
  const what = 'An operator sent this test alert from the dashboard. Nothing is wrong.';
  return {
    subject: 'Test alert',
    lines: [`What: ${what}`, `Sent: ${moment(now)}`, `Process: ${process}`, ...(url === null ? [] : [url])],
    body: { type: 'alert.test', what, process, at: new Date(now).toISOString(), url },
  };
}

export const alertMail = (to: string, { subject, lines }: AlertMessage): Mail => ({
  to,
  subject: `[Monolith] ${subject}`,
  text: `${lines.join('\n\n')}\n`,
});

/**
 * Names of organizations are chosen by users, so they must not be read as markup. In compatible services, a mention of
 * everyone is an @ at the beginning of a word; an invisible character after it prevents that.
 */
const escaped = (text: string): string =>
  text
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/(?<![\w.+-])@/g, '@\u200b');

/** Discord refuses texts of more than 2,000 characters. Escaping adds a few. */
const MAX_TEXT = 1_800;

export const slackBody = ({ subject, lines }: AlertMessage): object => ({
  text: escaped([`Monolith: ${subject}`, ...lines].join('\n').slice(0, MAX_TEXT)),
});
