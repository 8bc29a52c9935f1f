// Tests three real servers that form one service, behind HAProxy with the configuration published in deploy/. They
// share a real PostgreSQL and a real Redis, which counts rate limits. Conversations must return to the server that has
// their prefix cached, limits must apply across all servers, and restarting all three in turn under load must not make
// any request fail.
import t from 'tap';
import { startHaproxy, withoutHaproxy } from '../support/haproxy.js';
import { startPostgres, withoutPostgres } from '../support/postgres.js';
import { freePort } from '../support/free-port.js';
import { startRedis, withoutRedis } from '../support/redis.js';
import { startScripted } from '../support/script-model.js';
import { eventually, type Monolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const COUNT = 3;
const UNREADY_MS = 1_000;

t.test(
  'three server processes behind HAProxy work as one service',
  { skip: [withoutRedis, withoutHaproxy, withoutPostgres].find((reason) => reason !== false) ?? false },
  async (t) => {
    const redis = await startRedis();
    t.teardown(() => redis.stop());
    const postgres = await startPostgres();
    t.teardown(() => postgres.close());
    const ports = await Promise.all(Array.from({ length: COUNT }, () => freePort()));
    const start = (at: number): Promise<Monolith> =>
      startScripted({
        args: [
          '--database',
          postgres.url,
          '--redis',
          redis.url,
          '--redis-lease-ms',
          '3000',
          '--http-unready-ms',
          String(UNREADY_MS),
          '--threads',
          '1',
        ],
        env: {
          MONOLITH_PORT: String(ports[at]),
          MONOLITH_LIMITS_OVERRIDES: JSON.stringify({ '*': { 'clarke-1.0': { rpm: 5 } } }),
        },
      });
    const servers = await Promise.all(ports.map((_, at) => start(at)));
    t.teardown(() => Promise.all(servers.map((server) => server.stop())));
    const proxy = await startHaproxy(ports);
    t.teardown(() => proxy.stop());

    const chat = (
      text: string,
      more: { model?: string; stream?: boolean; affinity?: string | null } = {},
    ): Promise<Response> =>
      fetch(`${proxy.url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({
          model: more.model ?? 'hal-1.0',
          stream: more.stream ?? false,
          max_completion_tokens: 60,
          messages: [{ role: 'user', content: text }],
        }),
        headers: {
          authorization: `Bearer ${servers[0]!.key}`,
          'content-type': 'application/json',
          ...(more.affinity === undefined || more.affinity === null ? {} : { 'x-monolith-affinity': more.affinity }),
        },
      });
    const up = async (): Promise<boolean> =>
      (await Promise.all(servers.map(async ({ url }) => (await fetch(`${url}/readyz`)).status === 200))).every(Boolean);
    t.ok(await eventually(up));

    await t.test('a conversation is routed back to the server that started it', async (t) => {
      const seen = new Set<string | null>();
      for (let conversation = 0; conversation < 6; conversation++) {
        const begun = await chat(`A: ${conversation}`);
        t.equal(begun.status, 200);
        const [served, affinity] = [begun.headers.get('x-served-by'), begun.headers.get('x-monolith-affinity')];
        await begun.text();
        seen.add(served);
        t.match(affinity, /^[A-Za-z0-9_-]{22}$/);
        for (let turn = 0; turn < 3; turn++) {
          const next = await chat(`A: ${conversation}`, { affinity });
          t.equal(next.headers.get('x-served-by'), served);
          t.equal(next.headers.get('x-monolith-affinity'), affinity, 'every server computes the same affinity value');
          const { usage } = (await next.json()) as { usage: { prompt_tokens_details?: { cached_tokens?: number } } };
          t.type(usage.prompt_tokens_details?.cached_tokens, 'number');
        }
      }
      t.ok(seen.size > 1, 'conversations are spread over several servers');
    });

    await t.test('rate limits apply across all servers, and every server reports the same shared state', async (t) => {
      const statuses = new Set<string | null>();
      let admitted = 0;
      for (let i = 0; i < 12; i++) {
        const answer = await chat(`A: ${i}`, { model: 'clarke-1.0' });
        if (answer.status === 200) admitted++;
        else t.match(await answer.json(), { error: { code: 'rpm_limit_exceeded' } });
        await answer.text().catch(() => undefined);
        statuses.add(answer.headers.get('x-served-by'));
      }
      t.ok(admitted >= 5 && admitted <= 7, `${admitted} requests admitted with a limit of 5 per minute`);
      t.ok(statuses.size > 1);
      for (const server of servers) {
        const ready = await fetch(`${server.url}/readyz`, { headers: { authorization: `Bearer ${server.key}` } });
        t.match(await ready.json(), {
          status: 'ready',
          counters: { state: 'shared', policy: 'share', processes: COUNT },
        });
        const metrics = await server.metrics();
        t.equal(metrics.get('monolith_redis_processes'), COUNT);
        t.equal(metrics.get('monolith_redis_unavailable'), 0);
        t.ok((metrics.get('monolith_redis_calls_total{kind="reserve",outcome="answered"}') ?? 0) > 0);
      }
    });

    await t.test(
      'a Redis outage is reported in the log, /readyz and metrics, and requests are served throughout',
      async (t) => {
        await redis.kill();
        const counters = async (state: string): Promise<boolean> =>
          (
            await Promise.all(
              servers.map(
                async ({ url }) =>
                  ((await (await fetch(`${url}/readyz`)).json()) as { counters: { state: string } }).counters.state ===
                  state,
              ),
            )
          ).every(Boolean);
        t.ok(await eventually(() => counters('away')));
        for (let i = 0; i < COUNT; i++) t.equal((await chat('A: x')).status, 200);
        t.equal((await servers[0]!.metrics()).get('monolith_redis_unavailable'), 1);
        await redis.start();
        t.ok(await eventually(() => counters('shared')));
        for (const server of servers) {
          t.equal(server.log().match(/Redis is unreachable/g)?.length, 1);
          t.equal(server.log().match(/Redis is reachable again/g)?.length, 1);
        }
      },
    );

    await t.test('restarting all servers in turn under load fails no request and cuts no stream', async (t) => {
      let over = false;
      let answered = 0;
      const served = new Set<string | null>();
      const failures: string[] = [];
      const clients = Array.from({ length: 6 }, async (_, client) => {
        for (let turn = 0; !over; turn++) {
          const stream = (client + turn) % 2 === 0;
          try {
            const answer = await chat(`A: ${client} ${turn}`, { stream });
            const text = await answer.text();
            served.add(answer.headers.get('x-served-by'));
            if (answer.status === 200 && (stream ? text.endsWith('data: [DONE]\n\n') : text.includes('"usage"')))
              answered++;
            else failures.push(`${answer.status} of ${answer.headers.get('x-served-by')}: ${text.slice(-200)}`);
          } catch (error) {
            failures.push(String(error));
          }
        }
      });
      for (let at = 0; at < COUNT; at++) {
        t.equal(await servers[at]!.stop(), 0, 'the stopped server exits with code 0');
        servers[at] = await start(at);
        t.ok(await eventually(up));
        served.clear();
        t.ok(await eventually(() => served.size === COUNT), 'the proxy routes requests to the restarted server');
      }
      over = true;
      await Promise.all(clients);
      t.same(failures, [], `${answered} requests succeeded`);
      t.ok(answered > 20);
    });
  },
);
