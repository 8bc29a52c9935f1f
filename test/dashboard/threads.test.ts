// Tests that several HTTP workers act as one dashboard: they share sessions, rate limits and the first user.
import { Agent, request } from 'node:http';
import t from 'tap';
import { PASSWORD } from '../support/dashboard-client.js';
import { startDashboard } from '../support/dashboard-server.js';

t.setTimeout(300_000); // password hashing is slow on a busy machine

const dashboard = await startDashboard({ http: { threads: 2 } });
t.teardown(() => dashboard.close());

interface Answer {
  status: number;
  cookie: string | null;
  body: { user?: { operator: boolean }; csrf_token?: string; error?: { code: string } };
}

/** Sends each request on a new connection, because connections are distributed to the workers in turn. */
function ask(method: string, path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const sent = request(
      `${dashboard.url}/dashboard/api${path}`,
      {
        method,
        agent: new Agent(),
        headers: {
          origin: dashboard.url,
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
          connection: 'close',
          ...headers,
        },
      },
      (response) => {
        let read = '';
        response
          .setEncoding('utf8')
          .on('data', (piece: string) => {
            read += piece;
          })
          .on('end', () =>
            resolve({
              status: response.statusCode ?? 0,
              cookie: /^sid=([^;]*)/.exec(response.headers['set-cookie']?.[0] ?? '')?.[1] ?? null,
              body: JSON.parse(read) as Answer['body'],
            }),
          );
      },
    );
    sent.on('error', reject).end(text);
  });
}

t.test('across workers there is one first user, and each address signs up once', async (t) => {
  const made = await Promise.all(
    Array.from({ length: 6 }, (_, i) =>
      ask('POST', '/signup', { email: `user${i % 4}@example.com`, password: PASSWORD, name: 'A' }),
    ),
  );
  t.equal(made.filter(({ status }) => status === 200).length, 4);
  t.equal(made.filter(({ body }) => body.error?.code === 'email_taken').length, 2);
  t.equal(made.filter(({ body }) => body.user?.operator === true).length, 1);
});

t.test('a session starts and ends on all workers at the same time', async (t) => {
  for (let i = 0; i < 3; i++) {
    const { cookie } = await ask('POST', '/login', { email: 'user0@example.com', password: PASSWORD });
    const headers = { cookie: `sid=${cookie}` };
    const all = await Promise.all(Array.from({ length: 6 }, () => ask('GET', '/me', undefined, headers)));
    t.same(
      all.map(({ status }) => status),
      Array(6).fill(200),
    );
    t.equal(
      (await ask('POST', '/logout', undefined, { ...headers, 'x-csrf-token': all[0]?.body.csrf_token as string }))
        .status,
      200,
    );
    const after = await Promise.all(Array.from({ length: 6 }, () => ask('GET', '/me', undefined, headers)));
    t.same(
      after.map(({ status }) => status),
      Array(6).fill(401),
    );
  }
});

t.test('failed sign-ins are counted across workers', async (t) => {
  for (let i = 0; i < 7; i++) await dashboard.server.directory.attempts.count('login', ['email user1@example.com']);
  const tries = await Promise.all(
    Array.from({ length: 8 }, () =>
      ask('POST', '/login', { email: 'user1@example.com', password: 'guess guess guess' }),
    ),
  );
  t.equal(tries.filter(({ status }) => status === 401).length, 3);
  t.equal(tries.filter(({ status }) => status === 429).length, 5);
});
