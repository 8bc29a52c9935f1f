// Drops the oldest turns of a conversation that does not fit. No side effects.
import type { Message } from '../types.js';

/**
 * Returns the message groups that can be dropped, oldest first: first whole turns (a user message with its responses),
 * then the assistant's steps within the last turn (each with the results of its calls). System messages, the last user
 * message and the last group are never included. Each group is a range of indexes [from, to).
 */
export function droppableGroups(messages: readonly Message[]): [from: number, to: number][] {
  const groups: [number, number][] = [];
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  messages.forEach(({ role }, index) => {
    if (role === 'system') return;
    const open = groups.at(-1);
    const continues = open !== undefined && (index < lastUser ? role !== 'user' : role === 'tool');
    if (continues && onlySystemBetween(messages, open[1], index)) open[1] = index + 1;
    else groups.push([index, index + 1]);
  });
  return groups.filter(([from, to]) => to < messages.length && !(from <= lastUser && lastUser < to));
}

function onlySystemBetween(messages: readonly Message[], from: number, to: number): boolean {
  for (let index = from; index < to; index++) if (messages[index]?.role !== 'system') return false;
  return true;
}

/** Returns the messages without the groups that end at or before `cut`. */
export function withoutUpTo(messages: readonly Message[], cut: number): Message[] {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  return messages.filter(({ role }, index) => index >= cut || role === 'system' || index === lastUser);
}
