// The text of the user message that stands for a compacted conversation. Pure.

const START = 'Summary of the conversation so far: ';
const LAST_MESSAGE = "\n\nThe user's last message, in full:\n";

export const summaryText = (summary: string): string => START + summary;

/** Returns the summary followed by the message that is still to be answered. */
export const withLastMessage = (summary: string, message: string): string => summary + LAST_MESSAGE + message;

/** Returns the user's latest text: the message's own or, if it is a summary, that of the message that it repeats. */
export function lastMessageIn(text: string): string {
  if (!text.startsWith(START)) return text;
  const at = text.indexOf(LAST_MESSAGE);
  return at === -1 ? '' : text.slice(at + LAST_MESSAGE.length);
}
