// Background responses: generated without anybody waiting. Each is stored as queued before its request is
// answered, its events go into a log that streams are served from, and its end into storage, whoever listens.
// Event-loop thread only: a response runs on the thread that admitted it. Others are told over the bus when
// its log has grown, and ask over it when it is to be stopped.
//
//   turn ─► events ─► tail (memory) ─► every 200 ms, all runs in one commit ─► log (storage) ─► streams
//                                      at once and then every 25 ms, while somebody follows
//
// A database that is away for a moment costs nothing of it: what could not be written is written when it is back, in
// its order, for as long as PATIENCE_MS behind the end. What then is not there ends as if its process had.
//
// A stream is sent what is in the log: after a crash the log goes on where it ends, and no number that anybody
// has seen stands for another event. What a response came to is saved durably before its last event, log or
// no log.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, apiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { BufferReservation } from '../../generation/provider.js';
import type { Exchange, KeptAnswer } from '../../http/exchange.js';
import type { Identity } from '../../shared/identity.js';
import {
  isUnfinished,
  type ResponseHead,
  type ResponseRecord,
  type ResponseStore,
} from '../../storage/response-store.js';
import type { StoredEvent } from '../../shared/stored-event.js';
import type { UsageSink } from '../../shared/usage-sink.js';
import { finished } from '../../telemetry/outcome.js';
import type { RequestRecord } from '../../telemetry/outcome.js';
import type { Telemetry } from '../../telemetry/types.js';
import { LocalBus, type ThreadBus } from '../../shared/bus.js';
import type { Caller } from '../caller.js';
import type { RunningGenerations } from '../running-generations.js';
import type { EventDialect } from './encode-items.js';
import type { CreateGeneration } from './parse.js';
import { isOfEnd, isTerminal, terminalEvents, unbroken } from './replay.js';
import type { ResponseResource } from './resource.js';
import { RemoteRun } from './remote-run.js';
import { sendEvents, type EventSource } from './stored-stream.js';
import { startTurn, type Turn, type TurnDeps, type TurnEnd } from './turn.js';

const FLUSH_MS = 200;
/** Events that one commit takes of one response; more of them go at once. */
const FLUSH_EVENTS = 512;
/** Pause between two commits for those who follow: the database's one writer's place is not fair, and other processes want it too. */
const REST_MS = 25;
/** A cancelled response is stored before it is said to be: a disk may be slow. */
const CANCEL_MS = 10_000;
/** How long a response that has ended waits for a database that is away, and how often it tries; after that it has failed, and that is tried ever more rarely. */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 200;
const LATEST_AGAIN_MS = 30_000;
/** Whoever cancels is told sooner. */
const CANCEL_PATIENCE_MS = 2_000;
/** Events that wait for it; beyond that the log has a gap. */
const KEPT_EVENTS = 20_000;

const isAway = (error: unknown): boolean => error instanceof ApiError && error.code === 'maintenance';

/** Its end is stored as soon as there is room: see BackgroundRun. */
export function endNotStored(): ApiError {
  return apiError('maintenance', 'The server cannot store responses at the moment.');
}

export class BackgroundResponses {
  readonly #runs = new Map<string, BackgroundRun>();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    private readonly responses: ResponseStore,
    private readonly telemetry: Telemetry,
    private readonly bus: ThreadBus = new LocalBus(),
  ) {
    bus.on('response.cancel', async ({ id }) => {
      const run = this.find(id);
      await run?.cancel().catch(() => undefined); // whoever asks sees in storage that it has not ended
      return run !== null;
    });
  }

  /** Those that run. */
  get size(): number {
    return this.#runs.size;
  }

  /** Resolves when none runs. */
  async idle(): Promise<void> {
    while (this.#runs.size > 0) await Promise.all([...this.#runs.values()].map(({ finished }) => finished));
  }

  /** Stops the response on whichever thread it runs; resolves when it is stored as it ended, or, on another thread, cannot be. False if it runs nowhere. */
  async cancel(id: string): Promise<boolean> {
    const run = this.find(id);
    if (run === null) return (await this.bus.ask('response.cancel', { id }, CANCEL_MS)).includes(true);
    await run.cancel();
    return true;
  }

  /** The events of a response that may run on another thread or in another process, or not be logged to the end there. */
  async elsewhere({ organizationId, id, status, background }: ResponseHead): Promise<EventSource | null> {
    if (this.bus.alone || !background) return null;
    if (!isUnfinished(status) && (await this.responses.events(id, -1, 1)) === null) return null;
    return RemoteRun.open(this.responses, this.bus, organizationId, id);
  }

  /** The run on this thread of an unfinished response, or of one whose last events are not logged yet. */
  find(id: string): BackgroundRun | null {
    return this.#runs.get(id) ?? null;
  }

  /**
   * Admits the request, stores the response as queued and lets it run: see `queued`. Null if the client has gone before it was
   * admitted. Throws ApiError 422, 429, 503; nothing runs then. `kept`: what is held for it until its end.
   */
  async start(
    deps: TurnDeps,
    caller: Caller,
    model: ServedModel,
    created: CreateGeneration,
    dialect: EventDialect,
    kept: KeptAnswer,
  ): Promise<BackgroundRun | null> {
    const detached = new DetachedCaller(caller, kept);
    const run = new BackgroundRun(this.responses, this.telemetry, this.bus);
    const turn = await startTurn({ ...deps, usage: run.usageInto(deps.usage) }, detached, model, created, {
      take: (event) => run.take(event),
      dialect,
      errorEvents: true,
      save: (record) => run.save(record),
      hold: (bytes) => kept.hold(bytes),
    });
    detached.detach();
    if (turn === null) return null;
    void turn.done.then((end) => {
      kept.release();
      this.#ended(detached, end);
    });
    const stored = run.begin(turn); // before any event of the engine: they come with later turns of the event loop
    this.#runs.set(turn.id, run);
    void run.finished.then(() => this.#runs.delete(turn.id));
    this.#timer ??= setInterval(() => this.#flush(), FLUSH_MS).unref();
    try {
      await stored;
    } catch (error) {
      run.giveUp(); // whoever asked is told now
      await run.cancel().catch(() => undefined);
      throw error;
    }
    return run;
  }

  /** What still runs is given up; the next start finds it unfinished. Resolves when nothing of it is being written. */
  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await Promise.all([...this.#runs.values()].map((run) => run.abandon()));
    this.#runs.clear();
  }

  /** Its outcome is its own: the request that began it has been answered. */
  #ended(
    { identity, requestId, endpoint, receivedAt, fields, trace }: DetachedCaller,
    { record, error }: TurnEnd,
  ): void {
    const aborted = record.status === 'cancelled';
    this.telemetry.request(
      finished({
        requestId,
        clientRequestId: null,
        method: 'BACKGROUND',
        path: endpoint,
        status: error?.status ?? (aborted ? 0 : 200),
        failure: error,
        organizationId: identity.organizationId,
        keyId: identity.keyId,
        durationMs: performance.now() - receivedAt,
        aborted,
        fields: { model: record.model, ...fields },
        trace,
      }),
    );
  }

  #flush(): void {
    for (const run of this.#runs.values()) run.flush();
    if (this.#runs.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}

/** One background response from its admission to its end; its events for any number of streams. */
export class BackgroundRun implements EventSource {
  /** Resolves when the response has ended and is in storage with all its events. Never rejects. */
  readonly finished: Promise<void>;
  ended = false;
  #settle!: () => void;
  #turn: Turn | null = null;
  #queued: ResponseRecord | null = null;
  #stored: Promise<void> = Promise.resolve(); // as queued
  #tail: StoredEvent[] = []; // those logged last, and those that are not in the log yet, without gaps
  #logged = 0; // so many of it are in the log, or will never be
  #last: StoredEvent | null = null;
  readonly #end: StoredEvent[] = [];
  #unflushed = 0;
  #flushing: Promise<void> | null = null;
  #resting = false; // the database is left to others for a moment
  #progress: Promise<void> = Promise.resolve(); // stored as in progress
  #state: 'running' | 'finishing' | 'abandoned' = 'running';
  #patientUntil = Infinity;
  #tellUsage: () => void = () => undefined;
  #isStored = false; // as it ended
  #isGivenUp = false; // to store that
  #wakeRetry: () => void = () => undefined;
  #onTried: (() => void)[] = [];
  readonly #watchers = new Set<() => void>();

  constructor(
    private readonly responses: ResponseStore,
    private readonly telemetry: Telemetry,
    private readonly bus: ThreadBus,
  ) {
    this.finished = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** The response as it was when it was admitted. */
  get queued(): ResponseRecord {
    if (this.#queued === null) throw new Error('a background response that has not begun');
    return this.#queued;
  }

  /** Told once the end is stored: if it never is, the next start counts what the log has, and must not count it again. */
  usageInto(sink: UsageSink): UsageSink {
    return {
      finished: (usage) => {
        this.#tellUsage = () => sink.finished(usage);
      },
      rejected: (usage) => sink.rejected(usage),
    };
  }

  /** Resolves when the response is stored as queued. */
  begin(turn: Turn): Promise<void> {
    this.#turn = turn;
    const queued = turn.record();
    this.#queued = { ...queued, input: [] };
    this.#stored = this.responses.save(queued).then(() => {
      turn.forgetInput();
    });
    void turn.done.then((end) => this.#finish(end));
    return this.#stored;
  }

  take(event: StoredEvent): void {
    if (this.#state === 'abandoned') return;
    this.#push(event);
    if (event.type === 'response.in_progress' && this.#turn !== null) {
      // Only clients that poll look at it: what follows does not wait for it, and replaces it.
      this.#progress = this.responses.save(this.#turn.record()).catch((error: unknown) => this.#unexpected(error));
    }
    if (++this.#unflushed >= FLUSH_EVENTS || (this.#watchers.size > 0 && !this.#resting)) this.flush();
  }

  /** As it ends. Rejects with ApiError 503 only when the database has been away for long. */
  async save(record: ResponseRecord): Promise<void> {
    this.#endIsNear();
    await this.#patiently(() => this.responses.save(record));
  }

  /** Waits no more for a database that is away. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#patientUntil = -Infinity;
    this.#wakeRetry();
  }

  /** Stops it; resolves when it is stored as it ended, which it may have done before. Rejects with ApiError 503 if that cannot be stored now. */
  async cancel(): Promise<void> {
    this.#endIsNear(CANCEL_PATIENCE_MS);
    await this.#turn?.cancel();
    if (!this.#isStored && !this.ended) {
      const tried = new Promise<void>((resolve) => {
        this.#onTried.push(resolve);
      });
      this.#wakeRetry();
      await tried;
    }
    if (!this.#isStored) throw endNotStored();
    await this.finished;
  }

  /** Stops writing; resolves when the write under way is done. A response that has ended is written to its end, if that can be. */
  async abandon(): Promise<void> {
    this.giveUp();
    if (this.#state === 'finishing') {
      await this.finished;
      return;
    }
    this.#state = 'abandoned';
    await Promise.allSettled([this.#stored, this.#flushing, this.#progress]);
  }

  /** Hands new events to the log, unless the last hand-over is still under way. */
  flush(): void {
    if (this.#flushing !== null || this.#tail.length === this.#logged || this.#state === 'abandoned') return;
    this.#flushing = this.#log().finally(() => {
      this.#flushing = null;
      if (this.#watchers.size > 0) this.#rest();
    });
  }

  #rest(): void {
    this.#resting = true;
    setTimeout(() => {
      this.#resting = false;
      this.flush();
    }, REST_MS).unref();
  }

  get end(): readonly StoredEvent[] {
    return this.#end;
  }

  async after(after: number, atLeast: number): Promise<readonly StoredEvent[] | null> {
    const { ended } = this;
    const found = await this.#after(after, atLeast);
    if (found === null) return (await this.#isOnItsWay()) ? [] : null;
    const events = unbroken(found, after);
    if (found.length === 0 || events.length > 0) return events;
    return ended ? this.#end.filter(({ sequence }) => sequence > after) : [];
  }

  /** Its log is over, by the calendar, before its last events are in it; they come. */
  async #isOnItsWay(): Promise<boolean> {
    return (
      !this.ended &&
      this.#end.length === 0 &&
      (await this.responses.head(this.queued.organizationId, this.queued.id)) !== null
    );
  }

  /** With what lies behind a gap. */
  async #after(after: number, atLeast: number): Promise<readonly StoredEvent[] | null> {
    const [first] = this.#tail;
    const inTail = (): StoredEvent[] => {
      const begin = first === undefined ? 0 : Math.max(0, after + 1 - first.sequence);
      return this.#tail.slice(begin, Math.min(begin + atLeast, this.#logged));
    };
    if (first !== undefined && first.sequence <= after + 1) return inTail();
    const logged = await this.responses.events(this.queued.id, after, atLeast);
    if (logged === null || first === undefined) return logged;
    const before = logged.filter(({ sequence }) => sequence < first.sequence);
    if (before.length > 0) return before;
    return this.#tail[0] === first ? inTail() : this.#after(after, atLeast); // more has been logged meanwhile
  }

  watch(wake: () => void): () => void {
    this.#watchers.add(wake);
    this.flush();
    return () => this.#watchers.delete(wake);
  }

  #push(event: StoredEvent): void {
    this.#tail.push(event);
    this.#last = event;
    if (isOfEnd(event)) this.#end.push(event);
  }

  async #log(): Promise<void> {
    let events: readonly StoredEvent[] = [];
    try {
      await this.#stored;
      events = this.#tail.slice(this.#logged);
      this.#unflushed = 0;
      await this.responses.appendEvents(this.queued.id, events, this.#turn?.soFar());
    } catch (error) {
      this.#unexpected(error);
      // No event stands in the log without those before it, as long as they can be kept.
      if (isAway(error) && this.#keepsEvents && events.length < KEPT_EVENTS) return;
    }
    this.#tail.splice(0, this.#logged);
    this.#logged = events.length;
    this.bus.publish('response.logged', { id: this.queued.id, ended: false });
    this.#wake();
  }

  async #finish({ record }: TurnEnd): Promise<void> {
    if (this.#state === 'abandoned') return;
    this.#state = 'finishing';
    this.#endIsNear();
    try {
      await this.#stored.catch((error: unknown) => {
        this.#tellUsage(); // nothing of it is in storage that could be counted
        throw error;
      });
      await this.#saveEnd(record);
      this.#tellUsage();
      if (this.#last !== null && !isTerminal(this.#last)) {
        for (const event of terminalEvents(record.resource as unknown as ResponseResource, this.#last.sequence + 1))
          this.#push(event);
      }
      for (let left = Infinity; this.#tail.length > this.#logged; left = this.#tail.length - this.#logged) {
        if (this.#tail.length - this.#logged >= left) await sleep(AGAIN_MS);
        this.flush();
        await this.#flushing;
      }
    } catch (error) {
      this.#unexpected(error);
    }
    this.ended = true;
    this.bus.publish('response.logged', { id: this.queued.id, ended: true, end: this.#end });
    this.#tried();
    this.#settle();
    this.#wake();
  }

  #endIsNear(patience: number = PATIENCE_MS): void {
    this.#patientUntil = Math.min(this.#patientUntil, performance.now() + patience);
  }

  /** Until its end is stored, and for a while after that. */
  get #keepsEvents(): boolean {
    return !this.#isGivenUp && (!this.#isStored || performance.now() < this.#patientUntil);
  }

  async #patiently(work: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isAway(error) || performance.now() + AGAIN_MS >= this.#patientUntil) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }

  /** If the turn could not save how it ended, a client that polls would wait for ever: it is tried until it can be, or the server ends. */
  async #saveEnd(record: ResponseRecord): Promise<void> {
    for (let wait = AGAIN_MS; ; wait = Math.min(2 * wait, LATEST_AGAIN_MS)) {
      try {
        const stored = await this.responses.head(record.organizationId, record.id);
        // Of one whose time is over meanwhile nothing can be read, but the next start would still find it unfinished.
        if (stored === null || isUnfinished(stored.status)) await this.responses.save(record);
        this.#isStored = true;
        if (!this.#isGivenUp) this.#patientUntil = performance.now() + PATIENCE_MS; // for its log
        return;
      } catch (error) {
        if (this.#isGivenUp || !isAway(error)) throw error;
      } finally {
        this.#tried();
      }
      await new Promise<void>((resolve) => {
        this.#wakeRetry = resolve;
        setTimeout(resolve, wait).unref();
      });
    }
  }

  #tried(): void {
    for (const tell of this.#onTried.splice(0)) tell();
  }

  #wake(): void {
    for (const wake of [...this.#watchers]) wake();
  }

  /** Storage logs its own failures. */
  #unexpected(error: unknown): void {
    if (error instanceof ApiError) return;
    this.telemetry.log.error(
      { err: error, response_id: this.#queued?.id ?? null },
      'unexpected failure of a background response',
    );
  }
}

/** The answer to the request that asked for it: the response as queued, or its events; closing the stream does not stop it. */
export function answerBackground(
  exchange: Exchange,
  run: BackgroundRun,
  stream: boolean,
  dialect: EventDialect,
  running: Pick<RunningGenerations, 'add'>,
): void {
  if (stream) sendEvents(exchange, run, -1, dialect, running);
  else exchange.json(200, run.queued.resource);
}

/** The request that asked for it is over soon: then nothing of it is kept but what the log says of it. */
class DetachedCaller implements Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly endpoint: string;
  readonly shape: Caller['shape'];
  readonly receivedAt: number;
  readonly trace: Caller['trace'];
  fields: RequestRecord['fields'] = {};
  #caller: Caller | null;

  /** `kept`: the memory reserved for the response until its end. */
  constructor(
    caller: Caller,
    private readonly kept: KeptAnswer,
  ) {
    this.#caller = caller;
    ({
      identity: this.identity,
      requestId: this.requestId,
      endpoint: this.endpoint,
      shape: this.shape,
      receivedAt: this.receivedAt,
    } = caller);
    this.trace = caller.trace?.detached('background', caller.receivedAt);
  }

  get aborted(): boolean {
    return this.#caller?.aborted ?? false;
  }

  onAborted(callback: () => void): void {
    this.#caller?.onAborted?.(callback);
  }

  keeping(): BufferReservation {
    return new PartOfReservation(this.kept);
  }

  setHeader(name: string, value: string): void {
    this.#caller?.setHeader(name, value);
  }

  annotate(fields: Parameters<Caller['annotate']>[0]): void {
    this.fields = { ...this.fields, ...fields };
    this.#caller?.annotate(fields);
  }

  detach(): void {
    this.#caller = null;
  }
}

/** A part of another reservation, released on its own. */
class PartOfReservation implements BufferReservation {
  #bytes = 0;

  constructor(private readonly all: KeptAnswer) {}

  hold(bytes: number): void {
    this.all.hold(bytes);
    this.#bytes += bytes;
  }

  free(bytes: number): void {
    const fewer = Math.min(bytes, this.#bytes);
    this.all.free(fewer);
    this.#bytes -= fewer;
  }

  release(): void {
    this.free(this.#bytes);
  }
}
