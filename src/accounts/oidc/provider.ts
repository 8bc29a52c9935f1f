// The configured OpenID Connect provider, accessed through openid-client: authorization code flow with PKCE, state and
// nonce. The signatures of ID tokens are verified. Provider metadata is fetched when first needed, and again after an
// hour. One per thread; event-loop thread only.

import type * as client from 'openid-client';
import type { Config } from '../../config/settings.js';
import { StartError } from '../../shared/errors.js';
import { isLoopback } from '../../http/hosts.js';
import { claimAt } from './claimed-role.js';

const TIMEOUT_S = 10;
const FRESH_MS = 3_600_000;
const MAX_TEXT = 256;
/** Maximum response size. Metadata, keys and user info typically take a few thousand bytes. */
const MAX_ANSWER_BYTES = 1_048_576;

/** Secrets of one sign-in attempt, which bind the provider's response to the attempt. The browser stores them. */
export interface Asked {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** The provider's claims about a person. */
export interface Claims {
  readonly issuer: string;
  readonly subject: string;
  /** As received from the provider. */
  readonly email: string | null;
  /** Whether the provider has verified the email address. */
  readonly isEmailVerified: boolean;
  readonly name: string | null;
  /** The value of the claim that `oidc.roles` names, as received; undefined if the provider did not send it. */
  readonly role: unknown;
}

/** Thrown if the user or the provider refused the sign-in. Not a malfunction. */
export class Denied extends Error {}

export class OidcProvider {
  #known: { at: number; configuration: Promise<client.Configuration> } | null = null;

  private constructor(
    private readonly issuer: URL,
    private readonly settings: Config['oidc'] & { client_id: string },
  ) {}

  /** Null if no provider is configured. Throws StartError. */
  static of({ oidc }: Pick<Config, 'oidc'>): OidcProvider | null {
    const { issuer, client_id: clientId } = oidc;
    if (issuer === null) return null;
    if (clientId === null)
      throw new StartError('oidc.issuer also needs oidc.client_id, the client ID registered with the provider.');
    const url = new URL(issuer);
    if (url.protocol !== 'https:' && !isLoopback(url.hostname))
      throw new StartError(
        'oidc.issuer must be an https address unless the provider is on this machine; otherwise its responses could be modified in transit.',
      );
    return new OidcProvider(url, { ...oidc, client_id: clientId });
  }

  /**
   * Returns the URL to redirect the browser to, and the secrets to keep until the browser returns. Rejects if the
   * provider is unreachable.
   */
  async ask(redirectUri: string): Promise<{ url: URL; asked: Asked }> {
    const oidc = await import('openid-client');
    const configuration = await this.#configuration();
    const asked = { state: oidc.randomState(), nonce: oidc.randomNonce(), verifier: oidc.randomPKCECodeVerifier() };
    const url = oidc.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: [...new Set(['openid', 'email', 'profile', ...(this.settings.roles?.scopes ?? [])])].join(' '),
      state: asked.state,
      nonce: asked.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(asked.verifier),
      code_challenge_method: 'S256',
    });
    return { url, asked };
  }

  /**
   * `returned`: the callback URL that the browser requested, including its query string. Rejects with Denied if the
   * user or the provider refused, otherwise with the underlying error.
   */
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
    if (token.sub === '') throw new Error('the ID token has no subject');
    const rolePath = this.settings.roles?.claim;
    const roleOf = (document: unknown): unknown => (rolePath === undefined ? undefined : claimAt(document, rolePath));
    const isComplete = token['email'] !== undefined && (rolePath === undefined || roleOf(token) !== undefined);
    // Many providers include the email address or the groups only in the user info response.
    const more =
      isComplete || configuration.serverMetadata().userinfo_endpoint === undefined
        ? {}
        : await oidc.fetchUserInfo(configuration, tokens.access_token, token.sub);
    const claims: Record<string, unknown> = { ...more, ...token };
    // The email address and its verification status must come from the same document.
    const { email, email_verified: seen } = (token['email'] === undefined ? more : token) as Record<string, unknown>;
    return {
      issuer: token.iss,
      subject: token.sub,
      email: text(email),
      name: text(claims['name']) ?? text(claims['preferred_username']),
      isEmailVerified: seen === true || seen === 'true',
      role: roleOf(token) ?? roleOf(more),
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
      // The next call fetches the metadata again. Until that succeeds, the previous metadata is used.
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

/**
 * Sends the client secret in the header, which every provider must support, unless the provider lists only other
 * methods.
 */
function byEither(basic: client.ClientAuth, post: client.ClientAuth): client.ClientAuth {
  return (server, own, body, headers) => {
    const named = server.token_endpoint_auth_methods_supported;
    return (named === undefined || named.includes('client_secret_basic') ? basic : post)(server, own, body, headers);
  };
}

/**
 * Like fetch(), but with a size limit: responses are parsed as a whole, so an endless response would exhaust memory.
 */
async function boundedFetch(url: string, options: client.CustomFetchOptions): Promise<Response> {
  const response = await fetch(url, { ...options, body: options.body ?? null });
  if (response.body === null) return response;
  let left = MAX_ANSWER_BYTES;
  const bounded = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        left -= chunk.length;
        if (left < 0) controller.error(new Error(`the provider's response is larger than ${MAX_ANSWER_BYTES} bytes`));
        else controller.enqueue(chunk);
      },
    }),
  );
  return new Response(bounded, response);
}

const text = (value: unknown): string | null =>
  typeof value === 'string' && value !== '' && value.length <= MAX_TEXT ? value : null;
