// Tests that configured keys and headers are masked if an upstream repeats them in any form, and that other text is
// left unchanged.
import t from 'tap';
import { error, startGateway, startStandIn } from '../../support/stand-in.js';
import { masked, secretsIn } from '../../../src/generation/upstream/secrets.js';

const PASSWORD = 'p4ss/w&rd "x"',
  BASIC = Buffer.from(`robot:${PASSWORD}`).toString('base64');
const KEY = 'sk-upstream-secret-7f3a',
  SESSION = 'c0ffee-session-9911',
  SIGNATURE = 'f00dfacef00dface',
  TOKEN = 'ghp_Ab12Cd34Ef56Gh78';
const headers = {
  authorization: `Basic ${BASIC}`,
  cookie: `theme=dark; session=${SESSION}`,
  'x-signed': `Digest username="robot", response="${SIGNATURE}"`,
  'x-token': `Token ${TOKEN}`,
  'x-team': 'red',
};
const standIn = await startStandIn(() => undefined);
const gateway = await startGateway(
  { far: { upstream: { url: standIn.url, headers } }, keyed: { upstream: { url: standIn.url, key: KEY } } },
  { upstream: { retries: 0, breaker_failures: 1_000 } },
);
t.teardown(async () => {
  await gateway.close();
  await standIn.close();
});

/** The forms that a secret may have in a server's message. */
const forms = (secret: string): string[] => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  Buffer.from(secret).toString('base64'),
  Buffer.from(secret).toString('base64url'),
  Buffer.from(secret).toString('hex'),
  Buffer.from(secret).toString('hex').toUpperCase(),
  Buffer.from(`:${secret}`).toString('base64'),
  secret.replaceAll('&', '&amp;').replaceAll('"', '&quot;'),
];

t.test('masks every part of a credential header, in every form, in responses and in the log', async (t) => {
  const before = gateway.logs.length;
  for (const [model, secrets] of [
    [
      'far',
      [
        headers.authorization,
        BASIC,
        `robot:${PASSWORD}`,
        PASSWORD,
        SESSION,
        headers.cookie,
        SIGNATURE,
        headers['x-token'],
        TOKEN,
      ],
    ],
    ['keyed', [KEY]],
  ] as const) {
    for (const secret of secrets) {
      for (const form of forms(secret)) {
        const shown = `bad value ${form}, sorry`;
        for (const say of [
          error(400, { error: { message: shown } }),
          error(400, { detail: shown }),
          error(200, { error: { message: shown, code: 400 } }),
        ]) {
          standIn.say = say;
          const { error: told } = (await (
            await gateway.post('/v1/chat/completions', {
              model,
              messages: [{ role: 'user', content: 'q' }],
              max_tokens: 5,
            })
          ).json()) as { error: { message: string } };
          t.notOk(told.message.includes(form), form);
          t.match(told.message, /bad value .*…/);
          t.match(told.message, /sorry$/, 'no other text is masked');
        }
      }
    }
  }
  const logs = gateway.logs.slice(before).join('\n');
  for (const secret of [BASIC, PASSWORD, SESSION, SIGNATURE, TOKEN, KEY])
    t.notOk(logs.includes(secret), 'the secret is not logged');
});

t.test('masks a shortened secret as well', async (t) => {
  const secrets = secretsIn([`Basic ${BASIC}`, KEY]);
  t.equal(masked(`got ${BASIC.slice(0, 14)}***`, secrets), 'got …***');
  t.match(masked('Incorrect API key provided: sk-up***7f3a', secrets), /^Incorrect API key provided: …$/);
});

t.test('does not mask scheme names and short values', async (t) => {
  const secrets = secretsIn(Object.values(headers));
  t.equal(
    masked('Basic or Bearer authorization is required. Use a token.', secrets),
    'Basic or Bearer authorization is required. Use a token.',
  );
  t.equal(masked('max_tokens must be below 500, dark matter', secrets), 'max_tokens must be below 500, dark matter');
});
