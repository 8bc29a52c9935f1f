// The four kinds of dashboard routes, by the access that they require: none, a session, membership with a role,
// operator. The guard converts them to plain Routes. Before `handler` runs, it checks the cookie, Origin, CSRF token,
// role and body, in this order, and sets the error format. Responses carry the security headers.

import type { z } from 'zod';
import type { Actor } from '../../accounts/audit.js';
import type { OrganizationView } from '../../accounts/organizations.js';
import type { User } from '../../accounts/users.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { Identity } from '../../shared/identity.js';
import type { Role } from '../../shared/wire/organizations.js';

export interface OpenCall<B> {
  readonly exchange: Exchange;
  /** The body, parsed with the route's schema; undefined if the route has no schema. */
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
   * The organization named by `:org` in the path. If the user is not a member of it, the request fails with 404
   * resource_not_found.
   */
  readonly organization: OrganizationView;
  readonly role: Role;
}

/** Path relative to /dashboard/api: '/organizations/:org/usage'. */
export interface DashboardRoute<C> {
  method: Route['method'];
  path: string;
  /** Maximum body size; 64 KiB by default. */
  maxBodyBytes?: number;
  generates?: true;
  /** The route is read-only but adds an audit entry, so it counts as a change (change-pace.ts). */
  noted?: true;
  /** See Route. */
  countedAs?: string;
  /** Returns the identity that usage and limits attribute the request to. Absent for requests that do not count. */
  actAs?(call: Omit<C, 'body'>): Identity;
  handler(call: C): void | Promise<void>;
}

export interface Guard {
  /** Requires no session. Requests that change something are refused if their Origin is another site. */
  open<B = undefined>(route: DashboardRoute<OpenCall<B>> & { body?: z.ZodType<B> }): Route;
  /** Requires a session. */
  user<B = undefined>(route: DashboardRoute<UserCall<B>> & { body?: z.ZodType<B> }): Route;
  /**
   * Requires the session of a member of `:org` with at least this role, from an address that the organization allows.
   * Suspended organizations are read-only.
   */
  member<B = undefined>(least: Role, route: DashboardRoute<MemberCall<B>> & { body?: z.ZodType<B> }): Route;
  /** Requires an operator's session. */
  operator<B = undefined>(route: DashboardRoute<UserCall<B>> & { body?: z.ZodType<B> }): Route;
}
