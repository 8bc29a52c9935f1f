// Estimates the number of prompt tokens if the model's vocabulary is not available. No side effects.
import { schemaCharacters } from '../output-format.js';
import type { Content, GenerationRequest } from '../types.js';

/** Average number of UTF-8 bytes per token. English has about four; code and other languages have fewer. */
const BYTES = 3.5;
/** Estimated number of tokens that a template adds per message, per prompt and per tool, and that an image takes. */
const OF_A_MESSAGE = 4,
  OF_ALL = 3,
  OF_A_TOOL = 12,
  OF_AN_IMAGE = 1_000;

/** The estimate may be up to 50% too high or too low. */
export function estimatedTokens({ raw, messages, tools }: GenerationRequest): number {
  if (raw !== undefined)
    return raw.kind === 'tokens'
      ? raw.tokens.length
      : Math.max(
          1,
          Math.ceil(
            bytesOf(raw.text + (raw.suffix ?? '') + (raw.files ?? []).map(({ text }) => text).join('')) / BYTES,
          ),
        );
  let bytes = 0,
    tokens = OF_ALL;
  for (const message of messages) {
    tokens += OF_A_MESSAGE + imagesIn(message.content) * OF_AN_IMAGE;
    bytes += contentBytes(message.content);
    if (message.role !== 'assistant') continue;
    bytes += bytesOf(message.reasoning ?? '');
    for (const { name, arguments: text } of message.toolCalls ?? []) bytes += bytesOf(name) + bytesOf(text);
  }
  for (const { name, description, parameters } of tools) {
    tokens += OF_A_TOOL;
    bytes += bytesOf(name) + bytesOf(description ?? '') + (parameters === null ? 0 : schemaCharacters(parameters));
  }
  return tokens + Math.ceil(bytes / BYTES);
}

const bytesOf = (text: string): number => Buffer.byteLength(text);

function contentBytes(content: Content | null): number {
  if (content === null) return 0;
  if (typeof content === 'string') return bytesOf(content);
  return content.reduce((sum, part) => sum + (part.type === 'text' ? bytesOf(part.text) : 0), 0);
}

const imagesIn = (content: Content | null): number =>
  typeof content === 'string' || content === null ? 0 : content.filter(({ type }) => type === 'image').length;
