// /oidc/start and /oidc/callback redirect to the provider and back. /oidc/link and /oidc/unlink change the link of the
// signed-in account. The state that the callback needs is carried in an encrypted cookie, so only the browser that
// started a sign-in can finish it.

import { addressGroup } from '../../accounts/attempts.js';
import { ApiError, apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { OidcRefusal, reasonOf } from '../../accounts/oidc/failures.js';
import type { OidcFailure } from '../../accounts/oidc/failures.js';
import { Denied } from '../../accounts/oidc/provider.js';
import type { Asked, OidcProvider } from '../../accounts/oidc/provider.js';
import { OidcRoleSync } from '../../accounts/oidc/role-sync.js';
import type { RoleSyncDeps } from '../../accounts/oidc/role-sync.js';
import type { Attempts } from '../../accounts/attempts.js';
import type { Config } from '../../config/settings.js';
import type { Identities } from '../../accounts/identities.js';
import type { Log } from '../../telemetry/types.js';
import type { MfaChallenges } from '../../accounts/mfa-challenges.js';
import type { SecretBox } from '../../accounts/sealing/secret-box.js';
import type { SignIns } from '../../accounts/sign-ins.js';
import type { SignUps } from '../../accounts/sign-ups.js';
import type { DashboardOrigin } from '../origin.js';
import { namedCookie, sessionCookie, setSessionCookie } from './cookie.js';
import { OidcEntry } from './oidc-entry.js';
import type { Guard } from './guard.js';

const CALLBACK = '/oidc/callback';
const COOKIE = 'oidc';
const COOKIE_S = 600;
const MAX_INVITE = 256;

/** Content of the encrypted cookie. */
interface Journey extends Asked {
  /** Path of the page to open after the sign-in. */
  next: string;
  invite: string | null;
  /** The user to link the identity to; null for a sign-in. */
  link: string | null;
  until: number;
}

export interface OidcDeps extends RoleSyncDeps {
  guard: Guard;
  signIns: SignIns;
  signUps: SignUps;
  identities: Identities;
  attempts: Attempts;
  tickets: MfaChallenges;
  box: SecretBox;
  /** Null if no provider is configured. */
  oidc: OidcProvider | null;
  origin: DashboardOrigin;
  config: Pick<Config, 'oidc'>;
  log: Log;
  now: () => number;
}

/** Empty if no provider is configured. */
export function oidcRoutes(deps: OidcDeps): Route[] {
  return deps.oidc === null ? [] : routesOf(deps, deps.oidc);
}

function routesOf(deps: OidcDeps, provider: OidcProvider): Route[] {
  const { guard, signIns, signUps, identities, attempts, tickets, box, origin, config, log, now } = deps;
  const roles = config.oidc.roles === null ? null : new OidcRoleSync(config.oidc.roles, deps);
  const entry = new OidcEntry({ identities, signIns, signUps }, config.oidc, roles);

  const redirectUri = (exchange: Exchange): string => `${origin.base(exchange)}/dashboard/api${CALLBACK}`;
  const redirect = (exchange: Exchange, to: string): void => {
    exchange.setHeader('Location', to);
    exchange.text(303, 'text/plain; charset=utf-8', '');
  };
  const failed = (exchange: Exchange, failure: OidcFailure, link: boolean): void =>
    redirect(exchange, link ? `/dashboard/profile?oidc=${failure}` : `/dashboard/signin?oidc=${failure}`);

  const journeyOf = (exchange: Exchange): Journey => {
    const opened = box.open('sign-in elsewhere', '', namedCookie(exchange, COOKIE) ?? '');
    const journey = opened === null ? null : (JSON.parse(opened.text) as Journey);
    if (journey === null || journey.until <= now()) throw new OidcRefusal('expired');
    return journey;
  };

  /** Returns the address of the page to open next. */
  const finish = async (exchange: Exchange, journey: Journey): Promise<string> => {
    await attempts.count('elsewhere', [addressGroup(exchange.remoteAddress)]);
    const client = { ip: exchange.remoteAddress, userAgent: exchange.header('user-agent') };
    const returned = new URL(redirectUri(exchange));
    returned.search = exchange.query.toString();
    const claims = await provider.answer(returned, journey);
    const before = sessionCookie(exchange);
    if (journey.link !== null) {
      const session = before === null ? null : await signIns.find(before);
      if (session?.user.id !== journey.link) throw new OidcRefusal('expired');
      await entry.link(claims, session.user, client.ip);
      return '/profile?oidc=linked';
    }
    const { user, cookie } = await entry.enter(claims, journey.invite, client);
    if (cookie === null && user.secondFactor === true && !user.locked) {
      // The ticket is passed in the URL fragment, which browsers do not send to any server.
      return `/signin?next=${encodeURIComponent(journey.next)}#ticket=${tickets.issue(user).ticket}`;
    }
    const signIn = cookie === null ? await signIns.begin(user, null, client, before, null) : { cookie };
    if (signIn === 'locked') throw new OidcRefusal('locked');
    if (signIn === 'changed') throw new OidcRefusal('expired');
    setSessionCookie(exchange, origin, signIn.cookie);
    return journey.next;
  };

  /** Sets the cookie for the callback, and returns the provider URL to redirect to. Rejects with OidcRefusal. */
  const begin = async (exchange: Exchange, journey: Pick<Journey, 'next' | 'invite' | 'link'>): Promise<string> => {
    const { url, asked } = await provider.ask(redirectUri(exchange)).catch((cause: unknown) => {
      throw new OidcRefusal('unreachable', { cause });
    });
    const sealed = box.seal(
      'sign-in elsewhere',
      '',
      JSON.stringify({ ...asked, ...journey, until: now() + COOKIE_S * 1000 } satisfies Journey),
    );
    // SameSite=Lax, because the browser must send the cookie when the provider redirects back.
    exchange.setHeader(
      'Set-Cookie',
      `${COOKIE}=${sealed}; HttpOnly; SameSite=Lax; Path=/dashboard/api/oidc; Max-Age=${COOKIE_S}${origin.isHttps(exchange) ? '; Secure' : ''}`,
    );
    return url.href;
  };

  return [
    guard.open({
      method: 'GET',
      path: '/oidc/start',
      handler: async ({ exchange }) => {
        const next = exchange.query.get('next') ?? '/';
        const invite = exchange.query.get('invite');
        try {
          redirect(
            exchange,
            await begin(exchange, {
              next: /^\/[a-z][\w\-/]{0,200}$/.test(next) ? next : '/',
              invite: invite === null || invite.length > MAX_INVITE ? null : invite,
              link: null,
            }),
          );
        } catch (error) {
          failed(exchange, failureOf(error), false);
        }
      },
    }),

    // A POST rather than a link. Otherwise, another site could send the browser here and link someone else's identity
    // to the account.
    guard.user({
      method: 'POST',
      path: '/oidc/link',
      handler: async ({ exchange, user }) => {
        try {
          exchange.json(200, { url: await begin(exchange, { next: '/', invite: null, link: user.id }) });
        } catch (error) {
          failureOf(error);
          throw apiError('capacity_exhausted', `${config.oidc.name} is unreachable.`);
        }
      },
    }),

    guard.open({
      method: 'GET',
      path: CALLBACK,
      handler: async ({ exchange }) => {
        let isLink = false;
        try {
          const journey = journeyOf(exchange);
          isLink = journey.link !== null;
          redirect(exchange, `/dashboard${await finish(exchange, journey)}`);
        } catch (error) {
          failed(exchange, failureOf(error), isLink);
        }
      },
    }),

    guard.user({
      method: 'POST',
      path: '/oidc/unlink',
      handler: async ({ exchange, user, actor }) => {
        if (user.passwordHash === '')
          throw apiError(
            'invalid_value',
            'This account has no password, so unlinking would make sign-in impossible. First set a password with "Forgot your password?".',
          );
        if (!(await identities.unlink(user, actor)))
          throw apiError('resource_not_found', 'This account is not linked to a provider.');
        exchange.json(200, {});
      },
    }),
  ];

  /** Maps an error to the failure shown on the page. Errors not caused by the user are logged. */
  function failureOf(error: unknown): OidcFailure {
    if (error instanceof Denied) return 'denied';
    if (error instanceof ApiError && error.code === 'too_many_attempts') return 'too_many';
    if (error instanceof OidcRefusal) {
      if (error.failure === 'unreachable')
        log.error({ reason: reasonOf(error.cause) }, 'cannot reach the provider of oidc.issuer');
      return error.failure;
    }
    log.warn({ reason: reasonOf(error) }, 'sign-in at the provider of oidc.issuer failed');
    return 'failed';
  }
}
