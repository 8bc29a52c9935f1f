// Tests limits shared by several processes, step by step on a real Redis: what each process sees, which limits apply
// while Redis is unreachable, and that usage during that time is neither lost nor refunded twice.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import type { Admission, Limited, Reservation, ReserveRequest } from '../../src/admission/admission.js';
import { COUNTER_BYTES } from '../../src/admission/counter-memory.js';
import { openAdmission, type OpenOptions } from '../../src/admission/open-admission.js';
import { SCRIPTS } from '../../src/admission/shared/scripts.js';
import type { CountersNews } from '../../src/admission/shared/shared-admission.js';
import { configWith } from '../../src/config/load.js';
import { ApiError } from '../../src/shared/errors.js';
import { eventually } from '../e2e/monolith.js';
import { freePort } from '../support/free-port.js';
import { startRedis, withoutRedis, type OwnRedis } from '../support/redis.js';

t.setTimeout(300_000); // the machine may be busy

const ORG: Limited = { organizationId: 'org_a', limits: {}, keyId: 'key_a', keyLimits: null, monthlyTokenCap: null };
const ask = (more: Partial<Omit<ReserveRequest, 'promptTokens'>> & { promptTokens?: number } = {}): ReserveRequest => ({
  identity: ORG,
  model: 'm',
  statedCap: 50,
  modelMaximum: 8_192,
  n: 1,
  ...more,
  promptTokens: { tokens: more.promptTokens ?? 50, exact: true },
});
const admit = async (admission: Admission, more: Parameters<typeof ask>[0] = {}): Promise<Reservation> =>
  admission.reserve(ask(more));
const left = (headers: readonly [string, string][], what: string): number =>
  Number(Object.fromEntries(headers)[`x-ratelimit-remaining-${what}`]);
const leftOf = async (admission: Admission, what: string): Promise<number> =>
  left(await admission.headers(ORG, 'm', 'chat'), what);

async function refusal(work: () => Promise<unknown>): Promise<ApiError> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('expected a refusal, but the request was admitted');
}

/** Admits requests until a limit refuses a request. */
async function fill(admission: Admission, more: Parameters<typeof ask>[0] = {}): Promise<Reservation[]> {
  const all: Reservation[] = [];
  for (;;) {
    try {
      all.push(await admit(admission, more));
    } catch (error) {
      if (error instanceof ApiError) return all;
      throw error;
    }
  }
}

t.test('limits are shared between processes through Redis', { skip: withoutRedis }, async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  let number = 0;

  /** Creates several processes that share a new, separate set of counters. */
  async function processes(
    t: Test,
    count: number,
    settings: { limits?: object; redis?: object; more?: Partial<OpenOptions>; at?: OwnRedis } = {},
  ): Promise<{ all: Admission[]; news: CountersNews[] }> {
    const prefix = `t${number++}`;
    const news: CountersNews[] = [];
    const config = configWith({
      limits: { rpm: null, tpm: null, concurrency: null, ...settings.limits },
      redis: { url: (settings.at ?? redis).url, prefix, timeout_ms: 1_000, lease_ms: 1_500, ...settings.redis },
    });
    const all: Admission[] = [];
    t.teardown(() => Promise.all(all.map((one) => one.close())));
    for (let at = 0; at < count; at++) {
      all.push(
        await openAdmission(config, {
          process: `p${at}`,
          thread: 0,
          buffer: new SharedArrayBuffer(COUNTER_BYTES),
          storedMonth: () => Promise.resolve(0),
          report: (one) => news.push(one),
          ...settings.more,
        }),
      );
    }
    // the reply from Redis includes the number of processes
    for (const [at, one] of all.entries()) (await admit(one, { model: `other ${at}` })).refund();
    t.ok(
      await eventually(() => all.every((one) => one.health()?.processes === count)),
      'the processes know of each other',
    );
    return { all, news };
  }
  const pair = async (t: Test, count: 2, settings: Parameters<typeof processes>[2]): Promise<[Admission, Admission]> =>
    (await processes(t, count, settings)).all as [Admission, Admission];
  const away = (all: readonly Admission[]): Promise<boolean> =>
    eventually(() => all.every((one) => one.health()?.state === 'away'));
  const back = (all: readonly Admission[]): Promise<boolean> =>
    eventually(() => all.every((one) => one.health()?.state === 'shared'));

  await t.test('a reservation is visible to the other process, and a refusal changes no counter', async (t) => {
    const [one, other] = await pair(t, 2, { limits: { rpm: 3, tpm: 600, concurrency: 2 } });
    const first = await admit(one);
    t.equal(left(first.headers('chat'), 'requests'), 2);
    t.equal(left(first.headers('chat'), 'tokens'), 500);
    const second = await admit(other);
    t.match(Object.fromEntries(second.headers('messages')), {
      'anthropic-ratelimit-requests-remaining': '1',
      'anthropic-ratelimit-tokens-remaining': /^40\d$/,
      'anthropic-ratelimit-concurrency-remaining': '0',
    });
    const full = await refusal(() => admit(one));
    t.match(full, {
      status: 429,
      code: 'concurrency_limit_exceeded',
      message: /unfinished requests on m; the limit is 2/,
      retryAfterMs: 1_000,
    });
    t.match(await refusal(() => admit(one, { n: 3 })), {
      code: 'concurrency_limit_exceeded',
      message: /3 choices, which run concurrently/,
      retryAfterMs: 60_000,
    });
    t.equal(await leftOf(one, 'requests'), 1, 'refused requests were not counted');
    first.settle(10);
    second.refund();
    second.settle(600);
    t.ok(
      await eventually(async () => (await leftOf(other, 'requests')) === 2 && (await leftOf(other, 'tokens')) >= 590),
      'one reservation is refunded and the other settled with 10 tokens',
    );
    t.equal(await leftOf(one, 'concurrency'), 2);
    t.match(await refusal(() => admit(other, { promptTokens: 601 })), {
      code: 'request_exceeds_tpm_limit',
      shouldRetry: false,
    });
    t.match(await refusal(() => admit(other, { promptTokens: 600 })), { code: 'tpm_limit_exceeded' });
    (await admit(one)).settle(100);
    (await admit(other)).settle(100);
    const tired = await refusal(() => admit(one));
    t.match(tired, { code: 'rpm_limit_exceeded' });
    t.ok((tired.retryAfterMs ?? 0) > 15_000 && (tired.retryAfterMs ?? 0) <= 20_000, `${tired.retryAfterMs} ms`);
    t.match(await one.standing(ORG, 'm'), {
      unfinished: 0,
      state: { requests: { limit: 3, remaining: 0 }, concurrency: { limit: 2, remaining: 2 } },
    });
  });

  await t.test('an end that is reported twice because the reply was lost is applied only once', async (t) => {
    const [one] = await pair(t, 2, { limits: { tpm: 10_000 } });
    await admit(one, { statedCap: 950 });
    await admit(one, { statedCap: 950 });
    const client = redis.client();
    let leases = '';
    for (const key of await client.keys(`t${number - 1}:c:*`)) if ((await client.zcard(key)) === 2) leases = key;
    const bucket = leases.replace(':c:', ':b:');
    const [member] = (await client.zrange(leases, '0', '0')) as [string];
    const tell = (): Promise<unknown> =>
      client.eval(
        SCRIPTS.settle,
        3,
        'no-month',
        bucket,
        leases,
        member.replace(/\.1$/, ''),
        1,
        1,
        100,
        -1,
        -1,
        900,
        10_000,
      );
    const fullAt = async (): Promise<number> => Number(await client.hget(bucket, 't'));
    const before = await fullAt();
    t.equal(await tell(), 1);
    const after = await fullAt();
    t.ok(after < before, 'the unused tokens were returned');
    t.equal(await tell(), 0);
    t.equal(await fullAt(), after, 'the tokens were returned once');
  });

  await t.test("a key's own limits are a second scope, and a refusal takes nothing from either scope", async (t) => {
    const [one, other] = await pair(t, 2, { limits: { concurrency: 10, rpm: 10 } });
    const identity: Limited = { ...ORG, keyId: 'key_b', keyLimits: { m: { concurrency: 1, rpm: 2 } } };
    const first = await admit(one, { identity });
    t.equal(left(first.headers('chat'), 'concurrency'), 0, 'headers show the tighter limit');
    t.match(await refusal(() => admit(other, { identity })), {
      code: 'concurrency_limit_exceeded',
      message: /This API key/,
    });
    first.settle(1);
    // The end of the request and the next request use different connections, so their order is not defined.
    t.ok(
      await eventually(() =>
        admit(other, { identity }).then(
          (next) => {
            next.settle(1);
            return true;
          },
          () => false,
        ),
      ),
    );
    t.ok(await eventually(async () => (await leftOf(one, 'concurrency')) === 10));
    t.match(await refusal(() => admit(one, { identity })), { code: 'rpm_limit_exceeded', message: /this API key/ });
    t.equal(await leftOf(one, 'requests'), 8);
  });

  await t.test("a month's stored total is looked up once, and use by any process counts for all", async (t) => {
    const looked: string[] = [];
    const [one, other] = await pair(t, 2, {
      more: {
        storedMonth: async (id, month) => {
          looked.push(`${id} ${month}`);
          return 900;
        },
      },
    });
    const identity = { ...ORG, monthlyTokenCap: 1_000 };
    const [first, second] = await Promise.all([admit(one, { identity }), admit(one, { identity })]);
    t.same(looked, [`org_a ${new Date().toISOString().slice(0, 7)}`]);
    first.settle(60);
    second.settle(39);
    (await admit(other, { identity })).settle(1);
    t.ok(
      await eventually(async () =>
        admit(one, { identity }).then(
          (more) => {
            more.refund();
            return false;
          },
          (error: ApiError) => error.code === 'insufficient_quota',
        ),
      ),
    );
    t.match(await refusal(() => admit(other, { identity })), {
      code: 'insufficient_quota',
      shouldRetry: false,
      message: /1000 tokens/,
    });
    t.equal(looked.length <= 2, true, 'one lookup is for the shared count and one for the count of this process');
  });

  await t.test('without Redis, each process admits only its share, and running requests count', async (t) => {
    const own = await startRedis();
    t.teardown(() => own.stop());
    const { all, news } = await processes(t, 3, { at: own, limits: { rpm: 600, concurrency: 8 } });
    const [one, two, three] = all as [Admission, Admission, Admission];
    const early = [await admit(one), await admit(one)];
    await own.kill();
    t.ok(await away(all));
    t.match(one.health(), { state: 'away', policy: 'share', processes: 3 });
    const [alone, second, third] = [await fill(one), await fill(two), await fill(three)];
    t.same([alone.length + 2, second.length, third.length], [3, 3, 2], 'eight slots are divided into three shares');
    t.equal(left(alone[0]!.headers('chat'), 'concurrency'), 0);
    t.match(await refusal(() => admit(three)), { code: 'concurrency_limit_exceeded', message: /the limit is 2/ });
    early[0]!.settle(10);
    alone[0]!.settle(10);
    t.same((await fill(one)).length, 2, "slots freed during the outage remain part of the process's share");
    t.equal(news.filter(({ type }) => type === 'away').length, 3, 'each process reports the outage once');

    await own.start();
    t.ok(await back(all));
    t.equal(news.filter(({ type }) => type === 'back').length, 3);
    t.ok(
      await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 8),
      'requests admitted before and during the outage are reported to Redis again',
    );
    t.match(await refusal(() => admit(two)), { code: 'concurrency_limit_exceeded', message: /the limit is 8/ });
    for (const reservation of [...early, ...alone, ...second, ...third]) reservation.settle(10);
    t.ok(
      await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 2),
      'all but the last two requests have ended',
    );
  });

  await t.test('buckets keep their level, both in the share and in a Redis that has lost its data', async (t) => {
    const own = await startRedis();
    t.teardown(() => own.stop());
    const { all } = await processes(t, 2, { at: own, limits: { rpm: 100 } });
    const [one, two] = all as [Admission, Admission];
    for (let i = 0; i < 40; i++) (await admit(one)).settle(1);
    (await admit(two)).settle(1);
    for (let i = 0; i < 60; i++) (await admit(two, { model: 'quiet' })).settle(1);
    const before = await leftOf(one, 'requests'); // of 100
    await own.kill();
    t.ok(await away(all));
    const shares = [(await fill(one)).length, (await fill(two)).length];
    for (const share of shares)
      t.ok(
        share >= Math.floor(before / 2) - 1 && share <= before / 2 + 6,
        `${share} more were admitted with ${before} of 100 remaining`,
      );
    await own.start();
    t.ok(await back(all));
    t.ok((await leftOf(two, 'requests')) < 12, 'the shared bucket is just as empty as the shares were');
    t.ok(
      left(await one.headers(ORG, 'quiet', 'chat'), 'requests') < 80,
      'a model without requests during the outage keeps its level too',
    );
  });

  await t.test(
    'requests that end during the outage are settled once afterwards, even if Redis kept its data',
    async (t) => {
      const own = await startRedis();
      t.teardown(() => own.stop());
      const { all } = await processes(t, 2, {
        at: own,
        limits: { tpm: 100_000, concurrency: 20 },
        redis: { timeout_ms: 1_500, lease_ms: 60_000 },
      });
      const [one, two] = all as [Admission, Admission];
      const running = [
        await admit(one, { statedCap: 9_950 }),
        await admit(one, { statedCap: 9_950 }),
        await admit(one, { statedCap: 9_950 }),
      ];
      t.ok((await leftOf(two, 'tokens')) < 75_000);
      own.pause();
      const began = performance.now();
      const late = await admit(one);
      t.ok(performance.now() - began >= 1_490, 'the request tried Redis first');
      t.ok(
        performance.now() - began < 10_000,
        `it did not wait longer than the timeout: ${Math.round(performance.now() - began)} ms`,
      );
      const again = performance.now();
      (await admit(one)).settle(50);
      t.ok(performance.now() - again < 1_000, 'the next request does not wait for Redis');
      running[0]!.settle(50);
      running[1]!.refund();
      own.resume();
      t.ok(await back([one]));
      t.ok(
        await eventually(async () => (await two.standing(ORG, 'm')).unfinished === 2),
        'one request is still running and one was admitted locally',
      );
      running[2]!.settle(10_000);
      late.settle(100);
      t.ok(await eventually(async () => (await two.standing(ORG, 'm')).unfinished === 0));
      const tokens = await leftOf(two, 'tokens');
      t.ok(tokens >= 89_000 && tokens < 99_990, `${tokens} of 100,000 are left`);
    },
  );

  await t.test(
    'more requests than fit into one call are reported in batches: running ones are restored and ended ones removed',
    async (t) => {
      const own = await startRedis();
      t.teardown(() => own.stop());
      const called = new Map<string, number>();
      const { all } = await processes(t, 1, {
        at: own,
        limits: { tpm: 1_000_000, concurrency: 1_000 },
        redis: { lease_ms: 60_000 },
        more: {
          called: (script, outcome) => {
            called.set(`${script} ${outcome}`, (called.get(`${script} ${outcome}`) ?? 0) + 1);
          },
        },
      });
      const [one] = all as [Admission];
      const running = await Promise.all(Array.from({ length: 600 }, () => admit(one)));
      t.equal((await one.standing(ORG, 'm')).unfinished, 600);
      called.clear();
      await own.kill();
      t.ok(await away(all));
      await own.start();
      t.ok(await back(all));
      t.equal((await one.standing(ORG, 'm')).unfinished, 600, 'all running requests are counted again');
      t.ok((called.get('hold answered') ?? 0) >= 3, `in batches: ${[...called].join('; ')}`);
      t.ok((called.get('hold answered') ?? 0) <= 12, 'each batch has several hundred requests');
      await own.kill();
      t.ok(await away(all));
      for (const reservation of running.slice(0, 590)) reservation.settle(50);
      await own.start();
      t.ok(await back(all));
      t.ok(
        await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 10),
        'all requests that ended during the outage are removed',
      );
      for (const reservation of running.slice(590)) reservation.settle(50);
      t.ok(await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 0));
    },
  );

  await t.test('without a Redis in the settings, limits are counted locally', async (t) => {
    const here = await openAdmission(configWith({ limits: { concurrency: 1 } }), {
      process: 'p',
      thread: 0,
      buffer: new SharedArrayBuffer(COUNTER_BYTES),
      storedMonth: () => Promise.resolve(0),
      report: () => undefined,
    });
    t.equal(here.health(), null);
    t.notOk(here.reserve(ask()) instanceof Promise);
    t.match(await refusal(() => admit(here)), { code: 'concurrency_limit_exceeded' });
    await here.close();
  });

  await t.test('the `refuse` policy admits nothing without Redis and recovers without a restart', async (t) => {
    const own = await startRedis();
    t.teardown(() => own.stop());
    const { all } = await processes(t, 1, { at: own, redis: { when_unavailable: 'refuse' } });
    const [one] = all as [Admission];
    const running = await admit(one);
    await own.kill();
    t.ok(await away(all));
    t.match(await refusal(() => admit(one)), { status: 503, code: 'capacity_exhausted', retryAfterMs: 1_000 });
    running.settle(10);
    await own.start();
    t.ok(await back(all));
    (await admit(one)).refund();
    t.ok(await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 0));
  });

  await t.test(
    "during an outage, a process may use its share of a month's remaining tokens, never the whole cap again",
    async (t) => {
      const own = await startRedis();
      t.teardown(() => own.stop());
      const { all } = await processes(t, 2, { at: own, more: { storedMonth: () => Promise.resolve(800) } });
      const [one, two] = all as [Admission, Admission];
      const identity = { ...ORG, monthlyTokenCap: 1_000 };
      (await admit(one, { identity })).settle(60);
      t.ok(await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 0));
      await admit(two, { identity });
      await own.kill();
      t.ok(await away(all));
      (await admit(two, { identity })).settle(69);
      (await admit(two, { identity })).settle(1);
      t.match(
        await refusal(() => admit(two, { identity })),
        { status: 503, code: 'capacity_exhausted', message: /share of its 1000 tokens/ },
        'the process may use 70 of the 140 remaining tokens',
      );
      (await admit(two)).refund();
    },
  );

  await t.test('monthly use during an outage is reported once afterwards', async (t) => {
    const own = await startRedis();
    t.teardown(() => own.stop());
    const { all } = await processes(t, 2, {
      at: own,
      redis: { timeout_ms: 300, lease_ms: 60_000 },
      more: { storedMonth: () => Promise.resolve(800) },
    });
    const [one, two] = all as [Admission, Admission];
    const capped = (monthlyTokenCap: number) => ({ identity: { ...ORG, monthlyTokenCap } });
    (await admit(one, capped(1_000))).settle(60);
    t.ok(await eventually(async () => (await one.standing(ORG, 'm')).unfinished === 0));
    own.pause();
    (await admit(one, capped(1_000))).settle(40); // this request tried Redis first
    t.ok(await away([one]));
    (await admit(one, capped(1_000))).settle(30);
    own.resume();
    t.ok(await back([one]));
    t.match(
      await refusal(() => admit(two, capped(930))),
      { code: 'insufficient_quota' },
      '800 tokens were stored, 60 used before and 70 during the outage',
    );
    (await admit(two, capped(931))).refund();
  });

  await t.test('a limit too small to divide is given to one process', async (t) => {
    const own = await startRedis();
    t.teardown(() => own.stop());
    const { all } = await processes(t, 2, { at: own, limits: { concurrency: 1 } });
    await own.kill();
    t.ok(await away(all));
    const [first, second] = await Promise.all(all.map((one) => fill(one)));
    t.equal(first!.length + second!.length, 1);
  });

  await t.test('startup fails with a clear error if Redis is unreachable or the endpoint is not Redis', async (t) => {
    const port = await freePort();
    const open = (url: string): Promise<Admission> =>
      openAdmission(configWith({ redis: { url } }), {
        process: 'p',
        thread: 0,
        buffer: new SharedArrayBuffer(COUNTER_BYTES),
        storedMonth: () => Promise.resolve(0),
        report: () => undefined,
      });
    await t.rejects(open(`redis://user:secret-word@127.0.0.1:${port}/1`), {
      name: 'StartError',
      message: new RegExp(`^redis.url: redis://127.0.0.1:${port}/1 cannot be used: .*ECONNREFUSED`),
    });
    t.throws(() => configWith({ redis: { url: 'http://127.0.0.1' } }), /redis:\/\/ or rediss:\/\//);
    // A server that closes the connection, as a Redis in protected mode does for clients on other machines.
    const closing = createServer((socket) =>
      socket.on('error', () => undefined).end('-DENIED Redis is running in protected mode because …\r\n'),
    ).listen(0, '127.0.0.1');
    t.teardown(() => closing.close());
    await once(closing, 'listening');
    await t.rejects(open(`redis://127.0.0.1:${(closing.address() as AddressInfo).port}`), {
      message: /cannot be used: closed before it was ready \(.*\): Redis in protected mode/,
    });
  });
});
