// The provider of OpenID Connect that the settings name, over openid-client: authorization code flow with PKCE, state and
// nonce, ID tokens verified by signature too. What it publishes of itself is fetched when it is first needed, and again
// when it is an hour old. One per thread; event-loop thread only.

import type * as client from 'openid-client';
import type { Config } from '../config/settings.js';
import { StartError } from '../errors.js';
import { isLoopback } from '../http/hosts.js';

const TIMEOUT_S = 10;
const FRESH_MS = 3_600_000;
const MAX_TEXT = 256;

/** What goes with a browser to the provider and comes back: three secrets that make the answer its own. */
export interface Asked { readonly state: string; readonly nonce: string; readonly verifier: string }

/** Whom the provider says somebody is. */
export interface Claims {
  readonly issuer: string;
  readonly subject: string;
  /** As it came. */
  readonly email: string | null;
  /** The provider has seen that the address is theirs. */
  readonly isEmailVerified: boolean;
  readonly name: string | null;
}

/** The person said no, or the provider did: no failure of anybody. */
export class Denied extends Error {}

export class OidcProvider {
  #known: { at: number; configuration: Promise<client.Configuration> } | null = null;

  private constructor(private readonly issuer: URL, private readonly settings: Config['oidc'] & { client_id: string }) {}

  /** Null where the settings name none. Throws StartError. */
  static of({ oidc }: Pick<Config, 'oidc'>): OidcProvider | null {
    const { issuer, client_id: clientId } = oidc;
    if (issuer === null) return null;
    if (clientId === null) throw new StartError('oidc.issuer needs oidc.client_id as well: the name under which the provider knows this server.');
    const url = new URL(issuer);
    if (url.protocol !== 'https:' && !isLoopback(url.hostname)) throw new StartError('oidc.issuer must be https, but for a provider on this machine: what it says would be anybody\'s to change.');
    return new OidcProvider(url, { ...oidc, client_id: clientId });
  }

  /** Where the browser is to go, and what has to be kept for its return. Rejects if the provider cannot be reached. */
  async ask(redirectUri: string): Promise<{ url: URL; asked: Asked }> {
    const oidc = await import('openid-client');
    const configuration = await this.#configuration();
    const asked = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() };
    const url = oidc.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri, scope: 'openid email profile', state: asked.state, nonce: asked.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(asked.verifier), code_challenge_method: 'S256',
    });
    return { url, asked };
  }

  /** `returned`: the address the browser came back to, the query included. Rejects with Denied, or with what is wrong. */
  async answer(returned: URL, { state, nonce, verifier }: Asked): Promise<Claims> {
    const oidc = await import('openid-client');
    const configuration = await this.#configuration();
    if (returned.searchParams.get('error') === 'access_denied' && returned.searchParams.get('state') === state) throw new Denied('access_denied');
    const tokens = await oidc.authorizationCodeGrant(configuration, returned, { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true });
    const token = tokens.claims();
    if (token === undefined) throw new Error('the provider sent no ID token');
    // Many providers put the address into the other document only.
    const more = token['email'] !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined ? {} : await oidc.fetchUserInfo(configuration, tokens.access_token, token.sub);
    const claims: Record<string, unknown> = { ...more, ...token };
    return {
      issuer: token.iss, subject: token.sub, email: text(claims['email']), name: text(claims['name']) ?? text(claims['preferred_username']),
      isEmailVerified: claims['email_verified'] === true || claims['email_verified'] === 'true',
    };
  }

  async #configuration(): Promise<client.Configuration> {
    const now = Date.now();
    const known = this.#known;
    if (known !== null && now - known.at < FRESH_MS) return known.configuration;
    const configuration = this.#discover();
    this.#known = { at: now, configuration };
    try {
      return await configuration;
    } catch (error) {
      // The next one asks again; what was known before goes on.
      this.#known = known;
      if (known !== null) return known.configuration;
      throw error;
    }
  }

  async #discover(): Promise<client.Configuration> {
    const oidc = await import('openid-client');
    const { client_id: id, client_secret: secret } = this.settings;
    const configuration = await oidc.discovery(this.issuer, id, undefined, secret === null ? oidc.None() : byEither(oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)), {
      timeout: TIMEOUT_S, execute: this.issuer.protocol === 'https:' ? [] : [oidc.allowInsecureRequests],
    });
    oidc.enableNonRepudiationChecks(configuration);
    return configuration;
  }
}

/** How the secret is sent: in the header, which is what every provider has to take, but for those that name other ways only. */
function byEither(basic: client.ClientAuth, post: client.ClientAuth): client.ClientAuth {
  return (server, own, body, headers) => {
    const named = server.token_endpoint_auth_methods_supported;
    return (named === undefined || named.includes('client_secret_basic') ? basic : post)(server, own, body, headers);
  };
}

const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' && value.length <= MAX_TEXT ? value : null);
