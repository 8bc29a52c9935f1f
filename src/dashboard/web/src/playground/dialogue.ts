// A playground conversation and its current request. Stores the turns and the streaming response, and can stop the
// response. Lives outside React, so it survives page changes. Independent of the DOM: the request function is an
// argument.

import { readEvents, StreamError } from '../live/event-reader.js';
import { ended, failed, received, sent, stopped } from './chat-stream.js';
import type { Answer, Problem } from './chat-stream.js';
import type { ChatBody } from './chat-wire.js';
import { beforeLastAnswer, messagesOf } from './conversation.js';
import type { AnswerTurn, Picture, Turn } from './conversation.js';
import type { RequestFields } from './settings.js';

/** Keep-alive comments arrive every 15 seconds, so a connection that is silent for this long counts as lost. */
const IDLE_MS = 60_000;

export interface DialogueState {
  turns: readonly Turn[];
  running: boolean;
}

/** Settings that are sent with the messages. */
export interface Ask {
  system: string;
  fields: RequestFields;
}

export interface DialogueOptions {
  /** Throws if the response is not a stream. */
  open(body: ChatBody, signal: AbortSignal): Promise<Response>;
  /** Converts an error thrown by `open`. */
  problemOf(error: unknown): Problem;
  now?: () => number;
  /**
   * Schedules the notification of subscribers after a delta, because hundreds of deltas can arrive per second. If
   * absent, subscribers are notified immediately.
   */
  schedule?: (tell: () => void) => void;
}

/** The request body for `turns`. */
export function bodyOf({ system, fields }: Ask, turns: readonly Turn[]): ChatBody {
  const { model, ...rest } = fields;
  return { model, messages: messagesOf(system, turns), ...rest, stream: true, stream_options: { include_usage: true } };
}

export class Dialogue {
  #state: DialogueState = { turns: [], running: false };
  #running: AbortController | null = null;
  #nextId = 1;
  readonly #listeners = new Set<() => void>();
  readonly #now: () => number;

  constructor(private readonly options: DialogueOptions) {
    this.#now = options.now ?? (() => performance.now());
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  /** Returns the same object until something changes. */
  readonly state = (): DialogueState => this.#state;

  /** Resolves when the response has ended, for any reason. */
  say(text: string, pictures: readonly Picture[], ask: Ask): Promise<void> {
    return this.#generate([...this.#state.turns, { kind: 'user', id: this.#nextId++, text, pictures }], ask);
  }

  /** Replaces a turn's text, and drops all turns after it. */
  sayInstead(id: number, text: string, ask: Ask): Promise<void> {
    const at = this.#state.turns.findIndex((turn) => turn.id === id);
    const turn = this.#state.turns[at];
    if (turn?.kind !== 'user') return Promise.resolve();
    return this.#generate([...this.#state.turns.slice(0, at), { ...turn, text }], ask);
  }

  /** Generates the last response again. */
  regenerate(ask: Ask): Promise<void> {
    return this.#generate(beforeLastAnswer(this.#state.turns), ask);
  }

  /** Sends the results of the last response's tool calls, by call ID. The model continues from there. */
  giveResults(results: Readonly<Record<string, string>>, ask: Ask): Promise<void> {
    const last = this.#state.turns.at(-1);
    if (last?.kind !== 'answer') return Promise.resolve();
    return this.#generate([...this.#state.turns.slice(0, -1), { ...last, results }], ask);
  }

  /** Closes the connection, which makes the server cancel the generation. */
  stop(): void {
    this.#running?.abort();
  }

  /** Replaces this conversation with another. */
  open(turns: readonly Turn[]): void {
    this.clear();
    this.#nextId = 1 + Math.max(0, ...turns.map(({ id }) => id));
    this.#change({ turns, running: false });
  }

  clear(): void {
    this.stop();
    this.#running = null;
    this.#change({ turns: [], running: false });
  }

  async #generate(turns: readonly Turn[], ask: Ask): Promise<void> {
    if (this.#running !== null) return;
    const controller = (this.#running = new AbortController());
    const body = bodyOf(ask, turns);
    const turn: AnswerTurn = {
      kind: 'answer',
      id: this.#nextId++,
      answer: sent(ask.fields.model, this.#now()),
      results: {},
    };
    const show = (answer: Answer, running: boolean): void => {
      turn.answer = answer;
      // If the conversation has been cleared, the response that was still being received must not be added to it.
      if (this.#running === controller) this.#change({ turns: [...turns, { ...turn }], running });
    };
    const schedule = this.options.schedule ?? ((tell: () => void): void => tell());
    let scheduled = false;
    const showSoon = (): void => {
      if (scheduled) return;
      scheduled = true;
      schedule(() => {
        scheduled = false;
        if (answer.endedAt === null) show(answer, true);
      });
    };
    show(turn.answer, true);
    let requestId: string | null = null;
    let answer = turn.answer;
    try {
      const response = await this.options.open(body, controller.signal);
      requestId = response.headers.get('x-request-id');
      if (response.body === null) throw new StreamError('The server sent an empty response.');
      for await (const { data } of readEvents(response.body, { idleMs: IDLE_MS })) {
        if (controller.signal.aborted) break;
        answer = received(answer, data, this.#now());
        if (answer.endedAt !== null) break;
        showSoon();
      }
      answer = controller.signal.aborted ? stopped(answer, this.#now()) : ended(answer, this.#now());
    } catch (error) {
      answer = controller.signal.aborted
        ? stopped(answer, this.#now())
        : failed(answer, this.#problem(error), this.#now());
    }
    controller.abort();
    if (answer.problem !== null && answer.problem.requestId === null)
      answer = { ...answer, problem: { ...answer.problem, requestId } };
    show(answer, false);
    if (this.#running === controller) this.#running = null;
  }

  #problem(error: unknown): Problem {
    if (error instanceof StreamError)
      return { message: error.message, code: null, param: null, status: null, requestId: null };
    if (error instanceof SyntaxError)
      return {
        message: 'The server sent an invalid response.',
        code: null,
        param: null,
        status: null,
        requestId: null,
      };
    return this.options.problemOf(error);
  }

  #change(state: DialogueState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener();
  }
}
