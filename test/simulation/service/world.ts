// One part of a simulation run: a sequence of service processes on one disk, their clients, and the actions and faults
// applied to them. Each action is derived from its own number, so leaving some actions out does not change the others.
import { createHash, type Hash } from 'node:crypto';
import { configWith } from '../../../src/config/load.js';
import type { Config } from '../../../src/config/settings.js';
import type { LimitOverride } from '../../../src/config/kinds.js';
import type { Identity } from '../../../src/shared/identity.js';
import { abortThread } from '../../../src/server/lost-thread.js';
import type { FinishedUsage } from '../../../src/shared/usage-sink.js';
import { drawsFrom, seedOf, type Draws } from '../../../src/shared/random.js';
import { LocalBus, type ThreadBus } from '../../../src/shared/bus.js';
import { tableBytes } from '../../../src/admission/record-table.js';
import type { Head } from '../../../src/storage/lmdb/responses/response-tables.js';
import { HeldResponses } from '../../../src/storage/held-responses.js';
import type { UsageRow } from '../../../src/usage/sums.js';
import type { Telemetry } from '../../../src/telemetry/types.js';
import { HubBus, PortBus } from '../../../src/server/workers/hub-bus.js';
import { LimitsWitness, monthOf } from './limits-witness.js';
import type { Backing } from './memory-tables.js';
import { isEnded, outputOf, ResponsesWitness, type Known, type Resource } from './responses-witness.js';
import { SimDisk } from './sim-disk.js';
import { SimExchange, type SimRequest } from './sim-exchange.js';
import { ENDS, MAX_TOKENS, textOf, type Course, type Told } from './sim-provider.js';
import { channel, MODELS, SimThread, type Common } from './sim-thread.js';
import type { Owner, SimTime } from './sim-time.js';
import { SlotsWitness } from './slots-witness.js';

const MS = 1_000;
const SECOND = 1_000 * MS;
const DAY_S = 86_400;
const RECORDS = 64;
/** If no thread is generating a background response, the response must end within this time. */
const ORPHAN_US = 120 * SECOND;
const RESTART_PAUSE_US = SECOND;

/** The kinds of actions, with their relative frequencies. */
const KINDS = {
  answer: 10,
  stream: 8,
  background: 14,
  chat: 7,
  get: 10,
  follow: 7,
  items: 4,
  foreign: 4,
  cancel: 7,
  delete: 6,
  abort: 8,
  stop: 3,
  connect: 3,
  wait: 8,
  longer: 2,
  leap: 1,
  expire: 2,
  limit: 3,
  suspend: 1,
  full: 2,
  slow: 1,
  breaks: 0.5,
  kill: 0.8,
  restart: 0.8,
  thread: 2,
  erase: 0.3,
} as const;
export type Kind = keyof typeof KINDS;
export const ALL_KINDS = Object.keys(KINDS) as Kind[];
const WEIGHTS = Object.values(KINDS).reduce<number>((sum, weight) => sum + weight, 0);

interface Organization {
  readonly id: string;
  readonly number: number;
  limits: Record<string, LimitOverride>;
  keys: { readonly id: string; limits: Record<string, LimitOverride> | null }[];
  cap: number | null;
  suspended: boolean;
  /**
   * Each erasure of everything that the organization had stored: the thread that ran it, and when it ended, in
   * microseconds.
   */
  readonly erasures: { readonly owner: Owner; until: number }[];
}

interface Asked {
  readonly exchange: SimExchange;
  readonly kind: Kind;
  readonly organization: Organization;
  readonly thread: SimThread;
  /** Seconds since 1970. */
  readonly since: number;
  readonly course: Course | null;
  readonly previous: Known | null;
  readonly stored: boolean;
  readonly known: Known | null;
  readonly after: number;
  /** Whether the previous response could be used when the request was sent. */
  readonly usable: boolean;
}

interface Process {
  readonly owners: Owner[];
  state: 'opening' | 'up' | 'ending' | 'over';
  /**
   * When a thread's store last stopped accepting writes, in microseconds. The primary thread is notified, and the
   * process ends.
   */
  failedAt: number;
  readonly counters: SharedArrayBuffer;
  readonly held: SharedArrayBuffer;
  readonly limits: LimitsWitness;
  hub: HubBus | null;
  primary: SimThread | null;
  /** The threads that serve requests. */
  readonly threads: (SimThread | null)[];
  running: number;
  readonly ledgers: Int32Array[];
  readonly sockets: { leave: () => void; organizationId: string; thread: number }[];
}

export class Violation extends Error {}

export interface Figures {
  steps: number;
  requests: number;
  admitted: number;
  refused: number;
  stored: number;
  reads: number;
  restarts: number;
  threads: number;
  slots: number;
  background: number;
}

export class World {
  readonly figures: Figures = {
    steps: 0,
    requests: 0,
    admitted: 0,
    refused: 0,
    stored: 0,
    reads: 0,
    restarts: 0,
    threads: 0,
    slots: 0,
    background: 0,
  };
  readonly #seed: number;
  readonly #part: number;
  readonly #draws: Draws;
  readonly #disk: SimDisk;
  readonly #config: Config;
  readonly #threads: number;
  readonly #organizations: Organization[];
  readonly #responses: ResponsesWitness;
  readonly #slots: SlotsWitness;
  readonly #told = new Map<number, Told>();
  readonly #owners = new Map<string, Owner>(); // the thread that serves each request, by request id
  readonly #ends = new Map<string, FinishedUsage>(); // the usage reported at the end of each request, by request id
  readonly #courses = new Map<number, Asked>();
  readonly #orphans = new Map<string, number>();
  #asked: Asked[] = [];
  #process: Process | null = null;
  #next = 1;
  #violation: string | null = null;
  #errors: string[] = [];

  constructor(
    private readonly time: SimTime,
    backing: Backing,
    { seed, part }: { seed: number; part: number },
    private readonly trace: Hash,
    losesWrites = 0,
  ) {
    this.#seed = seed;
    this.#part = part;
    const draws = (this.#draws = drawsFrom(seedOf(seed, part, 0)));
    this.#disk = new SimDisk(backing, time, drawsFrom(seedOf(seed, part, 1)), losesWrites);
    const one = <T>(...of: T[]): T => of[draws.below(of.length)] as T;
    this.#threads = one(1, 1, 1, 2, 3);
    this.#config = configWith({
      limits: {
        rpm: one(null, 600, 30, 5),
        tpm: one(null, 100_000, 2_000, 300),
        concurrency: one(null, 50, 5, 2, 1),
        read_rpm: one(null, null, 30),
        tpm_default_reservation: one(16, 4_096),
      },
      responses: { retention_days: one(30, 30, 1) },
      http: { threads: this.#threads },
    });
    const violated = (what: string): void => {
      this.#violation ??= what;
    };
    this.#responses = new ResponsesWitness(this.#config.responses.retention_days * DAY_S, time, violated);
    this.#slots = new SlotsWitness(violated);
    this.#organizations = [1, 2, 3].map((number) => ({
      id: `org_${number}`,
      number,
      limits: {},
      cap: one(null, null, 300, 3_000),
      suspended: false,
      erasures: [],
      keys: [1, 2].map((key) => ({
        id: `key_${number}_${key}`,
        limits: one(null, null, { '*': { rpm: 10, concurrency: 2 } }),
      })),
    }));
  }

  /** Throws Violation. `isKept`: whether the action with this number runs. */
  async run(steps: number, isKept: (step: number, kind: Kind) => boolean): Promise<void> {
    await this.#start();
    await this.#pass(2 * SECOND);
    for (let step = 0; step < steps; step++) {
      const draws = drawsFrom(seedOf(this.#seed, this.#part, 2, step));
      const kind = kindOf(draws);
      if (!isKept(step, kind)) continue;
      this.figures.steps++;
      this.trace.update(`${step} ${kind} ${this.time.now}\n`);
      await this.#act(kind, draws);
      await this.#pass(draws.below(4) === 0 ? draws.below(400 * MS) : draws.below(20 * MS));
      await this.#check(draws);
    }
    await this.#end();
  }

  /**
   * A snapshot of the organization as the request sees it; the organization may change while the request is running.
   */
  #identity(organization: Organization, draws: Draws): Identity {
    const key = organization.keys[draws.below(2)] as Organization['keys'][number];
    return {
      organizationId: organization.id,
      organizationNumber: organization.number,
      keyId: key.id,
      models: ['*'],
      scopes: ['inference', 'models.read', 'responses.read', 'responses.delete', 'tokens.count'],
      limits: { ...organization.limits },
      keyLimits: key.limits,
      monthlyTokenCap: organization.cap,
    };
  }

  async #act(kind: Kind, draws: Draws): Promise<void> {
    const { time } = this;
    const organization = this.#organizations[draws.below(3)] as Organization;
    switch (kind) {
      case 'answer':
      case 'stream':
      case 'background':
      case 'chat':
        return this.#generate(kind, organization, draws);
      case 'get':
      case 'follow':
      case 'items':
      case 'foreign':
      case 'cancel':
      case 'delete':
        return this.#ask(kind, draws);
      case 'abort': {
        const asked = this.#pick(
          this.#asked.filter(({ exchange }) => !exchange.over),
          draws,
        );
        if (asked === undefined || !asked.thread.owner.alive) return;
        this.#seen(asked);
        return time.as(asked.thread.owner, () => asked.exchange.abort());
      }
      case 'stop':
        for (const { exchange } of this.#asked) if (draws.below(3) === 0) exchange.stopped = !exchange.stopped;
        return;
      case 'connect':
        return this.#connect(organization, draws);
      case 'wait':
        return this.#pass(draws.below(8_000) * MS);
      case 'longer':
        return this.#pass(draws.below(draws.below(8) === 0 ? 3_700 : 300) * SECOND);
      case 'leap':
        time.leapWall(draws.below(2) === 0 ? draws.below(40) * DAY_S * 1000 : draws.below(7_200_000));
        return;
      case 'expire': {
        const known = this.#pick(
          this.#responses.known.filter((one) => !this.#responses.isLost(one)),
          draws,
        );
        if (known === undefined) return;
        // Jumps to a time just before, at, or just after the expiry.
        time.leapWall(this.#responses.expiresAt(known) * 1000 - time.wall + [-1001, -1, 0, 1][draws.below(4)]!);
        return;
      }
      case 'limit': {
        const one = <T>(...of: T[]): T => of[draws.below(of.length)] as T;
        if (draws.below(3) === 0) organization.cap = one(null, 100, 1_000, 5_000);
        else
          organization.limits = one(
            {},
            { '*': { rpm: one(3, 40, null), tpm: one(200, 5_000, null), concurrency: one(1, 3, null) } },
            { alpha: { concurrency: one(1, 2) } },
          );
        return;
      }
      case 'suspend':
        organization.suspended = !organization.suspended;
        for (const thread of this.#process?.threads ?? [])
          if (thread !== null)
            await time.as(thread.owner, () => {
              for (const listener of thread.listeners) listener(organization.id);
            });
        return;
      case 'full':
        this.#disk.fullUntil = time.now + draws.below(draws.below(3) === 0 ? 20_000 : 300) * MS;
        this.#disk.fullShare = draws.below(2) === 0 ? 1 : 0.3;
        return;
      case 'slow':
        this.#disk.slowUs = draws.below(3) === 0 ? draws.below(3_000) * MS : 3 * MS;
        return;
      case 'breaks':
        this.#disk.breaksNext = true;
        return;
      case 'kill':
        this.#kill();
        await this.#pass(draws.below(3_000) * MS);
        return this.#start();
      case 'restart':
        return this.#restart();
      case 'thread':
        return this.#loseThread(draws);
      case 'erase':
        return this.#erase(organization, draws);
    }
  }

  async #generate(
    kind: 'answer' | 'stream' | 'background' | 'chat',
    organization: Organization,
    draws: Draws,
  ): Promise<void> {
    const thread = this.#pick(this.#answering(), draws);
    if (organization.suspended && draws.below(2) === 0) organization.suspended = false;
    if (thread === undefined || organization.suspended) return;
    const tag = this.#next++;
    const prompt = 1 + draws.below(60);
    const course: Course = {
      tag,
      prompt,
      estimate: draws.below(4) === 0 ? 1 + draws.below(80) : prompt,
      tokens: draws.below(40),
      stepMs: 1 + draws.below(draws.below(3) === 0 ? 400 : 30),
      queueMs: draws.below(3) === 0 ? draws.below(2_000) : draws.below(20),
      prepareMs: draws.below(4) === 0 ? 1 + draws.below(300) : 0,
      end: draws.below(4) === 0 ? ENDS[draws.below(ENDS.length)]! : 'ok',
    };
    const own = this.#responses.known.filter(
      (known) => known.organizationId === organization.id || draws.below(30) === 0,
    );
    const previous = kind !== 'chat' && draws.below(2) === 0 ? (this.#pick(own.slice(-12), draws) ?? null) : null;
    const stored = kind === 'background' || draws.below(5) > 0;
    const model = MODELS[draws.below(3) === 0 ? 1 : 0];
    const text = textOf(course);
    const cap = draws.below(2) === 0 ? { max: 1 + draws.below(MAX_TOKENS) } : null;
    const isStream = kind === 'stream' || (kind !== 'answer' && draws.below(2) === 0);
    const body =
      kind === 'chat'
        ? {
            model,
            messages: [{ role: 'user', content: text }],
            stream: isStream,
            n: 1 + draws.below(3),
            ...(cap === null ? {} : { max_tokens: cap.max }),
          }
        : {
            model,
            input: text,
            stream: isStream,
            store: stored,
            background: kind === 'background',
            ...(previous === null ? {} : { previous_response_id: previous.id }),
            ...(cap === null ? {} : { max_output_tokens: cap.max }),
          };
    await this.#send(
      { kind, organization, thread, course, previous, stored, known: null, after: -1 },
      { method: 'POST', path: kind === 'chat' ? '/v1/chat/completions' : '/v1/responses', body },
      tag,
      this.#identity(organization, draws),
    );
  }

  async #ask(kind: 'get' | 'follow' | 'items' | 'foreign' | 'cancel' | 'delete', draws: Draws): Promise<void> {
    const thread = this.#pick(this.#answering(), draws);
    const { known: all } = this.#responses;
    const known = this.#pick(draws.below(3) === 0 ? all : all.slice(-8), draws);
    if (thread === undefined || known === undefined) return;
    const owner = this.#organizations.find(({ id }) => id === known.organizationId) as Organization;
    const organization = kind === 'foreign' ? (this.#organizations[owner.number % 3] as Organization) : owner;
    const [method, path] = (
      {
        get: ['GET', ''],
        follow: ['GET', ''],
        items: ['GET', '/input_items'],
        cancel: ['POST', '/cancel'],
        delete: ['DELETE', ''],
        foreign: (
          [
            ['GET', ''],
            ['GET', '/input_items'],
            ['POST', '/cancel'],
            ['DELETE', ''],
          ] as const
        )[draws.below(4)]!,
      } as const
    )[kind];
    const after = kind === 'follow' && draws.below(2) === 0 ? draws.below(6) : -1;
    if (kind === 'delete') known.deleteAsked = true;
    const query = {
      ...(kind === 'follow' ? { stream: 'true', ...(after < 0 ? {} : { starting_after: String(after) }) } : {}),
      ...(path === '/input_items' ? { order: 'asc', limit: '100' } : {}),
    };
    await this.#send(
      { kind, organization, thread, course: null, previous: null, stored: false, known, after },
      { method, path: `/v1/responses/:id${path}`, body: undefined, id: known.id, query },
      this.#next++,
      this.#identity(organization, draws),
    );
  }

  async #send(
    what: Omit<Asked, 'exchange' | 'since' | 'usable'>,
    { path, ...request }: Omit<SimRequest, 'requestId'> & { path: string },
    tag: number,
    identity: Identity,
  ): Promise<void> {
    this.figures.requests++;
    const { thread, previous, organization } = what;
    const requestId = `req_${tag}`;
    const usable =
      previous === null || (!this.#responses.isLost(previous) && previous.organizationId === organization.id);
    const exchange = new SimExchange({ ...request, requestId }, identity, () => {
      this.#answered(asked);
    });
    const asked: Asked = { ...what, exchange, since: this.#responses.now, usable };
    this.#asked.push(asked);
    this.#owners.set(requestId, thread.owner);
    if (what.course !== null) this.#courses.set(tag, asked);
    await this.time.as(thread.owner, () => {
      void thread.serve(exchange, path);
    });
  }

  /** Checks a response that has been received completely. */
  #answered(asked: Asked): void {
    const { exchange, kind, known, organization, course } = asked;
    const { status, code, unexpected } = exchange;
    this.trace.update(
      `${exchange.requestId} ${kind} ${String(status)} ${String(code)} ${JSON.stringify(exchange.answer)} ${(exchange.events ?? []).map(({ data }) => data).join('\n')}\n`,
    );
    if (unexpected !== null)
      return this.#violated(
        `${exchange.requestId} (${kind}) got an internal error: ${String((unexpected as Error).stack ?? unexpected)}`,
      );
    if (
      code === 'maintenance' &&
      this.#disk.failedAt < exchange.receivedAt * 1000 &&
      this.#process?.state === 'up' &&
      this.time.now - this.#process.failedAt > SECOND &&
      this.#process.primary !== null
    ) {
      return this.#violated(
        `${exchange.requestId} (${kind}) was refused because nothing can be stored, although the disk had not failed`,
      );
    }
    if (known !== null) {
      if (status === 404 && code === 'response_not_found') this.#responses.missed(known, organization.id);
      else if (status === 200 && exchange.method === 'DELETE')
        this.#responses.deleted(known, organization.id, asked.since, exchange.receivedAt * MS);
      else if (status === 200 && kind !== 'follow') this.#responses.found(known, organization.id, asked.since);
      const isGenerated = (): boolean => this.#answering().some(({ background }) => background.find(known.id) !== null);
      if (
        kind === 'cancel' &&
        code === 'response_not_cancellable' &&
        known.background &&
        this.#disk.slowUs < SECOND &&
        isGenerated()
      )
        this.#violated(`${known.id} is reported as not cancellable, but is being generated`);
      if (status === 200 && (kind === 'get' || kind === 'cancel')) {
        this.#responses.saw(known, exchange.answer as Resource);
        if (kind === 'cancel' && !isEnded((exchange.answer as Resource).status))
          this.#violated(`${known.id} is ${(exchange.answer as Resource).status} after a successful cancel`);
      } else if (status === 200 && kind === 'items') {
        this.#items(known, exchange.answer as { data: { content: { text?: string }[] }[] });
      }
    }
    if (course !== null && asked.previous !== null && asked.usable && code === 'previous_response_not_found')
      this.#responses.missed(asked.previous, organization.id);
    this.#seen(asked);
  }

  /** Records what a client has received of a response so far. */
  #seen(asked: Asked): void {
    const { exchange, kind, known, after, course, organization, previous, stored } = asked;
    const { events, over, status, aborted } = exchange;
    const isWhole = over && status === 200 && !aborted;
    if (kind === 'follow' && known !== null) {
      if (events !== null && known.background)
        this.#responses.followed(known, events, after, isWhole, this.#wasWell(known));
      return;
    }
    if (course === null || kind === 'chat') return;
    const { tag } = course;
    let resource = over && status === 200 ? (exchange.answer as Resource | null) : null;
    const [first] = events ?? [];
    const last = events?.filter(({ data }) => data !== '[DONE]').at(-1);
    // A foreground stream is stored before its last event. A failed stream is not guaranteed to be stored.
    if (kind === 'stream' && (last?.type === 'response.completed' || last?.type === 'response.incomplete'))
      resource = (JSON.parse(last.data) as { response: Resource }).response;
    if (kind === 'background' && first !== undefined)
      resource = (JSON.parse(first.data) as { response: Resource }).response;
    if (resource === null) return;
    const isNew = this.#responses.get(resource.id) === undefined;
    const kept =
      this.#responses.get(resource.id) ??
      this.#responses.add(
        {
          tag,
          id: resource.id,
          seenAt: asked.since,
          askedAt: exchange.receivedAt * 1000,
          organizationId: organization.id,
          createdAt: resource.created_at,
          stored,
          background: kind === 'background',
          previous,
          input: textOf(course),
        },
        resource,
      );
    if (organization.erasures.some(({ until }) => until >= exchange.receivedAt * 1000)) kept.deleteAsked = true;
    if (isNew && stored) this.figures.stored++;
    if (isNew && kind === 'background') this.figures.background++;
    if (kind === 'background' && events !== null)
      this.#responses.followed(kept, events, -1, isWhole, this.#wasWell(kept));
    else if (kind !== 'background') this.#output(course, resource);
  }

  /** Whether all writes have succeeded since the response was requested, which means that its log is complete. */
  #wasWell({ askedAt }: Known): boolean {
    return this.#disk.failedAt < askedAt;
  }

  #output({ tag, prompt }: Course, resource: Resource): void {
    const [text = ''] = outputOf(resource);
    const told = this.#told.get(tag);
    const expected = Array.from({ length: told?.tokens ?? 0 }, (_, at) => `${tag}.${at} `).join('');
    if (text !== expected)
      this.#violated(`${resource.id} says ${JSON.stringify(text)} but the model emitted ${JSON.stringify(expected)}`);
    if (resource.usage?.input_tokens !== prompt || resource.usage.output_tokens !== told?.tokens)
      this.#violated(
        `${resource.id} has usage ${JSON.stringify(resource.usage)}; its prompt had ${prompt} tokens, its output ${String(told?.tokens)}`,
      );
  }

  #items(known: Known, { data }: { data: { content: { text?: string }[] }[] }): void {
    const before = known.previous === null ? [] : this.#responses.texts(known.previous);
    // If an ancestor has been deleted or has expired, only part of the list remains.
    for (let at: Known | null = known; at !== null; at = at.previous) if (this.#responses.isLost(at)) return;
    if (before === null) return;
    const listed = data.map(({ content }) => content.map(({ text = '' }) => text).join(''));
    if (JSON.stringify(listed) !== JSON.stringify([...before, known.input]))
      this.#violated(
        `${known.id} was generated from ${JSON.stringify([...before, known.input])} but lists ${JSON.stringify(listed)}`,
      );
  }

  async #connect({ id }: Organization, draws: Draws): Promise<void> {
    const process = this.#process;
    const thread = this.#pick(this.#answering(), draws);
    if (process === null || thread === undefined) return;
    const { sockets } = process;
    const leaving = draws.below(2) === 0 ? sockets.findIndex(({ thread: index }) => index === thread.index) : -1;
    await this.time.as(thread.owner, () => {
      if (leaving >= 0) {
        const [{ leave, organizationId }] = sockets.splice(leaving, 1) as [Process['sockets'][number]];
        leave();
        leave();
        process.limits.leftSocket(organizationId);
        return;
      }
      try {
        sockets.push({ leave: thread.admission.connect(id, 3), organizationId: id, thread: thread.index });
      } catch {
        /* refused by the limit, which the witness has checked */
      }
    });
  }

  async #erase(organization: Organization, draws: Draws): Promise<void> {
    const { id } = organization;
    const thread = this.#pick(this.#answering(), draws);
    if (thread === undefined) return;
    const all = this.#responses.known.filter(({ organizationId }) => organizationId === id);
    for (const known of all) known.deleteAsked = true;
    const erasure = { owner: thread.owner, until: Infinity };
    organization.erasures.push(erasure);
    const over = (): void => {
      erasure.until = this.time.now;
    };
    await this.time.as(thread.owner, () => {
      thread.responses.eraseOrganization(id).then(() => {
        over();
        for (const known of all) known.deletedAt = Math.min(known.deletedAt, this.time.now);
      }, over);
    });
  }

  #answering(): SimThread[] {
    return this.#process?.state === 'up' ? this.#process.threads.filter((thread) => thread !== null) : [];
  }

  #pick<T>(of: readonly T[], draws: Draws): T | undefined {
    return of.length === 0 ? undefined : of[draws.below(of.length)];
  }

  async #start(): Promise<void> {
    if (this.#process !== null && this.#process.state !== 'over') return;
    const { time } = this;
    const answering = this.#threads > 1 ? this.#threads : 0;
    const process: Process = {
      owners: [],
      state: 'opening',
      failedAt: -Infinity,
      counters: new SharedArrayBuffer(tableBytes(RECORDS)),
      held: new SharedArrayBuffer(HeldResponses.bytes(answering + 1)),
      limits: new LimitsWitness(this.#config.limits, time, (what) => this.#violated(what)),
      hub: null,
      primary: null,
      threads: new Array<null>(answering).fill(null),
      running: 0,
      ledgers: Array.from({ length: answering + 1 }, () => new Int32Array(new SharedArrayBuffer(RECORDS * 4))),
      sockets: [],
    };
    this.#process = process;
    this.figures.restarts++;
    const owner = this.#owner(process);
    let bus: ThreadBus = new LocalBus();
    if (answering > 0)
      bus = process.hub = new HubBus({
        threads: answering,
        onError: (error, topic) => this.#errors.push(`${topic}: ${String(error)}`),
      });
    await time.as(owner, () => {
      SimThread.open(owner, bus, true, null, this.#common(process)).then(
        (thread) => {
          process.primary = thread;
          process.state = 'up';
          thread.onStorageFailure(() => {
            process.failedAt = Math.max(process.failedAt, time.now);
            if (process.state === 'up') void this.#orderly(process, 3 * SECOND);
          });
          if (answering === 0) process.threads.push(thread);
          for (let index = 1; index <= answering; index++) this.#startThread(process, index);
        },
        () => {
          // If the process cannot write at startup, it exits, and its supervisor restarts it.
          this.#end1(process);
          time.at(time.now + SECOND, { alive: true }, () => this.#start());
        },
      );
    });
  }

  #startThread(process: Process, index: number): void {
    const { time } = this;
    const { hub } = process;
    if (hub === null) return;
    const owner = this.#owner(process);
    const [port1, port2] = channel(time, process.owners[0] as Owner, owner, () => 20 + this.#draws.below(2 * MS));
    hub.add(index, port1);
    process.running++;
    // Before it receives messages, the thread loads its modules and attaches to the models.
    time.at(time.now + this.#draws.below(1_500) * MS, owner, () => {
      const bus = new PortBus(index, port2, {
        threads: this.#threads,
        onError: (error, topic) => this.#errors.push(`${topic}: ${String(error)}`),
      });
      SimThread.open(owner, bus, false, process.ledgers[index] as Int32Array, this.#common(process)).then(
        (thread) => {
          process.threads[index - 1] = thread;
          thread.onStorageFailure(() => {
            process.failedAt = Math.max(process.failedAt, time.now);
          });
        },
        () => this.#threadEnded(process, index, owner),
      );
    });
  }

  /** Does the same as HttpWorkers: frees what the thread held, and restarts the thread. */
  #threadEnded(process: Process, index: number, owner: Owner): void {
    const { time } = this;
    const { primary, hub } = process;
    if (!owner.alive || primary === null || hub === null) return;
    owner.alive = false;
    for (const { exchange, thread } of this.#asked) if (thread.owner === owner) exchange.leave();
    for (const told of this.#gone(owner)) process.limits.left(told.identity, told.model, told.n);
    for (const [at, socket] of [...process.sockets.entries()].reverse()) {
      if (socket.thread !== index) continue;
      process.limits.leftSocket(socket.organizationId);
      process.sockets.splice(at, 1);
    }
    process.threads[index - 1] = null;
    process.running--;
    this.time.owner = primary.owner;
    hub.remove(index);
    abortThread({
      index,
      admission: primary.admission,
      ledger: process.ledgers[index] as Int32Array,
      held: new HeldResponses(process.held),
      bus: hub,
      log: this.#log(),
      others: () => process.running,
      failUnfinished: (isRunning) => primary.failUnfinished(isRunning),
      closing: new AbortController().signal,
    });
    time.at(time.now + RESTART_PAUSE_US, primary.owner, () => this.#startThread(process, index));
  }

  async #loseThread(draws: Draws): Promise<void> {
    const process = this.#process;
    const threads = this.#answering();
    const thread = this.#pick(threads, draws);
    if (process === null || thread === undefined || thread.index === 0) return;
    this.figures.threads++;
    for (const asked of this.#asked) if (asked.thread === thread) this.#seen(asked);
    this.#threadEnded(process, thread.index, thread.owner);
    await this.time.settle();
  }

  /** Removes and returns the requests that the engines were generating for a thread that has exited. */
  #gone(owner: Owner): { identity: Identity; model: string; n: number }[] {
    const gone = [...this.#running].filter((told) => told.owner === owner);
    for (const told of gone) this.#running.delete(told);
    return gone.map(({ tag, model, n }) => ({
      identity: (this.#courses.get(tag) as Asked).exchange.identity,
      model,
      n,
    }));
  }

  readonly #running = new Set<Told>();

  #owner(process: Process): Owner {
    const owner = { alive: true };
    process.owners.push(owner);
    return owner;
  }

  #common(process: Process): Common {
    return {
      config: this.#config,
      disk: this.#disk,
      telemetry: this.#telemetry(),
      counters: process.counters,
      held: process.held,
      engines: {
        running: new Proxy(this.#running, {
          get: (set, name) => {
            if (name === 'add')
              return (told: Told) => {
                this.#told.set(told.tag, told);
                return set.add(told);
              };
            const value: unknown = Reflect.get(set, name, set);
            return typeof value === 'function' ? (value.bind(set) as unknown) : value;
          },
        }),
        prepared: (tag, texts) => this.#prepared(tag, texts),
        slot: (owner, what, organization, tag) => this.#slots.slot(owner, what, organization, tag),
      },
      watchAdmission: (admission) => process.limits.watch(admission),
      watchUsage: (usage) => ({
        finished: (end) => {
          this.#ended(end);
          usage.finished(end);
        },
        rejected: (rejected) => usage.rejected(rejected),
      }),
      storedMonth: (organizationId, month, tokens) => process.limits.storedMonth(organizationId, month, tokens),
      isSuspended: (organizationId) =>
        this.#organizations.some(({ id, suspended }) => id === organizationId && suspended),
    };
  }

  /** Checks the messages passed to the model. */
  #prepared(tag: number, texts: readonly string[]): void {
    const asked = this.#courses.get(tag);
    if (asked?.course == null || asked.previous === null) return;
    const before = this.#responses.texts(asked.previous);
    if (before === null) return;
    const expected = [...before, textOf(asked.course)].filter((text) => text !== '');
    const given = texts.filter((text) => text !== '');
    if (JSON.stringify(given) !== JSON.stringify(expected))
      this.#violated(
        `request ${tag} continues ${asked.previous.id}: it consists of ${JSON.stringify(given)} instead of ${JSON.stringify(expected)}`,
      );
    if (asked.previous.organizationId !== asked.organization.id)
      this.#violated(
        `request ${tag} continues ${asked.previous.id}, which belongs to ${asked.previous.organizationId}`,
      );
  }

  #ended(end: FinishedUsage): void {
    const { requestId, inputTokens, outputTokens } = end;
    const tag = Number(requestId.slice(4));
    const told = this.#told.get(tag);
    const owner = this.#owners.get(requestId);
    if (told === undefined || owner === undefined)
      return this.#violated(`usage is reported for ${requestId}, which never ran`);
    if (this.#ends.has(requestId) && owner.alive) this.#violated(`usage is reported twice for ${requestId}`);
    this.#ends.set(requestId, end);
    if (owner.alive ? outputTokens !== told.tokens || inputTokens !== told.promptTokens : outputTokens > told.tokens) {
      this.#violated(
        `usage of ${requestId} is reported as ${inputTokens} and ${outputTokens} tokens; its engine reported ${told.promptTokens} and ${told.tokens}`,
      );
    }
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
    return { log: this.#log(), generation: () => meter, request: () => undefined } as unknown as Telemetry;
  }

  #log(): Telemetry['log'] {
    return {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (fields, message) => {
        // Errors caused by disk faults are expected to be logged. Any other logged error is a finding.
        const { err } = fields as { err?: unknown };
        if (this.time.now - this.#disk.failedAt > 60 * SECOND)
          this.#errors.push(`${message}: ${String((err as Error | undefined)?.stack ?? err)}`);
      },
    };
  }

  /** Ends the process immediately. */
  #kill(): void {
    const process = this.#process;
    if (process === null || process.state === 'over') return;
    for (const asked of this.#asked) this.#seen(asked);
    this.#end1(process);
  }

  #end1(process: Process): void {
    process.state = 'over';
    this.#sum(process);
    for (const owner of process.owners) owner.alive = false;
    for (const { exchange } of this.#asked) if (!exchange.over) exchange.leave();
    this.#running.clear();
    this.#disk.breaksNext = false;
  }

  #sum({ limits }: Process): void {
    this.figures.admitted += limits.admitted;
    this.figures.refused += [...limits.refused.values()].reduce((sum, count) => sum + count, 0);
  }

  /**
   * Closes the connections, then everything else in order. The process is killed if that takes longer than
   * `patienceUs`.
   */
  async #orderly(process: Process, patienceUs: number): Promise<void> {
    process.state = 'ending';
    const { time } = this;
    const nobody = { alive: true };
    const end = (): void => {
      if (process.state === 'over') return;
      this.#end1(process);
      time.at(time.now + 500 * MS, nobody, () => this.#start());
    };
    time.at(time.now + patienceUs, nobody, end);
    const order = [
      ...process.threads.filter((thread) => thread !== null && thread !== process.primary),
      process.primary,
    ];
    time.at(time.now, nobody, () => {
      for (const asked of this.#asked) {
        if (asked.exchange.over) continue;
        this.#seen(asked);
        time.at(time.now, asked.thread.owner, () => asked.exchange.abort());
      }
      let left = order.length;
      for (const thread of order) {
        if (thread === null || thread === undefined) left--;
        else
          time.at(time.now + MS, thread.owner, () => {
            void thread
              .close()
              .catch((error: unknown) => this.#errors.push(`closing: ${String(error)}`))
              .then(() => {
                if (--left === 0) time.at(time.now, nobody, end);
              });
          });
      }
      if (left === 0) end();
    });
  }

  async #restart(): Promise<void> {
    const process = this.#process;
    if (process?.state !== 'up') return;
    await this.#orderly(process, 20 * SECOND);
  }

  async #pass(us: number): Promise<void> {
    await this.time.pass(us);
  }

  #violated(what: string): void {
    this.#violation ??= what;
  }

  #raise(): void {
    if (this.#violation === null && this.#errors.length > 0) this.#violation = `logged: ${this.#errors.join('; ')}`;
    if (this.#violation !== null) throw new Violation(this.#violation);
  }

  async #check(draws: Draws): Promise<void> {
    const process = this.#process;
    this.#asked = this.#asked.filter((asked) => !asked.exchange.over);
    for (const { erasures } of this.#organizations)
      for (const erasure of erasures) if (!erasure.owner.alive) erasure.until = Math.min(erasure.until, this.time.now);
    this.#slots.check();
    if (process?.primary != null && process.state === 'up') {
      const { primary } = process;
      await this.time.as(primary.owner, async () => {
        for (const organization of this.#organizations) {
          for (const model of MODELS) {
            let inFlight = 0;
            for (const told of this.#running)
              if (told.organization === organization.number && told.model === model) inFlight += told.n;
            process.limits.standing(
              primary.admission,
              { organizationId: organization.id, limits: organization.limits },
              model,
              inFlight,
            );
          }
        }
        const others = this.#organizations.map(({ id }) => id);
        const reader = this.#pick(this.#answering(), draws) ?? primary;
        for (let reads = 0; reads < 3; reads++) {
          const known = this.#pick(this.#responses.known, draws);
          if (known !== undefined) await this.#responses.check(known, reader.responses, others);
        }
        if (this.figures.steps % 16 === 0)
          await this.#responses.list((this.#organizations[draws.below(3)] as Organization).id, reader.responses);
      });
      this.#findOrphans();
    } else {
      this.#orphans.clear();
    }
    if (this.figures.steps % 64 === 0) this.#countUsage();
    this.#raise();
  }

  /** Finds background responses that are reported as in progress but that no thread is generating. */
  #findOrphans(): void {
    const threads = this.#process?.threads ?? [];
    const open = new Set<string>();
    for (const id of this.#open()) {
      if (threads.some((thread) => thread !== null && thread.background.find(id) !== null)) continue;
      open.add(id);
      const since = this.#orphans.get(id) ?? this.time.now;
      this.#orphans.set(id, since);
      if (this.time.now - Math.max(since, this.#disk.failedAt, this.#disk.fullUntil) > ORPHAN_US)
        this.#violated(
          `${id} is reported as in progress, but no thread has generated it for ${(this.time.now - since) / SECOND} seconds`,
        );
    }
    for (const id of this.#orphans.keys()) if (!open.has(id)) this.#orphans.delete(id);
  }

  /** Returns the responses that are reported as in progress and have not expired. */
  #open(): string[] {
    const { backing } = this.#disk;
    const ids = [
      ...(backing.table('response-times').keys({ from: ['open'], to: ['open', 1] }) as Iterable<
        [string, number, string]
      >),
    ].map(([, , id]) => id);
    return ids.filter(
      (id) =>
        (backing.table<Head>('responses').get(id)?.createdAt ?? 0) + this.#config.responses.retention_days * DAY_S >
        this.#responses.now,
    );
  }

  /**
   * Checks the recorded usage: each request is counted at most once, and monthly totals equal the sums. `isAll`: all
   * reported usage must have been recorded.
   */
  #countUsage(isAll = false): void {
    const { backing } = this.#disk;
    const months = new Map<string, number>();
    const rows = new Set<string>();
    for (const {
      value: { requestId, organizationId, endedAt, inputTokens, outputTokens },
    } of backing.table<UsageRow>('usage-rows').range()) {
      if (rows.has(requestId)) this.#violated(`the usage of ${requestId} is recorded twice`);
      rows.add(requestId);
      const end = this.#ends.get(requestId);
      if (end === undefined) this.#violated(`the usage of ${requestId} is recorded, but was never reported`);
      const month = `${organizationId} ${monthOf(endedAt)}`;
      months.set(month, (months.get(month) ?? 0) + inputTokens + outputTokens);
    }
    for (const { key, value } of backing.table<number>('usage-months').range()) {
      const [organizationId, month] = key as [string, string];
      const sum = months.get(`${organizationId} ${month}`) ?? 0;
      if (value !== sum)
        this.#violated(`${organizationId} has used ${value} tokens in ${month}; its recorded requests sum to ${sum}`);
    }
    if (!isAll) return;
    for (const requestId of this.#ends.keys())
      if (!rows.has(requestId) && this.#owners.get(requestId)?.alive === true)
        this.#violated(`the usage of ${requestId} was reported but is not recorded`);
    for (const { tag, tokens, owner } of this.#told.values())
      if (tokens > 0 && owner.alive && !this.#ends.has(`req_${tag}`))
        this.#violated(`the usage of req_${tag} was never reported`);
  }

  /** Ends the part: no more actions are applied, and everything must finish. */
  async #end(): Promise<void> {
    const { time } = this;
    this.#disk.fullUntil = 0;
    this.#disk.slowUs = 3 * MS;
    this.#disk.breaksNext = false;
    for (const { exchange } of this.#asked) exchange.stopped = false;
    await this.#pass(30 * SECOND);
    await this.#start();
    await this.#pass(170 * SECOND);
    const process = this.#process;
    if (process?.primary == null || process.state !== 'up')
      throw new Violation(`the service does not come up: it is ${String(process?.state)}`);
    const { primary } = process;
    for (const { exchange, kind } of this.#asked)
      if (!exchange.over) this.#violated(`${exchange.requestId} (${kind}) has no response`);
    if (this.#running.size > 0) this.#violated(`${this.#running.size} requests run forever`);
    for (const thread of this.#answering()) {
      if (thread.background.size > 0)
        this.#violated(`${thread.background.size} background responses of thread ${thread.index} never end`);
      if (thread.generations.size > 0)
        this.#violated(`${thread.generations.size} generations of thread ${thread.index} are listed, but none runs`);
    }
    const held = new Int32Array(process.held).findIndex((count) => count !== 0);
    if (held >= 0) this.#violated('a chain is held, but no request continues it');
    for (const id of this.#open()) this.#violated(`${id} is in progress forever`);
    this.#countUsage(true);
    await this.time.as(primary.owner, async () => {
      const others = this.#organizations.map(({ id }) => id);
      for (const organizationId of others) {
        await this.#responses.list(organizationId, primary.responses);
        for (const model of MODELS)
          process.limits.standing(
            primary.admission,
            { organizationId, limits: this.#organizations.find(({ id }) => id === organizationId)?.limits ?? {} },
            model,
            0,
          );
      }
      for (const known of this.#responses.known) await this.#responses.check(known, primary.responses, others);
    });
    this.#raise();
    // All responses have expired, so no row may remain.
    time.leapWall(31 * DAY_S * 1000);
    await this.time.as(primary.owner, () => {
      void primary.responses.sweep();
    });
    await this.#pass(60 * SECOND);
    for (const name of [
      'responses',
      'response-resources',
      'response-inputs',
      'response-outputs',
      'response-images',
      'response-items',
      'response-events',
      'response-times',
      'responses-by-organization',
    ] as const) {
      const rows = [...this.#disk.backing.table(name).keys()];
      if (rows.length > 0)
        this.#violated(
          `${rows.length} rows of ${name} are left after all responses have expired: ${JSON.stringify(rows.slice(0, 3))}`,
        );
    }
    this.#sum(process);
    this.figures.reads += this.#responses.read;
    this.figures.slots += this.#slots.began;
    for (const owner of process.owners) owner.alive = false;
    this.#raise();
  }
}

export const newTrace = (): Hash => createHash('sha256');

function kindOf(draws: Draws): Kind {
  let left = draws.unit() * WEIGHTS;
  for (const kind of ALL_KINDS) if ((left -= KINDS[kind]) < 0) return kind;
  return 'wait';
}
