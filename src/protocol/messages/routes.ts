// POST /v1/messages and /v1/messages/count_tokens: handles a request from the parsed body to the last byte. Event-loop
// thread only.
//
//   parse, thinking ─► model ─► content ─► admit (admit.ts) ─► events ─► response
//   400                404/403  422        422, 429, 503                200 …
import type { ErrorCode } from '../../shared/error-codes.js';
import { ApiError, apiError } from '../../shared/errors.js';
import { imageRefusedText } from '../../shared/matched-texts.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { EventStream, Exchange, Route } from '../../http/exchange.js';
import { newMessageId } from '../../shared/ids.js';
import type { Sealer } from '../../accounts/sealing/sealer.js';
import { GrowingText } from '../../shared/growing-text.js';
import { admit, findModel, withAdmitted, type AdmittedGeneration } from '../admit.js';
import { AnswerMemory } from '../answer-memory.js';
import type { ContextReport } from './context-answer.js';
import { wireDiagnostics } from './diagnostics.js';
import { countEdited, manageContext, type ManageDeps, type Managed } from './manage-context.js';
import { annotateEndUser, annotateModel, callerOf, type Caller } from '../caller.js';
import { Author } from '../author.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import type { Usage } from '../usage.js';
import { checkAnswer } from '../format-guard.js';
import { nameLeftOut, type ForeignThinking } from '../foreign-thinking.js';
import { nameIgnored } from '../ignored.js';
import { CacheDiagnostics } from '../prompt-cache/cache-diagnostics.js';
import { MessageCollector, MessageStreamEncoder, type MessageEnvelope } from './encode.js';
import { validateMessagesInSlices, parseMessages, type MessagesGeneration, type ParsedMessages } from './parse.js';

const PATH = '/v1/messages';
const COUNT_PATH = '/v1/messages/count_tokens';

export interface MessagesDeps extends ManageDeps {
  sealer: Sealer;
  foreignThinking: ForeignThinking;
}

export function messagesRoutes(deps: MessagesDeps): Route[] {
  return [
    {
      method: 'POST',
      path: PATH,
      scope: 'inference',
      checksScope: true,
      generates: true,
      validateInSlices: validateMessagesInSlices,
      async handler(exchange) {
        const { caller, model, asked } = read(deps, exchange, PATH);
        exchange.annotate({ stream: asked.stream });
        const managed = await manageContext(deps, exchange, { caller, model, asked }).catch(refuseImage);
        if (managed === null) return;
        const { request, context } = managed;
        if (context?.compaction?.pauses === true) {
          answerPaused(exchange, asked, { model: model.asked, context });
          return;
        }
        const admitted = await admit(deps, caller, model, request).catch(refuseImage);
        if (admitted !== null)
          withAdmitted(admitted, () => answer(deps.sealer, exchange, { ...asked, request, context }, admitted));
      },
    },
    {
      method: 'POST',
      path: COUNT_PATH,
      scope: 'tokens.count',
      checksScope: true,
      validateInSlices: validateMessagesInSlices,
      async handler(exchange) {
        const { caller, model, asked } = read(deps, exchange, COUNT_PATH);
        const counted = await countEdited(deps, caller, model, asked).catch(refuseImage);
        if (counted !== null) exchange.json(200, counted);
      },
    },
  ];
}

/** A separate function, so that the body can be garbage-collected during generation. */
function read(
  deps: MessagesDeps,
  exchange: Exchange,
  path: typeof PATH | typeof COUNT_PATH,
): { caller: Caller; model: ServedModel; asked: MessagesGeneration } {
  const counts = path === COUNT_PATH;
  const parsed = parse(deps, exchange, counts ? 'count' : 'generate');
  const caller = callerOf(exchange, path, 'messages');
  const model = findModel(deps, caller, parsed.model, counts ? 'tokens.count' : 'inference');
  return { caller, model, asked: contentOf(parsed, exchange, model) };
}

const IMAGE_CODES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'unsupported_content',
  'model_not_vision',
  'invalid_image',
  'unsupported_image_format',
  'image_too_large',
  'too_many_images',
  'image_fetch_failed',
]);

/**
 * Agents that use this format add images to the conversation on their own. If they receive this status with exactly
 * this message, they remove the image and continue. With any other error, every later turn would fail too.
 */
function refuseImage(error: unknown): never {
  if (!(error instanceof ApiError) || !IMAGE_CODES.has(error.code)) throw error;
  const { code, param, headers, cause } = error;
  throw apiError(code, imageRefusedText(error.message), param, { status: 400, headers, cause });
}

function parse(
  { sealer, foreignThinking, webSearch, mcp }: MessagesDeps,
  exchange: Exchange,
  purpose: 'generate' | 'count',
): ParsedMessages {
  annotateModel(exchange, exchange.body);
  return parseMessages(
    exchange.body,
    {
      sealer,
      foreignThinking,
      organizationId: exchange.identity.organizationId,
      webSearch: webSearch !== undefined,
      mcp: mcp?.settings,
      betas: exchange
        .header('anthropic-beta')
        .split(',')
        .map((beta) => beta.trim()),
    },
    purpose,
  );
}

function contentOf(parsed: ParsedMessages, exchange: Exchange, model: ServedModel): MessagesGeneration {
  const content = parsed.content(model);
  nameIgnored({ parameters: content.ignored, tools: content.ignoredTools }, exchange);
  nameLeftOut(exchange, content.request.leftOut);
  annotateEndUser(exchange, content.userId);
  return content;
}

/** With this beta, responses contain the tools that MCP servers have listed. */
const LISTING_BETA = 'mcp-client-2026-09-15';
/** With this beta, responses list the omitted thinking blocks. */
const BINDING_BETA = 'thinking-binding-controls-2026-08-01';

const hasBeta = (exchange: Exchange, beta: string): boolean =>
  exchange
    .header('anthropic-beta')
    .split(',')
    .some((one) => one.trim() === beta);

/** Responds with only the summary. */
function answerPaused(
  exchange: Exchange,
  { stream, visibleThinking }: MessagesGeneration,
  { model, context }: { model: string; context: ContextReport },
): void {
  const envelope: MessageEnvelope = {
    id: newMessageId(),
    model,
    visibleThinking,
    signature: () => '',
    showsListings: false,
    empty: true,
    cappedByContext: false,
    leftOut: null,
    context,
    diagnostics: () => null,
  };
  const usage: Usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };
  if (!stream) {
    exchange.json(200, new MessageCollector(envelope).body(usage));
    return;
  }
  const out = exchange.sse();
  const encoder = new MessageStreamEncoder(envelope, (data, name) => out.send(data, name));
  encoder.start(usage);
  encoder.end(usage);
  out.end();
}

function answer(
  sealer: Sealer,
  exchange: Exchange,
  asked: MessagesGeneration & Managed,
  admitted: AdmittedGeneration,
): void {
  const author = new Author(exchange.identity.organizationId, admitted);
  const envelope: MessageEnvelope = {
    id: newMessageId(),
    model: admitted.asked,
    visibleThinking: asked.visibleThinking,
    signature: asked.visibleThinking
      ? (text, block) => sealer.signThinking(text, author.context(block))
      : (text, block) => sealer.sealThinking(text, author.context(block)),
    showsListings: hasBeta(exchange, LISTING_BETA),
    empty: asked.request.maxTokens === 0,
    cappedByContext: admitted.prepared.cappedByContext,
    leftOut: hasBeta(exchange, BINDING_BETA) ? () => author.leftOut : null,
    context: asked.context,
    diagnostics: () => {
      const { diagnosis = null, tiers = null, replayed = [] } = admitted.diagnostics ?? {};
      return wireDiagnostics(diagnosis, tiers, replayed);
    },
  };
  admitted.diagnostics = new CacheDiagnostics(admitted, { id: envelope.id, comparedId: asked.comparedId });
  exchange.trace?.set({ 'gen_ai.response.id': envelope.id });
  const check = new FormatCheck(asked.request.format);
  const sink = asked.stream
    ? new StreamedAnswer(exchange, envelope, author, check)
    : new WholeAnswer(exchange, envelope, author, check);
  const run = new GenerationRun(admitted, sink, asked.stream);
  exchange.onAborted(() => run.cancel());
  run.start();
  // The stream is opened only now, so that an error from start() can still be sent with a normal HTTP status.
  if (sink instanceof StreamedAnswer && !run.ended) sink.open();
}

type RunEvent = Parameters<RunSink['event']>[0];

/** Checks that a response has the requested format. Responses that were cut off or that call tools are not checked. */
class FormatCheck {
  #text = new GrowingText();

  constructor(private readonly format: MessagesGeneration['request']['format']) {}

  /** Whether the content is kept until the end so that it can be checked. */
  get keepsContent(): boolean {
    return this.format.type !== 'text';
  }

  /** Called at the end of a response. Throws ApiError `model_error` if the response does not have the format. */
  take(event: RunEvent): void {
    if (this.format.type === 'text') return;
    if (event.type === 'text' && event.section === 'content') this.#text.add(event.text);
    // The text before a call that this server runs is a separate block.
    if (event.type === 'search_started' || event.type === 'mcp_started') this.#text = new GrowingText();
    if (event.type !== 'finished' || event.reason !== 'end_of_turn') return;
    checkAnswer(this.format, this.#text.toString());
  }
}

class WholeAnswer implements RunSink {
  readonly #collector: MessageCollector;
  readonly #memory: AnswerMemory;

  constructor(
    private readonly exchange: Exchange,
    envelope: MessageEnvelope,
    private readonly author: Author,
    private readonly check: FormatCheck,
  ) {
    this.#collector = new MessageCollector(envelope);
    this.#memory = new AnswerMemory((bytes) => exchange.reserve(bytes));
  }

  event(event: RunEvent): void {
    this.#memory.take(event);
    this.author.take(event);
    if (event.type !== 'started') this.#collector.take(event);
    this.check.take(event);
  }

  complete(usage: Usage): void {
    this.exchange.json(200, this.#collector.body(usage));
  }

  failed(error: unknown): void {
    this.exchange.fail(error);
  }
}

class StreamedAnswer implements RunSink {
  readonly #encoder: MessageStreamEncoder;
  readonly #memory: AnswerMemory;
  #stream: EventStream | null = null;

  constructor(
    private readonly exchange: Exchange,
    envelope: MessageEnvelope,
    private readonly author: Author,
    private readonly check: FormatCheck,
  ) {
    this.#encoder = new MessageStreamEncoder(envelope, (data, name) => this.#stream?.send(data, name));
    this.#memory = new AnswerMemory((bytes) => exchange.reserve(bytes));
  }

  open(): void {
    this.#stream = this.exchange.sse();
  }

  event(event: RunEvent): void {
    // Thinking is kept until it has been signed, and content until it has been checked.
    if (event.type === 'text' && (event.section === 'reasoning' || this.check.keepsContent)) this.#memory.take(event);
    this.author.take(event);
    if (event.type === 'started') this.#encoder.start(event);
    else this.#encoder.take(event);
    this.check.take(event);
  }

  complete(usage: Usage): void {
    this.#encoder.end(usage);
    this.#stream?.end();
  }

  failed(error: unknown): void {
    this.exchange.fail(error);
  }
}
