// The provider of OpenID Connect that the settings name, over openid-client: authorization code flow with PKCE, state and
// nonce, ID tokens verified by signature too. What it publishes of itself is fetched when it is first needed, and again
// when it is an hour old. One per thread; event-loop thread only.

import type * as client from 'openid-client';
import type { Config } from '../../config/settings.js';
import { StartError } from '../../shared/errors.js';
import { isLoopback } from '../../http/hosts.js';

const TIMEOUT_S = 10;
const FRESH_MS = 3_600_000;
const MAX_TEXT = 256;
/** What a provider says of itself, its keys or a person has a few thousand. */
const MAX_ANSWER_BYTES = 1_048_576;

/** What goes with a browser to the provider and comes back: three secrets that make the answer its own. */
export interface Asked {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

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

  private constructor(
    private readonly issuer: URL,
    private readonly settings: Config['oidc'] & { client_id: string },
  ) {}

  /** Null where the settings name none. Throws StartError. */
  static of({ oidc }: Pick<Config, 'oidc'>): OidcProvider | null {
    const { issuer, client_id: clientId } = oidc;
    if (issuer === null) return null;
    if (clientId === null)
      throw new StartError(
        'oidc.issuer needs oidc.client_id as well: the name under which the provider knows this server.',
      );
    const url = new URL(issuer);
    if (url.protocol !== 'https:' && !isLoopback(url.hostname))
      throw new StartError(
        "oidc.issuer must be https, but for a provider on this machine: what it says would be anybody's to change.",
      );
    return new OidcProvider(url, { ...oidc, client_id: clientId });
  }

  /** Where the browser is to go, and what has to be kept for its return. Rejects if the provider cannot be reached. */
  async ask(redirectUri: string): Promise<{ url: URL; asked: Asked }> {
    const oidc = await import('openid-client');
    const configuration = await this.#configuration();
    const asked = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() };
    const url = oidc.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: 'openid email profile',
      state: asked.state,
      nonce: asked.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(asked.verifier),
      code_challenge_method: 'S256',
    });
    return { url, asked };
  }

  /** `returned`: the address the browser came back to, the query included. Rejects with Denied, or with what is wrong. */
  async answer(returned: URL, { state, nonce, verifier }: Asked): Promise<Claims> {
    const oidc = await import('openid-client');
    const configuration = await this.#configuration();
    if (returned.searchParams.get('error') === 'access_denied' && returned.searchParams.get('state') === state)
      throw new Denied('access_denied');
    const tokens = await oidc.authorizationCodeGrant(configuration, returned, {
      pkceCodeVerifier: verifier,
      expectedState: state,
      expectedNonce: nonce,
      idTokenExpected: true,
    });
    const token = tokens.claims();
    if (token === undefined) throw new Error('the provider sent no ID token');
    if (token.sub === '') throw new Error('the ID token names nobody');
    // Many providers put the address into the other document only.
    const more =
      token['email'] !== undefined || configuration.serverMetadata().userinfo_endpoint === undefined
        ? {}
        : await oidc.fetchUserInfo(configuration, tokens.access_token, token.sub);
    const claims: Record<string, unknown> = { ...more, ...token };
    // What one document has seen of an address says nothing of the other's.
    const { email, email_verified: seen } = (token['email'] === undefined ? more : token) as Record<string, unknown>;
    return {
      issuer: token.iss,
      subject: token.sub,
      email: text(email),
      name: text(claims['name']) ?? text(claims['preferred_username']),
      isEmailVerified: seen === true || seen === 'true',
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
    const configuration = await oidc.discovery(
      this.issuer,
      id,
      undefined,
      secret === null ? oidc.None() : byEither(oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)),
      {
        timeout: TIMEOUT_S,
        [oidc.customFetch]: boundedFetch,
        execute: this.issuer.protocol === 'https:' ? [] : [oidc.allowInsecureRequests],
      },
    );
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

/** As fetch(): an answer is parsed as a whole, so one that does not end would be the end of the memory. */
async function boundedFetch(url: string, options: client.CustomFetchOptions): Promise<Response> {
  const response = await fetch(url, { ...options, body: options.body ?? null });
  if (response.body === null) return response;
  let left = MAX_ANSWER_BYTES;
  const bounded = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        left -= chunk.length;
        if (left < 0) controller.error(new Error(`the provider's answer has more than ${MAX_ANSWER_BYTES} bytes`));
        else controller.enqueue(chunk);
      },
    }),
  );
  return new Response(bounded, response);
}

const text = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' && value.length <= MAX_TEXT ? value : null;
