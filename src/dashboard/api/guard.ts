// The four kinds of dashboard routes by required access: none, a session, membership with a role, operator. The guard
// turns them into plain Routes. Before `serve` runs, it checks cookie, Origin, CSRF token, role and body, in this
// order, and sets the error format. Responses carry the security headers.

import type { z } from 'zod';
import type { Actor } from '../../accounts/audit.js';
import type { OrganizationView } from '../../accounts/organizations.js';
import type { User } from '../../accounts/users.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { Identity } from '../../shared/identity.js';
import type { Role } from '../../shared/wire/organizations.js';

export interface OpenCall<B> {
  readonly exchange: Exchange;
  /** Parsed by the schema; undefined without one. */
  readonly body: B;
}

export interface UserCall<B> extends OpenCall<B> {
  readonly user: User;
  readonly sessionId: string;
  /** Start of the session, in milliseconds. */
  readonly signedInAt: number;
  /** The user, for the audit log. */
  readonly actor: Actor;
}

export interface MemberCall<B> extends UserCall<B> {
  /**
   * The organization in the path's `:org`. For organizations that the user is not a member of, the request fails with
   * 404 resource_not_found.
   */
  readonly organization: OrganizationView;
  readonly role: Role;
}

/** Path under /dashboard/api: '/organizations/:org/usage'. */
export interface DashboardRoute<C> {
  method: Route['method'];
  path: string;
  /** Maximum body size; 64 KiB by default. */
  maxBodyBytes?: number;
  generates?: true;
  /** Reading it adds an audit entry, so it counts as a change (change-pace.ts). */
  noted?: true;
  /** See Route. */
  countedAs?: string;
  /** The identity that the request is counted for, if rate limits apply to it. */
  actAs?(call: Omit<C, 'body'>): Identity;
  handler(call: C): void | Promise<void>;
}

export interface Guard {
  /** No session needed. Changing requests whose Origin is another site are refused. */
  open<B = undefined>(route: DashboardRoute<OpenCall<B>> & { body?: z.ZodType<B> }): Route;
  /** Needs a session. */
  user<B = undefined>(route: DashboardRoute<UserCall<B>> & { body?: z.ZodType<B> }): Route;
  /** Needs the session of a member of `:org` with at least this role. Suspended organizations are read-only. */
  member<B = undefined>(least: Role, route: DashboardRoute<MemberCall<B>> & { body?: z.ZodType<B> }): Route;
  /** Needs the session of an operator. */
  operator<B = undefined>(route: DashboardRoute<UserCall<B>> & { body?: z.ZodType<B> }): Route;
}
