// Selects which reasoning from earlier turns is included in a model's prompt: reasoning that this model wrote, and
// reasoning that the client sent in plain text without a seal. No side effects.
import type { LeftOut, Message, Thought } from './types.js';

/** Separator between the reasoning blocks of one turn. */
const BLANK_LINE = '\n\n';

export interface Seen {
  messages: Message[];
  leftOut: LeftOut[];
}

/** `models`: the requested model's name and aliases. Sets `reasoning` in every message that has thoughts. */
export function seenBy(messages: readonly Message[], models: readonly string[]): Seen {
  const leftOut: LeftOut[] = [];
  return {
    messages: messages.map((message) => {
      if (message.role !== 'assistant' || message.thoughts === undefined) return message;
      const own = message.thoughts.filter(({ model }) => model === null || models.includes(model));
      for (const thought of message.thoughts)
        if (!own.includes(thought)) leftOut.push({ path: thought.path, reason: 'other_model' });
      const { reasoning: _reasoning, ...rest } = message;
      const reasoning = joined(own);
      return {
        ...rest,
        ...(reasoning === undefined ? {} : { reasoning }),
      };
    }),
    leftOut,
  };
}

function joined(thoughts: readonly Thought[]): string | undefined {
  const texts = thoughts.filter(({ current, text }) => current && text !== '').map(({ text }) => text);
  return texts.length === 0 ? undefined : texts.join(BLANK_LINE);
}

const byPlace = new Intl.Collator('en', { numeric: true });

/** Merges lists that are each in request order into one list in request order. */
export function inOrder(...lists: readonly (readonly LeftOut[])[]): LeftOut[] {
  const all = lists.flat();
  return lists.filter(({ length }) => length > 0).length < 2
    ? all
    : all.sort((one, other) => byPlace.compare(one.path, other.path));
}
