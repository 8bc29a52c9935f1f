// A real local OpenID Connect provider. Every browser sent to it is signed in immediately as the person set by the
// test.

import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';

export interface Person {
  sub: string;
  email?: string;
  email_verified?: boolean;
  name?: string;
  groups?: unknown;
  realm_access?: unknown;
}

export interface OidcTestProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The person at the browser; if null, the sign-in is refused. */
  person: Person | null;
  /** Parameters of the latest authorization request. */
  asked: URLSearchParams | null;
  /** Call this once the address of the relying server is known. */
  register(redirectUri: string): void;
  close(): Promise<void>;
}

export async function startOidcProvider(): Promise<OidcTestProvider> {
  let handle: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => {
    response.writeHead(503).end();
  };
  const http = createServer((request, response) => handle(request, response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const people = new Map<string, Person>();
  const running: OidcTestProvider = {
    issuer,
    clientId: 'monolith',
    clientSecret: 'a secret of the provider',
    person: null,
    asked: null,
    register(redirectUri) {
      const provider = new Provider(issuer, {
        clients: [
          {
            client_id: running.clientId,
            client_secret: running.clientSecret,
            redirect_uris: [redirectUri],
            response_types: ['code'],
            grant_types: ['authorization_code'],
          },
        ],
        cookies: { keys: ['test'] },
        pkce: { required: () => true },
        claims: {
          openid: ['sub'],
          email: ['email', 'email_verified'],
          profile: ['name', 'realm_access'],
          groups: ['groups'],
        },
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_, { uid }) => `/interaction/${uid}` },
        findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...people.get(sub), sub }) }),
        loadExistingGrant: async (context) => {
          const { client, session, provider: own } = context.oidc;
          const grant = new own.Grant({ clientId: client?.clientId ?? '', accountId: session?.accountId ?? '' });
          grant.addOIDCScope('openid email profile groups');
          await grant.save();
          return grant;
        },
      });
      const callback = provider.callback();
      handle = (request, response) => {
        const url = new URL(request.url ?? '/', issuer);
        if (url.pathname === '/auth') running.asked = url.searchParams;
        if (!url.pathname.startsWith('/interaction/')) {
          // Drop the provider's own cookie, so that every visitor arrives signed out.
          if (url.pathname === '/auth') request.headers.cookie = '';
          void callback(request, response);
          return;
        }
        const { person } = running;
        if (person !== null) people.set(person.sub, person);
        void provider.interactionFinished(
          request,
          response,
          person === null ? { error: 'access_denied', error_description: 'no' } : { login: { accountId: person.sub } },
        );
      };
    },
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return running;
}
