// Lists the parts of an assistant turn in generation order, with the upstream's own reasoning blocks at their original
// positions. No side effects.
import type { Message, ToolCall } from '../../types.js';

interface Forms {
  /** Returns an empty list for text that the format does not allow. */
  text(text: string): object[];
  call(call: ToolCall): object;
}

export function withThoughts(
  { content, toolCalls = [], thoughts = [] }: Extract<Message, { role: 'assistant' }>,
  forms: Forms,
): object[] {
  const parts: object[] = [];
  const text = content ?? '';
  let written = 0;
  let called = 0;
  const upTo = (place: { text: number; calls: number }): void => {
    // All text is placed before the first call, even text that was generated after it.
    const end = place.calls > 0 ? text.length : Math.min(place.text, text.length);
    if (end > written) parts.push(...forms.text(text.slice(written, end)));
    written = Math.max(written, end);
    while (called < Math.min(place.calls, toolCalls.length)) parts.push(forms.call(toolCalls[called++]!));
  };
  for (const { origin, after } of thoughts) {
    upTo(after);
    if (origin?.block != null) parts.push(origin.block);
  }
  upTo({ text: text.length, calls: toolCalls.length });
  // The vendors' APIs reject an assistant turn that ends with reasoning.
  while (thoughts.some(({ origin }) => origin?.block != null && origin.block === parts.at(-1))) parts.pop();
  return parts;
}
