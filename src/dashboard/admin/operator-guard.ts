// The two ways in to what operators may do: a session of a user who is one, under /dashboard/api/operator, and
// the bearer token of the settings, under /admin/api on a listener of its own. The routes are written once.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { z } from 'zod';
import { addressGroup, capped, MAX_ATTEMPTS, tooMany } from '../../accounts/attempts.js';
import type { Attempts, Counted } from '../../accounts/attempts.js';
import type { Actor } from '../../accounts/audit.js';
import type { Guard } from '../api/guard.js';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { validated } from '../../protocol/validation.js';

export interface OperatorCall<B> {
  readonly exchange: Exchange;
  /** For the audit log. */
  readonly actor: Actor;
  /** Null: whoever has the token. */
  readonly userId: string | null;
  /** As the schema gives it; undefined without one. */
  readonly body: B;
}

/** Path below the prefix: '/organizations/:org'. */
export interface OperatorRoute<B> {
  method: Route['method'];
  path: string;
  body?: z.ZodType<B>;
  serve(call: OperatorCall<B>): void | Promise<void>;
}

/** Makes a plain Route of it, with everything checked before `serve` runs. */
export type OperatorGuard = <B = undefined>(route: OperatorRoute<B>) => Route;

/** By session. */
export function sessionOperators(guard: Guard): OperatorGuard {
  return ({ method, path, body, serve }) =>
    guard.operator({
      method,
      path: `/operator${path}`,
      ...(body === undefined ? {} : { body }),
      serve: ({ exchange, actor, user, body: given }) => serve({ exchange, actor, userId: user.id, body: given }),
    });
}

const PREFIX = '/admin/api';
const MAX_BODY_BYTES = 65_536;

/** Addresses whose last wrong tokens are kept in memory, beside what the store has of them. */
const MAX_REMEMBERED = 10_000;

/** By token. Of one listener: what has just been counted of wrong ones is not read at once, so it is remembered too. */
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
    // What is remembered is looked at and added to in one turn: of many at once, none is let by for another.
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
    void attempts.count('operator', [address]).catch(() => undefined); // full by others, or a database that fails: the answer is the same
    throw apiError('invalid_api_key', 'The operator token is not valid.');
  };
  return ({ method, path, body: schema, serve }) => ({
    method,
    path: PREFIX + path,
    scope: null,
    public: true,
    sameOrigin: true,
    maxBodyBytes: MAX_BODY_BYTES,
    headers: [['Cache-Control', 'no-store']],
    // Where every field may be left out, so may the body.
    ...(schema === undefined || schema.safeParse({}).success ? { bodyOptional: true } : {}),
    before: check,
    enter: check,
    serve: (exchange) => {
      const actor: Actor = { type: 'operator_api', id: null, email: null, ip: exchange.remoteAddress };
      return serve({
        exchange,
        actor,
        userId: null,
        body: (schema === undefined ? undefined : validated(schema, exchange.body ?? {})) as never,
      });
    },
  });
}

// Of one length whatever was sent, so that comparing tells nothing.
const digest = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();
