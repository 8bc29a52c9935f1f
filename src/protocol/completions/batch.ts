// The generations of one completions request. Prompts are admitted one after another, and up to 16 run concurrently
// within the organization's limits. The response is complete when all generations have finished. The first failure
// fails the response and cancels the other generations. Event-loop thread only.
import { toApiError, type ApiError } from '../../shared/errors.js';
import type { ServedModel } from '../../generation/served-models.js';
import { isHostedEvent } from '../../generation/hosted-tools/hosted-events.js';
import type { GenerationRequest, SpelledToken } from '../../generation/types.js';
import type { EventStream, Exchange } from '../../http/exchange.js';
import type { JsonText } from '../../http/json-text.js';
import { newCompletionId } from '../../shared/ids.js';
import { admit, withAdmitted, type AdmittedGeneration, type GenerationDeps } from '../admit.js';
import { AnswerMemory } from '../answer-memory.js';
import type { Caller } from '../caller.js';
import { FormatGuard } from '../format-guard.js';
import { GenerationRun, type RunSink } from '../generation-run.js';
import { addUsage, type Usage } from '../usage.js';
import { completionBody, PromptAnswer, type CompletionEnvelope, type PromptRules } from './encode.js';
import type { CompletionGeneration } from './parse.js';

/** Maximum number of prompts from one request that run concurrently, so that one request cannot fill the queue. */
const MAX_AT_ONCE = 16;
/** The same limit for requests with prompt log probabilities, which stay in memory until the response is sent. */
const MAX_SCORED_AT_ONCE = 2;

export class CompletionBatch {
  readonly #runs: (GenerationRun | null)[] = [];
  readonly #answers: PromptAnswer[] = [];
  #envelope: CompletionEnvelope | null = null;
  #stream: EventStream | null = null;
  #running = 0;
  #left: number;
  #over = false;
  #ended: () => void = () => undefined;

  constructor(
    private readonly deps: GenerationDeps,
    private readonly exchange: Exchange,
    private readonly caller: Caller,
    private readonly model: ServedModel,
    private readonly asked: CompletionGeneration,
  ) {
    this.#left = asked.requests.length;
  }

  /** Resolves when every prompt has started or the response has ended. */
  async run(): Promise<void> {
    const { exchange, asked } = this;
    exchange.annotate({
      stream: asked.stream,
      ...(asked.requests.length > 1 ? { prompts: asked.requests.length } : {}),
    });
    exchange.onAborted(() => this.#stop());
    for (const [index, request] of asked.requests.entries()) {
      while (this.#running >= (request.promptLogprobs == null ? MAX_AT_ONCE : MAX_SCORED_AT_ONCE))
        await this.#oneEnds();
      if (this.#over) return;
      try {
        const admitted = await this.#admit(request);
        if (admitted === null) return;
        withAdmitted(admitted, () => this.#start(index, request, admitted));
      } catch (error) {
        if (index === 0) throw error; // nothing has started, so the error is reported like any other rejection
        this.fail(error);
      }
    }
  }

  /**
   * Admits a prompt. If this request's other prompts have used up the limits, waits for one of them to finish. Returns
   * null if the response has ended.
   */
  async #admit(request: GenerationRequest): Promise<AdmittedGeneration | null> {
    for (;;) {
      try {
        const admitted = await admit(this.deps, this.#quietCaller(), this.model, request);
        if (!this.#over || admitted === null) return admitted;
        admitted.reservation.refund();
        return null;
      } catch (error) {
        if (this.#over) return null;
        if (this.#running === 0 || toApiError(error).code !== 'concurrency_limit_exceeded') throw error;
        await this.#oneEnds();
        if (this.#over) return null;
      }
    }
  }

  /** Headers cannot be set after the response has started, so the returned caller ignores them. */
  #quietCaller(): Caller {
    const { caller } = this;
    if (this.#stream === null) return caller;
    return Object.create(caller, { setHeader: { value: () => undefined } }) as Caller;
  }

  #oneEnds(): Promise<void> {
    return new Promise((resolve) => {
      this.#ended = resolve;
    });
  }

  #start(index: number, request: GenerationRequest, admitted: AdmittedGeneration): void {
    const { asked } = this;
    const { prepared } = admitted;
    this.#envelope ??= {
      id: newCompletionId(),
      created: Math.floor(Date.now() / 1000),
      model: admitted.asked,
      fingerprint: admitted.fingerprint,
    };
    this.exchange.trace?.set({ 'gen_ai.response.id': this.#envelope.id });
    const answer = new PromptAnswer(this.#rules(index, request, admitted));
    this.#answers[index] = answer;
    const run = new GenerationRun(
      admitted,
      new PromptSink(this, answer, FormatGuard.for(request.format, prepared.n)),
      asked.stream,
    );
    this.#runs[index] = run;
    this.#running++;
    try {
      run.start();
    } catch (error) {
      this.#running--;
      throw error;
    }
    // The stream is opened only now, so that an earlier error can still be sent with a normal HTTP status.
    if (asked.stream && this.#stream === null && !this.#over) this.#stream = this.exchange.sse();
  }

  #rules(index: number, { raw }: GenerationRequest, { prepared, provider }: AdmittedGeneration): PromptRules {
    const { asked } = this;
    const { vocabulary } = provider;
    const promptIds = Array.from(prepared.promptIds ?? []);
    const spell = (id: number): SpelledToken => vocabulary?.spell(id) ?? { id, token: '', bytes: [] };
    const echoed = raw?.kind === 'text' ? raw.text : (vocabulary?.decode(Int32Array.from(promptIds)) ?? '');
    return {
      first: index * asked.n,
      candidates: prepared.n,
      n: asked.n,
      logprobs: asked.logprobs,
      promptLogprobs: asked.promptLogprobs,
      returnTokens: asked.returnTokens,
      echo: asked.echo ? echoed : null,
      promptIds,
      spell,
    };
  }

  /** Streamed text is sent as it arrives and is not kept. */
  get streams(): boolean {
    return this.asked.stream;
  }

  /** Reserves memory for the given number of additional response characters. Throws ApiError 503 or 422. */
  hold(characters: number): void {
    this.exchange.reserve(characters);
  }

  /** Called when one of a prompt's choices has new output. */
  add(answer: PromptAnswer, choice: number): void {
    if (this.#stream === null) return;
    const entry = answer.take(choice);
    if (entry === null) return;
    const usage = this.asked.continuousUsage ? this.#usage() : this.asked.includeUsage ? null : undefined;
    this.#send(completionBody(this.#known(), [entry], usage));
  }

  complete(): void {
    this.#running--;
    this.#left--;
    this.#ended();
    if (this.#left > 0 || this.#over) return;
    const usage = this.#usage();
    // The body is built before the response is marked as ended. Building it can throw, and the response must then fail.
    const whole = this.asked.stream
      ? null
      : completionBody(
          this.#known(),
          this.#answers.flatMap((answer) => answer.whole()),
          usage,
        );
    this.#over = true;
    if (whole !== null) return this.exchange.json(200, whole);
    if (this.asked.includeUsage) this.#send(completionBody(this.#known(), [], usage));
    this.#stream?.send('[DONE]');
    this.#stream?.end();
  }

  /** Fails the response and cancels all running generations. */
  fail(error: unknown): void {
    if (this.#over) return;
    this.#stop();
    this.exchange.fail(error);
  }

  #stop(): void {
    this.#over = true;
    for (const run of this.#runs) run?.cancel();
    this.#ended();
  }

  #usage(): Usage {
    return addUsage(this.#runs.flatMap((run) => (run === null ? [] : [run.usage])));
  }

  #known(): CompletionEnvelope {
    return this.#envelope as CompletionEnvelope; // set before the first generation starts
  }

  #send(body: JsonText): void {
    this.#stream?.send(body.toString());
  }
}

/** Receives the events of one prompt. */
class PromptSink implements RunSink {
  #started = false;
  #held = 0;
  readonly #memory: AnswerMemory;

  constructor(
    private readonly batch: CompletionBatch,
    private readonly answer: PromptAnswer,
    private readonly guard: FormatGuard | null,
  ) {
    this.#memory = new AnswerMemory((bytes) => batch.hold(bytes));
  }

  event(event: Parameters<RunSink['event']>[0]): void {
    const { answer, guard } = this;
    if (event.type === 'started' || isHostedEvent(event)) return;
    if (event.type === 'prompt') {
      answer.prompt(event);
      return this.#hold();
    }
    if (!this.#started) {
      this.#started = true;
      answer.begin();
    }
    if (event.type === 'tokens') return answer.tokens(event);
    if (guard !== null || !this.batch.streams) this.#memory.take(event);
    if (guard !== null) {
      if (event.type === 'text') guard.text(event);
      else if (event.type === 'finished') guard.finished(event);
    }
    answer.event(event);
    this.batch.add(answer, event.choice);
    if (event.type === 'text' && event.logprobs !== null) this.#hold();
  }

  /** Reserves memory for the output so far. An echoed prompt counts once for each choice. */
  #hold(): void {
    const { size } = this.answer;
    this.batch.hold(size - this.#held);
    this.#held = Math.max(this.#held, size);
  }

  complete(): void {
    this.batch.complete();
  }

  failed(error: ApiError | unknown): void {
    this.batch.fail(error);
  }
}
