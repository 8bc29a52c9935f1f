// Selects the reasoning of earlier turns that one upstream can read back, for one attempt. No side effects.
import type { GenerationRequest, LeftOut, Message, Thought } from '../types.js';

/** The form in which an API accepts earlier reasoning: its own thinking blocks, its own reasoning items, or text. */
export type TakesBack = 'thinking' | 'reasoning' | 'text';

export interface Recipient {
  takesBack: TakesBack;
  upstream: string;
  /** The model's name and aliases on this server. */
  models: readonly string[];
  /** Whether the request turns thinking on; needed only for thinking blocks. */
  thinks: boolean;
}

export interface Selected {
  /** The request, with only the thoughts that are sent to the upstream. */
  request: GenerationRequest;
  /** All reasoning that is not sent, except foreign reasoning. Undefined if the request contains no reasoning. */
  leftOut: readonly LeftOut[] | undefined;
  /** Parameters that are not sent to the upstream. */
  ignored: readonly string[];
}

export function selectThoughts(request: GenerationRequest, to: Recipient): Selected {
  const { messages } = request;
  const { start: loop, isInterrupted } = loopOf(messages);
  const hasThoughts = messages.some((message) => message.role === 'assistant' && message.thoughts !== undefined);
  const isAffected = messages.some((message) => message.role === 'assistant' && message.lacksReasoning === true);
  if (!hasThoughts && !isAffected && !(to.takesBack === 'thinking' && loop < messages.length))
    return { request, leftOut: undefined, ignored: [] };
  const withKept = messages.map((message) => (message.role === 'assistant' ? kept(message, to) : message));
  const isOff = to.takesBack === 'thinking' && to.thinks && isBroken(withKept.slice(loop), isInterrupted);
  // If thinking is off, the Messages API rejects thinking blocks in the running tool loop.
  const drops = to.takesBack === 'thinking' && (isOff || !to.thinks);
  const sent = withKept.map((message, index) => {
    if (message.role !== 'assistant') return message;
    if (drops && index >= loop) return { ...message, thoughts: undefined };
    return to.takesBack === 'text' && index < loop ? { ...message, lacksReasoning: undefined } : message;
  });
  return {
    request: {
      ...request,
      messages: sent,
      ...(isOff ? { effort: 'none', promptEffort: undefined, reasoningBudget: null } : {}),
    },
    leftOut: hasThoughts ? missing(messages, sent, to) : undefined,
    ignored: isOff ? ['thinking'] : [],
  };
}

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

interface Loop {
  /**
   * Index of the first message of the running tool loop, or the number of messages if no loop is running. A tool loop
   * is running if the messages since the last user message end with tool results.
   */
  start: number;
  /** Whether a user message follows the last tool results. In the Messages API, both are in the same user turn. */
  isInterrupted: boolean;
}

function loopOf(messages: readonly Message[]): Loop {
  const before = (index: number): number => messages.findLastIndex(({ role }, at) => at < index && role !== 'system');
  const end = before(messages.length);
  const isInterrupted = messages[end]?.role === 'user' && messages[before(end)]?.role === 'tool';
  const last = isInterrupted ? before(end) : end;
  if (messages[last]?.role !== 'tool') return { start: messages.length, isInterrupted };
  return { start: messages.findLastIndex(({ role }, at) => at < last && role === 'user') + 1, isInterrupted };
}

function kept(message: AssistantMessage, to: Recipient): AssistantMessage {
  const { thoughts } = message;
  if (thoughts === undefined) return message;
  const able = thoughts.filter((thought) => canRead(thought, to));
  const lacks = message.lacksReasoning === true || able.length < thoughts.length;
  return { ...message, thoughts: able.length === 0 ? undefined : able, lacksReasoning: lacks ? true : undefined };
}

function canRead({ origin, model, text }: Thought, { takesBack, upstream, models }: Recipient): boolean {
  if (takesBack === 'text') return text !== '' && (model === null || models.includes(model));
  if (origin === null || origin.block === null || origin.upstream !== upstream) return false;
  const type = origin.block['type'];
  return takesBack === 'reasoning' ? type === 'reasoning' : type === 'thinking' || type === 'redacted_thinking';
}

/**
 * Whether the Messages API would reject the tool loop with thinking on because reasoning is missing. The API accepts a
 * loop without reasoning only if the loop was interrupted.
 */
function isBroken(loop: readonly Message[], isInterrupted: boolean): boolean {
  const turns = loop.filter((message) => message.role === 'assistant');
  if (turns.some(({ lacksReasoning }) => lacksReasoning === true)) return true;
  return turns.length > 0 && !isInterrupted && turns.every(({ thoughts }) => thoughts === undefined);
}

function missing(messages: readonly Message[], sent: readonly Message[], { models }: Recipient): LeftOut[] {
  return messages.flatMap((message, index) => {
    const after = sent[index];
    if (message.role !== 'assistant' || after?.role !== 'assistant') return [];
    return (message.thoughts ?? [])
      .filter((thought) => after.thoughts?.includes(thought) !== true)
      .map(
        ({ path, model }): LeftOut => ({
          path,
          reason: model === null || models.includes(model) ? 'unusable' : 'other_model',
        }),
      );
  });
}
