// Tests reading request bodies: memory accounting of incomplete bodies, and freeing the memory of complete bodies.
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import type { Exchange, Route } from '../../src/http/exchange.js';
import { ParseQueue, type Task } from '../../src/http/parse-queue.js';
import { RequestMemoryBudget } from '../../src/http/request-memory-budget.js';
import { echoRoutes, errorOf, startRoutes } from './running-server.js';

t.test('one organization may use half of the memory budget, all organizations together all of it', async (t) => {
  const budget = new RequestMemoryBudget(1_000, 100);
  const first = budget.open('org_a'),
    second = budget.open('org_a'),
    other = budget.open('org_b'),
    third = budget.open('org_c');
  t.ok(first.add(400));
  t.ok(second.add(100));
  t.notOk(second.add(1), 'an organization cannot exceed its half');
  t.ok(other.add(450));
  t.notOk(third.add(51), 'all organizations together cannot exceed the budget');
  t.ok(third.add(50));
  t.equal(budget.taken, 1_000);
  first.release();
  first.release();
  t.equal(budget.taken, 600);
  t.ok(second.add(400), 'released memory is available again');
  for (const reading of [second, other, third]) reading.release();
  t.equal(budget.taken, 0);
  t.ok(new RequestMemoryBudget(1, 100).open('org_a').add(200), 'one body and its decompressed form always fit');
});

t.test('organizations that hold no memory are forgotten; others never are', async (t) => {
  const budget = new RequestMemoryBudget(1e6, 100);
  budget.open('org_holds').add(100);
  for (let number = 0; number < 5_000; number++) {
    const reading = budget.open(`org_${number}`);
    reading.add(1);
    reading.release();
  }
  t.ok(budget.organizations <= 1_025, `${budget.organizations} organizations are in memory`);
  t.equal(budget.taken, 100);
  t.ok(budget.open('org_holds').add(499_900));
  t.notOk(budget.open('org_holds').add(1), 'the remembered organization cannot exceed its half');
});

t.test('one large body is parsed per event-loop turn, in order, even if one fails', async (t) => {
  const turns = new ParseQueue();
  const done: string[] = [];
  const failures: unknown[] = [];
  process.once('uncaughtException', (error) => failures.push(error));
  for (const name of ['first', 'second'])
    turns.take('org_a', 1e6, () => {
      done.push(name);
    });
  turns.take('org_a', 1e6, () => {
    throw new Error('inside');
  });
  turns.take('org_a', 1e6, () => {
    done.push('last');
  });
  turns.take('org_a', 10, () => {
    done.push('small');
  });
  t.same(done, ['small'], 'a small body does not wait');
  setImmediate(() => done.push('somebody else'));
  for (let i = 0; i < 4_000 && done.length < 5; i++) await sleep(5);
  t.same(done, ['small', 'first', 'somebody else', 'second', 'last']);
  t.equal(failures.length, 1);
});

t.test('a sliced task ends before the next body starts, and other work runs between its slices', async (t) => {
  const turns = new ParseQueue();
  const done: string[] = [];
  const slices =
    (name: string, left: number): Task =>
    () => {
      done.push(`${name} ${left}`);
      return left === 0 ? undefined : slices(name, left - 1);
    };
  turns.take('org_a', 1e6, slices('large', 2));
  turns.take('org_b', 1e6, slices('other', 0));
  turns.take('org_a', 10, slices('small', 1));
  t.same(done, ['small 1', 'small 0'], 'a small body is processed in one go');
  setImmediate(() => done.push('somebody else'));
  for (let i = 0; i < 4_000 && done.length < 7; i++) await sleep(5);
  t.same(done.slice(2), ['large 2', 'somebody else', 'large 1', 'large 0', 'other 0']);
});

t.test(
  "a response in progress runs before its organization's next body, and other organizations get their turns",
  async (t) => {
    const turns = new ParseQueue();
    const done: string[] = [];
    const read =
      (name: string): Task =>
      () => {
        done.push(`read ${name}`);
        turns.resume('org_a', () => {
          done.push(`answer ${name}`);
        });
      };
    for (const name of ['first', 'second']) turns.take('org_a', 1e6, read(name));
    turns.take('org_b', 1e6, () => {
      done.push('other');
    });
    for (let i = 0; i < 4_000 && done.length < 5; i++) await sleep(5);
    t.same(done, ['read first', 'other', 'answer first', 'read second', 'answer second']);
  },
);

t.test(
  'a large body is validated in slices before it is served, and validation stops if its client disconnects',
  async (t) => {
    let steps = 0;
    let served = 0;
    const BUSY_MS = 2;
    const route: Route = {
      method: 'POST',
      path: '/v1/sliced',
      scope: 'inference',
      *validateInSlices() {
        for (let i = 0; i < 40; i++) {
          for (const end = performance.now() + BUSY_MS; performance.now() < end; );
          steps++;
          yield;
        }
      },
      handler(exchange) {
        served++;
        exchange.json(200, { steps });
      },
    };
    const server = await startRoutes([...echoRoutes, route]);
    t.teardown(() => server.close());
    const large = JSON.stringify({ a: 'x'.repeat(200_000) });
    t.same(
      await (await server.post('/v1/sliced', { a: 1 })).json(),
      { steps: 0 },
      'a small body is served immediately',
    );
    const answer = server.post('/v1/sliced', large);
    while (steps === 0) await sleep(1);
    t.ok(steps < 40, 'other requests are served between the slices');
    t.equal(served, 1);
    t.same(await (await answer).json(), { steps: 40 }, 'all slices are done before the request is served');
    const leaving = new AbortController();
    const left = server
      .fetch('/v1/sliced', {
        method: 'POST',
        body: large,
        headers: { 'content-type': 'application/json' },
        signal: leaving.signal,
      })
      .catch(() => null);
    while (steps === 40) await sleep(1);
    leaving.abort();
    await left;
    await sleep(40 * BUSY_MS * 2);
    t.ok(steps < 80, 'validation stops when the client has disconnected');
    t.equal(served, 2);
  },
);

t.test('a failure in a slice is reported, and the next body is processed', async (t) => {
  const route: Route = {
    method: 'POST',
    path: '/v1/failing',
    scope: 'inference',
    *validateInSlices() {
      yield;
      throw new Error('inside');
    },
    handler: (exchange) => exchange.json(200, {}),
  };
  const server = await startRoutes([...echoRoutes, route]);
  t.teardown(() => server.close());
  const large = JSON.stringify({ a: 'x'.repeat(200_000) });
  const failed = await server.post('/v1/failing', large);
  t.equal(failed.status, 500);
  t.equal((await errorOf(failed)).code, 'internal_error');
  t.equal((await server.post('/v1/chat/completions', large)).status, 200);
});

t.test('a server limits the memory of request bodies and frees them once read', async (t) => {
  let held: Exchange | undefined;
  let seen: unknown;
  let answer: () => void = () => undefined;
  const slow: Route = {
    method: 'POST',
    path: '/v1/slow',
    scope: 'inference',
    async handler(exchange) {
      held = exchange;
      seen = exchange.body;
      await new Promise<void>((resolve) => {
        answer = resolve;
      });
      exchange.json(200, {});
    },
  };
  const LIMIT = 65_536;
  const server = await startRoutes([...echoRoutes, slow], {
    http: { max_body_bytes: LIMIT, max_reading_bytes: 4 * LIMIT },
  });
  t.teardown(() => server.close());
  const head = (length: string): string =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\n${length}\r\n\r\n`;
  /** Yields to the server, which runs in this process. Does not depend on the clock. */
  const turns = async (): Promise<void> => {
    for (let i = 0; i < 10; i++) await sleep(5);
  };
  /** Starts sending a body that is never completed. */
  const unfinished = async (bytes: number): Promise<Socket> => {
    const socket = connect(server.port, '127.0.0.1').on('error', () => undefined);
    socket.write(head(`Content-Length: ${LIMIT}`));
    socket.write('x'.repeat(bytes));
    await turns();
    return socket;
  };

  t.test('incomplete bodies above the memory budget get 503 and the connection is closed', async (t) => {
    const waiting = [await unfinished(60_000), await unfinished(60_000)];
    const body = { a: 'x'.repeat(20_000) };
    const refused = await server.post('/v1/chat/completions', body);
    t.equal(refused.status, 503);
    t.equal((await errorOf(refused)).code, 'capacity_exhausted');
    t.equal(refused.headers.get('retry-after'), '1');
    t.equal(refused.headers.get('connection'), 'close');
    const gzip = { method: 'POST', body: gzipSync(JSON.stringify(body)), headers: { 'content-encoding': 'gzip' } };
    t.equal(
      (await server.fetch('/v1/chat/completions', gzip)).status,
      503,
      'decompressed bytes count toward the budget',
    );
    t.equal((await server.post('/v1/chat/completions', { a: 1 })).status, 200, 'a small body still fits');
    for (const socket of waiting) socket.destroy();
    await turns();
    t.equal((await server.post('/v1/chat/completions', body)).status, 200, 'aborted bodies hold no memory');
    for (let i = 0; i < 20; i++) t.equal((await server.fetch('/v1/chat/completions', gzip)).status, 200);
    t.equal(
      (await server.fetch('/v1/chat/completions', { ...gzip, body: gzip.body.subarray(0, -9) })).status,
      400,
      'truncated gzip data is refused',
    );
    const most = { ...gzip, body: gzipSync(JSON.stringify({ a: 'y'.repeat(LIMIT - 8) })) };
    for (let i = 0; i < 10; i++) t.equal((await server.fetch('/v1/chat/completions', most)).status, 200);
  });

  t.test('bodies in chunks of any length are read', async (t) => {
    const text = JSON.stringify({ a: Array.from({ length: 3_000 }, (_, index) => `é${index}`).join('') });
    const bytes = Buffer.from(text);
    let chunked = '';
    for (
      let at = 0, length = 1;
      at < bytes.length;
      at += length, length = length % 97 === 0 ? 1 : length + (at % 3 === 0 ? 1 : 0)
    ) {
      const piece = bytes.subarray(at, at + length);
      chunked += `${piece.length.toString(16)}\r\n${piece.toString('latin1')}\r\n`;
    }
    const reply = await server.raw(
      Buffer.from(`${head('Transfer-Encoding: chunked\r\nConnection: close')}${chunked}0\r\n\r\n`, 'latin1'),
      500,
    );
    t.equal(Buffer.from(reply.slice(reply.indexOf('\r\n\r\n') + 4), 'latin1').toString(), `{"echo":${text}}`);
  });

  t.test('a body is freed when the route has read it', async (t) => {
    const reply = server.post('/v1/slow', { a: 1 });
    for (let i = 0; i < 4_000 && held === undefined; i++) await sleep(5);
    t.same(seen, { a: 1 });
    t.equal(held?.body, undefined);
    answer();
    t.equal((await reply).status, 200);
  });
});
