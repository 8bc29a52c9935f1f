// Sends a signed message to a URL that an organization has configured. Retries a few times with increasing delays. Does
// not follow redirects or read the response body. By default, connects only to public internet addresses.

import { createHmac } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isPublicAddress } from '../shared/public-address.js';
import { publicLookup } from '../shared/public-lookup.js';
import { isLocalName } from '../shared/resolve-host.js';
import { VERSION } from '../shared/version.js';

export interface WebhookSettings {
  /** Whether to connect only to public internet addresses. */
  readonly public_only: boolean;
  readonly timeout_ms: number;
  readonly attempts: number;
}

/**
 * Whether a URL's host is this machine or on a private network, as far as this can be determined without DNS
 * resolution.
 */
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

/**
 * Resolves when the receiver has accepted the message (2xx). Rejects with the last failure, or when `signal` is
 * aborted. `secret`: signs the message; null = unsigned.
 */
export async function sendWebhook(
  url: string,
  secret: string | null,
  {
    message,
    settings,
    signal,
    firstPauseMs = FIRST_PAUSE_MS,
  }: { message: object; settings: WebhookSettings; signal: AbortSignal; firstPauseMs?: number | undefined },
): Promise<void> {
  const body = JSON.stringify(message);
  for (let attempt = 1, pauseMs = firstPauseMs; ; attempt++, pauseMs *= PAUSE_FACTOR) {
    try {
      const seconds = Math.floor(Date.now() / 1000);
      const headers = secret === null ? {} : { 'monolith-signature': signature(secret, seconds, body) };
      const status = await postWebhook(url, body, { headers, settings, signal });
      if (status >= 200 && status < 300) return;
      throw new Error(`the receiver responded with status ${status}`);
    } catch (error) {
      if (attempt >= settings.attempts || signal.aborted) throw error;
    }
    await sleep(pauseMs, undefined, { signal, ref: false });
  }
}

/** Sends a message once. Resolves to the response's status. Rejects if there is no response. */
export async function postWebhook(
  address: string,
  body: string,
  {
    headers,
    settings: { public_only: publicOnly, timeout_ms: timeoutMs },
    signal,
  }: {
    headers: Readonly<Record<string, string>>;
    settings: Pick<WebhookSettings, 'public_only' | 'timeout_ms'>;
    signal: AbortSignal;
  },
): Promise<number> {
  const url = new URL(address);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (publicOnly && isIP(host) !== 0 && !isPublicAddress(host)) throw new Error(`${host} is not a public address`);
  const timeout = AbortSignal.timeout(timeoutMs);
  const either = AbortSignal.any([signal, timeout]);
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
          ...headers,
        },
      },
      (answer) => {
        answer.destroy();
        resolve(answer.statusCode ?? 0);
      },
    );
    outgoing.on('error', (error) => reject(timeout.aborted ? noResponse(timeoutMs) : withMessage(error)));
    // After status 101, no other response follows.
    outgoing.on('upgrade', (_answer, socket) => {
      socket.destroy();
      reject(new Error('the receiver responded with status 101'));
    });
    outgoing.end(body);
  });
}

const noResponse = (timeoutMs: number): Error => new Error(`no response within ${timeoutMs / 1_000} s`);

/** If no address of a host accepts a connection, Node.js reports an AggregateError without a message. */
export const withMessage = (error: Error): Error =>
  error instanceof AggregateError && error.message === ''
    ? new Error(error.errors.map((one: Error) => one.message).join(', '), { cause: error })
    : error;
