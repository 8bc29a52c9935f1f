// A simulated service for tests that script a scenario step by step: any number of threads, one organization without
// limits, and a disk whose faults the test controls. Importing this file replaces the process's clock.
import { configWith } from '../../../src/config/load.js';
import { tableBytes } from '../../../src/admission/record-table.js';
import { HeldResponses } from '../../../src/storage/held-responses.js';
import { abortThread } from '../../../src/server/lost-thread.js';
import { drawsFrom } from '../../../src/shared/random.js';
import { LocalBus } from '../../../src/shared/bus.js';
import type { FinishedUsage } from '../../../src/shared/usage-sink.js';
import type { Telemetry } from '../../../src/telemetry/types.js';
import { HubBus, PortBus } from '../../../src/server/workers/hub-bus.js';
import type { UsageRow } from '../../../src/usage/sums.js';
import { MemoryTables } from './memory-tables.js';
import type { Resource } from './responses-witness.js';
import { SimDisk } from './sim-disk.js';
import { SimExchange } from './sim-exchange.js';
import { textOf, type Course } from './sim-provider.js';
import { channel, SimThread, type Common } from './sim-thread.js';
import { SimTime, type Owner } from './sim-time.js';

const RECORDS = 64;
const MS = 1_000;

const time = new SimTime();
const bytes = drawsFrom(1);
time.install((into) => {
  for (let at = 0; at < into.length; at++) into[at] = bytes.below(256);
});

export class Scenario {
  readonly tables = new MemoryTables();
  readonly disk = new SimDisk(this.tables, time, drawsFrom(2), 0);
  readonly told: FinishedUsage[] = [];
  readonly errors: string[] = [];
  readonly #config = configWith({ limits: { rpm: null, tpm: null, concurrency: null } });
  readonly #counters = new SharedArrayBuffer(tableBytes(RECORDS));
  readonly #held: SharedArrayBuffer;
  readonly #ledgers: Int32Array[];
  #hub: HubBus | null = null;
  /** The primary thread comes first. */
  #threads: SimThread[] = [];
  #tag = 0;

  private constructor(private readonly workers: number) {
    this.#held = new SharedArrayBuffer(HeldResponses.bytes(workers + 1));
    this.#ledgers = Array.from({ length: workers + 1 }, () => new Int32Array(new SharedArrayBuffer(RECORDS * 4)));
  }

  /** `workers`: HTTP workers in addition to the primary thread. */
  static async begin(workers = 0): Promise<Scenario> {
    time.begin(Date.UTC(2026, 0, 1));
    const scenario = new Scenario(workers);
    await scenario.start();
    return scenario;
  }

  thread(index: number): SimThread {
    const thread = this.#threads[index];
    if (thread === undefined) throw new Error(`no thread ${index}`);
    return thread;
  }

  async start(): Promise<void> {
    const owner: Owner = { alive: true };
    const onError = (error: unknown, topic: string): void => {
      this.errors.push(`${topic}: ${String(error)}`);
    };
    const hub = (this.#hub = this.workers === 0 ? null : new HubBus({ threads: this.workers, onError }));
    this.#threads = [];
    const open = (owner: Owner, bus: LocalBus | HubBus | PortBus, ledger: Int32Array | null): Promise<void> =>
      time.as(owner, () => {
        void SimThread.open(owner, bus, ledger === null, ledger, this.#common()).then(
          (thread) => {
            this.#threads.push(thread);
          },
          (error: unknown) => this.errors.push(String(error)),
        );
      });
    await open(owner, hub ?? new LocalBus(), null);
    await this.pass(1_000);
    for (let index = 1; index <= this.workers; index++) {
      const worker: Owner = { alive: true };
      const [port1, port2] = channel(time, owner, worker, () => 20);
      hub?.add(index, port1);
      await open(
        worker,
        new PortBus(index, port2, { threads: this.workers, onError }),
        this.#ledgers[index] as Int32Array,
      );
      await this.pass(1_000);
    }
    if (this.#threads.length !== this.workers + 1)
      throw new Error(`the service did not start: ${this.errors.join('; ')}`);
  }

  /** Ends the process immediately. */
  kill(): void {
    for (const { owner } of this.#threads) owner.alive = false;
  }

  /** Ends a thread immediately and aborts its responses. */
  lose(index: number): void {
    const [{ owner }, primary] = [this.thread(index), this.thread(0)];
    owner.alive = false;
    time.owner = primary.owner;
    this.#hub?.remove(index);
    abortThread({
      index,
      admission: primary.admission,
      ledger: this.#ledgers[index] as Int32Array,
      held: new HeldResponses(this.#held),
      bus: this.#hub as HubBus,
      log: this.#telemetry().log,
      others: () => this.#threads.filter((thread) => thread.owner.alive).length - 1,
      failUnfinished: (isRunning) => primary.failUnfinished(isRunning),
      closing: new AbortController().signal,
    });
  }

  async full(ms: number): Promise<void> {
    this.disk.fullUntil = time.now + ms * MS;
    await this.pass(0);
  }

  pass(ms: number): Promise<void> {
    return time.pass(ms * MS);
  }

  /** Moves only the wall clock. */
  leap(ms: number): void {
    time.leapWall(ms);
  }

  as<T>(thread: number, work: () => T | Promise<T>): Promise<T> {
    return time.as(this.thread(thread).owner, work);
  }

  /** Starts a background response of `tokens` tokens. */
  async generate(thread: number, tokens: number, stepMs: number): Promise<SimExchange> {
    const course: Course = {
      tag: ++this.#tag,
      prompt: 5,
      estimate: 5,
      tokens,
      stepMs,
      queueMs: 1,
      prepareMs: 0,
      end: 'ok',
    };
    return this.ask(thread, 'POST', '/v1/responses', {
      body: {
        model: 'alpha',
        input: textOf(course),
        background: true,
        stream: false,
        max_output_tokens: tokens + 1,
      },
    });
  }

  /** `reads`: false if the client reads nothing of the response. */
  async ask(
    thread: number,
    method: string,
    path: string,
    { id, body, query, reads = true }: { id?: string; body?: unknown; query?: Record<string, string>; reads?: boolean },
  ): Promise<SimExchange> {
    const identity = {
      organizationId: 'org_1',
      organizationNumber: 1,
      keyId: 'key_1',
      models: ['*'],
      scopes: ['inference', 'models.read', 'responses.read', 'responses.delete', 'tokens.count'],
      limits: {},
      keyLimits: null,
      monthlyTokenCap: null,
    } as unknown as SimExchange['identity'];
    const request = { method, requestId: `req_${this.#tag}`, body, id: id ?? '', query: query ?? {} };
    const exchange = new SimExchange(request, identity, () => undefined);
    exchange.stopped = !reads;
    await this.as(thread, () => {
      void this.thread(thread).serve(exchange, path);
    });
    await this.pass(50);
    return exchange;
  }

  async get(thread: number, id: string): Promise<Resource> {
    return (await this.ask(thread, 'GET', '/v1/responses/:id', { id })).answer as Resource;
  }

  /** Reads the whole event stream, which must end within `ms`. */
  async follow(
    thread: number,
    id: string,
    ms: number,
    after = -1,
  ): Promise<{ exchange: SimExchange; types: string[]; numbers: number[] }> {
    const exchange = await this.ask(thread, 'GET', '/v1/responses/:id', {
      id,
      query: { stream: 'true', ...(after < 0 ? {} : { starting_after: String(after) }) },
    });
    for (let waited = 0; waited < ms && !exchange.over; waited += 50) await this.pass(50);
    const events = (exchange.events ?? []).filter(({ data }) => data !== '[DONE]');
    return {
      exchange,
      types: events.map(({ type }) => type),
      numbers: events.map(({ data }) => (JSON.parse(data) as { sequence_number: number }).sequence_number),
    };
  }

  /** The recorded usage of all requests. */
  usage(): UsageRow[] {
    return [...this.tables.table<UsageRow>('usage-rows').range()].map(({ value }) => value);
  }

  #common(): Common {
    return {
      config: this.#config,
      disk: this.disk,
      telemetry: this.#telemetry(),
      counters: this.#counters,
      held: this.#held,
      engines: { running: new Set(), prepared: () => undefined, slot: () => undefined },
      watchAdmission: (admission) => admission,
      watchUsage: (usage) => ({
        finished: (end) => {
          this.told.push(end);
          usage.finished(end);
        },
        rejected: (rejected) => usage.rejected(rejected),
      }),
      storedMonth: () => undefined,
      isSuspended: () => false,
    };
  }

  #telemetry(): Telemetry {
    const meter = {
      started: () => undefined,
      prefilled: () => undefined,
      firstToken: () => undefined,
      laterTokens: () => undefined,
      choiceFinished: () => undefined,
      completed: () => undefined,
      failed: () => undefined,
      cancelled: () => undefined,
    };
    const log = {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (_: object, message: string) => {
        this.errors.push(message);
      },
    };
    return { log, generation: () => meter, request: () => undefined } as unknown as Telemetry;
  }
}
