// Runs a generation whose model may search the web. When the model's turn ends with calls of the search tool, the
// server runs the searches and generates again, with the calls and their results in the prompt. This repeats until the
// turn ends without such calls. The consumer receives all rounds as one generation, with one `started` event and one
// `finished` event, whose counts are the sums of all rounds. Only the Provider interface is used, so any provider
// works. Event-loop thread only.
//
//   generation ─► search_called … ─► ends with calls ─► search_started, search_finished ─► prepare ─► continued ─► …
//              └► ends without, or with calls for the client ─► finished
//
// The request keeps its reservation and its concurrency slot for the whole turn. Each round waits in the provider's
// queue like a new request, so a turn with many searches has no advantage over other requests.
import { ApiError, toApiError } from '../../shared/errors.js';
import type { PreparedGeneration, Provider, RequestContext, RunningGeneration } from '../provider.js';
import type { EndReason, GenerationEvent, GenerationRequest, PredictionCount, ToolChoice } from '../types.js';
import type { SearchOutcome } from './outcome.js';
import { RoundOutput, type SearchCall } from './round-output.js';
import { queryIn, type WebSearchOptions } from './search-options.js';
import type { SearchService } from './search-service.js';

export interface SearchDeps {
  readonly service: Pick<SearchService, 'search'>;
  /** With images loaded. `n` is 1. */
  readonly request: GenerationRequest & { readonly webSearch: WebSearchOptions };
  /**
   * Called once per round. If the client of a background response has disconnected, the contexts of later rounds are
   * not aborted.
   */
  context(): RequestContext;
  /** Returns the model's provider. Loads the model if it has been unloaded in the meantime. Throws ApiError. */
  provider(): Promise<Provider>;
}

/** Wraps a prepared request so that the server runs the model's searches. */
export function withWebSearch(prepared: PreparedGeneration, deps: SearchDeps): PreparedGeneration {
  return { ...prepared, start: (onEvent, responseId) => new SearchRun(prepared, deps, onEvent).start(responseId) };
}

type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;
type CallEvent = Extract<GenerationEvent, { type: 'call_started' | 'call_arguments' | 'call_finished' }>;

/** Maximum number of concurrent searches per turn. */
const CONCURRENT = 4;
/** Only a turn that ended naturally continues. */
const CONTINUES: ReadonlySet<EndReason> = new Set<EndReason>(['tool_calls', 'end_of_turn']);

class SearchRun implements RunningGeneration {
  readonly #aborted = new AbortController();
  readonly #options: WebSearchOptions;
  #request: GenerationRequest;
  #running: RunningGeneration | null = null;
  #responseId: string | undefined;
  #round: RoundOutput;
  /** This round's calls by the provider's index: a search, or the index that the client sees. */
  #calls = new Map<number, SearchCall | number>();
  /** The client's calls after a search call, which are emitted after the search's result. */
  #held: CallEvent[] = [];
  #clientCalls = 0; // of all rounds
  #uses = 0;
  #mayNotSearch = false; // the maximum was exceeded
  #isOver = false;
  readonly #sum = {
    completionTokens: 0,
    reasoningTokens: 0,
    promptTokens: 0,
    cachedTokens: 0,
    prefillMs: 0,
    decodeMs: 0,
  };
  #counted: { estimated: boolean } | null = null;
  #prediction: PredictionCount | null = null;

  constructor(
    private readonly prepared: PreparedGeneration,
    private readonly deps: SearchDeps,
    private readonly emit: (event: GenerationEvent) => void,
  ) {
    this.#request = deps.request;
    this.#options = deps.request.webSearch;
    const last = deps.request.messages.at(-1);
    const begun = deps.request.continueFinal && last?.role === 'assistant' ? (last.content ?? '') : '';
    this.#round = this.#newRound(begun);
  }

  /** Throws ApiError if the provider rejects the request. */
  start(responseId?: string): this {
    this.#responseId = responseId;
    this.#running = this.prepared.start((event) => this.#receive(event), responseId);
    return this;
  }

  cancel(): void {
    this.#isOver = true;
    this.#aborted.abort();
    this.#running?.cancel();
  }

  #newRound(before = ''): RoundOutput {
    return new RoundOutput(this.#options.name, this.deps.request.promptParam, before);
  }

  /** An internal error must end only this response, not the process. */
  #receive(event: GenerationEvent): void {
    if (this.#isOver) return;
    try {
      this.#take(event);
    } catch (error) {
      this.#fail(error);
    }
  }

  #take(event: GenerationEvent): void {
    switch (event.type) {
      case 'started':
        this.#started(event);
        return;
      case 'text':
        this.#round.text(event);
        this.emit(event);
        return;
      case 'thought':
        this.#round.thought(event.block);
        this.emit(event);
        return;
      case 'call_started':
        this.#calls.set(event.index, event.name === this.#options.name ? this.#round.call() : this.#clientCalls++);
        this.#call(event);
        return;
      case 'call_arguments':
      case 'call_finished':
        this.#call(event);
        return;
      case 'finished':
        this.#finished(event);
        return;
      case 'failed':
        this.#isOver = true;
        this.emit(event);
        return;
      default:
        this.emit(event);
    }
  }

  #started(event: Extract<GenerationEvent, { type: 'started' }>): void {
    this.#round.started = event;
    if (this.#request === this.deps.request) this.emit(event);
  }

  #call(event: CallEvent): void {
    const call = this.#calls.get(event.index);
    if (call === undefined) throw new Error('received an event for a tool call that has not started');
    if (typeof call === 'number') {
      const own = { ...event, index: call };
      if (this.#round.searches.length > 0) this.#held.push(own);
      else this.emit(own);
      return;
    }
    if (event.type === 'call_arguments') call.arguments.add(event.text);
    if (event.type === 'call_finished') call.isComplete = event.complete;
    if (event.tokens > 0) this.emit({ type: 'search_called', choice: event.choice, tokens: event.tokens });
  }

  #finished(event: FinishedEvent): void {
    const { started } = this.#round;
    const sum = this.#sum;
    const { promptTokens = 0, cachedTokens = 0 } = event.counted ?? started ?? {};
    sum.promptTokens += promptTokens;
    sum.cachedTokens += cachedTokens;
    sum.completionTokens += event.completionTokens;
    sum.reasoningTokens += event.reasoningTokens;
    sum.prefillMs += event.timings.prefillMs;
    sum.decodeMs += event.timings.decodeMs;
    if (event.prediction !== undefined) this.#prediction = withRound(this.#prediction, event.prediction);
    if (event.counted !== undefined)
      this.#counted = { estimated: event.counted.estimated || this.#counted?.estimated === true };
    const calls = this.#round.searches.filter(({ isComplete }) => isComplete);
    if (calls.length === 0 || !CONTINUES.has(event.reason)) this.#end(event, event.reason);
    else if (this.#mayNotSearch) this.#end(event, this.#hasClientCalls ? 'tool_calls' : 'end_of_turn');
    else void this.#search(event, calls).catch((error: unknown) => this.#fail(error));
  }

  /** Runs the searches and continues the turn, unless it also has calls for the client. */
  async #search(event: FinishedEvent, calls: readonly SearchCall[]): Promise<void> {
    const { choice } = event;
    const running: Promise<SearchOutcome>[] = [];
    const outcomes: SearchOutcome[] = [];
    for (const [at, call] of calls.entries()) {
      for (let next = running.length; next < Math.min(calls.length, at + CONCURRENT); next++)
        running.push(this.#outcomeOf(calls[next] as SearchCall));
      this.emit({ type: 'search_started', choice, query: queryIn(call.arguments.toString()) });
      const outcome = await (running[at] as Promise<SearchOutcome>);
      if (this.#isOver) return;
      outcomes.push(outcome);
      this.emit({ type: 'search_finished', choice, outcome });
    }
    if (this.#hasClientCalls) return this.#end(event, 'tool_calls');
    if (this.#left <= 0) return this.#end(event, 'max_tokens');
    await this.#continue(event, this.#round.messages(calls, outcomes));
  }

  async #outcomeOf(call: SearchCall): Promise<SearchOutcome> {
    const query = queryIn(call.arguments.toString());
    if (this.#uses === this.#options.maxUses) {
      this.#mayNotSearch = true;
      return { error: 'max_uses_exceeded' };
    }
    this.#uses++; // a call without a query counts, too: a model could repeat it without end
    if (query === null) return { error: 'invalid_tool_input' };
    return this.deps.service.search(query, this.#options, this.#aborted.signal);
  }

  /** Whether this round has calls of the client's tools. */
  get #hasClientCalls(): boolean {
    return [...this.#calls.values()].some((call) => typeof call === 'number');
  }

  /** Output tokens left. The limit applies to the whole turn. */
  get #left(): number {
    return this.prepared.maxTokens - this.#sum.completionTokens;
  }

  async #continue(event: FinishedEvent, added: readonly GenerationRequest['messages'][number][]): Promise<void> {
    const { messages, continueFinal, maxTokens } = this.#request;
    this.#request = {
      ...this.#request,
      messages: [...(continueFinal ? messages.slice(0, -1) : messages), ...added],
      continueFinal: false,
      maxTokens: maxTokens === null ? null : this.#left,
      minTokens: undefined,
      promptLogprobs: null,
      toolChoice: this.#nextChoice(),
    };
    const prepared = await this.#prepare();
    if (this.#isOver) return prepared?.discard?.();
    if (prepared === null) return this.#end(event, 'context_full');
    this.#round = this.#newRound();
    this.#calls = new Map();
    const { completionTokens, timings } = event;
    this.#running = prepared.start((next) => {
      if (next.type === 'started' && !this.#isOver) {
        const { promptTokens, cachedTokens, queueMs, model, upstream } = next;
        this.emit({
          type: 'continued',
          choice: event.choice,
          promptTokens,
          cachedTokens,
          queueMs,
          before: { completionTokens, timings },
          ...(model === undefined ? {} : { model }),
          ...(upstream === undefined ? {} : { upstream }),
        });
      }
      const capped = next.type === 'finished' && next.reason === 'max_tokens' && prepared.cappedByContext;
      this.#receive(capped ? { ...next, reason: 'context_full' } : next);
    }, this.#responseId);
  }

  /** Returns null if the results do not fit in the context. */
  async #prepare(): Promise<PreparedGeneration | null> {
    try {
      const provider = await this.deps.provider();
      provider.check(this.#request);
      return await provider.prepare(this.#request, this.deps.context());
    } catch (error) {
      if (error instanceof ApiError && error.code === 'context_length_exceeded') return null;
      throw error;
    }
  }

  /** A required call has been made. After too many searches, the model may not call the search tool again. */
  #nextChoice(): ToolChoice {
    const { toolChoice, tools } = this.#request;
    const mode = toolChoice.mode === 'required' ? 'auto' : toolChoice.mode;
    if (!this.#mayNotSearch) return { mode, allowed: toolChoice.allowed };
    const others = (toolChoice.allowed ?? tools.map(({ name }) => name)).filter((name) => name !== this.#options.name);
    return others.length === 0 ? { mode: 'none', allowed: null } : { mode, allowed: others };
  }

  #end(event: FinishedEvent, reason: EndReason): void {
    for (const call of this.#held.splice(0)) this.emit(call);
    if (this.#isOver) return;
    this.#isOver = true;
    const { completionTokens, reasoningTokens, promptTokens, cachedTokens, prefillMs, decodeMs } = this.#sum;
    this.emit({
      ...event,
      reason,
      completionTokens,
      reasoningTokens,
      calls: this.#clientCalls,
      timings: { prefillMs, decodeMs },
      ...(this.#prediction === null ? {} : { prediction: this.#prediction }),
      ...(this.#counted === null ? {} : { counted: { promptTokens, cachedTokens, ...this.#counted } }),
    });
  }

  #fail(thrown: unknown): void {
    if (this.#isOver) return;
    this.cancel();
    const error = toApiError(thrown);
    this.emit({ type: 'failed', code: 'upstream', message: error.message, error });
  }
}

/** Each round has the same prediction, so tokens that an earlier round accepted are not counted as rejected. */
function withRound(before: PredictionCount | null, { accepted, rejected }: PredictionCount): PredictionCount {
  if (before === null) return { accepted, rejected };
  const predicted = Math.max(before.accepted + before.rejected, accepted + rejected);
  const total = Math.min(predicted, before.accepted + accepted);
  return { accepted: total, rejected: predicted - total };
}
