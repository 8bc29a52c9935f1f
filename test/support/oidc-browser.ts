// Follows the redirects of a sign-in through an OpenID Connect provider, as a browser does.

import type { DashboardClient } from './dashboard-client.js';

export interface FollowOptions {
  /** May change each address before it is requested. */
  change?: (url: URL) => void;
  /** The cookie of a sign-in that was started by a response that is not a navigation. */
  journey?: string;
}

/**
 * Follows redirects from `from` to a page of the dashboard at `base`. The client gets the session cookie. Returns the
 * page's address without loading it.
 */
export async function followSignIn(
  client: DashboardClient,
  base: string,
  from: string,
  { change = (): void => undefined, journey }: FollowOptions = {},
): Promise<URL> {
  const jars = new Map<string, Map<string, string>>();
  let url = new URL(from, base);
  for (let hops = 0; hops < 12; hops++) {
    const own = url.origin === base;
    if (own && !url.pathname.startsWith('/dashboard/api/')) return url;
    change(url);
    const jar = jars.get(url.origin) ?? new Map<string, string>();
    jars.set(url.origin, jar);
    if (own && client.cookie !== null) jar.set('sid', client.cookie);
    if (journey !== undefined) jar.set('oidc', journey);
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      jar.set(name, value);
      if (own && name === 'sid') client.cookie = value;
    }
    const location = response.headers.get('location');
    if (location === null) throw new Error(`${response.status} at ${url.href}: ${await response.text()}`);
    url = new URL(location, url);
  }
  throw new Error('too many redirects');
}

/** Why the sign-in failed; null if it succeeded. */
export const failureOf = (url: URL): string | null => url.searchParams.get('oidc');
