// Encodes the text of a web search result as `encrypted_content`. The encoding does not protect the text, because
// clients can write any text into a conversation anyway. It marks this server's values, so that values from other
// services are not decoded. No side effects.

const PREFIX = 'web1.';

export const toSearchContent = (text: string): string => PREFIX + Buffer.from(text).toString('base64url');

/** Returns null for a value from another service. */
export const fromSearchContent = (value: string): string | null =>
  value.startsWith(PREFIX) ? Buffer.from(value.slice(PREFIX.length), 'base64url').toString() : null;
