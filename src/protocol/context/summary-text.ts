/** The text of the message that stands for a compacted conversation. */
export const summaryText = (summary: string): string => `Summary of the conversation so far: ${summary}`;
