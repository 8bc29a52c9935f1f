// The content of a pinned prompt: a system prompt, or the part of a chat completions request that all conversations
// share. Pure.

import type { SecretPurpose } from '../../accounts/sealing/secret-box.js';
import type { ServedModel } from '../../generation/served-models.js';
import type { GenerationRequest, Message } from '../../generation/types.js';
import { WITHOUT_TEXT } from '../../generation/without-text.js';
import { templateKnows } from '../../protocol/admit.js';
import { parseChat } from '../../protocol/chat-completions/parse.js';
import { ApiError, apiError } from '../../shared/errors.js';
import { MAX_PINNED_CHARACTERS, type PromptPin } from '../../shared/wire/prompt-cache.js';

/** `text`: the system prompt, or the request as JSON. It is stored encrypted, with a key that has no other purpose. */
export interface PinnedContent {
  readonly purpose: Extract<SecretPurpose, 'pinned prompt' | 'pinned request'>;
  readonly text: string;
}

/** The request fields that change the shared part of a prompt. */
const FIELDS = ['messages', 'tools', 'tool_choice', 'response_format', 'reasoning_effort', 'chat_template_kwargs'];

/**
 * Throws ApiError 422 if neither or both of prompt and request are given, or if a part of the request cannot be pinned.
 */
export function contentOf({ prompt, request, model }: Pick<PromptPin, 'model' | 'prompt' | 'request'>): PinnedContent {
  if ((prompt === null) === (request === null))
    throw apiError('invalid_value', 'Exactly one of prompt and request is required.', 'prompt');
  if (prompt !== null) return { purpose: 'pinned prompt', text: prompt };
  const { model: named = model, ...fields } = request as Record<string, unknown>;
  if (named !== model)
    throw apiError('conflicting_parameters', 'request.model must be the model of the pinned prompt.', 'request.model');
  for (const [name, value] of Object.entries(fields))
    if (!FIELDS.includes(name) && value !== null)
      throw apiError(
        'unsupported_parameter',
        `request.${name} cannot be pinned. Supported: ${FIELDS.join(', ')}.`,
        `request.${name}`,
      );
  const { messages } = fields;
  if (messages !== undefined && !Array.isArray(messages))
    throw apiError('invalid_type', 'request.messages must be an array.', 'request.messages');
  for (const [at, message] of listOf(messages).entries()) checkMessage(message, at);
  const text = JSON.stringify(fields);
  if (text.length > MAX_PINNED_CHARACTERS)
    throw apiError(
      'string_too_long',
      `request must have at most ${MAX_PINNED_CHARACTERS} characters as JSON.`,
      'request',
    );
  return { purpose: 'pinned request', text };
}

function checkMessage(message: unknown, at: number): void {
  const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown };
  const path = `request.messages[${at}]`;
  if (role !== 'system' && role !== 'developer')
    throw apiError('unsupported_value', `${path} must have the role system or developer.`, `${path}.role`);
  const part = Array.isArray(content) ? content.findIndex((one) => (one as { type?: unknown })?.type !== 'text') : -1;
  if (part !== -1)
    throw apiError('unsupported_value', `${path}.content[${part}] must be text.`, `${path}.content[${part}].type`);
}

/**
 * Returns a request for a conversation that starts with this content and a user message. Throws ApiError 400 or 422 if
 * the content is not valid for the model.
 */
export function conversationOf({ purpose, text }: PinnedContent, model: ServedModel, turn: string): GenerationRequest {
  const user: Message = { role: 'user', content: turn };
  if (purpose === 'pinned prompt') {
    const messages: Message[] = [{ role: 'system', content: text }, user];
    return { ...WITHOUT_TEXT, model: model.name, promptParam: 'messages', messages };
  }
  const { messages = [], ...fields } = JSON.parse(text) as { messages?: unknown };
  const body = { ...fields, model: model.name, messages: Array.isArray(messages) ? [...messages, user] : messages };
  try {
    const { request } = parseChat(body).content({ maxN: 1, knows: templateKnows(model) });
    return { ...request, maxTokens: 0 };
  } catch (error) {
    if (error instanceof ApiError && error.param !== null)
      throw apiError(error.code, error.message, `request.${error.param}`);
    throw error;
  }
}

/**
 * Returns the part of the content shown to operators: the start of the system prompt, and the number of tools. Accepts
 * any JSON object, because content stored before a check was added must still be shown and can be unpinned.
 */
export function shownOf({ purpose, text }: PinnedContent): { start: string; tools: number } {
  if (purpose === 'pinned prompt') return { start: text, tools: 0 };
  const { messages, tools } = JSON.parse(text) as { messages?: unknown; tools?: unknown };
  const first = listOf(messages)[0] as { content?: unknown } | null | undefined;
  const content = first?.content;
  const start = Array.isArray(content) ? (content[0] as { text?: unknown } | null | undefined)?.text : content;
  return { start: typeof start === 'string' ? start : '', tools: listOf(tools).length };
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
