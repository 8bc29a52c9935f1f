// A Guard based on database sessions. The caller is looked up before the body is read, so that unauthenticated clients
// cannot send large bodies, and again before the route runs. Nothing is cached in between.

import { timingSafeEqual } from 'node:crypto';
import type { z } from 'zod';
import type { Directory } from '../../accounts/directory.js';
import { hasRole } from '../../accounts/members.js';
import { mayOpenFrom } from '../../accounts/organizations.js';
import { csrfToken } from '../../accounts/sessions.js';
import { plainAddress } from '../../shared/address-list.js';
import { apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { validatedForm } from '../../protocol/validation.js';
import type { DashboardOrigin } from '../origin.js';
import { API_HEADERS } from '../security-headers.js';
import type { Role } from '../../shared/wire/organizations.js';
import { ChangePace } from './change-pace.js';
import { sessionCookie } from './cookie.js';
import type { DashboardRoute, Guard, MemberCall, OpenCall, UserCall } from './guard.js';

const PREFIX = '/dashboard/api';
const MAX_BODY_BYTES = 65_536;

type Declared<C, B> = DashboardRoute<C> & { body?: z.ZodType<B> };
type WithoutBody<C> = Omit<C, 'body'>;

export class SessionGuard implements Guard {
  private readonly pace = new ChangePace();
  private readonly counted = new WeakSet<Exchange>(); // requests already counted: each is checked twice

  constructor(
    private readonly directory: Directory,
    private readonly origin: DashboardOrigin,
    private readonly operatorsNeedSecondFactor = false,
  ) {}

  open<B = undefined>(route: Declared<OpenCall<B>, B>): Route {
    return this.route(route, async (exchange) => {
      if (isChange(exchange)) this.origin.check(exchange, false);
      return { exchange };
    });
  }

  user<B = undefined>(route: Declared<UserCall<B>, B>): Route {
    return this.route(route, (exchange) => this.caller(exchange, route));
  }

  member<B = undefined>(least: Role, route: Declared<MemberCall<B>, B>): Route {
    return this.route(route, async (exchange) => {
      const caller = await this.caller(exchange, route);
      const id = exchange.params['org'] as string;
      const own = await this.directory.members.of(id, caller.user.id);
      if (own === null) throw apiError('resource_not_found', 'Organization not found.', 'org');
      const { organization, role } = own;
      exchange.onAccountOf(organization.id);
      if (!mayOpenFrom(organization.settings, exchange.remoteAddress))
        throw apiError(
          'address_not_allowed',
          `This organization cannot be opened from the address ${plainAddress(exchange.remoteAddress)}.`,
        );
      if (!hasRole(role, least))
        throw apiError('role_not_allowed', `This requires the role ${least} or higher (yours is ${role}).`);
      if (organization.status === 'suspended' && isChange(exchange))
        throw apiError('organization_suspended', 'The organization is suspended and read-only.');
      return { ...caller, organization, role };
    });
  }

  operator<B = undefined>(route: Declared<UserCall<B>, B>): Route {
    return this.route(route, async (exchange) => {
      const caller = await this.caller(exchange, route);
      if (!caller.user.operator) throw apiError('role_not_allowed', 'This requires operator rights.');
      if (this.operatorsNeedSecondFactor && caller.user.secondFactor !== true)
        throw apiError(
          'second_factor_required',
          'Operators of this server must use two-factor authentication. Turn it on in your profile, then try again.',
        );
      return caller;
    });
  }

  private route<C extends OpenCall<B>, B>(
    declared: Declared<C, B>,
    check: (exchange: Exchange) => Promise<WithoutBody<C>>,
  ): Route {
    const { method, path, body: schema, maxBodyBytes = MAX_BODY_BYTES } = declared;
    const enter = async (exchange: Exchange): Promise<WithoutBody<C>> => {
      const caller = await check(exchange);
      if (declared.actAs !== undefined) exchange.actAs(declared.actAs(caller));
      return caller;
    };
    const callers = new WeakMap<Exchange, WithoutBody<C>>();
    return {
      method,
      path: PREFIX + path,
      scope: null,
      public: true,
      sameOrigin: true,
      headers: API_HEADERS,
      maxBodyBytes,
      // If all fields of the body are optional, the body itself may be omitted.
      ...(schema === undefined || schema.safeParse({}).success ? { bodyOptional: true } : {}),
      ...(declared.generates === true ? { generates: true } : {}),
      ...(declared.countedAs === undefined ? {} : { countedAs: declared.countedAs }),
      onRequest: enter,
      preHandler: async (exchange) => {
        callers.set(exchange, await enter(exchange));
      },
      handler: (exchange) => {
        const body = schema === undefined ? undefined : validatedForm(schema, exchange.body ?? {});
        return declared.handler({ ...(callers.get(exchange) as WithoutBody<C>), body } as C);
      },
    };
  }

  private async caller(
    exchange: Exchange,
    { noted = false }: { readonly noted?: boolean },
  ): Promise<WithoutBody<UserCall<undefined>>> {
    const secret = sessionCookie(exchange);
    const found = secret === null ? null : await this.directory.signIns.find(secret);
    if (secret === null || found === null)
      throw apiError('not_signed_in', 'Not signed in, or the session is no longer valid. Sign in and try again.');
    const { user, session } = found;
    if (isChange(exchange)) {
      this.origin.check(exchange, true);
      if (!isSame(exchange.header('x-csrf-token'), csrfToken(secret))) {
        throw apiError(
          'invalid_csrf_token',
          'The X-CSRF-Token header must contain the csrf_token from GET /dashboard/api/me.',
        );
      }
    }
    if (isChange(exchange) || noted) {
      if (!this.counted.has(exchange)) this.pace.count(user.id);
      this.counted.add(exchange);
    }
    this.directory.signIns.seen(secret, session);
    return {
      exchange,
      user,
      sessionId: session.id,
      signedInAt: session.createdAt,
      actor: { type: 'user', id: user.id, email: user.email, ip: exchange.remoteAddress },
    };
  }
}

const isChange = ({ method }: Exchange): boolean => method !== 'GET' && method !== 'HEAD';

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}
