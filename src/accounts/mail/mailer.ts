// Sends plain-text email through one SMTP server, in the background. If a message cannot be sent, the failure is logged
// without the message text, which may contain a sign-in link. Owns the connections to the server.

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
  /** Queues an email. Never throws. */
  send(mail: Mail): void;
  /** Resolves when the SMTP server has accepted the mail. Otherwise, rejects with the reason. */
  deliver(mail: Mail): Promise<void>;
  close(): void;
}

const noServer = (): Promise<void> => Promise.reject(new Error('no SMTP server is configured (mail.smtp_url)'));

export function openMailer({ smtp_url: url, from }: Config['mail'], log: Pick<Log, 'error' | 'info'>): Mailer {
  if (url === null) return { enabled: false, send: () => undefined, deliver: noServer, close: () => undefined };
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
  // The address is passed as an object, so that it is not parsed as a list or as a display name.
  const deliver = async ({ to, subject, text }: Mail): Promise<void> => {
    if (waiting >= MAX_WAITING) throw new Error('the mail queue is full');
    waiting++;
    try {
      await transport.sendMail({ from, to: { name: '', address: to }, subject, text });
    } finally {
      waiting--;
    }
  };
  return {
    enabled: true,
    send: (mail) => {
      deliver(mail).catch((err: unknown) => log.error({ err, subject: mail.subject }, 'sending mail failed'));
    },
    deliver,
    close: () => transport.close(),
  };
}
