// Background responses, which are generated without an open client connection. Each is stored as queued before its
// request is answered. Its events are written to a log, from which streams are served, and its final state is stored
// whether or not a client is listening. Event-loop thread only: a response runs on the thread that admitted it. Other
// threads are notified over the bus when its log grows, and use the bus to request its cancellation.
//
//   turn ─► events ─► tail (memory) ─► every 200 ms, all runs in one commit ─► log (storage) ─► streams
//                                      immediately, then every 25 ms, while a client follows
//
// A short database outage loses nothing: failed writes are retried in order until PATIENCE_MS after the response's end.
// Events still missing at that point are lost, as in a process crash.
//
// Streams send only logged events. After a crash, the log continues where it left off, so an event number never refers
// to two different events. A response's final state is stored durably before its last event is sent, even if the log
// cannot be written.
import type { BufferReservation } from '../../shared/buffer-reservation.js';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, apiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { Exchange } from '../../http/exchange.js';
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
import type { WebhookEvents } from '../../webhooks/webhook-events.js';
import type { EventDialect } from './encode-items.js';
import type { CreateGeneration } from './parse.js';
import { isOfEnd, isTerminal, terminalEvents, unbroken } from './replay.js';
import type { ResponseResource } from './resource.js';
import { RemoteRun } from './remote-run.js';
import { sendEvents, type EventSource } from './stored-stream.js';
import { startResponseRun, type ResponseRun, type ResponseRunDeps, type ResponseRunEnd } from './response-run.js';

const FLUSH_MS = 200;
/**
 * Events of a response are written immediately once this many are pending. Also the maximum number of events per
 * commit.
 */
const FLUSH_EVENTS = 512;
/**
 * Pause between two commits while clients follow the stream. The database has a single, unfair writer lock, which other
 * processes need too.
 */
const REST_MS = 25;
/**
 * How long to wait for another thread to cancel a response, in ms. The thread stores the cancelled response before it
 * confirms the cancellation, and disks can be slow.
 */
const CANCEL_MS = 10_000;
/**
 * For PATIENCE_MS after its end, a response waits for an unavailable database, retrying every AGAIN_MS. After that, the
 * response counts as failed, and storing this result is retried at growing intervals of up to LATEST_AGAIN_MS.
 */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 200;
const LATEST_AGAIN_MS = 30_000;
/** Like PATIENCE_MS, but for cancel requests. */
const CANCEL_PATIENCE_MS = 2_000;
/**
 * Maximum number of pending events kept in memory while the database is unavailable. If there are more, the log gets a
 * gap.
 */
const KEPT_EVENTS = 20_000;

const isAway = (error: unknown): boolean => error instanceof ApiError && error.code === 'maintenance';

/** Thrown if a response's final state currently cannot be stored. BackgroundRun stores it as soon as possible. */
export function endNotStored(): ApiError {
  return apiError('maintenance', 'The server cannot store responses at the moment. Retry later.');
}

export class BackgroundResponses {
  readonly #runs = new Map<string, BackgroundRun>();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    private readonly responses: ResponseStore,
    private readonly telemetry: Telemetry,
    private readonly bus: ThreadBus = new LocalBus(),
    private readonly webhooks: Pick<WebhookEvents, 'expect' | 'ended'> | null = null,
  ) {
    bus.on('response.cancel', async ({ id }) => {
      const run = this.find(id);
      await run?.cancel().catch(() => undefined); // the status shows the client that the response is unfinished
      return run !== null;
    });
  }

  /** The number of running responses. */
  get size(): number {
    return this.#runs.size;
  }

  /** Resolves when no response is running. */
  async idle(): Promise<void> {
    while (this.#runs.size > 0) await Promise.all([...this.#runs.values()].map(({ finished }) => finished));
  }

  /**
   * Cancels the response on the thread that runs it. Resolves when the response's final state is stored. For a response
   * on another thread, also resolves if storing failed there. Resolves to false if no thread runs the response.
   */
  async cancel(id: string): Promise<boolean> {
    const run = this.find(id);
    if (run === null) return (await this.bus.ask('response.cancel', { id }, CANCEL_MS)).includes(true);
    await run.cancel();
    return true;
  }

  /**
   * Returns the events of a response that may be running on another thread or in another process, or whose log is
   * incomplete. Null if there are no events.
   */
  async runningElsewhere({ organizationId, id, status, background }: ResponseHead): Promise<EventSource | null> {
    if (this.bus.alone || !background) return null;
    if (!isUnfinished(status) && (await this.responses.events(id, -1, 1)) === null) return null;
    return RemoteRun.open(this.responses, this.bus, organizationId, id);
  }

  /**
   * Returns the response's run if it belongs to this thread and is unfinished, or if its last events have not been
   * logged yet.
   */
  find(id: string): BackgroundRun | null {
    return this.#runs.get(id) ?? null;
  }

  /**
   * Admits the request, stores the response as queued and starts it (see `queued`). Returns null if the client
   * disconnected before the admission. Throws ApiError 422, 429 or 503 without starting anything. `kept`: a memory
   * reservation that lasts until the response ends.
   */
  async start(
    deps: ResponseRunDeps,
    caller: Caller,
    model: ServedModel,
    created: CreateGeneration,
    { dialect, kept }: { dialect: EventDialect; kept: BufferReservation },
  ): Promise<BackgroundRun | null> {
    const detached = new DetachedCaller(caller, kept);
    const run = new BackgroundRun(this.responses, this.telemetry, this.bus);
    const turn = await startResponseRun({ ...deps, usage: run.usageInto(deps.usage) }, detached, model, created, {
      take: (event) => run.take(event),
      dialect,
      errorEvents: true,
      save: (record) => run.save(record),
      patiently: (work) => run.patiently(work),
      hold: (bytes) => kept.reserve(bytes),
    });
    detached.detach();
    if (turn === null) return null;
    void turn.done.then((end) => {
      kept.release();
      this.#ended(detached, end);
    });
    const stored = run.begin(turn); // before the engine's first event, which arrives in a later event-loop iteration
    this.#runs.set(turn.id, run);
    void run.finished.then(() => this.#runs.delete(turn.id));
    this.#timer ??= setInterval(() => this.#flush(), FLUSH_MS).unref();
    try {
      await stored;
      await this.#expectEnd(caller.identity.organizationId, turn.id, run);
    } catch (error) {
      run.abort(); // the client receives this error, so nothing is retried
      await run.cancel().catch(() => undefined);
      throw error;
    }
    return run;
  }

  /** Throws ApiError 503 if the end of the response could not be reported to the organization's webhook endpoints. */
  async #expectEnd(organizationId: string, id: string, { finished }: BackgroundRun): Promise<void> {
    const { webhooks } = this;
    if (webhooks === null) return;
    await webhooks.expect(organizationId, id);
    void finished.then(() => webhooks.ended(id)).catch(() => undefined); // the dispatcher looks for the end later
  }

  /**
   * Abandons all running responses. The next startup finds them unfinished. Resolves when their pending writes are
   * complete.
   */
  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await Promise.all([...this.#runs.values()].map((run) => run.abandon()));
    this.#runs.clear();
  }

  /** Logs the outcome separately, because the request that started the response is already over. */
  #ended(
    { identity, requestId, endpoint, receivedAt, client, fields, trace }: DetachedCaller,
    { record, error }: ResponseRunEnd,
  ): void {
    const aborted = record.status === 'cancelled';
    this.telemetry.request(
      finished({
        requestId,
        clientRequestId: null,
        method: 'BACKGROUND',
        path: endpoint,
        client,
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

/** A background response, from admission to its end. Serves its events to any number of streams. */
export class BackgroundRun implements EventSource {
  /** Resolves when the response has ended and is stored together with all its events. Never rejects. */
  readonly finished: Promise<void>;
  ended = false;
  #settle!: () => void;
  #turn: ResponseRun | null = null;
  #queued: ResponseRecord | null = null;
  #stored: Promise<void> = Promise.resolve(); // resolves when it is stored as queued
  #tail: StoredEvent[] = []; // the most recently logged events and all later ones, without gaps
  #logged = 0; // number of events in `#tail` that have been logged or dropped
  #last: StoredEvent | null = null;
  readonly #end: StoredEvent[] = [];
  #unflushed = 0;
  #flushing: Promise<void> | null = null;
  #resting = false; // pausing between commits, so that others can use the database
  #progress: Promise<void> = Promise.resolve(); // resolves when it is stored as in progress
  #state: 'running' | 'finishing' | 'abandoned' = 'running';
  #patientUntil = Infinity;
  #reportUsage: () => void = () => undefined;
  #isStored = false; // its final state is stored
  #isAborted = false; // no further attempts are made to store the final state
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

  /** The record of the response as it was stored at admission. */
  get queued(): ResponseRecord {
    if (this.#queued === null) throw new Error('the background response has not started');
    return this.#queued;
  }

  /**
   * Delays the usage record until the response's final state has been stored. If it can never be stored, the usage is
   * counted from the log at the next startup, and it must not be counted twice.
   */
  usageInto(sink: UsageSink): UsageSink {
    return {
      finished: (usage) => {
        this.#reportUsage = () => sink.finished(usage);
      },
      rejected: (usage) => sink.rejected(usage),
    };
  }

  /** Resolves when the response is stored as queued. */
  begin(turn: ResponseRun): Promise<void> {
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
      // Only polling clients can observe this status, so the code below does not wait until it is stored. The final
      // state overwrites it.
      this.#progress = this.responses.save(this.#turn.record()).catch((error: unknown) => this.#unexpected(error));
    }
    if (++this.#unflushed >= FLUSH_EVENTS || (this.#watchers.size > 0 && !this.#resting)) this.flush();
  }

  /** Stores the final state. Rejects with ApiError 503 only after a long database outage. */
  async save(record: ResponseRecord): Promise<void> {
    this.#endIsNear();
    await this.patiently(() => this.responses.save(record));
  }

  /** Stops waiting for an unavailable database. */
  abort(): void {
    this.#isAborted = true;
    this.#patientUntil = -Infinity;
    this.#wakeRetry();
  }

  /**
   * Stops the response. Resolves when its final state is stored, even if the response had already ended. Rejects with
   * ApiError 503 if its final state cannot be stored now.
   */
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

  /**
   * Stops writing. Resolves when the current write is complete. If the response has ended, its remaining events are
   * written if possible.
   */
  async abandon(): Promise<void> {
    this.abort();
    if (this.#state === 'finishing') {
      await this.finished;
      return;
    }
    this.#state = 'abandoned';
    await Promise.allSettled([this.#stored, this.#flushing, this.#progress]);
  }

  /** Writes new events to the log, unless a write is still in progress. */
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

  /**
   * Whether the last events still need to be written although the log no longer exists, because it expired before they
   * were written.
   */
  async #isOnItsWay(): Promise<boolean> {
    return (
      !this.ended &&
      this.#end.length === 0 &&
      (await this.responses.head(this.queued.organizationId, this.queued.id)) !== null
    );
  }

  /** Reads events from the log and the tail, including events after a gap. */
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
    return this.#tail[0] === first ? inTail() : this.#after(after, atLeast); // more events were logged in the meantime
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
      // Keeps the events for the next attempt, as long as memory allows, so that the log does not get a gap.
      if (isAway(error) && this.#keepsEvents && events.length < KEPT_EVENTS) return;
    }
    this.#tail.splice(0, this.#logged);
    this.#logged = events.length;
    this.bus.publish('response.logged', { id: this.queued.id, ended: false });
    this.#wake();
  }

  async #finish({ record }: ResponseRunEnd): Promise<void> {
    if (this.#state === 'abandoned') return;
    this.#state = 'finishing';
    this.#endIsNear();
    try {
      await this.#stored.catch((error: unknown) => {
        this.#reportUsage(); // nothing has been stored from which the next startup could count the usage
        throw error;
      });
      await this.#saveEnd(record);
      this.#reportUsage();
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

  /** Whether pending events are kept: until the final state is stored, and for some time after that. */
  get #keepsEvents(): boolean {
    return !this.#isAborted && (!this.#isStored || performance.now() < this.#patientUntil);
  }

  /** Repeats a write while the database is unavailable, until the response's time limit for waiting has passed. */
  async patiently(work: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isAway(error) || performance.now() + AGAIN_MS >= this.#patientUntil) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }

  /** Retries until the final state is stored or the server stops. Otherwise, a polling client would wait forever. */
  async #saveEnd(record: ResponseRecord): Promise<void> {
    for (let wait = AGAIN_MS; ; wait = Math.min(2 * wait, LATEST_AGAIN_MS)) {
      try {
        const stored = await this.responses.head(record.organizationId, record.id);
        // A response that has expired in the meantime cannot be read, but its final state is stored anyway, because
        // otherwise the next startup would still find it unfinished.
        if (stored === null || isUnfinished(stored.status)) await this.responses.save(record);
        this.#isStored = true;
        if (!this.#isAborted) this.#patientUntil = performance.now() + PATIENCE_MS; // more time for its log
        return;
      } catch (error) {
        if (this.#isAborted || !isAway(error)) throw error;
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
    for (const notify of this.#onTried.splice(0)) notify();
  }

  #wake(): void {
    for (const wake of [...this.#watchers]) wake();
  }

  /** Storage errors arrive here as ApiErrors, which the storage has already logged. */
  #unexpected(error: unknown): void {
    if (error instanceof ApiError) return;
    this.telemetry.log.error(
      { err: error, response_id: this.#queued?.id ?? null },
      'unexpected failure of a background response',
    );
  }
}

/**
 * Responds to the request that created the response, with either the queued response or its events. Closing the stream
 * does not stop the response.
 */
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

/** Replaces the request's caller, so that everything except the log fields of the completed request can be freed. */
class DetachedCaller implements Caller {
  readonly identity: Identity;
  readonly requestId: string;
  readonly endpoint: string;
  readonly errorFormat: Caller['errorFormat'];
  readonly receivedAt: number;
  readonly client: Caller['client'];
  readonly method: Caller['method'];
  readonly trace: Caller['trace'];
  budgetChecked: boolean;
  fields: RequestRecord['fields'] = {};
  #caller: Caller | null;

  /** `kept`: the memory reserved for the response until its end. */
  constructor(
    caller: Caller,
    private readonly kept: BufferReservation,
  ) {
    this.#caller = caller;
    ({
      identity: this.identity,
      requestId: this.requestId,
      endpoint: this.endpoint,
      errorFormat: this.errorFormat,
      receivedAt: this.receivedAt,
      client: this.client,
      method: this.method,
    } = caller);
    this.budgetChecked = caller.budgetChecked === true;
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

/** A part of another reservation that can be released separately. */
class PartOfReservation implements BufferReservation {
  #bytes = 0;

  constructor(private readonly all: BufferReservation) {}

  reserve(bytes: number): void {
    this.all.reserve(bytes);
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
