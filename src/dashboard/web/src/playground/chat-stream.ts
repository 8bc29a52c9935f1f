// State of a streaming response: applies chunks and returns the state to show. Pure: the time is an argument, and every
// step returns a new state.

import type { ChatChunk, TokenLogprob } from './chat-wire.js';

export interface Call {
  id: string;
  name: string;
  arguments: string;
}

/** An error as shown on the page. */
export interface Problem {
  message: string;
  code: string | null;
  param: string | null;
  status: number | null;
  requestId: string | null;
  retryAfterS?: number;
}

export interface Usage {
  prompt: number;
  cached: number;
  completion: number;
  reasoning: number;
}

export interface Answer {
  /** `sent`: no data has arrived yet. */
  state: 'sent' | 'streaming' | 'done' | 'stopped' | 'failed';
  model: string;
  text: string;
  reasoning: string;
  calls: readonly Call[];
  /** The text's tokens, if log probabilities were requested. */
  tokens: readonly TokenLogprob[];
  finishReason: string | null;
  usage: Usage | null;
  problem: Problem | null;
  /** Times in milliseconds, all from the same clock. Null if the event has not happened yet. */
  sentAt: number;
  firstAt: number | null;
  /** When the first delta after the reasoning arrived. */
  answeredAt: number | null;
  endedAt: number | null;
}

/** Maximum number of tokens shown, because each token is an element on the page. */
const MAX_TOKENS = 4_000;

export function sent(model: string, now: number): Answer {
  return {
    state: 'sent',
    model,
    text: '',
    reasoning: '',
    calls: [],
    tokens: [],
    finishReason: null,
    usage: null,
    problem: null,
    sentAt: now,
    firstAt: null,
    answeredAt: null,
    endedAt: null,
  };
}

/** Applies the data of one event. Throws SyntaxError if the data is not JSON. */
export function received(answer: Answer, data: string, now: number): Answer {
  if (answer.endedAt !== null) return answer;
  if (data === '[DONE]') return ended(answer, now);
  const chunk = JSON.parse(data) as ChatChunk;
  if (chunk.error) {
    const { message = 'The request failed.', code = null, param = null } = chunk.error;
    return failed(answer, { message, code, param, status: null, requestId: null }, now);
  }
  let next = answer;
  if (chunk.usage) next = { ...next, usage: usageOf(chunk.usage) };
  const choice = chunk.choices?.[0];
  if (choice === undefined) return next;
  const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
  const speaks = Boolean(content) || (calls?.length ?? 0) > 0;
  // The first chunk contains only the role, so its arrival does not count as the first token.
  if (speaks || reasoning) next = { ...next, state: 'streaming', firstAt: next.firstAt ?? now };
  if (reasoning) next = { ...next, reasoning: next.reasoning + reasoning };
  if (speaks)
    next = {
      ...next,
      answeredAt: next.answeredAt ?? now,
      text: next.text + (content ?? ''),
      calls: withPieces(next.calls, calls ?? []),
    };
  const tokens = choice.logprobs?.content ?? [];
  if (tokens.length > 0) next = { ...next, tokens: [...next.tokens, ...tokens].slice(0, MAX_TOKENS) };
  if (choice.finish_reason) next = { ...next, finishReason: choice.finish_reason };
  return next;
}

/** Marks the end of the stream. A stream that ends without a finish reason was interrupted. */
export function ended(answer: Answer, now: number): Answer {
  if (answer.endedAt !== null) return answer;
  if (answer.finishReason !== null) return { ...answer, state: 'done', endedAt: now };
  return failed(
    answer,
    {
      message: 'The connection was lost before the response was complete.',
      code: null,
      param: null,
      status: null,
      requestId: null,
    },
    now,
  );
}

/** The user stopped the response. */
export function stopped(answer: Answer, now: number): Answer {
  return answer.endedAt !== null ? answer : { ...answer, state: 'stopped', endedAt: now, calls: [] };
}

export function failed(answer: Answer, problem: Problem, now: number): Answer {
  return answer.endedAt !== null
    ? answer
    : { ...answer, state: 'failed', endedAt: now, problem, calls: answer.finishReason === null ? [] : answer.calls };
}

type Pieces = NonNullable<NonNullable<NonNullable<ChatChunk['choices']>[number]['delta']>['tool_calls']>;

function withPieces(calls: readonly Call[], pieces: Pieces): readonly Call[] {
  if (pieces.length === 0) return calls;
  const next = [...calls];
  for (const { index, id, function: piece } of pieces) {
    const before = next[index] ?? { id: '', name: '', arguments: '' };
    next[index] = {
      id: id ?? before.id,
      name: piece?.name ?? before.name,
      arguments: before.arguments + (piece?.arguments ?? ''),
    };
  }
  return next;
}

function usageOf(usage: NonNullable<ChatChunk['usage']>): Usage {
  return {
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    completion: usage.completion_tokens,
    reasoning: usage.completion_tokens_details?.reasoning_tokens ?? 0,
  };
}

export interface Timing {
  /** Time from sending the request to the first delta. */
  ttftMs: number | null;
  /** Time from the first delta to the first delta of the response text. */
  thinkingMs: number | null;
  /**
   * Tokens per second after the first token. Null until the server has reported the usage, or if the elapsed time is
   * too short to measure.
   */
  tokensPerS: number | null;
  totalMs: number;
}

/**
 * Minimum elapsed time, in seconds, for computing a speed. If all deltas arrive together, the speed cannot be measured.
 */
const SHORTEST_S = 0.05;

export function timing(answer: Answer, now: number): Timing {
  const { sentAt, firstAt, answeredAt, endedAt, usage } = answer;
  const end = endedAt ?? now;
  const seconds = firstAt === null ? 0 : (end - firstAt) / 1000;
  return {
    ttftMs: firstAt === null ? null : firstAt - sentAt,
    thinkingMs: firstAt === null || answer.reasoning === '' ? null : (answeredAt ?? end) - firstAt,
    tokensPerS:
      usage === null || usage.completion < 2 || seconds < SHORTEST_S ? null : (usage.completion - 1) / seconds,
    totalMs: end - sentAt,
  };
}
