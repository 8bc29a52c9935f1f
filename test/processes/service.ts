// Three real servers that form one service on a real PostgreSQL and a real Redis. Each server has its own proxy to
// PostgreSQL and its own proxy to Redis, which can be made to fail. teller.ts serves the models.
import { performance } from 'node:perf_hooks';
import { dashboardClient } from '../support/dashboard-client.js';
import { startPostgres, type Postgres } from '../support/postgres.js';
import { startRedis, type OwnRedis } from '../support/redis.js';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.js';
import { eventually, startMonolith, type Monolith } from '../e2e/monolith.js';
import type { Away, Bounds, Life } from './history.js';

export const COUNT = 3;
export const ORGANIZATIONS = 2;
export const MODELS = { places: 'far', requests: 'near', kept: 'kept' } as const;
export const LEASE_MS = 4_000;
/** The process that has several HTTP threads. */
const THREADED = 1;
const AWAY = /Redis is unreachable/;
const BACK = /Redis is reachable again/;

interface Process {
  server: Monolith;
  life: Life;
  state: TcpProxy;
  counters: TcpProxy;
}

export class Service {
  readonly lives: Life[] = [];
  #logs: { life: Life; log: () => string }[] = [];
  #processes: Process[] = [];
  #owners: { client: ReturnType<typeof dashboardClient>; organization: string }[] = [];

  private constructor(
    readonly postgres: Postgres,
    readonly redis: OwnRedis,
    private readonly teller: string,
  ) {}

  static async start(teller: string): Promise<Service> {
    const [postgres, redis] = await Promise.all([startPostgres({ durable: true }), startRedis()]);
    const service = new Service(postgres, redis, teller);
    try {
      service.#processes = await Promise.all(
        Array.from({ length: COUNT }, async (_, at): Promise<Process> => {
          const [state, counters] = await Promise.all([startTcpProxy(postgres.port), startTcpProxy(redis.port)]);
          return { state, counters, ...(await service.#begin(at, state, counters)) };
        }),
      );
      for (let at = 0; at < ORGANIZATIONS; at++) {
        const client = dashboardClient(service.url(0));
        const { organization } = await client.signUp({ email: `owner${at}@example.com` });
        service.#owners.push({ client, organization: organization.id });
      }
    } catch (error) {
      await service.close();
      throw error;
    }
    return service;
  }

  url(at: number): string {
    return this.#processes[at]!.server.url;
  }

  lifeOf(at: number): number {
    return this.#processes[at]!.life.life;
  }

  ways(at: number): { state: TcpProxy; counters: TcpProxy } {
    return this.#processes[at]!;
  }

  /** Creates a key with its own limits for each organization, using a session, which any process accepts. */
  async keys({ places, perMinute }: Bounds): Promise<string[]> {
    return Promise.all(
      this.#owners.map(async ({ client, organization }) => {
        const there = Object.assign(dashboardClient(this.url(0)), { cookie: client.cookie });
        const limits = { [MODELS.places]: { concurrency: places }, [MODELS.requests]: { rpm: perMinute } };
        return (
          await there.post<{ secret: string }>(`/organizations/${organization}/api-keys`, { name: 'round', limits })
        ).secret;
      }),
    );
  }

  kill(at: number): void {
    const { server, life } = this.#processes[at]!;
    server.process.kill('SIGKILL');
    life.killed = performance.now();
  }

  async restart(at: number): Promise<void> {
    const one = this.#processes[at]!;
    Object.assign(one, await this.#begin(at, one.state, one.counters));
  }

  /**
   * Removes all faults: restarts killed processes and opens all connections. Returns whether every process is ready,
   * counts with the others and reaches the database.
   */
  async heal(key: string): Promise<boolean> {
    for (const { state, counters } of this.#processes) for (const way of [state, counters]) way.set('through');
    await Promise.all(
      this.#processes.map(async ({ life }, at) => {
        if (life.killed !== null) await this.restart(at);
      }),
    );
    return eventually(async () =>
      (
        await Promise.all(
          this.#processes.map(async ({ server }) => {
            const ready = await fetch(`${server.url}/readyz`);
            if (
              ready.status !== 200 ||
              ((await ready.json()) as { counters: { state: string } }).counters.state !== 'shared'
            )
              return false;
            // The requests are sent concurrently, so that every thread receives at least one.
            const asked = await Promise.all(
              Array.from({ length: 6 }, async () => {
                const response = await fetch(`${server.url}/v1/responses/resp_${'0'.repeat(48)}`, {
                  headers: { authorization: `Bearer ${key}` },
                });
                await response.text();
                return response.status;
              }),
            );
            return asked.every((status) => status === 404);
          }),
        )
      ).every(Boolean),
    );
  }

  /** The periods during which processes counted alone, according to their logs. */
  aways(): Away[] {
    const found: Away[] = [];
    for (const {
      life: { process, life, killed },
      log,
    } of this.#logs) {
      const last = new Map<number, Away>();
      for (const line of log().split('\n')) {
        if (!AWAY.test(line) && !BACK.test(line)) continue;
        const {
          time,
          processes,
          thread = 0,
        } = JSON.parse(line) as { time: string; processes: number; thread?: number };
        const at = Date.parse(time) - performance.timeOrigin;
        if (BACK.test(line)) {
          const away = last.get(thread);
          if (away !== undefined) away.to = at;
        } else {
          const away: Away = { kind: 'away', process, life, from: at, to: killed ?? Infinity, processes };
          found.push(away);
          last.set(thread, away);
        }
      }
    }
    return found;
  }

  logs(): string {
    return this.#logs.map(({ life, log }) => `--- process ${life.process}, life ${life.life}\n${log()}`).join('\n');
  }

  /** Log lines that report unexpected errors. */
  complaints(): string[] {
    return this.#logs.flatMap(({ log }) =>
      log()
        .split('\n')
        .filter((line) => /"msg":"(?:unexpected|uncaught|unhandled)/.test(line)),
    );
  }

  /** Concurrency slots currently in use. */
  async placesTaken(): Promise<number> {
    const client = this.redis.client();
    try {
      const [seconds] = (await client.time()) as unknown as [string, string];
      const now = (Number(seconds) - 1_767_225_600) * 1e6;
      const keys = await client.keys('*:c:*');
      return (await Promise.all(keys.map((key) => client.zcount(key, now, '+inf')))).reduce((sum, one) => sum + one, 0);
    } finally {
      client.disconnect();
    }
  }

  async close(): Promise<void> {
    for (const { server } of this.#processes) server.process.kill('SIGKILL');
    await Promise.all(this.#processes.flatMap(({ state, counters }) => [state.close(), counters.close()]));
    await Promise.all([this.postgres.close(), this.redis.stop()]);
  }

  async #begin(at: number, state: TcpProxy, counters: TcpProxy): Promise<Pick<Process, 'server' | 'life'>> {
    const threads = at === THREADED ? 2 : 1;
    const server = await startMonolith({
      args: [
        ...Object.values(MODELS).flatMap((model) => ['--model', `${model}=${this.teller}`]),
        '--database',
        this.postgres.url.replace(`:${this.postgres.port}/`, `:${state.port}/`),
        '--database-timeout-ms',
        '5000',
        '--redis',
        this.redis.url.replace(`:${this.redis.port}`, `:${counters.port}`),
        '--redis-timeout-ms',
        '1000',
        '--redis-lease-ms',
        String(LEASE_MS),
        '--upstream-retries',
        '0',
        '--http-threads',
        String(threads),
      ],
      env: { MONOLITH_ACCOUNTS_SIGNUP: 'open' },
    });
    const life: Life = {
      kind: 'life',
      process: at,
      life: this.lives.length,
      threads,
      from: performance.now(),
      killed: null,
    };
    this.lives.push(life);
    this.#logs.push({ life, log: server.log });
    return { server, life };
  }
}
