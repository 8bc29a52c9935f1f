// Alert destinations: email addresses, signed webhooks, and webhooks for Slack and compatible services.

import { createHash } from 'node:crypto';
import type { Mailer } from '../accounts/mail/mailer.js';
import type { Config } from '../config/settings.js';
import { StartError } from '../shared/errors.js';
import type { AlertDestination } from '../shared/wire/alerts.js';
import { isInternal, sendWebhook } from '../usage/webhook.js';
import type { WebhookSettings } from '../usage/webhook.js';
import { alertMail, slackBody } from './message.js';
import type { AlertMessage } from './message.js';

export interface Destination extends AlertDestination {
  /** The email address or URL. Must be kept secret, because webhook URLs often contain a token. */
  readonly target: string;
}

const LAST_CHARACTERS = 4;

export class Destinations {
  readonly all: readonly Destination[];

  /** Throws StartError. */
  constructor(
    private readonly settings: Pick<Config, 'alerts' | 'webhooks' | 'mail'>,
    private readonly mailer: Pick<Mailer, 'deliver'>,
  ) {
    const { alerts, webhooks, mail } = settings;
    if (alerts.mail.length > 0 && mail.smtp_url === null)
      throw new StartError('alerts.mail requires mail.smtp_url, the SMTP server that sends the mail.');
    if (alerts.webhooks.length > 0 && alerts.webhook_secret === null)
      throw new StartError(
        "alerts.webhooks requires alerts.webhook_secret, with which the receiver checks an alert's signature.",
      );
    for (const [name, urls] of [
      ['alerts.webhooks', alerts.webhooks],
      ['alerts.slack', alerts.slack],
    ] as const)
      for (const url of urls)
        if (webhooks.public_only && isInternal(url))
          throw new StartError(
            `${name}: ${new URL(url).host} is not a public internet address. To allow addresses in private networks, set webhooks.public_only to false.`,
          );
    this.all = [
      ...alerts.mail.map((address) => destination('mail', address, address)),
      ...alerts.webhooks.map((url) => destination('webhook', url, shownUrl(url))),
      ...alerts.slack.map((url) => destination('slack', url, shownUrl(url))),
    ];
  }

  get(id: string): Destination | undefined {
    return this.all.find((one) => one.id === id);
  }

  /** The maximum duration of one attempt, in milliseconds. */
  get timeoutMs(): number {
    return Math.max(this.settings.webhooks.timeout_ms, MAIL_MS);
  }

  /** Makes one delivery attempt. Rejects with the reason if the attempt fails or `signal` is aborted. */
  async send({ type, target }: Destination, message: AlertMessage, signal: AbortSignal): Promise<void> {
    if (type === 'mail') return unlessAborted(this.mailer.deliver(alertMail(target, message)), signal);
    const { alerts, webhooks } = this.settings;
    const settings: WebhookSettings = { ...webhooks, attempts: 1 };
    if (type === 'slack') return sendWebhook(target, null, { message: slackBody(message), settings, signal });
    return sendWebhook(target, alerts.webhook_secret, { message: message.body, settings, signal });
  }
}

/** The mailer gives up on an unresponsive SMTP server after this time; see src/accounts/mail/mailer.ts. */
const MAIL_MS = 60_000;

/** The mailer cannot abort an email, but a shutdown must not wait for it. */
async function unlessAborted(sending: Promise<void>, signal: AbortSignal): Promise<void> {
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(new Error('the server is closing'));
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort);
  });
  try {
    await Promise.race([sending, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

const destination = (type: Destination['type'], target: string, label: string): Destination => ({
  id: `${type}_${createHash('sha256').update(target).digest('hex').slice(0, 12)}`,
  type,
  label,
  target,
});

/** The host and the last characters, which distinguish two URLs without revealing the token in them. */
function shownUrl(text: string): string {
  const { origin, href } = new URL(text);
  const rest = href.slice(origin.length);
  return rest.length <= 2 * LAST_CHARACTERS ? href : `${origin}/…${rest.slice(-LAST_CHARACTERS)}`;
}
