// Formats alert messages as email, as a webhook's JSON body, and as text for Slack and compatible services.

import type { Mail } from '../accounts/mail/mailer.js';
import type { AlertEvent } from '../shared/wire/alerts.js';
import type { Incident } from './incident.js';
import { duration, moment } from './shown.js';

export interface AlertMessage {
  readonly subject: string;
  /** Lines of the message text, without the subject. */
  readonly lines: readonly string[];
  /** The webhook's body. */
  readonly body: object;
}

/** URL of the dashboard's alerts page; null if the dashboard's address is unknown. */
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

/** `process`: name of the process that sends the message. */
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
 * Users choose organization names, so the names must not be interpreted as markup. In compatible services, an @ at the
 * start of a word can mention everyone; an invisible character after the @ prevents that.
 */
const escaped = (text: string): string =>
  text
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/(?<![\w.+-])@/g, '@\u200b');

/**
 * Discord rejects messages of more than 2,000 characters. The limit here is lower, because escaping adds a few
 * characters.
 */
const MAX_TEXT = 1_800;

export const slackBody = ({ subject, lines }: AlertMessage): object => ({
  text: escaped([`Monolith: ${subject}`, ...lines].join('\n').slice(0, MAX_TEXT)),
});
