// Includes the reasoning of earlier assistant turns in the prompt or removes it. No side effects.
import type { Message } from '../../generation/types.js';

/**
 * Returns the messages with the reasoning of all turns, not only of the running tool loop. Must be called before
 * seenBy().
 */
export function withAllThinking(messages: readonly Message[]): Message[] {
  return messages.map((message) =>
    message.role !== 'assistant' || message.thoughts === undefined
      ? message
      : { ...message, thoughts: message.thoughts.map((thought) => ({ ...thought, current: true })) },
  );
}

/**
 * An assistant turn comprises all messages between two user messages. `turns`: number of turns whose reasoning was
 * removed.
 */
export function clearThinking(messages: readonly Message[], kept: number): { messages: Message[]; turns: number } {
  const cleared: Message[] = [];
  let turns = 0; // with reasoning, counted from the end
  let counted = false; // whether the current turn is among them
  for (const message of messages.toReversed()) {
    if (message.role === 'user') counted = false;
    if (message.role !== 'assistant' || message.thoughts === undefined) {
      cleared.push(message);
      continue;
    }
    if (!counted) turns++;
    counted = true;
    cleared.push(turns > kept ? withoutThinking(message) : message);
  }
  return { messages: cleared.reverse(), turns: Math.max(0, turns - kept) };
}

function withoutThinking(message: Extract<Message, { role: 'assistant' }>): Message {
  const { thoughts: _thoughts, reasoning: _reasoning, ...rest } = message;
  return rest;
}
