// The two ways to authenticate as an operator: with an operator's session, under /dashboard/api/operator, or with the
// configured bearer token, under /admin/api on a separate listener. The routes are defined once for both.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { z } from 'zod';
import { addressGroup, capped, MAX_ATTEMPTS, tooMany } from '../../accounts/attempts.js';
import type { Attempts, Counted } from '../../accounts/attempts.js';
import type { Actor } from '../../accounts/audit.js';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { validatedForm } from '../../protocol/validation.js';
import type { Guard } from '../api/guard.js';

export interface OperatorCall<B> {
  readonly exchange: Exchange;
  /** For the audit log. */
  readonly actor: Actor;
  /** Null if the request was authenticated by the bearer token. */
  readonly userId: string | null;
  /** The body, parsed with the route's schema; undefined if the route has no schema. */
  readonly body: B;
}

/** Adds an entry to the server's audit log. */
export type NoteOperation = (actor: Actor, action: string, target: string) => Promise<void>;

/** Path relative to the prefix: '/organizations/:org'. */
export interface OperatorRoute<B> {
  method: Route['method'];
  path: string;
  body?: z.ZodType<B>;
  /** Maximum size of the request body in bytes. Default: 64 KiB. */
  maxBodyBytes?: number;
  handler(call: OperatorCall<B>): void | Promise<void>;
}

/** Converts an operator route to a plain Route that performs all checks before `handler` runs. */
export type OperatorGuard = <B = undefined>(route: OperatorRoute<B>) => Route;

/** Authenticates by session. */
export function sessionOperators(guard: Guard): OperatorGuard {
  return ({ method, path, body, maxBodyBytes = MAX_BODY_BYTES, handler: serve }) =>
    guard.operator({
      method,
      path: `/operator${path}`,
      maxBodyBytes,
      ...(body === undefined ? {} : { body }),
      handler: ({ exchange, actor, user, body: given }) => serve({ exchange, actor, userId: user.id, body: given }),
    });
}

const PREFIX = '/admin/api';
const MAX_BODY_BYTES = 65_536;

/** Maximum number of client addresses whose recent wrong tokens are kept in memory in addition to the store. */
const MAX_REMEMBERED = 10_000;

/**
 * Authenticates by token, for one listener. Wrong tokens are also counted in memory, because counts written to the
 * store are not visible immediately.
 */
export function tokenOperators(token: string, attempts: Attempts, clock: () => number): OperatorGuard {
  const wanted = digest(token);
  const remembered = new Map<string, Counted>();
  const check = async (exchange: Exchange): Promise<void> => {
    const given = /^bearer\s+(\S+)\s*$/i.exec(exchange.header('authorization'))?.[1];
    if (given === undefined)
      throw apiError(
        'missing_api_key',
        'Send the operator token (the setting admin.token) as "Authorization: Bearer <token>".',
      );
    const address = addressGroup(exchange.remoteAddress);
    const stored = await attempts.counted('operator', address);
    // Checks and counts in the same event-loop turn, so that concurrent requests cannot get around the limit.
    const now = clock();
    const known = remembered.get(address);
    const recent = known === undefined ? undefined : capped(known, now);
    if (recent !== undefined && recent !== known) remembered.set(address, recent);
    const { count, until } =
      recent !== undefined && recent.until > now && recent.count > stored.count ? recent : stored;
    if (count >= MAX_ATTEMPTS.operator) throw tooMany(until - now);
    if (timingSafeEqual(digest(given), wanted)) return;
    if (remembered.size >= MAX_REMEMBERED) remembered.clear();
    remembered.set(address, { count: count + 1, until });
    // not awaited, because the response is the same even if the table of attempts is full or the database fails
    void attempts.count('operator', [address]).catch(() => undefined);
    throw apiError('invalid_api_key', 'Invalid operator token.');
  };
  return ({ method, path, body: schema, maxBodyBytes = MAX_BODY_BYTES, handler: serve }) => ({
    method,
    path: PREFIX + path,
    scope: null,
    public: true,
    sameOrigin: true,
    maxBodyBytes,
    headers: [['Cache-Control', 'no-store']],
    // If all fields of the body are optional, the body itself may be omitted.
    ...(schema === undefined || schema.safeParse({}).success ? { bodyOptional: true } : {}),
    onRequest: check,
    preHandler: check,
    handler: (exchange) => {
      const actor: Actor = { type: 'operator_api', id: null, email: null, ip: exchange.remoteAddress };
      return serve({
        exchange,
        actor,
        userId: null,
        body: (schema === undefined ? undefined : validatedForm(schema, exchange.body ?? {})) as never,
      });
    },
  });
}

// Hashing gives both values the same length, so that the timing of the comparison reveals nothing.
const digest = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();
