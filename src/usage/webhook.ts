// A signed message to an address that an organization named. Tried again a few times with growing pauses; redirects are
// not followed, and the answer's body is not read. By default only addresses of the public internet are connected to.

import { createHmac } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import type { LookupFunction } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isPublicAddress } from '../generation/images/public-address.js';
import { isLocalName, resolveHost } from '../shared/resolve-host.js';
import { VERSION } from '../shared/version.js';

export interface WebhookSettings {
  /** Addresses of the public internet alone. */
  readonly public_only: boolean;
  readonly timeout_ms: number;
  readonly attempts: number;
}

/** Whether a URL names a host of this machine or of a private network, as far as that shows without resolving a name. */
export function isInternal(url: string): boolean {
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? isLocalName(host) : !isPublicAddress(host);
}

const FIRST_PAUSE_MS = 1_000;
const PAUSE_FACTOR = 4;

/** `t=<seconds>,v1=<hex>`: HMAC-SHA-256 of `<seconds>.<body>` under the secret. */
export function signature(secret: string, seconds: number, body: string): string {
  return `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`;
}

/** Resolves when it was taken (a 2xx). Rejects with the last failure, or when `signal` says to stop. */
export async function sendWebhook(
  url: string,
  secret: string,
  message: object,
  settings: WebhookSettings,
  signal: AbortSignal,
  firstPauseMs = FIRST_PAUSE_MS,
): Promise<void> {
  const body = JSON.stringify(message);
  for (let attempt = 1, pauseMs = firstPauseMs; ; attempt++, pauseMs *= PAUSE_FACTOR) {
    try {
      const status = await post(new URL(url), secret, body, settings, signal);
      if (status >= 200 && status < 300) return;
      throw new Error(`it answered ${status}`);
    } catch (error) {
      if (attempt >= settings.attempts || signal.aborted) throw error;
    }
    await sleep(pauseMs, undefined, { signal, ref: false });
  }
}

function post(
  url: URL,
  secret: string,
  body: string,
  { public_only: publicOnly, timeout_ms: timeoutMs }: WebhookSettings,
  signal: AbortSignal,
): Promise<number> {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (publicOnly && isIP(host) !== 0 && !isPublicAddress(host)) throw new Error(`${host} is no public address`);
  const either = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const outgoing = send(
      url,
      {
        method: 'POST',
        signal: either,
        agent: false,
        ...(publicOnly ? { lookup: publicLookup(either) } : {}),
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'user-agent': `monolith/${VERSION}`,
          'monolith-signature': signature(secret, Math.floor(Date.now() / 1000), body),
        },
      },
      (answer) => {
        answer.destroy();
        resolve(answer.statusCode ?? 0);
      },
    );
    outgoing.on('error', reject);
    // 101: nothing else comes of it then.
    outgoing.on('upgrade', (_answer, socket) => {
      socket.destroy();
      reject(new Error('it answered 101'));
    });
    outgoing.end(body);
  });
}

/** What was checked is what is dialled. */
const publicLookup =
  (signal: AbortSignal): LookupFunction =>
  (host, options, done) => {
    resolveHost(host, signal).then(
      (found) => {
        const allowed = found.filter(({ address }) => isPublicAddress(address));
        const [first] = allowed;
        if (first === undefined) done(new Error(`${host} has no public address`), '', 0);
        else if (options.all === true) done(null, allowed);
        else done(null, first.address, first.family);
      },
      (error: unknown) => done(error as Error, '', 0),
    );
  };
