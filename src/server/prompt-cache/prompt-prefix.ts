// Finds the prefix that all conversations with a system prompt share, and prefills it.

import type { Provider, RequestContext } from '../../generation/provider.js';
import type { ServedModel } from '../../generation/served-models.js';
import { WITHOUT_TEXT } from '../../generation/without-text.js';
import type { ErrorCode } from '../../shared/error-codes.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { conversationOf, type PinnedContent } from './pinned-content.js';

/**
 * Two user messages whose first tokens differ, so that their rendered prompts share only the text before the
 * message.
 */
const FIRST_TURNS = ['a', '0'] as const;

const FAILURES: Readonly<Record<string, ErrorCode>> = {
  queue_timeout: 'capacity_exhausted',
  shutdown: 'shutting_down',
};

/**
 * Returns the longest token prefix that all conversations with this content share, as rendered by the model's chat
 * template. Throws an ApiError.
 */
export async function sharedPrefix(
  provider: Provider,
  { model, content, organization }: { model: ServedModel; content: PinnedContent; organization: number },
): Promise<Int32Array> {
  const rendered: ArrayLike<number>[] = [];
  for (const turn of FIRST_TURNS) {
    const prepared = await provider.prepare(conversationOf(content, model, turn), { organization });
    prepared.discard?.();
    if (prepared.promptIds === undefined)
      throw apiError('unsupported_value', `${model.name} is an upstream model: its prompts cannot be pinned.`, 'model');
    rendered.push(prepared.promptIds);
  }
  const [one, other] = rendered as [ArrayLike<number>, ArrayLike<number>];
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return Int32Array.from(one).subarray(0, length);
}

export interface Computation {
  readonly provider: Provider;
  readonly model: string;
  readonly tokens: Int32Array;
  readonly context: RequestContext;
  /** The label for the exported pages (see labels.ts). */
  readonly label: string;
  readonly signal: AbortSignal;
}

/**
 * Prefills a prompt, unless its pages are cached. `tokens` must end where the shared prefix ends, because models with
 * recurrent state can continue only from the end of an earlier prompt. Rejects with an ApiError.
 */
export async function compute({ provider, model, tokens, context, label, signal }: Computation): Promise<void> {
  const raw = { kind: 'tokens', tokens: [...tokens], path: 'prompt' } as const;
  const prepared = await provider.prepare({ ...WITHOUT_TEXT, model, promptParam: 'messages', raw }, context);
  const stopping = (): ApiError => apiError('shutting_down', 'The server is shutting down.');
  if (signal.aborted) {
    prepared.discard?.();
    throw stopping();
  }
  let abort: (() => void) | null = null;
  try {
    await new Promise<void>((resolve, reject) => {
      const running = prepared.start((event) => {
        if (event.type === 'finished') resolve();
        else if (event.type === 'failed') reject(apiError(FAILURES[event.code] ?? 'model_error', event.message));
      }, label);
      abort = () => {
        running.cancel();
        reject(stopping());
      };
      signal.addEventListener('abort', abort, { once: true });
    });
  } finally {
    if (abort !== null) signal.removeEventListener('abort', abort);
  }
}
