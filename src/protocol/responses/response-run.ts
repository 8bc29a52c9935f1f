// One response from admission to its end, for every transport: a non-streamed HTTP response, an event stream, a
// background response or a WebSocket turn. The transport supplies a consumer for the events and handles the end. The
// response is stored here, before its last event is emitted. Event-loop thread only.
//
//   startResponseRun ─► admitted, running ─► events … ─► saved ─► last event ─► done
//   ApiError                             │ cancel(), failure
import { ApiError, toApiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { EndReason, LeftOut } from '../../generation/types.js';
import { newResponseId } from '../../shared/ids.js';
import type { ConversationStore } from '../../storage/conversation-store.js';
import type { ResponseRecord, ResponseStore, StoredItem } from '../../storage/response-store.js';
import type { FinishedUsage } from '../../shared/usage-sink.js';
import { FormatGuard } from '../format-guard.js';
import { admit, withAdmitted, type AdmittedGeneration } from '../admit.js';
import { AnswerMemory } from '../answer-memory.js';
import { Author } from '../author.js';
import type { Caller } from '../caller.js';
import { shownPlaces } from '../ignored.js';
import type { ForeignThinking } from '../foreign-thinking.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import { addUsage, type Usage } from '../usage.js';
import { compactContext, type CompactContextDeps, type CompactedRequest } from './compact-context.js';
import { CacheDiagnostics } from '../prompt-cache/cache-diagnostics.js';
import { wireDiagnostics } from './diagnostics.js';
import { ResponseMachine } from './encode.js';
import type { EventDialect } from './encode-items.js';
import type { WireEvent } from './encode-writer.js';
import { withImages } from './input-images.js';
import type { CreateGeneration } from './parse.js';
import { withOrigin, withResults } from './items.js';
import { newResource, type CompactionItem, type OutputItem } from './resource.js';
import type { RunningResponses } from './stored-running.js';

export interface ResponseRunDeps extends CompactContextDeps {
  foreignThinking?: ForeignThinking | undefined;
  responses: ResponseStore;
  conversations: ConversationStore;
  running: RunningResponses;
}

export interface ResponseRunOptions {
  /** Receives each event as it is sent. Null for a non-streamed response, whose events are not serialized. */
  take: ((event: WireEvent) => void) | null;
  /** Names of the raw-reasoning events; see eventDialect(). */
  dialect: EventDialect;
  /**
   * Whether an `error` event is emitted before response.failed when the response fails. True for event streams, false
   * for WebSockets.
   */
  errorEvents: boolean;
  /** Whether response.created lists the omitted reasoning. True for WebSockets, which have no headers. */
  namesLeftOut?: boolean;
  /** Reserves memory for this many more bytes of the response. Throws ApiError 503 or 422. */
  hold?: (bytes: number) => void;
  /** Called before the conversation is compacted, which may take a long time. */
  onCompacting?: () => void;
  /** Used instead of the store's save(). Rejects with ApiError 503. */
  save?: (record: ResponseRecord) => Promise<void>;
  /** Runs a write and retries it while the storage is unavailable. If absent, failed writes are not retried. */
  patiently?: (work: () => Promise<void>) => Promise<void>;
  /**
   * Whether bytes of the HTTP response have already been sent. If so, even an error before the first event must be sent
   * as events.
   */
  sent?: () => boolean;
}

/** Approximate size of one log probability in an item, in bytes. */
const LOGPROB_BYTES = 200;

/** The result of a turn. */
export interface ResponseRunEnd {
  /**
   * The ended response. A response that must be stored has been stored, unless it failed before the client received its
   * ID.
   */
  readonly record: ResponseRecord;
  /** The reason for a failure; null otherwise. */
  readonly error: ApiError | null;
  /** Whether events were emitted. If not, only `error` is sent to the client. */
  readonly announced: boolean;
}

/**
 * Admits the request and starts generating. The first event is emitted with the engine's first event or, for a
 * background response, before this resolves. Returns null if the client disconnected in the meantime. Throws ApiError
 * 400, 422, 429 or 503 without emitting anything. Releases the chain once the response has been saved or is certain not
 * to be saved.
 */
export async function startResponseRun(
  deps: ResponseRunDeps,
  caller: Caller,
  model: ServedModel,
  created: CreateGeneration,
  options: ResponseRunOptions,
): Promise<ResponseRun | null> {
  const { release } = created;
  try {
    const managed = await compactContext(deps, { caller, model }, created, options.onCompacting);
    const admitted = managed === null ? null : await admit(deps, caller, model, managed.request);
    if (managed === null || admitted === null) {
      release();
      return null;
    }
    const turn = withAdmitted(admitted, () => {
      const run = new ResponseRun(
        deps,
        admitted,
        {
          ...created,
          prewarm: created.prewarm || created.compactsOnly,
          storedConversation: created.prewarm ? null : created.storedConversation,
          compacted: managed.compacted,
          compactionUsage: managed.usage,
        },
        options,
      );
      run.start();
      return run;
    });
    void turn.done.then(release);
    if (!created.background) deps.running.add(caller.identity.organizationId, turn.id, turn.done);
    return turn;
  } catch (error) {
    release();
    throw error;
  }
}

export class ResponseRun implements RunSink {
  readonly id = newResponseId();
  /** Resolves when the response has ended, has been saved and has emitted its last event. Never rejects. */
  readonly done: Promise<ResponseRunEnd>;
  readonly #machine: ResponseMachine;
  readonly #run: GenerationRun;
  #input: StoredItem[];
  readonly #guard: FormatGuard | null;
  readonly #memory: AnswerMemory;
  readonly #author: Author;
  readonly #madeAt = madeAt();
  readonly #createdAt = Math.floor(this.#madeAt);
  /** The parts of the request that are needed until the end. Excludes the messages, which may be large. */
  readonly #created: Pick<
    CreateGeneration,
    'store' | 'background' | 'prewarm' | 'previousId' | 'storedConversation' | 'base' | 'tail'
  >;
  readonly #compactionItem: CompactionItem | null;
  readonly #compactionUsage: Usage | null;
  #resolve!: (end: ResponseRunEnd) => void;
  #reason: EndReason = 'end_of_turn';
  #isCancelled = false;

  constructor(
    private readonly deps: ResponseRunDeps,
    private readonly admitted: AdmittedGeneration,
    created: CreateGeneration & Pick<CompactedRequest, 'compacted'> & { compactionUsage: Usage | null },
    private readonly options: ResponseRunOptions,
  ) {
    const { organizationId } = admitted.caller.identity;
    const { sealer } = deps;
    const { request } = admitted;
    const { store, background, prewarm, previousId, storedConversation, base, tail } = created;
    this.#created = { store, background, prewarm, previousId, storedConversation, base, tail };
    this.#author = new Author(organizationId, admitted);
    this.done = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    const { compacted } = created;
    this.#compactionItem = compacted?.item ?? null;
    this.#compactionUsage = created.compactionUsage;
    this.#input = withImages(created.input, compacted?.messages ?? request.messages);
    this.#memory = new AnswerMemory((bytes) => options.hold?.(bytes));
    this.#guard = created.prewarm ? null : FormatGuard.for(request.format, 1);
    this.#machine = new ResponseMachine(newResource(this.id, this.#createdAt, created.echo), {
      toolNames: created.toolNames,
      searchForm: created.searchForm,
      reasoning: {
        summary: created.summarize,
        dialect: options.dialect,
        seal: created.sealReasoning
          ? (text, block) => sealer.seal('reasoning', text, this.#author.context(block))
          : null,
      },
      take: options.take,
    });
    admitted.diagnostics = new CacheDiagnostics(admitted, {
      id: this.id,
      comparedId: created.comparedId,
      compactions: compacted === null ? created.compactions : 1,
    });
    if (store && !created.prewarm) admitted.storedAs = this.id;
    this.#run = new GenerationRun(admitted, this, created.stream || (options.take !== null && !created.background));
    admitted.caller.annotate({ response_id: this.id });
    admitted.caller.trace?.set({ 'gen_ai.response.id': this.id });
  }

  get ended(): boolean {
    return this.#run.ended;
  }

  /** The response in its current state, for storage. */
  record(): ResponseRecord {
    const { resource } = this.#machine;
    return {
      id: this.id,
      organizationId: this.admitted.caller.identity.organizationId,
      model: this.admitted.asked,
      createdAt: this.#createdAt,
      madeAt: this.#madeAt,
      status: resource.status,
      background: resource.background,
      previousId: this.#created.previousId,
      resource: { ...resource, output: [...resource.output] },
      input: this.#input,
      output: resource.output.map((item) => ({ id: item.id, item: this.#stored(item) })),
    };
  }

  /**
   * Returns the item including members that are not sent to clients: the results of a web search, or the upstream's
   * reasoning block.
   */
  #stored(item: OutputItem): Record<string, unknown> {
    const results = this.#machine.results.get(item.id);
    if (results !== undefined) return withResults({ ...item }, results);
    const origin = this.#author.origin(this.#machine.blocks.get(item.id) ?? null);
    const own = item as unknown as Record<string, unknown>;
    if (origin?.block == null || own['encrypted_content'] !== undefined) return own;
    return withOrigin(own, origin);
  }

  /** Frees the input after it has been stored. Later saves do not change the stored input. */
  forgetInput(): void {
    if (this.#created.storedConversation !== null) return; // the input must still be added to the conversation
    this.#input = [];
  }

  /** See GenerationRun. */
  soFar(): FinishedUsage | null {
    return this.#run.soFar();
  }

  /** Throws ApiError if the engine rejects the request. */
  start(): void {
    this.#run.start();
    if (this.#created.background) this.#machine.begin();
  }

  /**
   * Stops the generation before the engine's next step, because its output is no longer needed. A background response
   * is saved as cancelled; any other response is dropped. Has no effect after the end. Resolves like `done`.
   */
  cancel(): Promise<ResponseRunEnd> {
    this.#isCancelled = true;
    if (this.#run.ended) return this.done;
    this.#run.cancel();
    void this.#cancelled();
    return this.done;
  }

  event(event: Parameters<RunSink['event']>[0]): void {
    this.#memory.take(event);
    this.#author.take(event);
    if (event.type === 'started') {
      this.#nameLeftOut(this.#author.leftOut);
      const { diagnosis = null, tiers = null, replayed = [] } = this.admitted.diagnostics ?? {};
      if (diagnosis !== null)
        this.#machine.resource.prompt_cache_diagnostics = wireDiagnostics(diagnosis, tiers, replayed);
    }
    if (event.type === 'finished') {
      this.#reason = event.reason;
      this.#guard?.finished(event);
    } else if (event.type === 'search_started' || event.type === 'mcp_started' || event.type === 'mcp_approval') {
      this.#guard?.restart(event.choice); // the text so far is an item of its own
    } else if (event.type === 'text') {
      this.#guard?.text(event);
      for (const { top } of event.logprobs ?? []) this.#memory.add((1 + top.length) * LOGPROB_BYTES);
    }
    // If no output is requested, the engine's events after the start only mean that the prompt has been processed.
    if (!this.#created.prewarm || event.type === 'started') this.#machine.event(event);
    if (event.type === 'started' && this.#compactionItem !== null) this.#machine.compaction(this.#compactionItem);
  }

  #nameLeftOut(leftOut: readonly LeftOut[]): void {
    if (this.options.namesLeftOut !== true || leftOut.length === 0) return;
    this.#machine.created = { x_ignored_content: shownPlaces(leftOut.map(({ path }) => path)) };
  }

  complete(usage: Usage): void {
    void this.#complete(this.#withCompaction(usage));
  }

  failed(error: unknown): void {
    void this.#fail(error);
  }

  async #complete(usage: Usage): Promise<void> {
    try {
      if (this.#created.prewarm) this.#machine.endPrewarm(usage, now());
      else this.#machine.end(this.#reason, usage, now());
      const record = this.record();
      await this.#save(record);
      await this.#extendConversation(record);
      this.#machine.terminal();
      this.#resolve({ record, error: null, announced: this.#machine.started && this.options.take !== null });
    } catch (error) {
      // If the response was cancelled while it waited for storage, it has not failed, and no client has been sent a
      // different end.
      if (this.#isCancelled && this.#created.background && error instanceof ApiError) await this.#cancelled();
      else await this.#fail(error);
    }
  }

  /** Every failure is handled here. An error in this function must not leave `done` pending. */
  async #fail(thrown: unknown): Promise<void> {
    let error = toApiError(thrown);
    this.#unexpected(thrown);
    const announced = this.options.take !== null && (this.#machine.started || this.options.sent?.() === true);
    try {
      if (announced) this.#machine.begin();
      const usage = this.#withCompaction(this.#run.usage);
      this.#machine.settleFailure(error, usage.completionTokens === 0 ? null : usage);
      if (announced) await this.#save(this.record());
    } catch (again) {
      error = toApiError(again);
      this.#unexpected(again);
    }
    if (announced) this.#machine.failure(error, this.options.errorEvents);
    this.#resolve({ record: this.record(), error, announced });
  }

  async #cancelled(): Promise<void> {
    try {
      this.#machine.cancel(this.#withCompaction(this.#run.usage));
      if (this.#created.background) await this.#save(this.record());
    } catch (error) {
      this.#unexpected(error);
    }
    this.#resolve({
      record: this.record(),
      error: null,
      announced: this.#machine.started && this.options.take !== null,
    });
  }

  /**
   * A stored response must not depend on an unstored one, so the unstored responses of its chain are saved with it.
   */
  async #save(record: ResponseRecord): Promise<void> {
    const { store, base, tail } = this.#created;
    if (!store) return;
    const whole =
      tail.length === 0
        ? record
        : {
            ...record,
            previousId: base,
            input: [...tail.flatMap(({ input, output }) => [...input, ...output]), ...record.input],
          };
    await (this.options.save ?? ((one) => this.deps.responses.save(one)))(whole);
  }

  /**
   * Adds the response's input and output to its conversation. If the conversation has been deleted in the meantime,
   * nothing is added.
   */
  async #extendConversation({ organizationId, input, output }: ResponseRecord): Promise<void> {
    const { storedConversation: conversation } = this.#created;
    if (conversation === null) return;
    const items = [...input, ...output.map((item) => ({ ...item, output: true }))];
    const { patiently = (work) => work() } = this.options;
    await patiently(async () => {
      await this.deps.conversations.append(organizationId, conversation.id, items, {
        read: conversation.count,
        unless: output[0]?.id,
      });
    });
  }

  /** Adds the tokens used to write the summary. */
  #withCompaction(usage: Usage): Usage {
    return this.#compactionUsage === null ? usage : addUsage([usage, this.#compactionUsage]);
  }

  /** ApiErrors are expected failures; the storage logs its own errors. */
  #unexpected(error: unknown): void {
    if (error instanceof ApiError) return;
    this.deps.telemetry.log.error({ err: error, response_id: this.id }, 'unexpected failure of a response');
  }
}

let lastMadeAt = 0;

/** Seconds since the Unix epoch with microsecond precision; unique per thread, so that lists have a defined order. */
function madeAt(): number {
  const at = Date.now() / 1000;
  const again = at <= lastMadeAt && lastMadeAt - at < 0.001;
  return (lastMadeAt = Math.round((again ? lastMadeAt + 0.000_001 : at) * 1e6) / 1e6);
}

function now(): number {
  return Math.floor(Date.now() / 1000);
}
