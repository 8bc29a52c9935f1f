// Tests an OpenID Connect provider whose responses are faulty: endless, without a subject, contradictory about the
// email address, or an error object with extra fields. The tokens themselves are signed correctly.
import { generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // the machine may be busy

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const signed = (claims: object): string => {
  const text = `${part({ alg: 'RS256', kid: 'k' })}.${part(claims)}`;
  return `${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`;
};

let nonce = '';
const idToken = (claims: object): string =>
  signed({
    iss: issuer,
    aud: 'monolith',
    iat: Math.floor(Date.now() / 1000),
    exp: Math.floor(Date.now() / 1000) + 300,
    nonce,
    ...claims,
  });
const tokens = (claims: object): object => ({
  access_token: 'an-access-token',
  token_type: 'Bearer',
  id_token: idToken(claims),
});
const json = (response: ServerResponse, body: object, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};
let answerToken: (response: ServerResponse) => void = () => undefined;
let person: object = {};

const http = createServer((request, response) => {
  response.on('error', () => undefined);
  switch (new URL(request.url ?? '/', issuer).pathname) {
    case '/.well-known/openid-configuration':
      return json(response, {
        issuer,
        authorization_endpoint: `${issuer}/auth`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        userinfo_endpoint: `${issuer}/person`,
        response_types_supported: ['code'],
        id_token_signing_alg_values_supported: ['RS256'],
      });
    case '/keys':
      return json(response, { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k', alg: 'RS256', use: 'sig' }] });
    case '/person':
      return json(response, person);
    default:
      return answerToken(response);
  }
});
await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
t.teardown(() => {
  http.close();
  http.closeAllConnections();
});

const dashboard = await startDashboard({
  oidc: { issuer, client_id: 'monolith', client_secret: 'a secret of the provider', signup: 'open' },
});
t.teardown(() => dashboard.close());
await dashboard.client().signUp({ email: 'operator@example.com' });

/** Signs in through the provider and returns the path of the last redirect. */
async function come(): Promise<string> {
  const start = await fetch(`${dashboard.url}/dashboard/api/oidc/start`, { redirect: 'manual' });
  const asked = new URL(start.headers.get('location') ?? '').searchParams;
  nonce = asked.get('nonce') ?? '';
  const end = await fetch(
    `${dashboard.url}/dashboard/api/oidc/callback?code=the-code&state=${asked.get('state') ?? ''}`,
    {
      redirect: 'manual',
      headers: { cookie: start.headers.getSetCookie()[0]?.split(';')[0] ?? '' },
    },
  );
  return end.headers.get('location') ?? '';
}
const FAILED = '/dashboard/signin?oidc=failed';

t.test('a correct response signs the user in', async (t) => {
  answerToken = (response) => json(response, tokens({ sub: 'a', email: 'a@example.com', email_verified: true }));
  t.equal(await come(), '/dashboard/');
});

t.test('an endless token response is cut off and the sign-in fails', async (t) => {
  const CHUNK = Buffer.alloc(1 << 20, ' ');
  let sent = 0;
  answerToken = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const go = (): void => {
      while (sent < 256 && !response.destroyed) {
        sent++;
        if (!response.write(CHUNK)) return void response.once('drain', go);
      }
      response.end('{}');
    };
    go();
  };
  t.equal(await come(), FAILED);
  t.ok(sent < 64, `${sent} MiB were sent before the connection was closed`);
  t.match(dashboard.logs.at(-1), /larger than 1048576 bytes/);
});

t.test('an ID token with an empty subject is refused', async (t) => {
  answerToken = (response) => json(response, tokens({ sub: '', email: 'a@example.com', email_verified: true }));
  t.equal(await come(), FAILED, 'all users with an empty subject would share one account');
});

t.test('an email address counts as verified only if the document that contains it says so', async (t) => {
  answerToken = (response) => json(response, tokens({ sub: 'b', email_verified: true }));
  person = { sub: 'b', email: 'a@example.com', email_verified: false };
  t.equal(await come(), '/dashboard/signin?oidc=no_email');
  person = { sub: 'b', email: 'b@example.com', email_verified: true };
  t.equal(await come(), '/dashboard/');
});

t.test('a token response that is not JSON fails without its content in the log', async (t) => {
  answerToken = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('secret-42 is the token');
  };
  t.equal(await come(), FAILED);
  const said = dashboard.logs.at(-1) ?? '';
  t.match(said, /failed to parse .*response.* body as JSON/);
  t.notMatch(said, /secret/, "the JSON parser's error message contains the first words of the response");
});

t.test('an error response is logged in shortened form and without tokens', async (t) => {
  answerToken = (response) =>
    json(
      response,
      { error: 'invalid_grant', error_description: `not good ${'x'.repeat(100_000)}`, access_token: 'an-access-token' },
      400,
    );
  t.equal(await come(), FAILED);
  const said = dashboard.logs.at(-1) ?? '';
  t.match(said, /invalid_grant: not good/);
  t.notMatch(said, /an-access-token/);
  t.ok(said.length < 2_000, `${said.length} characters in the log line`);
  t.notMatch(dashboard.logs.join(''), /the-code|a secret of the provider/);
});
