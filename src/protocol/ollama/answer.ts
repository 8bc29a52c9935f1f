// Runs an admitted generation and responds in Ollama's format. Event-loop thread only.
import { isHostedEvent } from '../../generation/hosted-tools/hosted-events.js';
import type { EventStream, Exchange } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { newToolCallId } from '../../shared/ids.js';
import type { AdmittedGeneration } from '../admit.js';
import { AnswerMemory } from '../answer-memory.js';
import { FormatGuard } from '../format-guard.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import type { Usage } from '../usage.js';
import { OllamaCollector, OllamaStreamEncoder, type OllamaEnvelope, type OllamaKind } from './encode.js';

type RunEvent = Parameters<RunSink['event']>[0];

export function answerOllama(
  exchange: Exchange,
  { kind, stream, name }: { kind: OllamaKind; stream: boolean; name: string },
  admitted: AdmittedGeneration,
): void {
  const envelope: OllamaEnvelope = {
    kind,
    model: name,
    newCallId: newToolCallId,
    receivedAt: exchange.receivedAt,
    loadMs: performance.now() - exchange.receivedAt,
  };
  exchange.annotate({ stream });
  const guard = FormatGuard.for(admitted.request.format, 1);
  const sink = stream ? new StreamedAnswer(exchange, guard, envelope) : new WholeAnswer(exchange, guard, envelope);
  const run = new GenerationRun(admitted, sink, stream);
  exchange.onAborted(() => run.cancel());
  run.start();
  // The stream is opened only now, so that an error from start() can still be sent with a normal HTTP status.
  if (sink instanceof StreamedAnswer && !run.ended) sink.open();
}

/**
 * A failed format check is reported before the last line, so a client never mistakes the response for a complete one.
 */
abstract class Answer implements RunSink {
  protected abstract readonly encoder: OllamaCollector | OllamaStreamEncoder;
  protected readonly memory: AnswerMemory;

  constructor(
    protected readonly exchange: Exchange,
    private readonly guard: FormatGuard | null,
  ) {
    this.memory = new AnswerMemory((bytes) => exchange.reserve(bytes));
  }

  event(event: RunEvent): void {
    if (event.type === 'started' || event.type === 'prompt' || event.type === 'tokens' || isHostedEvent(event)) return;
    if (this.keeps(event)) this.memory.take(event);
    if (event.type === 'text') this.guard?.text(event);
    else if (event.type === 'finished') this.guard?.finished(event);
    this.encoder.event(event);
  }

  /** Whether the event's text stays in memory until the end of the response, or of a call. */
  protected keeps(event: RunEvent): boolean {
    return this.guard !== null || event.type !== 'text';
  }

  abstract complete(usage: Usage): void;

  failed(error: unknown): void {
    this.exchange.fail(error);
  }
}

/** Estimated size of a log probability in the response, in bytes. */
const LOGPROB_BYTES = 64;

class WholeAnswer extends Answer {
  protected readonly encoder: OllamaCollector;

  constructor(exchange: Exchange, guard: FormatGuard | null, envelope: OllamaEnvelope) {
    super(exchange, guard);
    this.encoder = new OllamaCollector(envelope);
  }

  override event(event: RunEvent): void {
    if (event.type === 'text' && event.logprobs !== null)
      for (const { top } of event.logprobs) this.memory.add(LOGPROB_BYTES * (top.length + 1));
    super.event(event);
  }

  protected override keeps(): boolean {
    return true;
  }

  complete(usage: Usage): void {
    this.exchange.json(200, new JsonText().add(this.encoder.body(usage)));
  }
}

class StreamedAnswer extends Answer {
  protected readonly encoder: OllamaStreamEncoder;
  #stream: EventStream | null = null;

  constructor(exchange: Exchange, guard: FormatGuard | null, envelope: OllamaEnvelope) {
    super(exchange, guard);
    this.encoder = new OllamaStreamEncoder(envelope, (line) => this.#stream?.send(line));
  }

  open(): void {
    this.#stream = this.exchange.lines();
  }

  complete(usage: Usage): void {
    this.encoder.complete(usage);
    this.#stream?.end();
  }
}
