// /oidc/start and /oidc/callback: out to the provider and back, by redirects; /oidc/link, /oidc/unlink: of one's account. What must be
// known at the return travels in a sealed cookie, so that it is this browser's alone.

import { addressGroup } from '../../accounts/attempts.js';
import { ApiError, apiError } from '../../shared/errors.js';
import type { Exchange, Route } from '../../http/exchange.js';
import { OidcRefusal, reasonOf } from '../../accounts/oidc/failures.js';
import type { OidcFailure } from '../../accounts/oidc/failures.js';
import { Denied } from '../../accounts/oidc/provider.js';
import type { Asked, OidcProvider } from '../../accounts/oidc/provider.js';
import { namedCookie, sessionCookie, setSessionCookie } from './cookie.js';
import type { DashboardDeps } from './deps.js';
import { OidcEntry } from './oidc-entry.js';

const CALLBACK = '/oidc/callback';
const COOKIE = 'oidc';
const COOKIE_S = 600;
const MAX_INVITE = 256;

/** What the cookie has. */
interface Journey extends Asked {
  /** Path of the page to show at the end. */
  next: string;
  invite: string | null;
  /** Whose account it is to be linked to; null: a sign-in. */
  link: string | null;
  until: number;
}

type Deps = Pick<DashboardDeps, 'guard' | 'directory' | 'config' | 'origin' | 'tickets' | 'box' | 'oidc' | 'telemetry'>;

/** None without a provider. */
export function oidcRoutes(deps: Deps): Route[] {
  return deps.oidc === null ? [] : routesOf(deps, deps.oidc);
}

function routesOf(
  { guard, directory, config, origin, tickets, box, telemetry: { log } }: Deps,
  provider: OidcProvider,
): Route[] {
  const { signIns, identities, attempts } = directory;
  const entry = new OidcEntry(directory, config.oidc);

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
    if (journey === null || journey.until <= directory.now()) throw new OidcRefusal('expired');
    return journey;
  };

  /** To where the page goes on. */
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
      // Behind the #, which browsers send nowhere.
      return `/signin?next=${encodeURIComponent(journey.next)}#ticket=${tickets.issue(user).ticket}`;
    }
    const begun = cookie === null ? await signIns.begin(user, null, client, before, null) : { cookie };
    if (begun === 'locked') throw new OidcRefusal('locked');
    if (begun === 'changed') throw new OidcRefusal('expired');
    setSessionCookie(exchange, origin, begun.cookie);
    return journey.next;
  };

  /** Where the browser goes, with the cookie for its return set. Rejects with OidcRefusal. */
  const begin = async (exchange: Exchange, journey: Pick<Journey, 'next' | 'invite' | 'link'>): Promise<string> => {
    const { url, asked } = await provider.ask(redirectUri(exchange)).catch((cause: unknown) => {
      throw new OidcRefusal('unreachable', { cause });
    });
    const sealed = box.seal(
      'sign-in elsewhere',
      '',
      JSON.stringify({ ...asked, ...journey, until: directory.now() + COOKIE_S * 1000 } satisfies Journey),
    );
    // Lax: it has to come along when the provider sends the browser back.
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
      serve: async ({ exchange }) => {
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
          failed(exchange, tell(error), false);
        }
      },
    }),

    // No link that another site's page could send a browser to: who is signed in there might be somebody else.
    guard.user({
      method: 'POST',
      path: '/oidc/link',
      serve: async ({ exchange, user }) => {
        try {
          exchange.json(200, { url: await begin(exchange, { next: '/', invite: null, link: user.id }) });
        } catch (error) {
          tell(error);
          throw apiError('capacity_exhausted', `${config.oidc.name} cannot be reached at this moment.`);
        }
      },
    }),

    guard.open({
      method: 'GET',
      path: CALLBACK,
      serve: async ({ exchange }) => {
        let isLink = false;
        try {
          const journey = journeyOf(exchange);
          isLink = journey.link !== null;
          redirect(exchange, `/dashboard${await finish(exchange, journey)}`);
        } catch (error) {
          failed(exchange, tell(error), isLink);
        }
      },
    }),

    guard.user({
      method: 'POST',
      path: '/oidc/unlink',
      serve: async ({ exchange, user, actor }) => {
        if (user.passwordHash === '')
          throw apiError(
            'invalid_value',
            'This account has no password: without the link nobody could sign in to it. Choose a password first, by "Forgot your password?".',
          );
        if (!(await identities.unlink(user, actor)))
          throw apiError('resource_not_found', 'This account is linked to nothing.');
        exchange.json(200, {});
      },
    }),
  ];

  /** What the page is told; the log is told what no person caused. */
  function tell(error: unknown): OidcFailure {
    if (error instanceof Denied) return 'denied';
    if (error instanceof ApiError && error.code === 'too_many_attempts') return 'too_many';
    if (error instanceof OidcRefusal) {
      if (error.failure === 'unreachable')
        log.error({ reason: reasonOf(error.cause) }, 'the provider of oidc.issuer could not be asked');
      return error.failure;
    }
    log.warn({ reason: reasonOf(error) }, 'a sign-in by the provider of oidc.issuer failed');
    return 'failed';
  }
}
