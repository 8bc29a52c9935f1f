// The text of the user message that replaces a compacted conversation. No side effects.

const START = 'Summary of the conversation so far: ';
const LAST_MESSAGE = "\n\nThe user's last message, in full:\n";

export const summaryText = (summary: string): string => START + summary;

/** Returns the summary, followed by the message that still needs a response. */
export const withLastMessage = (summary: string, message: string): string => summary + LAST_MESSAGE + message;

/**
 * Returns the user's latest text: the message's own text or, if the message is a summary, the text of the message that
 * the summary repeats.
 */
export function lastMessageIn(text: string): string {
  if (!text.startsWith(START)) return text;
  const at = text.indexOf(LAST_MESSAGE);
  return at === -1 ? '' : text.slice(at + LAST_MESSAGE.length);
}
