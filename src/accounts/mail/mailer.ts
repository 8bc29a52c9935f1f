// Sends plain-text email through one SMTP server, in the background. If a message cannot be sent, the log entry omits
// its text, which may contain a sign-in link. Owns the connections to the server.

import { createTransport } from 'nodemailer';
import type { Config } from '../../config/settings.js';
import type { Log } from '../../telemetry/types.js';

/** Maximum number of queued emails; further emails are dropped. */
const MAX_WAITING = 200;
const CONNECTIONS = 2;
const TIMEOUT_MS = 20_000;

export interface Mail {
  to: string;
  subject: string;
  text: string;
}

export interface Mailer {
  /** False if no SMTP server is configured. Emails are then discarded. */
  readonly enabled: boolean;
  /** Queues a mail. Never throws. */
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
        log.error({ subject }, 'mail dropped, queue full');
        return;
      }
      waiting++;
      // Passed as an object, so that the address is not parsed as a list or a display name.
      transport.sendMail({ from, to: { name: '', address: to }, subject, text }).then(
        () => {
          waiting--;
        },
        (err: unknown) => {
          waiting--;
          log.error({ err, subject }, 'sending mail failed');
        },
      );
    },
    close: () => transport.close(),
  };
}
