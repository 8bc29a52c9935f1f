// Receivers of alerts on real sockets: an HTTP server for webhooks and an SMTP server.

import { createServer } from 'node:http';
import type { IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import type { Test } from 'tap';

export interface Received {
  headers: IncomingHttpHeaders;
  body: string;
}

export interface WebhookReceiver {
  url: string;
  /** All requests so far. */
  taken: Received[];
  /** The JSON bodies of all requests so far. */
  bodies(): Record<string, unknown>[];
  /** The status of all further responses. */
  status: number;
}

export async function webhookReceiver(t: Pick<Test, 'teardown'>, status = 204): Promise<WebhookReceiver> {
  const taken: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request
      .setEncoding('utf8')
      .on('data', (piece: string) => {
        body += piece;
      })
      .on('end', () => {
        taken.push({ headers: request.headers, body });
        response.writeHead(receiver.status).end();
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook/secret-token-1234`,
    taken,
    bodies: () => taken.map(({ body }) => JSON.parse(body) as Record<string, unknown>),
    status,
  };
  return receiver;
}

export interface ReceivedMail {
  to: string[];
  text: string;
}

export async function mailReceiver(t: Pick<Test, 'teardown'>): Promise<{ url: string; mails: ReceivedMail[] }> {
  const mails: ReceivedMail[] = [];
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      let text = '';
      stream
        .setEncoding('utf8')
        .on('data', (piece: string) => {
          text += piece;
        })
        .on('end', () => {
          const to = session.envelope.rcptTo.map(({ address }) => address);
          mails.push({ to, text: text.replaceAll('=\r\n', '').replaceAll('=3D', '=') });
          done();
        });
    },
  });
  await new Promise<void>((resolve) => smtp.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise<void>((resolve) => smtp.close(resolve)));
  return { url: `smtp://127.0.0.1:${(smtp.server.address() as AddressInfo).port}`, mails };
}
