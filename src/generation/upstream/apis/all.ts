// The wire formats that servers elsewhere may speak, by the names that settings have for them.
import type { UpstreamApi as ApiName } from '../../../config/upstream.js';
import type { UpstreamApi } from './api.js';
import { chatCompletions } from './chat-completions.js';
import { completions } from './completions.js';
import { messages } from './messages.js';
import { responses } from './responses.js';

export const APIS: Readonly<Record<ApiName, UpstreamApi>> = {
  'chat-completions': chatCompletions,
  completions,
  responses,
  messages,
};

/** Prompts that stand as they are go by the form for these, which every server that has the chat form has beside it. */
export { completions };
