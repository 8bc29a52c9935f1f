// Error messages that clients match in order to recover. Their wording is part of the API, so change them only if the
// vendors change theirs. No side effects.

/**
 * Contains both vendors' wording, because agents shorten the conversation when they find either of them. `tokens`: a
 * number, or a phrase such as "at least 5000".
 */
export const promptTooLongText = (tokens: string, contextWindow: number): string =>
  `prompt is too long: ${tokens} tokens > ${contextWindow - 1} maximum. ` +
  `This model's maximum context length is ${contextWindow} tokens.`;

/** Coding agents match "signature in thinking block" and then retry without their thinking blocks. */
export const invalidThinkingText = (path: string, field: 'signature' | 'data'): string =>
  `${path}: invalid ${field} in thinking block: it was not created by this service. ` +
  'Send thinking blocks back unchanged, or omit them.';

/**
 * When agents receive this text, they remove the image from the conversation and continue. `reason`: the problem with
 * the image.
 */
export const imageRefusedText = (reason: string): string => `Could not process image. ${reason}`;
