// POST /v1/chat/completions: handles a request from the parsed body to the last byte. Event-loop thread only.
//
//   parse ─► model ─► content ─► admit (admit.ts) ─► events ─► format guard ─► encoder ─► response
//   400      404/403  422        422, 429, 503                          500
import type { ServedModel } from '../../generation/served-models.js';
import { isHostedEvent } from '../../generation/hosted-tools/hosted-events.js';
import type { Exchange, EventStream, Route } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { newChatCompletionId, newStoredCompletionId, newToolCallId } from '../../shared/ids.js';
import type { CompletionStore } from '../../storage/completion-store.js';
import { FormatGuard } from '../format-guard.js';
import {
  admit,
  contentLimits,
  findModel,
  withAdmitted,
  type AdmittedGeneration,
  type GenerationDeps,
} from '../admit.js';
import { AnswerMemory } from '../answer-memory.js';
import { annotateEndUser, annotateModel, callerOf, type Caller } from '../caller.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import type { Usage } from '../usage.js';
import { nameLeftOut, type ForeignThinking } from '../foreign-thinking.js';
import { nameIgnored } from '../ignored.js';
import {
  ChatCollector,
  ChatStreamEncoder,
  REASONING_FIELDS,
  type ChatEncoder,
  type ChatEnvelope,
  type ReasoningField,
  type StreamUsage,
} from './encode.js';
import { CollectingEncoder, CollectorMemory } from './collecting.js';
import { StoredCopy, withMetadata } from './stored-copy.js';
import { validateChatInSlices, parseChat, type ChatGeneration } from './parse.js';

const PATH = '/v1/chat/completions';

interface ChatDeps extends GenerationDeps {
  /** The response fields that contain the reasoning. */
  reasoningField: ReasoningField;
  foreignThinking?: ForeignThinking | undefined;
  completions: CompletionStore;
}

export function chatCompletionsRoute(deps: ChatDeps): Route {
  return {
    method: 'POST',
    path: PATH,
    scope: 'inference',
    checksScope: true,
    generates: true,
    validateInSlices: validateChatInSlices,
    async handler(exchange) {
      const { caller, model, chat, copy } = read(deps, exchange);
      const admitted = await admit(deps, caller, model, chat.request);
      if (admitted !== null)
        withAdmitted(admitted, () => answer(exchange, { ...chat, copy }, admitted, deps.reasoningField));
    },
  };
}

interface ReadChat {
  caller: Caller;
  model: ServedModel;
  chat: ChatGeneration;
  /** Null if the completion should not be stored. */
  copy: StoredCopy | null;
}

/** This is a separate function so that the request body can be garbage-collected during generation. */
function read(deps: ChatDeps, exchange: Exchange): ReadChat {
  annotateModel(exchange, exchange.body);
  const parsed = parseChat(exchange.body, deps.foreignThinking);
  const caller = callerOf(exchange, PATH, 'chat');
  const model = findModel(deps, caller, parsed.model);
  const chat = parsed.content(contentLimits(deps, model));
  nameIgnored({ parameters: chat.ignored, tools: chat.ignoredTools }, exchange);
  nameLeftOut(caller, chat.request.leftOut);
  annotateEndUser(exchange, chat.endUser);
  const { messages } = exchange.body as { messages: readonly unknown[] }; // checked by parseChat()
  return { caller, model, chat, copy: chat.store ? new StoredCopy(deps.completions, exchange, messages) : null };
}

function answer(
  exchange: Exchange,
  chat: ChatGeneration & Pick<ReadChat, 'copy'>,
  admitted: AdmittedGeneration,
  reasoningField: ReasoningField,
): void {
  const { copy } = chat;
  const { n } = admitted.prepared;
  const envelope: ChatEnvelope = {
    id: copy === null ? newChatCompletionId() : newStoredCompletionId(),
    created: Math.floor(Date.now() / 1000),
    model: admitted.asked,
    fingerprint: admitted.fingerprint,
    n,
    wantLogprobs: chat.request.topLogprobs !== null,
    reasoningFields: chat.includeReasoning ? REASONING_FIELDS[reasoningField] : [],
    metadata: chat.metadata,
    newCallId: newToolCallId,
    customTools: new Set(chat.request.tools.flatMap(({ name, custom }) => (custom === undefined ? [] : [name]))),
    callsFunctions: chat.callsFunctions,
    promptIds: chat.request.returnTokens === true ? Array.from(admitted.prepared.promptIds ?? []) : null,
    promptLogprobs: chat.request.promptLogprobs ?? null,
  };
  exchange.annotate({ stream: chat.stream });
  exchange.trace?.set({ 'gen_ai.response.id': envelope.id });
  if (copy !== null) {
    admitted.storedAs = envelope.id;
    exchange.annotate({ response_id: envelope.id });
  }
  const guard = FormatGuard.for(chat.request.format, n);
  const usage: StreamUsage = { atEnd: chat.includeUsage, soFar: chat.continuousUsage ? () => run.usage : null };
  const sink = chat.stream
    ? new StreamedAnswer(exchange, guard, { envelope, copy, usage })
    : new WholeAnswer(exchange, guard, { envelope, copy });
  const run = new GenerationRun(admitted, sink, chat.stream);
  exchange.onAborted(() => run.cancel());
  run.start();
  // The stream is opened only now, so that an error from start() can still be sent with a normal HTTP status.
  if (sink instanceof StreamedAnswer && !run.ended) sink.open();
}

/**
 * If the output fails its format check, the error is sent before the end marker, so that a client never mistakes the
 * truncated stream for a complete one.
 */
abstract class Answer implements RunSink {
  protected abstract readonly encoder: ChatEncoder;
  protected readonly memory: AnswerMemory;
  #hasContent = false;
  /** Whether a search has run since the last content. Content after the search belongs to the same message. */
  #isNewPart = false;

  constructor(
    protected readonly exchange: Exchange,
    private readonly guard: FormatGuard | null,
  ) {
    this.memory = new AnswerMemory((bytes) => exchange.reserve(bytes));
  }

  event(given: Parameters<RunSink['event']>[0]): void {
    if (given.type === 'continued') this.#isNewPart = this.#hasContent;
    if (given.type === 'started' || isHostedEvent(given)) return;
    const event = this.#separated(given);
    if (event.type === 'prompt' || event.type === 'tokens') return this.encoder.evaluation(event);
    if (this.guard !== null) {
      if (event.type === 'text') {
        this.memory.take(event);
        this.guard.text(event);
      } else if (event.type === 'finished') this.guard.finished(event);
    }
    this.encoder.event(event);
  }

  /** Adds a blank line between the content before and after a search. */
  #separated<T extends Parameters<RunSink['event']>[0]>(event: T): T {
    if (event.type !== 'text' || event.section !== 'content' || event.text === '') return event;
    const isNewPart = this.#isNewPart;
    this.#hasContent = true;
    this.#isNewPart = false;
    return isNewPart ? { ...event, text: `\n\n${event.text}` } : event;
  }

  abstract complete(usage: Usage): void;

  failed(error: unknown): void {
    this.exchange.fail(error);
  }
}

interface AnswerForm {
  envelope: ChatEnvelope;
  copy: StoredCopy | null;
}

class WholeAnswer extends Answer {
  protected readonly encoder: ChatCollector;
  readonly #memory: CollectorMemory;

  constructor(
    exchange: Exchange,
    guard: FormatGuard | null,
    private readonly form: AnswerForm,
  ) {
    super(exchange, guard);
    this.encoder = new ChatCollector(form.envelope);
    this.#memory = new CollectorMemory(exchange, this.encoder);
  }

  override event(event: Parameters<RunSink['event']>[0]): void {
    this.memory.take(event);
    super.event(event);
    this.#memory.take(event);
  }

  complete(usage: Usage): void {
    const { envelope, copy } = this.form;
    if (copy === null) return this.exchange.json(200, this.encoder.body(usage));
    const body = this.encoder.body(usage, null).toString();
    const { metadata } = envelope;
    void copy.save(this.exchange.identity.organizationId, envelope, body).then(
      () => this.exchange.json(200, new JsonText().add(metadata === null ? body : withMetadata(body, metadata))),
      (error: unknown) => this.exchange.fail(error),
    );
  }
}

class StreamedAnswer extends Answer {
  protected readonly encoder: ChatEncoder;
  readonly #streamEncoder: ChatStreamEncoder;
  readonly #collector: ChatCollector | null;
  readonly #memory: CollectorMemory | null;
  #stream: EventStream | null = null;

  constructor(
    exchange: Exchange,
    guard: FormatGuard | null,
    private readonly form: AnswerForm & { usage: StreamUsage },
  ) {
    super(exchange, guard);
    const { envelope, copy, usage } = form;
    this.#streamEncoder = new ChatStreamEncoder(envelope, usage, (data) => this.#stream?.send(data));
    this.#collector = copy === null ? null : new ChatCollector(envelope);
    this.#memory = this.#collector === null ? null : new CollectorMemory(exchange, this.#collector);
    this.encoder =
      this.#collector === null ? this.#streamEncoder : new CollectingEncoder(this.#streamEncoder, this.#collector);
  }

  open(): void {
    this.#stream = this.exchange.sse();
  }

  override event(event: Parameters<RunSink['event']>[0]): void {
    if (this.#memory !== null) this.memory.take(event);
    super.event(event);
    this.#memory?.take(event);
  }

  complete(usage: Usage): void {
    const { envelope, copy } = this.form;
    if (copy === null || this.#collector === null) return this.#end(usage);
    const body = this.#collector.body(usage, null).toString();
    void copy.save(this.exchange.identity.organizationId, envelope, body).then(
      () => this.#end(usage),
      (error: unknown) => this.exchange.fail(error),
    );
  }

  #end(usage: Usage): void {
    this.#streamEncoder.complete(usage);
    this.#stream?.end();
  }
}
