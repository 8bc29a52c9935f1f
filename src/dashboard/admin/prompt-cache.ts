// Operator API of the prompt cache: reports the cache's state, clears the cache, and pins and unpins prompts.

import { z } from 'zod';
import { apiError } from '../../shared/errors.js';
import type { Route } from '../../http/exchange.js';
import {
  MAX_PINNED_CHARACTERS,
  type PinnedPrompt,
  type PromptCacheCleared,
  type PromptCacheCommand,
  type PromptCacheState,
} from '../../shared/wire/prompt-cache.js';
import type { NoteOperation, OperatorGuard } from './operator-guard.js';

const pinBody = z.object({
  model: z.string().min(1).max(128),
  organization: z.string().min(1).max(128).nullish(),
  prompt: z.string().min(1).max(MAX_PINNED_CHARACTERS).nullish(),
  request: z.record(z.string(), z.unknown()).nullish(),
});
/**
 * Maximum size of a pin request's body in bytes: at most six bytes per prompt character in JSON, plus the other fields.
 */
const MAX_PIN_BYTES = 6 * MAX_PINNED_CHARACTERS + 4_096;

export interface PromptCacheDeps {
  promptCache: { run(command: PromptCacheCommand): Promise<PromptCacheState | PromptCacheCleared | PinnedPrompt> };
  note: NoteOperation;
}

export function promptCacheRoutes(guard: OperatorGuard, { promptCache, note }: PromptCacheDeps): Route[] {
  return [
    guard({
      method: 'GET',
      path: '/prompt-cache',
      handler: async ({ exchange }) => exchange.json(200, await promptCache.run({ type: 'state' })),
    }),

    guard({
      method: 'DELETE',
      path: '/prompt-cache',
      handler: async ({ exchange, actor }) => {
        const model = named(exchange.query, 'model');
        const organization = named(exchange.query, 'organization');
        const cleared = await promptCache.run({ type: 'clear', model, organization });
        await note(
          actor,
          'prompt_cache.cleared',
          [model ?? 'all models', organization ?? 'all organizations'].join(', '),
        );
        exchange.json(200, cleared);
      },
    }),

    guard({
      method: 'POST',
      path: '/prompt-cache/pinned',
      body: pinBody,
      maxBodyBytes: MAX_PIN_BYTES,
      handler: async ({ exchange, actor, body: { model, organization = null, prompt = null, request = null } }) => {
        const pinned = (await promptCache.run({ type: 'warm', model, organization, prompt, request })) as PinnedPrompt;
        await note(actor, 'prompt_cache.pinned', `${pinned.id} (${model}, ${pinned.organization})`);
        exchange.json(200, pinned);
      },
    }),

    guard({
      method: 'DELETE',
      path: '/prompt-cache/pinned/:pin',
      handler: async ({ exchange, actor }) => {
        const pinned = (await promptCache.run({
          type: 'unpin',
          id: exchange.params['pin'] as string,
        })) as PinnedPrompt;
        await note(actor, 'prompt_cache.unpinned', `${pinned.id} (${pinned.model}, ${pinned.organization})`);
        exchange.json(200, pinned);
      },
    }),
  ];
}

/** Returns a query parameter, or null if the parameter is absent. */
function named(query: URLSearchParams, name: string): string | null {
  const value = query.get(name);
  if (value === '') throw apiError('invalid_query_parameter', `${name} must not be empty.`, name);
  return value;
}
