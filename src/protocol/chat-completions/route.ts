// POST /v1/chat/completions: one request from parsed body to last byte. Event-loop thread only.
//
//   parse ─► model ─► content ─► admit (generation-run.ts) ─► events ─► answer
//   400      404/403  422        422, 429, 503                200 …
import type { Exchange, EventStream, Route } from '../../http/exchange.js';
import { newChatCompletionId } from '../../ids.js';
import { admit, findModel, GenerationRun, type AdmittedGeneration, type Caller, type GenerationDeps, type RunSink, type Usage } from '../generation-run.js';
import { nameIgnored } from '../ignored.js';
import { ChatCollector, ChatStreamEncoder, DONE, type ChatEnvelope } from './encode.js';
import { parseChat, type ChatGeneration } from './parse.js';

const PATH = '/v1/chat/completions';

export function chatCompletionsRoute(deps: GenerationDeps): Route {
  return {
    method: 'POST', path: PATH, scope: 'inference', checksScope: true,
    async serve(exchange) {
      const parsed = parseChat(exchange.body);
      const caller = callerOf(exchange);
      const model = findModel(deps, caller, parsed.model);
      const chat = parsed.content(deps.limits);
      nameIgnored(chat.ignored, (name, value) => exchange.setHeader(name, value));
      const admitted = await admit(deps, caller, model, chat.request);
      if (admitted !== null) answer(exchange, chat, admitted);
    },
  };
}

function callerOf(exchange: Exchange): Caller {
  return {
    identity: exchange.identity, endpoint: PATH, shape: 'chat', receivedAt: exchange.receivedAt,
    get aborted() { return exchange.aborted; },
    setHeader: (name, value) => exchange.setHeader(name, value),
    annotate: (fields) => exchange.annotate(fields),
  };
}

function answer(exchange: Exchange, chat: ChatGeneration, admitted: AdmittedGeneration): void {
  const envelope: ChatEnvelope = {
    id: newChatCompletionId(), created: Math.floor(Date.now() / 1000), model: admitted.model, fingerprint: admitted.fingerprint,
    n: admitted.prepared.n, wantLogprobs: chat.request.topLogprobs !== null, includeReasoning: chat.includeReasoning, metadata: chat.metadata,
  };
  exchange.annotate({ stream: chat.stream });
  const sink = chat.stream ? new StreamedAnswer(exchange, new ChatStreamEncoder(envelope, chat.includeUsage)) : new WholeAnswer(exchange, new ChatCollector(envelope));
  const run = new GenerationRun(admitted, sink);
  exchange.onAborted(() => run.cancel());
  run.start();
  // The stream opens only now: a refusal by start() must still be a plain error status.
  if (sink instanceof StreamedAnswer && !run.ended) sink.open();
}

class WholeAnswer implements RunSink {
  constructor(private readonly exchange: Exchange, private readonly collector: ChatCollector) {}

  event(event: Parameters<RunSink['event']>[0]): void {
    if (event.type === 'text') this.collector.text(event);
    if (event.type === 'finished') this.collector.finished(event);
  }

  complete(usage: Usage): void {
    this.exchange.json(200, this.collector.body(usage));
  }

  failed(error: unknown): void {
    this.exchange.fail(error);
  }
}

class StreamedAnswer implements RunSink {
  #stream: EventStream | null = null;

  constructor(private readonly exchange: Exchange, private readonly encoder: ChatStreamEncoder) {}

  open(): void {
    this.#stream = this.exchange.sse();
  }

  event(event: Parameters<RunSink['event']>[0]): void {
    if (event.type === 'text') this.#send(this.encoder.text(event));
    if (event.type === 'finished') this.#send(this.encoder.finished(event));
  }

  complete(usage: Usage): void {
    this.#send(this.encoder.usage(usage));
    this.#stream?.send(DONE);
    this.#stream?.end();
  }

  failed(error: unknown): void {
    this.exchange.fail(error);
  }

  #send(chunks: Iterable<string>): void {
    for (const chunk of chunks) this.#stream?.send(chunk);
  }
}
