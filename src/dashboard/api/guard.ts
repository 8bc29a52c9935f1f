// The kinds of dashboard routes and what each may assume: nothing, a session, a membership with a role, an
// operator. The guard makes plain Routes of them: cookie, Origin, CSRF token, role, body and the error shape
// are checked before `serve` runs, in this order; the answer carries the security headers.

import type { z } from 'zod';
import type { Actor } from '../../accounts/audit.js';
import type { OrganizationView } from '../../accounts/organizations.js';
import type { User } from '../../accounts/users.js';
import type { Exchange, Route } from '../../http/exchange.js';
import type { Identity } from '../../shared/identity.js';
import type { Role } from '../../shared/wire/dashboard.js';

export interface OpenCall<B> {
  readonly exchange: Exchange;
  /** As the schema gives it; undefined without one. */
  readonly body: B;
}

export interface UserCall<B> extends OpenCall<B> {
  readonly user: User;
  readonly sessionId: string;
  /** When that session began, milliseconds. */
  readonly signedInAt: number;
  /** The user, for the audit log. */
  readonly actor: Actor;
}

export interface MemberCall<B> extends UserCall<B> {
  /** The organization of the path's `:org`; another's id is 404 resource_not_found. */
  readonly organization: OrganizationView;
  readonly role: Role;
}

/** Path under /dashboard/api: '/organizations/:org/usage'. */
export interface DashboardRoute<C> {
  method: Route['method'];
  path: string;
  /** Largest body; 64 KiB. */
  maxBodyBytes?: number;
  generates?: true;
  /** Reading it is noted in the audit log, so it is counted as a change is (change-pace.ts). */
  noted?: true;
  /** As in Route. */
  countedAs?: string;
  /** As whom the request counts from then on, where it is one that limits hold for. */
  actAs?(call: Omit<C, 'body'>): Identity;
  serve(call: C): void | Promise<void>;
}

export interface Guard {
  /** Anybody; an Origin that is another site's is refused where something changes. */
  open<B = undefined>(route: DashboardRoute<OpenCall<B>> & { body?: z.ZodType<B> }): Route;
  /** A session. */
  user<B = undefined>(route: DashboardRoute<UserCall<B>> & { body?: z.ZodType<B> }): Route;
  /** A session of a member of `:org` with at least this role. Of a suspended organization only reading is allowed. */
  member<B = undefined>(least: Role, route: DashboardRoute<MemberCall<B>> & { body?: z.ZodType<B> }): Route;
  /** A session of an operator. */
  operator<B = undefined>(route: DashboardRoute<UserCall<B>> & { body?: z.ZodType<B> }): Route;
}
