// Runs the conversations of a trace against a server over HTTP, then restarts the server and continues each
// conversation by one turn.
import { promptOf } from './engine-requests.js';
import { percentilesOf, type Percentiles, type TraceShape } from './prefix-trace.js';
import type { MovedBytes, TraceServer } from './trace-server.js';

/** The requests of one part of a trace. */
export interface ServerTraceFigures {
  readonly seconds: number;
  /** Time to first token in ms. Includes the time to restore a slot from its file. */
  readonly firstTokenMs: Percentiles;
  readonly promptTokens: number;
  readonly computedTokens: number;
  readonly writtenBytes: number;
  readonly readBytes: number;
  /** Inter-token latency of the other streams, in ms. */
  readonly gapMs: Percentiles;
}

export interface ServerTrace {
  /** The first turn of each conversation. */
  readonly first: ServerTraceFigures;
  readonly later: ServerTraceFigures;
  /** One more turn of each conversation after a restart. */
  readonly restarted: ServerTraceFigures;
}

/** A stream's prompt and response are too short to be written to disk. */
const STREAM_TOKENS = 192;
const STREAM_PROMPT = 16;
/** Token IDs of prompts are below this number, which is within every vocabulary. */
const VOCABULARY = 1_000;
const WARM_UP_TOKENS = 64;

/** `seed`: traces with the same seed and shape have the same system prompts and user messages. */
export async function runServerTrace(server: TraceServer, shape: TraceShape, seed: number): Promise<ServerTrace> {
  let nextPrompt = seed * 100_000;
  const fresh = (tokens: number): number[] => [...promptOf(++nextPrompt, tokens, VOCABULARY)];
  const systems = [fresh(shape.system), fresh(shape.system)];
  const histories = Array.from({ length: shape.conversations }, (_, index) => [...systems[index % 2]!]);
  const turn = async (requests: Requests): Promise<void> => {
    for (const [conversation, history] of histories.entries()) {
      history.push(...fresh(shape.user));
      history.push(...(await requests.run(history, shape.answer, conversation)));
    }
  };
  const part = async (turns: number): Promise<ServerTraceFigures> => {
    const before = await server.moved();
    const streams = new OtherStreams(server, shape.streams, seed);
    const requests = new Requests(server);
    const from = performance.now();
    for (let count = 0; count < turns; count++) await turn(requests);
    const seconds = (performance.now() - from) / 1_000;
    const gaps = await streams.stop();
    return requests.figures(seconds, gaps, before);
  };
  const started = async (): Promise<void> => {
    await server.start();
    // The first request after a start also allocates memory.
    await server.complete({ prompt: fresh(WARM_UP_TOKENS), maxTokens: 1, conversation: null });
  };
  try {
    await started();
    const first = await part(1);
    const later = await part(shape.turns - 1);
    await server.stop();
    await started();
    return { first, later, restarted: await part(1) };
  } finally {
    server.close();
  }
}

class Requests {
  readonly #firstTokenMs: number[] = [];
  #promptTokens = 0;
  #cachedTokens = 0;

  constructor(private readonly server: TraceServer) {}

  async run(prompt: readonly number[], maxTokens: number, conversation: number): Promise<readonly number[]> {
    const from = performance.now();
    const { tokens, firstTokenAt, cachedTokens } = await this.server.complete({ prompt, maxTokens, conversation });
    if (tokens.length !== maxTokens) throw new Error(`received ${tokens.length} tokens instead of ${maxTokens}`);
    this.#firstTokenMs.push(firstTokenAt - from);
    this.#promptTokens += prompt.length;
    this.#cachedTokens += cachedTokens;
    return tokens;
  }

  async figures(seconds: number, gaps: readonly number[], before: MovedBytes): Promise<ServerTraceFigures> {
    const { written, read } = await this.server.moved();
    return {
      seconds,
      firstTokenMs: percentilesOf(this.#firstTokenMs),
      promptTokens: this.#promptTokens,
      computedTokens: this.#promptTokens - this.#cachedTokens,
      writtenBytes: written - before.written,
      readBytes: read - before.read,
      gapMs: percentilesOf(gaps),
    };
  }
}

/** Streams that generate one response after another while the conversations run. */
class OtherStreams {
  readonly #abort = new AbortController();
  readonly #gaps: number[] = [];
  readonly #loops: Promise<void>[];

  constructor(
    private readonly server: TraceServer,
    count: number,
    seed: number,
  ) {
    this.#loops = Array.from({ length: count }, (_, index) => this.#run(seed * 100_000 + 50_000 + 1_000 * index));
  }

  /** Returns the gaps between tokens. Throws if a stream has failed. */
  async stop(): Promise<readonly number[]> {
    this.#abort.abort();
    await Promise.all(this.#loops);
    return this.#gaps;
  }

  async #run(firstPrompt: number): Promise<void> {
    const { signal } = this.#abort;
    for (let number = firstPrompt; !signal.aborted; number++) {
      const prompt = [...promptOf(number, STREAM_PROMPT, VOCABULARY)];
      let last: number | null = null;
      const onTokens = (count: number): void => {
        const now = performance.now();
        if (last !== null) this.#gaps.push((now - last) / count);
        last = now;
      };
      try {
        await this.server.complete({ prompt, maxTokens: STREAM_TOKENS, conversation: null, signal, onTokens });
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
  }
}
