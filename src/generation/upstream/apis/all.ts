// The API formats that upstreams may use, by their names in the configuration.
import type { UpstreamApi as ApiName } from '../../../config/upstream.js';
import type { UpstreamApi } from './api.js';
import { chatCompletions } from './chat-completions.js';
import { completions } from './completions.js';
import { embeddings } from './embeddings.js';
import { messages } from './messages.js';
import { responses } from './responses.js';

export const APIS: Readonly<Record<ApiName, UpstreamApi>> = {
  'chat-completions': chatCompletions,
  completions,
  embeddings,
  responses,
  messages,
};

/** Raw prompts use the completions format, which every upstream with chat completions also supports. */
export { completions };
