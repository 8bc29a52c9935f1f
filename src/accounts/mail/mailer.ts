// Outgoing mail: plain text, one SMTP server, nothing waits for it. What cannot be sent is logged without its
// text, which may hold a link that lets its reader in. Owns the connections to the server.

import { createTransport } from 'nodemailer';
import type { Config } from '../../config/settings.js';
import type { Log } from '../../telemetry/types.js';

/** Mails not yet with the server; more are dropped. */
const MAX_WAITING = 200;
const CONNECTIONS = 2;
const TIMEOUT_MS = 20_000;

export interface Mail {
  to: string;
  subject: string;
  text: string;
}

export interface Mailer {
  /** Without a server mails go nowhere. */
  readonly enabled: boolean;
  /** Does not throw, does not wait. */
  send(mail: Mail): void;
  close(): void;
}

export function openMailer({ smtp_url: url, from }: Config['mail'], log: Pick<Log, 'error' | 'info'>): Mailer {
  if (url === null) return { enabled: false, send: () => undefined, close: () => undefined };
  const transport = createTransport({
    url,
    pool: true,
    maxConnections: CONNECTIONS,
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  let waiting = 0;
  return {
    enabled: true,
    send: ({ to, subject, text }) => {
      if (waiting >= MAX_WAITING) {
        log.error({ subject }, 'mail dropped: too many wait for the server');
        return;
      }
      waiting++;
      // An address object, not text: nothing in the address is read as a list or a name.
      transport.sendMail({ from, to: { name: '', address: to }, subject, text }).then(
        () => {
          waiting--;
        },
        (err: unknown) => {
          waiting--;
          log.error({ err, subject }, 'mail could not be sent');
        },
      );
    },
    close: () => transport.close(),
  };
}
