// Runs a generation whose model may call tools that this server runs: web searches and the tools of MCP servers. When
// the model's turn ends with such calls, the server runs them and generates again, with the calls and their results in
// the prompt. This repeats until the turn ends without such calls. The consumer receives all rounds as one generation,
// with one `started` event and one `finished` event, whose counts are the sums of all rounds. Only the Provider
// interface is used, so any provider works. Event-loop thread only.
//
//   list tools, approved calls ─► prepare ─► generation ─► ends with calls ─► run them ─► prepare ─► continued ─► …
//   (MCP only)                            └► ends without, or with calls for the client ─► finished
//
// The request keeps its reservation and its concurrency slot for the whole turn. While a call runs, the request holds
// neither a sequence slot nor KV pages. Each round waits in the provider's queue like a new request, so a turn with
// many calls has no advantage over other requests.
import { ApiError, apiError, toApiError } from '../../shared/errors.js';
import { MAX_MCP_CALLS } from '../mcp/limits.js';
import { McpTools, notOffered, tooManyCalls, type McpDeps } from '../mcp/mcp-tools.js';
import type { OfferedTool } from '../mcp/tool-set.js';
import type { ApprovedCall, McpOutcome } from '../mcp/types.js';
import type { PreparedGeneration, Provider, RequestContext, RunningGeneration } from '../provider.js';
import type { EndReason, GenerationEvent, GenerationRequest, Message, PredictionCount, ToolChoice } from '../types.js';
import type { SearchOutcome } from '../web-search/outcome.js';
import { outcomeText, queryIn } from '../web-search/search-options.js';
import type { SearchService } from '../web-search/search-service.js';
import { RoundOutput, type HostedCall, type HostedResult } from './round-output.js';

export interface HostedDeps {
  /** Required if the request may search the web. */
  readonly search: Pick<SearchService, 'search'> | undefined;
  /** Required if the request uses MCP servers. */
  readonly mcp: McpDeps | undefined;
  /** The request with its images loaded. `n` is 1. */
  readonly request: GenerationRequest;
  /** Maximum number of tools per request. */
  readonly maxTools: number;
  /**
   * Called once per round. If the client of a background response has disconnected, the contexts of later rounds are
   * not aborted.
   */
  context(): RequestContext;
  /** Returns the model's provider. Loads the model if it has been unloaded in the meantime. Throws ApiError. */
  provider(): Promise<Provider>;
}

/** Whether this server runs some of the request's tools. */
export const usesHostedTools = (
  { webSearch, mcp }: GenerationRequest,
  deps: Pick<HostedDeps, 'search' | 'mcp'>,
): boolean => (webSearch !== undefined && deps.search !== undefined) || (mcp !== undefined && deps.mcp !== undefined);

/** Returns the request with the MCP tools that are known without asking their servers. */
export function withKnownTools(request: GenerationRequest, mcp: McpDeps | undefined): GenerationRequest {
  if (request.mcp === undefined || mcp === undefined) return request;
  const tools = new McpTools(mcp, request.mcp, request.tools);
  return tools.into(request, tools.unlisted.length === 0);
}

/** Wraps a prepared request so that this server runs the model's calls of server-run tools. */
export function withHostedTools(prepared: PreparedGeneration, deps: HostedDeps): PreparedGeneration {
  return { ...prepared, start: (onEvent, responseId) => new HostedRun(prepared, deps, onEvent).start(responseId) };
}

type FinishedEvent = Extract<GenerationEvent, { type: 'finished' }>;
type CallEvent = Extract<GenerationEvent, { type: 'call_started' | 'call_arguments' | 'call_finished' }>;

/** Maximum number of concurrent calls per turn. */
const CONCURRENT = 4;
/** The index of the choice. Tools of this server are used only if a generation has a single choice. */
const CHOICE = 0;
/** A turn is continued only if the model ended it itself. */
const CONTINUES: ReadonlySet<EndReason> = new Set<EndReason>(['tool_calls', 'end_of_turn']);

/** Kind of tool that this server runs. Once a kind's call limit is exceeded, its tools may not be called again. */
type Kind = 'search' | 'mcp';

/** The result of one call. */
type Outcome = { kind: 'search'; outcome: SearchOutcome } | { kind: 'mcp'; outcome: McpOutcome };

class HostedRun implements RunningGeneration {
  readonly #aborted = new AbortController();
  readonly #mcp: McpTools | null;
  #request: GenerationRequest;
  #running: RunningGeneration | null = null;
  #responseId: string | undefined;
  #round: RoundOutput;
  /**
   * This round's calls, keyed by the provider's index. The value is either a call that this server runs or, for a call
   * to the client's tools, the index that the client sees.
   */
  #calls = new Map<number, HostedCall | number>();
  /**
   * Calls to the client's tools that follow a call that this server runs. They are emitted after that call's result.
   */
  #held: CallEvent[] = [];
  #clientCalls = 0; // of all rounds
  /** Number of calls that this server has run. */
  readonly #uses: Record<Kind, number> = { search: 0, mcp: 0 };
  readonly #exceeded = new Set<Kind>();
  #isAnnounced = false; // `started` has been emitted
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
    private readonly deps: HostedDeps,
    private readonly emit: (event: GenerationEvent) => void,
  ) {
    const { request, mcp } = deps;
    this.#mcp = request.mcp === undefined || mcp === undefined ? null : new McpTools(mcp, request.mcp, request.tools);
    this.#request = this.#mcp?.into(request, this.#mcp.unlisted.length === 0) ?? request;
    const last = request.messages.at(-1);
    const begun = request.continueFinal && last?.role === 'assistant' ? (last.content ?? '') : '';
    this.#round = this.#newRound(begun);
  }

  /** Throws ApiError if the provider rejects the request. */
  start(responseId?: string): this {
    this.#responseId = responseId;
    const mcp = this.#mcp;
    if (mcp === null || (mcp.unlisted.length === 0 && mcp.options.approved.length === 0))
      this.#running = this.prepared.start((event) => this.#receive(event), responseId);
    else void this.#open(mcp).catch((error: unknown) => this.#fail(error));
    return this;
  }

  cancel(): void {
    this.#isOver = true;
    this.#aborted.abort();
    this.#running?.cancel();
    this.#mcp?.close();
  }

  #newRound(before = ''): RoundOutput {
    return new RoundOutput(this.deps.request.promptParam, before);
  }

  /** Lists the tools of MCP servers, runs the calls that the client has approved, and starts the first round. */
  async #open(mcp: McpTools): Promise<void> {
    await new Promise(setImmediate); // consumers are ready for events only after start() has returned
    if (this.#isOver) return;
    this.prepared.discard?.(); // the prompt changes
    const { unlisted } = mcp;
    const listings = unlisted.map((server) => mcp.fetch(server, this.#aborted.signal));
    for (const [at, server] of unlisted.entries()) {
      this.emit({ type: 'mcp_listing_started', choice: CHOICE, label: server.label });
      const listing = await listings[at]!;
      if (this.#isOver) return;
      this.emit({ type: 'mcp_listing_finished', choice: CHOICE, listing: mcp.offer(server, listing) });
      if (this.#isOver) return;
    }
    this.#request = mcp.into(this.#request, true);
    this.#checkTools();
    for (const call of mcp.options.approved) {
      const result = await this.#runApproved(mcp, call);
      if (this.#isOver) return;
      this.#request = { ...this.#request, messages: withResult(this.#request.messages, call.id, result) };
    }
    const provider = await this.deps.provider();
    provider.check(this.#request);
    await this.#startRound(await provider.prepare(this.#request, this.deps.context()));
  }

  async #runApproved(mcp: McpTools, call: ApprovedCall): Promise<HostedResult> {
    const { label, name, arguments: text, id } = call;
    this.emit({ type: 'mcp_started', choice: CHOICE, label, name, arguments: text, approvalId: id });
    const offered = mcp.findOn(label, name);
    const outcome = offered === null ? notOffered(label) : await this.#callMcp(mcp, offered, text);
    if (!this.#isOver) this.emit({ type: 'mcp_finished', choice: CHOICE, outcome });
    return resultOf({ kind: 'mcp', outcome });
  }

  #checkTools(): void {
    const { maxTools } = this.deps;
    if (this.#request.tools.length > maxTools)
      throw apiError(
        'array_too_long',
        `tools may have at most ${maxTools} tools on this server, including those of MCP servers.`,
        'tools',
      );
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
        this.#calls.set(event.index, this.#isHosted(event.name) ? this.#round.call(event.name) : this.#clientCalls++);
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
        this.#mcp?.close();
        this.emit(event);
        return;
      default:
        this.emit(event);
    }
  }

  #started(event: Extract<GenerationEvent, { type: 'started' }>): void {
    this.#round.started = event;
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    this.emit(event);
  }

  #isHosted(name: string): boolean {
    return this.#isSearch(name) || this.#offered(name) !== null;
  }

  #isSearch(name: string): boolean {
    return this.deps.search !== undefined && name === this.deps.request.webSearch?.name;
  }

  #offered(name: string): OfferedTool | null {
    return this.#mcp?.find(name) ?? null;
  }

  #call(event: CallEvent): void {
    const call = this.#calls.get(event.index);
    if (call === undefined) throw new Error('received an event for a tool call that has not started');
    if (typeof call === 'number') {
      const own = { ...event, index: call };
      if (this.#round.calls.length > 0) this.#held.push(own);
      else this.emit(own);
      return;
    }
    if (event.type === 'call_arguments') call.arguments.add(event.text);
    if (event.type === 'call_finished') call.isComplete = event.complete;
    if (event.tokens > 0) this.emit({ type: 'hosted_called', choice: event.choice, tokens: event.tokens });
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
    const calls = this.#round.calls.filter(({ isComplete }) => isComplete);
    if (calls.length === 0 || !CONTINUES.has(event.reason)) this.#end(event, event.reason);
    else if (calls.every(({ name }) => this.#exceeded.has(this.#kindOf(name))))
      this.#end(event, this.#hasClientCalls ? 'tool_calls' : 'end_of_turn');
    else void this.#run(event, calls).catch((error: unknown) => this.#fail(error));
  }

  #kindOf(name: string): Kind {
    return this.#isSearch(name) ? 'search' : 'mcp';
  }

  /** Runs the calls and continues the turn, unless the client must run or approve some of its calls. */
  async #run(event: FinishedEvent, calls: readonly HostedCall[]): Promise<void> {
    const { choice } = event;
    const running: Promise<Outcome | null>[] = [];
    const results: HostedResult[] = [];
    let isWaiting = false; // for the client's approval
    for (const [at, call] of calls.entries()) {
      for (let next = running.length; next < Math.min(calls.length, at + CONCURRENT); next++)
        running.push(this.#outcomeOf(calls[next] as HostedCall));
      this.#announce(call);
      const done = await (running[at] as Promise<Outcome | null>);
      if (this.#isOver) return;
      if (done === null) {
        isWaiting = true;
        continue;
      }
      results.push(resultOf(done));
      if (done.kind === 'search') this.emit({ type: 'search_finished', choice, outcome: done.outcome });
      else this.emit({ type: 'mcp_finished', choice, outcome: done.outcome });
      if (this.#isOver) return;
    }
    if (isWaiting || this.#hasClientCalls) return this.#end(event, 'tool_calls');
    if (this.#left <= 0) return this.#end(event, 'max_tokens');
    await this.#continue(event, this.#round.messages(calls, results));
  }

  #announce({ name, arguments: given }: HostedCall): void {
    const text = given.toString();
    const offered = this.#offered(name);
    if (offered === null) {
      this.emit({ type: 'search_started', choice: CHOICE, query: queryIn(text) });
      return;
    }
    const call = { choice: CHOICE, label: offered.server.label, name: offered.tool.name, arguments: text };
    if (offered.needsApproval) this.emit({ type: 'mcp_approval', ...call });
    else this.emit({ type: 'mcp_started', ...call, approvalId: null });
  }

  /** Returns null for a call that the client must approve. */
  async #outcomeOf({ name, arguments: given }: HostedCall): Promise<Outcome | null> {
    const text = given.toString();
    const offered = this.#offered(name);
    if (offered === null || this.#mcp === null) return { kind: 'search', outcome: await this.#search(text) };
    if (offered.needsApproval) return null;
    return { kind: 'mcp', outcome: await this.#callMcp(this.#mcp, offered, text) };
  }

  async #search(text: string): Promise<SearchOutcome> {
    const { webSearch: options } = this.deps.request;
    if (options === undefined || this.deps.search === undefined) return { error: 'unavailable' };
    if (this.#uses.search === options.maxUses || this.#total === this.#maxCalls) {
      this.#exceeded.add('search');
      return { error: 'max_uses_exceeded' };
    }
    this.#uses.search++; // a call without a query counts, too: a model could repeat it without end
    const query = queryIn(text);
    if (query === null) return { error: 'invalid_tool_input' };
    return this.deps.search.search(query, options, this.#aborted.signal);
  }

  async #callMcp(mcp: McpTools, offered: OfferedTool, text: string): Promise<McpOutcome> {
    const most = Math.min(MAX_MCP_CALLS, this.#maxCalls - this.#uses.search);
    if (this.#uses.mcp >= most) {
      this.#exceeded.add('mcp');
      return tooManyCalls(Math.min(MAX_MCP_CALLS, this.#maxCalls));
    }
    this.#uses.mcp++;
    return mcp.call(offered, text, this.#aborted.signal);
  }

  get #total(): number {
    return this.#uses.search + this.#uses.mcp;
  }

  /** Maximum number of calls to all tools that this server runs, in total. */
  get #maxCalls(): number {
    return this.#mcp?.options.maxCalls ?? Number.POSITIVE_INFINITY;
  }

  /** Whether this round contains calls to the client's tools. */
  get #hasClientCalls(): boolean {
    return [...this.#calls.values()].some((call) => typeof call === 'number');
  }

  /** Output tokens left. The limit applies to the whole turn. */
  get #left(): number {
    return this.prepared.maxTokens - this.#sum.completionTokens;
  }

  async #continue(event: FinishedEvent, added: readonly Message[]): Promise<void> {
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
    await this.#startRound(prepared, event);
  }

  /** `before`: the end of the previous round, if any. */
  async #startRound(prepared: PreparedGeneration, before?: FinishedEvent): Promise<void> {
    if (this.#isOver) return prepared.discard?.();
    if (before !== undefined) this.#round = this.#newRound();
    this.#calls = new Map();
    this.#running = prepared.start((next) => {
      if (before !== undefined && next.type === 'started' && !this.#isOver) {
        const { promptTokens, cachedTokens, queueMs, model, upstream } = next;
        this.emit({
          type: 'continued',
          choice: before.choice,
          promptTokens,
          cachedTokens,
          queueMs,
          before: { completionTokens: before.completionTokens, timings: before.timings },
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

  /**
   * Returns the tool choice for the next round: a required call has been made, and tools of a kind whose call
   * limit was exceeded may not be called again.
   */
  #nextChoice(): ToolChoice {
    const { toolChoice, tools } = this.#request;
    const mode = toolChoice.mode === 'required' ? 'auto' : toolChoice.mode;
    if (this.#exceeded.size === 0) return { mode, allowed: toolChoice.allowed };
    const others = (toolChoice.allowed ?? tools.map(({ name }) => name)).filter(
      (name) => !this.#isHosted(name) || !this.#exceeded.has(this.#kindOf(name)),
    );
    return others.length === 0 ? { mode: 'none', allowed: null } : { mode, allowed: others };
  }

  #end(event: FinishedEvent, reason: EndReason): void {
    for (const call of this.#held.splice(0)) this.emit(call);
    if (this.#isOver) return;
    this.#isOver = true;
    this.#mcp?.close();
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

function resultOf(done: Outcome): HostedResult {
  return done.kind === 'search'
    ? { text: outcomeText(done.outcome), failed: 'error' in done.outcome }
    : { text: done.outcome.text, failed: done.outcome.error !== null };
}

/** Replaces the content of the tool message with this call ID. */
const withResult = (messages: readonly Message[], callId: string, { text, failed }: HostedResult): Message[] =>
  messages.map((message) =>
    message.role === 'tool' && message.toolCallId === callId ? { ...message, content: text, failed } : message,
  );

/**
 * Adds a round's prediction count to the counts of the earlier rounds. All rounds have the same prediction, so tokens
 * that one round has accepted are not counted as rejected in another.
 */
function withRound(before: PredictionCount | null, { accepted, rejected }: PredictionCount): PredictionCount {
  if (before === null) return { accepted, rejected };
  const predicted = Math.max(before.accepted + before.rejected, accepted + rejected);
  const total = Math.min(predicted, before.accepted + accepted);
  return { accepted: total, rejected: predicted - total };
}
