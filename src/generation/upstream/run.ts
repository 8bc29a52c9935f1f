// One request to an upstream model. The request waits for a concurrency slot and is sent to a server. If that server
// fails before the first token, the request is sent to another one. After that, events are forwarded until the end, a
// limit or a cancellation. Event-loop thread only.
//
//   slot ─► server ─► first token ─► … ─► end
//           fails: another, then the fallback
import type { BufferReservation } from '../../shared/buffer-reservation.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import type { RequestContext, Provider, RunningGeneration } from '../provider.js';
import { seenBy } from '../thoughts.js';
import type { GenerationEvent, GenerationRequest, LeftOut } from '../types.js';
import { AnswerEvents, type AnswerOptions } from './answer-events.js';
import type { ActiveSet } from '../../shared/active-set.js';
import { stringifyExact } from '../../shared/exact-json.js';
import type { Body, UpstreamApi } from './apis/api.js';
import { Attempt } from './attempt.js';
import { faultOfEvent, noneAvailable, tookTooLong, UpstreamFault } from './fault.js';
import type { FairSlots } from '../fair-slots.js';
import { leastBusy, type Server, type UpstreamSettings } from './server.js';

/** State shared by all runs of a model. */
export interface RunDeps {
  readonly model: string;
  readonly servers: readonly Server[];
  readonly settings: UpstreamSettings;
  readonly queueWaitMs: number;
  readonly maxGenerationMs: number;
  readonly slots: FairSlots<number>;
  /**
   * Returns the fallback model, which is used if no server responds. Throws ApiError if it cannot be used. Null if
   * there is no fallback.
   */
  readonly fallback: ((signal?: AbortSignal) => Promise<{ model: string; provider: Provider }>) | null;
  readonly running: ActiveSet<UpstreamRun>;
  report(news: UpstreamNews): void;
  /** A rotating number that selects one of several equally busy servers. */
  turn(): number;
}

/** Events for the log. Secrets in messages from servers are masked. */
export type UpstreamNews =
  | {
      type: 'failed';
      model: string;
      server: string;
      kind: UpstreamFault['kind'];
      status: number | null;
      reason: string;
      again: boolean;
    }
  | { type: 'shut' | 'open'; model: string; server: string }
  | { type: 'fallback'; model: string; to: string };

export interface RunAsked {
  readonly request: GenerationRequest;
  readonly facts: AnswerOptions;
  readonly context: RequestContext;
  /** Throws ApiError 422. */
  api(server: Server): Written;
  /** ID of the stored response, passed to the fallback model; see PreparedGeneration.start(). */
  readonly responseId?: string | undefined;
}

/** A request as it is sent to a particular server. */
export interface Written {
  readonly api: UpstreamApi;
  readonly body: Body;
  /** See Selected. */
  readonly leftOut: readonly LeftOut[] | undefined;
  readonly ignored: readonly string[];
}

/** Delay before the first retry on the same server. */
const AGAIN_MS = 50;
/** How long a server may take to close a fully read response, in ms. After that, its connection is not reused. */
const LAST_MS = 250;

export class UpstreamRun implements RunningGeneration {
  #leaving: AbortController | null = null; // set while it is waiting for a slot
  #attempt: Attempt | null = null;
  #answer: AnswerEvents | null = null;
  #other: RunningGeneration | null = null;
  #settle: ((fault: UpstreamFault | Error | null) => void) | null = null;
  #index = 0; // index in the set of running requests
  #memory: BufferReservation | undefined; // memory for parts of the response that are kept while it is being read
  #over = false;
  #queueMs = 0;
  #clock: NodeJS.Timeout | undefined; // timeout for the first token, then for each following one
  #limit: NodeJS.Timeout | undefined;

  constructor(
    private readonly deps: RunDeps,
    private readonly asked: RunAsked,
    private readonly onEvent: (event: GenerationEvent) => void,
  ) {}

  /** Throws ApiError if the queue is full. */
  start(): this {
    const { deps } = this;
    this.#index = deps.running.add(this);
    const begun = performance.now();
    const { organization } = this.asked.context;
    if (deps.slots.take(organization)) {
      void this.#begin()
        .catch((error: unknown) => this.#fail(error))
        .finally(() => {
          deps.slots.release(organization);
          this.#stop();
        });
      return this;
    }
    const wait = setTimeout(() => this.#queueTimeout(), deps.queueWaitMs);
    const leaving = (this.#leaving = new AbortController());
    void deps.slots
      .run({ organization, signal: leaving.signal }, 1, async () => {
        clearTimeout(wait);
        this.#leaving = null;
        this.#queueMs = performance.now() - begun;
        await this.#begin();
      })
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        clearTimeout(wait);
        this.#stop();
      });
    return this;
  }

  #begin(): Promise<void> {
    this.#limit = setTimeout(() => this.#end(tookTooLong('first')), this.deps.maxGenerationMs);
    return this.#serve();
  }

  cancel(): void {
    this.#stop();
    this.#other?.cancel();
  }

  /**
   * Called when this server shuts down: ends the run with an error. If the run uses the fallback model, the fallback's
   * own provider ends it.
   */
  drain(): void {
    this.#end(apiError('shutting_down', 'The server is shutting down.', null));
  }

  #end(notBegun: unknown): void {
    if (this.#over || this.#other !== null) return;
    if (this.#answer?.started !== true) return this.#fail(notBegun);
    try {
      this.#answer.cut('time_limit');
    } finally {
      this.#stop();
    }
  }

  #stop(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#clock);
    clearTimeout(this.#limit);
    this.deps.running.remove(this.#index);
    this.#attempt?.abort();
    this.#memory?.release();
    this.#settle?.(null);
    this.#leaving?.abort();
  }

  #queueTimeout(): void {
    if (this.#over || this.#leaving === null) return;
    this.#stop();
    this.onEvent({ type: 'failed', code: 'queue_timeout', message: 'timed out in the queue', retryAfterMs: undefined });
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#stop();
    const reported: ApiError =
      error instanceof UpstreamFault
        ? error.reported
        : isApiError(error)
          ? error
          : apiError('model_error', 'The model failed to handle this request.', null, { cause: error });
    this.onEvent({ type: 'failed', code: 'upstream', message: reported.message, error: reported });
  }

  /** Tries servers until one succeeds or none are left. */
  async #serve(): Promise<void> {
    const { deps } = this;
    const { servers, settings } = deps;
    const tried = new Set<Server>(),
      failedOn = new Set<Server>(); // servers that failed although they responded
    let fault: UpstreamFault | Error | null = null;
    this.#clock = setTimeout(() => this.#settle?.(tookTooLong('first')), settings.first_token_ms);
    for (let attempt = 0; attempt <= settings.retries && !this.#over; attempt++) {
      const server = leastBusy(servers, tried, deps.turn());
      if (server === null) break;
      if (tried.has(server)) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS * 2 ** (attempt - 1)));
      tried.add(server);
      if (this.#over) return;
      if (!server.take()) {
        // Another request is already testing whether the server works again.
        attempt--;
        continue;
      }
      const failed = await this.#try(server, attempt < settings.retries);
      if (failed === null) {
        if (this.#answer?.over === true) this.#blame(failedOn, server);
        return;
      }
      fault = failed;
      if (server.encryptsReasoning && refusesEncryption(failed)) {
        server.encryptsReasoning = false;
        attempt--;
        continue;
      }
      if (failed instanceof UpstreamFault && failed.blames && failed.alive) failedOn.add(server);
      if (this.#answer?.started === true || !(failed instanceof UpstreamFault) || !failed.retry) break;
    }
    if (this.#over) return;
    fault ??= noneAvailable(Math.min(...servers.map(({ shutForMs }) => shutForMs)));
    if (
      this.#answer?.started !== true &&
      deps.fallback !== null &&
      fault instanceof UpstreamFault &&
      fault.kind !== 'refused'
    )
      return this.#fallBack(fault);
    throw fault;
  }

  /** Records that the server `well` succeeded with a request that had failed on the servers in `failedOn`. */
  #blame(failedOn: ReadonlySet<Server>, well: Server): void {
    for (const server of failedOn) {
      if (server !== well && server.blame() === 'shut')
        this.deps.report({ type: 'shut', model: this.deps.model, server: server.name });
    }
  }

  /** Returns the error of the attempt, or null if the run has ended because it succeeded or was cancelled. */
  async #try(server: Server, again: boolean): Promise<UpstreamFault | Error | null> {
    const { asked, deps } = this;
    const { request } = asked;
    const { api, body, leftOut, ignored } = asked.api(server);
    const attempt = { upstream: server.id, ignored, ...(leftOut === undefined ? {} : { leftOut }) };
    const ended = await new Promise<UpstreamFault | Error | null>((resolve) => {
      this.#settle = resolve;
      const answer = (this.#answer = new AnswerEvents(asked.facts, this.#queueMs, {
        emit: (event) => {
          if (!this.#over) this.onEvent(event.type === 'started' ? { ...event, ...attempt } : event);
        },
        onToken: () => this.#token(),
        onOver: () => this.#completed(),
        reserve: (bytes) => this.#reserve(bytes),
      }));
      const reader = api.reader(answer, (error) => faultOfEvent(error, server.secrets, request.promptParam));
      this.#attempt = new Attempt(
        {
          path: server.path + api.path,
          headers: { ...asked.context.traceHeaders, ...server.headers },
          body: stringifyExact({ model: server.settings.model ?? deps.model, ...body }),
          maxEventBytes: deps.settings.max_event_bytes,
          maxAnswerBytes: deps.settings.max_answer_bytes,
          maxTextBytes: asked.facts.n * asked.facts.maxTextBytes,
          logprobs: asked.facts.logprobs,
          reserve: (bytes) => this.#reserve(bytes),
          free: (bytes) => this.#memory?.free(bytes),
          secrets: server.secrets,
          promptParam: request.promptParam,
        },
        reader,
        resolve,
      );
      this.#attempt.send(server.pool);
    });
    this.#attempt?.abort();
    this.#memory?.release();
    // Once the response is complete, it does not matter how the connection ends.
    const fault = this.#answer?.over === true ? null : ended;
    const well =
      this.#answer?.started === true && (fault === null || !(fault instanceof UpstreamFault) || !fault.blames);
    const changed = server.release(
      well || (fault instanceof UpstreamFault && fault.kind === 'refused')
        ? 'well'
        : fault instanceof UpstreamFault && fault.blames
          ? 'badly'
          : 'neither',
      fault instanceof UpstreamFault && fault.alive ? asked.context.organization : null,
    );
    if (changed !== null) deps.report({ type: changed, model: deps.model, server: server.name });
    if (fault instanceof UpstreamFault && fault.kind !== 'refused') {
      deps.report({
        type: 'failed',
        model: deps.model,
        server: server.name,
        kind: fault.kind,
        status: fault.reported.upstreamStatus ?? null,
        reason: fault.reported.message,
        again: again && fault.retry && this.#answer?.started !== true,
      });
    }
    return fault;
  }

  /** Throws ApiError 503 or 422. */
  #reserve(bytes: number): void {
    if (!this.#over) (this.#memory ??= this.asked.context.reserveBuffer?.())?.reserve(bytes);
  }

  /** Output has arrived, so the run can no longer be retried. */
  #token(): void {
    if (this.#answer?.started === true) {
      this.#clock?.refresh();
      return;
    }
    clearTimeout(this.#clock);
    this.#clock = setTimeout(() => this.#settle?.(tookTooLong('next')), this.deps.settings.idle_ms);
  }

  /** The response is complete. Its concurrency slot is freed even if the server keeps the connection open. */
  #completed(): void {
    clearTimeout(this.#clock);
    if (!this.#over) this.#clock = setTimeout(() => this.#settle?.(null), LAST_MS);
  }

  /** Runs the fallback model. If it cannot be used either, the original error is reported. */
  async #fallBack(fault: UpstreamFault): Promise<void> {
    const { asked, deps } = this;
    clearTimeout(this.#clock);
    try {
      const { model, provider } = await deps.fallback!(asked.context.signal);
      const { messages, leftOut } = seenBy(asked.request.messages, [model]);
      const request = { ...asked.request, model, messages };
      provider.check(request);
      const prepared = await provider.prepare(request, asked.context);
      if (this.#over) return prepared.discard?.();
      let left = prepared.n;
      await new Promise<void>((resolve) => {
        this.#settle = () => resolve();
        this.#other = prepared.start((event) => {
          if (this.#over) return;
          this.onEvent(event.type === 'started' ? { model, leftOut, ...event } : event);
          if (event.type === 'failed' || (event.type === 'finished' && --left === 0)) resolve();
        }, asked.responseId);
        deps.report({ type: 'fallback', model: deps.model, to: model });
      });
    } catch {
      throw fault;
    }
  }
}

/** Matches the error message that OpenAI returns if the model does not support reasoning. */
const refusesEncryption = (fault: UpstreamFault | Error): boolean =>
  fault instanceof UpstreamFault &&
  fault.kind === 'refused' &&
  /encrypted content is not supported/i.test(fault.reported.message);

const isApiError = (error: unknown): error is ApiError => error instanceof Error && error.name === 'ApiError';
