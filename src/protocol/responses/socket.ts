// WebSocket mode of /v1/responses: one session per connection. Event-loop thread only.
//
//   message ─► idle? ─► turn: key, age, drain ─► parse ─► chain ─► model ─► content ─► startResponseRun ─► events
//                │ busy: queue, at most 16                 any error up to here: one error message
//                └─ next one when the turn has ended
//
// A failing turn ends only itself. The connection is closed only for a revoked key, an oversized message, the maximum
// age or a shutdown.
import { performance } from 'node:perf_hooks';
import type { BufferReservation } from '../../shared/buffer-reservation.js';
import type { Config } from '../../config/settings.js';
import { ApiError, apiError, toApiError } from '../../shared/errors.js';
import { CLOSE } from '../../http/socket.js';
import type { CloseCode, ServerSocket, SocketListener, SocketRoute, SocketTurn } from '../../http/socket.js';
import { findModel } from '../admit.js';
import type { FileInputs, FileReader } from '../file-inputs/file-inputs.js';
import { annotateModel } from '../caller.js';
import type { Caller } from '../caller.js';
import { nameIgnoredParts } from './create.js';
import { nameLeftOut } from '../foreign-thinking.js';
import { eventDialect, type DialectSettings } from './encode-dialect.js';
import { findBefore, modelOf, readContent } from './input-chain.js';
import { parseCreate, type CreateGeneration, type ParsedCreate } from './parse.js';
import { SocketMemory } from './socket-memory.js';
import { errorMessage, parseMessage, streamIdOf, toCreate, withStreamId, type Fields } from './socket-message.js';
import { startResponseRun, type ResponseRun, type ResponseRunDeps, type ResponseRunEnd } from './response-run.js';

const PATH = '/v1/responses';
const MAX_QUEUED = 16;
/** How long a turn may continue after the connection has reached its maximum age, in ms. */
const OVERTIME_MS = 600_000;
/** Rejected messages longer than this are not parsed to find their stream ID. */
const SMALL_MESSAGE = 65_536;

export interface SocketDeps extends ResponseRunDeps {
  /** If undefined, files in messages are refused. */
  fileInputs?: FileInputs | undefined;
  settings: DialectSettings & ResponseRunDeps['settings'];
  maxAgeS: Config['ws']['max_age_s'];
  /**
   * Maximum message size in bytes. Also limits the total size of all queued messages. Responses that can be continued
   * may take up to twice as much memory.
   */
  maxMessageBytes: number;
  /** How long a turn may continue after the connection has reached its maximum age, in ms. */
  overtimeMs?: number;
}

export function responsesSocket(deps: SocketDeps): SocketRoute {
  return { path: PATH, scope: 'inference', open: (socket) => new Session(deps, socket) };
}

interface Waiting {
  bytes: Uint8Array;
  binary: boolean;
}

/** A running turn. */
interface Current {
  readonly turn: SocketTurn;
  bytes: number; // size of its message and of the files in it
  streamId: string | null;
  previousId: string | null;
  running: ResponseRun | null; // set once its response has been admitted
  onClosed?: () => void; // called if the client disconnects before then
}

/** A turn that has started, and the parts of its request that are needed when it ends. */
interface Begun {
  readonly turn: ResponseRun;
  readonly kept: Pick<CreateGeneration, 'store' | 'base' | 'tail'>;
}

/** A received message. */
interface Read {
  readonly fields: Fields;
  readonly problem: unknown;
}

/** Why no more turns are accepted: the error for later turns, and the connection's close code. */
interface Closing {
  readonly error: ApiError;
  readonly code: CloseCode;
  sendError: boolean; // send the error even if no turn is waiting
}

class Session implements SocketListener {
  readonly #memory: SocketMemory;
  readonly #waiting: Waiting[] = [];
  readonly #ageTimer: NodeJS.Timeout;
  #waitingBytes = 0;
  #overtime: NodeJS.Timeout | undefined;
  #current: Current | null = null;
  #closing: Closing | null = null;

  constructor(
    private readonly deps: SocketDeps,
    private readonly socket: ServerSocket,
  ) {
    this.#memory = new SocketMemory(deps.responses, 2 * deps.maxMessageBytes);
    this.#ageTimer = setTimeout(() => this.#onMaxAge(), deps.maxAgeS * 1000);
    this.#ageTimer.unref();
  }

  message(bytes: Uint8Array, binary: boolean): void {
    if (this.#current === null) {
      this.#begin({ bytes, binary });
    } else if (this.#waiting.length < MAX_QUEUED && this.#waitingBytes + bytes.length <= this.deps.maxMessageBytes) {
      this.#waiting.push({ bytes: bytes.slice(), binary }); // copied, because the socket owns the memory
      this.#waitingBytes += bytes.length;
    } else {
      this.#refuse(
        { bytes, binary },
        apiError(
          'concurrency_limit_exceeded',
          `Too many turns are waiting on this connection; the limit is ${MAX_QUEUED}.`,
          null,
          { retryAfterMs: 1000 },
        ),
      );
    }
  }

  drain(): void {
    // If a turn is running, its end must be the last message, because clients would assign a later error message to
    // their next turn.
    this.#endWith({
      error: apiError('shutting_down', 'The server is shutting down.'),
      code: CLOSE.serviceRestart,
      sendError: this.#current === null,
    });
  }

  closed(): void {
    clearTimeout(this.#ageTimer);
    clearTimeout(this.#overtime);
    this.#waiting.length = 0;
    this.#memory.clear();
    const current = this.#current;
    current?.onClosed?.();
    void current?.running?.cancel();
    current?.turn.end(0, null);
  }

  #onMaxAge(): void {
    const minutes = Math.round(this.deps.maxAgeS / 60);
    this.#endWith({
      error: apiError(
        'websocket_connection_limit_reached',
        `This connection has reached its maximum age of ${minutes} minute${minutes === 1 ? '' : 's'}. Open a new one to continue.`,
      ),
      code: CLOSE.goingAway,
      sendError: true,
    });
    if (this.#current === null) return;
    this.#overtime = setTimeout(() => void this.#current?.running?.cancel(), this.deps.overtimeMs ?? OVERTIME_MS);
    this.#overtime.unref();
  }

  /** Closes immediately if no turn is running, otherwise after the running turn. */
  #endWith(closing: Closing): void {
    this.#closing ??= closing;
    if (this.#current === null) this.#close(this.#closing);
  }

  #close({ error, code, sendError }: Closing): void {
    const waiting = this.#waiting.splice(0);
    for (const one of waiting) this.#refuse(one, error);
    if (sendError && waiting.length === 0) this.socket.send(errorMessage(error, null));
    this.socket.close(code, error.message);
  }

  /** Rejects a message without starting a turn. */
  #refuse({ bytes, binary }: Waiting, error: ApiError): void {
    const turn = this.socket.turn();
    let streamId: string | null = null;
    try {
      if (bytes.length <= SMALL_MESSAGE) streamId = streamIdOf(parseMessage(bytes, binary));
    } catch {
      // An invalid stream ID does not matter here, because the message is rejected anyway.
    }
    this.socket.send(errorMessage(error, streamId));
    turn.end(error.status, error);
  }

  #begin(waiting: Waiting): void {
    const current: Current = {
      turn: this.socket.turn(),
      bytes: waiting.bytes.length,
      streamId: null,
      previousId: null,
      running: null,
    };
    this.#current = current;
    let work: Promise<void>;
    try {
      const read = current.turn.read(current.bytes, () => this.#read(waiting, current));
      const identified = this.socket.identify();
      // No pending promise may reference the message, so that it can be freed.
      const started =
        identified === undefined ? this.#start(current, read) : identified.then(() => this.#start(current, read));
      work = started.then((begun) => this.#follow(current, begun));
    } catch (error) {
      this.#failed(current, error);
      this.#next();
      return;
    }
    work.catch((error: unknown) => this.#failed(current, error)).finally(() => this.#next());
  }

  /**
   * Parses the message while it is in memory. Parse errors are reported only after the key and the connection's age
   * have been checked.
   */
  #read({ bytes, binary }: Waiting, current: Current): Read {
    let fields: Fields = {};
    let problem: unknown = null;
    try {
      fields = parseMessage(bytes, binary);
      if (typeof fields['previous_response_id'] === 'string') current.previousId = fields['previous_response_id'];
      current.streamId = streamIdOf(fields); // set early, because errors from the checks above include it
    } catch (error) {
      problem = error;
    }
    return { fields, problem };
  }

  /** Throws ApiError. */
  #parse({ fields, problem }: Read): ParsedCreate {
    if (performance.now() - this.socket.openedAt > this.deps.maxAgeS * 1000) this.#onMaxAge();
    if (this.#closing !== null) throw this.#closing.error;
    if (problem !== null) throw problem;
    const { body, generate } = toCreate(fields);
    return parseCreate(
      body,
      { ...this.deps, organizationId: this.socket.identity.organizationId },
      generate ? {} : { prewarm: true },
    );
  }

  /**
   * Reads the message's content. A separate function, so that the message can be garbage-collected during generation.
   * Rejects with ApiError.
   */
  async #content(current: Current, caller: Caller, read: Read): ReturnType<typeof readContent> {
    const { deps, socket } = this;
    annotateModel(current.turn, read.fields);
    const parsed = await this.#parsed(current, caller, read);
    const { organizationId } = socket.identity;
    const continued =
      parsed.previousId === null || parsed.conversationId !== null
        ? await findBefore({ enqueue: (size, work) => current.turn.read(size, work) }, deps, organizationId, parsed)
        : await this.#memory.find(organizationId, parsed.previousId, (size, work) => current.turn.read(size, work));
    return readContent(parsed, continued, {
      organizationId,
      responses: deps.responses,
      charged: (work, size) => current.turn.charged(current.bytes + size, work),
      findModel: (chain) => findModel(deps, caller, modelOf(parsed.model, chain)),
    });
  }

  /** Parses the message after its files have been read. */
  async #parsed(current: Current, caller: Caller, read: Read): Promise<ParsedCreate> {
    const { deps, socket } = this;
    const reader: FileReader = {
      identity: socket.identity,
      get aborted() {
        return !socket.open;
      },
      charged: (bytes, work) => current.turn.charged(bytes, work),
      enqueue: async (bytes, work) => current.turn.read(bytes, work),
      onAborted: (callback) => caller.onAborted?.(callback),
    };
    try {
      if (read.problem === null)
        current.bytes += (await deps.fileInputs?.expand('responses', read.fields, reader)) ?? 0;
      return current.turn.charged(current.bytes, () => this.#parse(read));
    } finally {
      deps.fileInputs?.release(reader);
    }
  }

  /** Waits for the started turn to end. */
  async #follow(current: Current, begun: Begun | null): Promise<void> {
    if (begun === null) return;
    const { turn, kept } = begun;
    current.running = turn;
    if (!this.socket.open) void turn.cancel();
    this.#ended(current, await turn.done, kept);
  }

  /**
   * A separate function, so that the conversation can be garbage-collected during generation. Returns null if the
   * client disconnected.
   */
  async #start(current: Current, read: Read): Promise<Begun | null> {
    const { deps, socket } = this;
    const caller = this.#caller(current);
    const { model, created } = await this.#content(current, caller, read);
    const { store, base, tail } = created;
    nameLeftOut(caller, created.request.leftOut);
    current.turn.annotate({ stream: true, background: false });
    nameIgnoredParts(created, caller);
    const turn = await startResponseRun(deps, caller, model, created, {
      take: ({ data }) => socket.send(withStreamId(data, current.streamId)),
      hold: (bytes) => current.turn.hold(bytes),
      dialect: eventDialect(deps.settings, (name) => socket.header(name)),
      errorEvents: false,
      namesLeftOut: true,
    });
    return turn === null ? null : { turn, kept: { store, base, tail } };
  }

  #caller(current: Current): Caller {
    return new TurnCaller(this.socket, current);
  }

  #ended(
    current: Current,
    { record, error, announced }: ResponseRunEnd,
    created: Pick<CreateGeneration, 'store' | 'base' | 'tail'>,
  ): void {
    if (error !== null && !announced) throw error;
    if (error !== null) {
      this.#forgetContinued(current);
    } else if (record.status !== 'cancelled' && this.socket.open && record.resource['conversation'] === null) {
      this.#memory.remember(record, created.store, created, current.bytes);
    }
    current.turn.end(error?.status ?? (this.socket.open && record.status !== 'cancelled' ? 200 : 0), error);
  }

  #failed(current: Current, thrown: unknown): void {
    const error = toApiError(thrown);
    if (!(thrown instanceof ApiError))
      this.deps.telemetry.log.error({ err: thrown, request_id: current.turn.requestId }, 'unexpected failure');
    this.socket.send(errorMessage(error, current.streamId));
    current.turn.end(error.status, error);
    this.#forgetContinued(current);
    if (error.status === 401) this.#closing ??= { error, code: CLOSE.policyViolation, sendError: false };
    if (error === this.#closing?.error) this.#closing.sendError = false;
  }

  /** Drops a chain from memory if its continuation failed. */
  #forgetContinued({ previousId }: Current): void {
    if (previousId !== null) this.#memory.forget(previousId);
  }

  /** Called when the turn has ended. Starts the next turn or closes the connection. */
  #next(): void {
    this.#current?.turn.end(0, null); // has no effect unless the client disconnected before the admission
    this.#current = null;
    if (!this.socket.open) return;
    if (this.#closing !== null) {
      this.#close(this.#closing);
      return;
    }
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    this.#waitingBytes -= waiting.bytes.length;
    this.#begin(waiting);
  }
}

/**
 * Adapts a turn to the Caller interface, which the code shared by all formats uses. It is a class for the reason given
 * for ExchangeCaller in caller.ts.
 */
class TurnCaller implements Caller {
  readonly identity: Caller['identity'];
  readonly requestId: string;
  readonly endpoint = PATH;
  readonly errorFormat = 'chat';
  readonly receivedAt: number;
  readonly client: Caller['client'];
  readonly method = 'WEBSOCKET';
  readonly trace: Caller['trace'];
  budgetChecked = false;
  readonly charged: NonNullable<Caller['charged']> = (characters, work) => this.current.turn.charged(characters, work);

  constructor(
    private readonly socket: ServerSocket,
    private readonly current: Current,
  ) {
    this.identity = socket.identity;
    this.requestId = current.turn.requestId;
    this.receivedAt = current.turn.receivedAt;
    this.client = socket.client;
    this.trace = current.turn.trace;
  }

  get aborted(): boolean {
    return !this.socket.open;
  }
  onAborted(callback: () => void): void {
    const { onClosed } = this.current;
    this.current.onClosed = () => {
      onClosed?.();
      callback();
    };
  }
  keeping(): BufferReservation {
    return this.current.turn.keeping();
  }
  setHeader(): void {} // WebSocket frames have no headers; error messages include the important ones
  annotate(fields: Parameters<Caller['annotate']>[0]): void {
    this.current.turn.annotate(fields);
  }
}
