// POST /v1/chat/completions: one request from parsed body to last byte. Event-loop thread only.
//
//   parse ─► model ─► content ─► prepare (render, tokenize, fit) ─► reserve ─► submit ─► events ─► settle
//   400      404/403  422        422                               429        503       200 …
import type { Admission, Reservation } from '../../admission/admission.js';
import { permit } from '../../accounts/permissions.js';
import { apiError, type ApiError } from '../../errors.js';
import type { Prompter } from '../../generation/prompter.js';
import type { ServedModels } from '../../generation/served-models.js';
import type { GenerationEvent, PreparedGeneration, RunningGeneration } from '../../generation/types.js';
import type { EventStream, Exchange, Route } from '../../http/exchange.js';
import { newChatCompletionId } from '../../ids.js';
import type { GenerationMeter, Telemetry } from '../../telemetry/types.js';
import { ChatCollector, ChatStreamEncoder, DONE, type ChatEnvelope, type ChatUsage } from './encode.js';
import { parseChat, type ChatGeneration } from './parse.js';

export interface ChatCompletionsDeps {
  models: ServedModels;
  admission: Admission;
  telemetry: Telemetry;
  limits: { maxN: number };
}

const PATH = '/v1/chat/completions';

export function chatCompletionsRoute(deps: ChatCompletionsDeps): Route {
  return {
    method: 'POST', path: PATH, scope: 'inference', checksScope: true,
    async serve(exchange) {
      const { identity } = exchange;
      const parsed = parseChat(exchange.body);
      const served = deps.models.find(parsed.model);
      exchange.annotate({ model: served.name });
      permit(identity, 'inference', served.name);
      const chat = parsed.content(deps.limits);
      if (chat.ignored.length > 0) exchange.setHeader('x-ignored-parameters', headerList(chat.ignored));
      let prompter: Prompter;
      let prepared: PreparedGeneration;
      try {
        prompter = served.ready();
        prepared = await prompter.prepare(chat.request, identity.tenant);
      } catch (error) {
        // Also a refusal here tells the client where its limits stand; those below carry it themselves.
        setHeaders(exchange, deps.admission.headers(identity.organizationId, served.name, 'chat'));
        throw error;
      }
      if (exchange.aborted) return;

      const reservation = deps.admission.reserve({
        identity, model: served.name, promptTokens: prepared.promptTokens,
        statedCap: chat.request.maxTokens === null ? null : prepared.maxTokens,
        modelMaximum: prepared.maxTokens, n: prepared.n,
      });
      setHeaders(exchange, reservation.headers('chat'));
      const meter = deps.telemetry.generation({
        model: served.name, endpoint: PATH, choices: prepared.n, receivedAt: exchange.receivedAt,
      });
      new ChatAnswer(exchange, { model: served.name, fingerprint: prompter.fingerprint }, chat, prepared, reservation, meter).run();
    },
  };
}

function setHeaders(exchange: Exchange, headers: Iterable<readonly [name: string, value: string]>): void {
  for (const [name, value] of headers) exchange.setHeader(name, value);
}

/** The answer in the making: routes events to the encoder, keeps the accounts, ends exactly once. */
class ChatAnswer {
  readonly #usage: ChatUsage;
  readonly #encoder: ChatStreamEncoder | null;
  readonly #collector: ChatCollector | null;
  readonly #openChoices: Set<number>;
  #stream: EventStream | null = null;
  #running: RunningGeneration | null = null;
  #generated = 0;               // tokens seen so far, for the settlement of a cancelled request
  #ended = false;

  constructor(
    private readonly exchange: Exchange,
    served: Pick<ChatEnvelope, 'model' | 'fingerprint'>,
    private readonly chat: ChatGeneration,
    private readonly prepared: PreparedGeneration,
    private readonly reservation: Reservation,
    private readonly meter: GenerationMeter,
  ) {
    const envelope: ChatEnvelope = {
      id: newChatCompletionId(), created: Math.floor(Date.now() / 1000), ...served,
      n: prepared.n, wantLogprobs: chat.request.topLogprobs !== null, includeReasoning: chat.includeReasoning, metadata: chat.metadata,
    };
    this.#usage = { promptTokens: prepared.promptTokens, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };
    this.#encoder = chat.stream ? new ChatStreamEncoder(envelope, chat.includeUsage) : null;
    this.#collector = chat.stream ? null : new ChatCollector(envelope);
    this.#openChoices = new Set(Array.from({ length: prepared.n }, (_, index) => index));
  }

  run(): void {
    const { exchange } = this;
    exchange.annotate({ prompt_tokens: this.prepared.promptTokens, stream: this.chat.stream });
    exchange.onAborted(() => this.#abandon());
    try {
      this.#running = this.prepared.start((event) => this.#onEvent(event));
    } catch (error) {
      this.#end();
      this.reservation.refund();
      this.#showLimits();
      throw error;
    }
    // The stream opens only now: a refusal above must still be a plain error status.
    if (this.#encoder !== null && !this.#ended) this.#stream = exchange.sse();
  }

  /** A failure of our own must end this answer alone, not the process. */
  #onEvent(event: GenerationEvent): void {
    if (this.#ended) return;
    try {
      this.#take(event);
    } catch (error) {
      this.#running?.cancel();
      if (this.#ended) return;
      this.#end();
      this.meter.failed('internal_error');
      this.reservation.settle(this.#usage.promptTokens + this.#generated);
      this.#showLimits();
      this.exchange.fail(error);
    }
  }

  #take(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        this.#usage.cachedTokens = event.cachedTokens;
        this.exchange.annotate({ cached_tokens: event.cachedTokens, queue_ms: Math.round(event.queueMs) });
        this.meter.started(event);
        break;
      case 'text':
        this.#generated += event.tokens;
        this.meter.token(event.tokens, event.choice);
        if (this.#encoder !== null) this.#send(this.#encoder.text(event));
        else this.#collector?.text(event);
        break;
      case 'finished':
        this.#usage.completionTokens += event.completionTokens;
        this.#usage.reasoningTokens += event.reasoningTokens;
        this.meter.finished(event);
        if (this.#encoder !== null) this.#send(this.#encoder.finished(event));
        else this.#collector?.finished(event);
        this.#openChoices.delete(event.choice);
        if (this.#openChoices.size === 0) this.#complete(event.reason);
        break;
      case 'failed':
        this.#fail(event);
        break;
    }
  }

  #send(chunks: Iterable<string>): void {
    for (const chunk of chunks) this.#stream?.send(chunk);
  }

  #complete(reason: string): void {
    this.#end();
    this.reservation.settle(this.#usage.promptTokens + this.#usage.completionTokens);
    this.exchange.annotate({ completion_tokens: this.#usage.completionTokens, finish: reason });
    if (this.#encoder !== null) {
      this.#send(this.#encoder.usage(this.#usage));
      this.#stream?.send(DONE);
      this.#stream?.end();
    } else if (this.#collector !== null) {
      this.exchange.json(200, this.#collector.body(this.#usage));
    }
  }

  #fail(event: Extract<GenerationEvent, { type: 'failed' }>): void {
    this.#end();
    const error = failureError(event.code);
    this.meter.failed(error.code);
    this.exchange.annotate({ code: error.code });
    if (this.#generated === 0) this.reservation.refund();
    else this.reservation.settle(this.#usage.promptTokens + this.#generated);
    this.#showLimits();
    this.exchange.fail(error);
  }

  /** The client has gone: nothing can be sent any more. */
  #abandon(): void {
    if (this.#ended) return;
    this.#end();
    this.#running?.cancel();
    this.meter.cancelled();
    this.exchange.annotate({ completion_tokens: this.#generated, finish: 'cancelled' });
    this.reservation.settle(this.#usage.promptTokens + this.#generated);
  }

  /** What is left after a refund or a settlement, if headers can still be sent. */
  #showLimits(): void {
    setHeaders(this.exchange, this.reservation.headers('chat'));
  }

  #end(): void {
    this.#ended = true;
  }
}

function failureError(code: Extract<GenerationEvent, { type: 'failed' }>['code']): ApiError {
  switch (code) {
    case 'queue_timeout': return apiError('capacity_exhausted', 'The request waited too long in the queue.', null);
    case 'engine_error': return apiError('model_error', 'The model failed on this request.', null);
    case 'shutdown': return apiError('shutting_down', 'The server is shutting down.', null);
  }
}

/** Client-chosen names in a header: printable, bounded. */
function headerList(names: readonly string[]): string {
  return names.slice(0, 20).map((name) => name.slice(0, 64).replace(/[^\w.-]/g, '_')).join(', ');
}
