// Converts content blocks to internal content. Adjacent text blocks in a user turn become separate paragraphs.
// Documents and search results are converted to text. No side effects.
import { apiError } from '../../shared/errors.js';
import type { Content, ContentPart } from '../../generation/types.js';
import { hostedText } from '../hosted-text.js';
import type { WireBlock } from './schema.js';

/** Separates adjacent text blocks. */
export const BLANK_LINE = '\n\n';

type Of<T extends WireBlock['type']> = Extract<WireBlock, { type: T }>;
export type ToolResultBlock = Of<'tool_result'>;
type InnerBlock = Exclude<NonNullable<ToolResultBlock['content']>, string>[number];
export type ReadableBlock = InnerBlock | Of<'text' | 'image' | 'document' | 'search_result'>;

/** A block with its path in the request. */
export interface Placed<T> {
  block: T;
  path: string;
}

/** Throws ApiError 422 for known content types that are not supported. */
export function toContent(blocks: readonly Placed<ReadableBlock>[]): Content {
  const parts: ContentPart[] = [];
  for (const { block, path } of blocks) for (const part of partsOf(block, path)) append(parts, part);
  if (parts.length === 0) return '';
  const [only] = parts;
  return parts.length === 1 && only?.type === 'text' ? only.text : parts;
}

export function toolResultContent({ content }: ToolResultBlock, path: string): Content {
  if (content == null) return '';
  return typeof content === 'string'
    ? content
    : toContent(content.map((block, at) => ({ block, path: `${path}.content[${at}]` })));
}

/** Throws ApiError 422. */
export function refuseContent(type: string, path: string): never {
  throw apiError('unsupported_content', `${path}: content of type ${type} is not supported.`, path);
}

function append(parts: ContentPart[], part: ContentPart): void {
  const last = parts.at(-1);
  if (part.type === 'text' && part.text === '') return;
  if (part.type === 'text' && last?.type === 'text') last.text += BLANK_LINE + part.text;
  else parts.push(part);
}

function* partsOf(block: ReadableBlock, path: string): Generator<ContentPart> {
  switch (block.type) {
    case 'text':
      yield { type: 'text', text: block.text };
      return;
    case 'image':
      yield imagePart(block, path);
      return;
    case 'document':
      yield* documentParts(block, path);
      return;
    case 'search_result':
      yield textPart(block.title, block.source, ...block.content.map(({ text }) => text));
      return;
    case 'tool_reference':
      yield { type: 'text', text: `The tool ${block.tool_name} can now be called.` };
      return;
    case 'compaction':
    case 'fallback':
    case 'tool_addition':
    case 'tool_removal':
    case 'container_upload':
    case 'browser_state':
      return refuseContent(block.type, path);
    default:
      yield { type: 'text', text: hostedText(block) };
  }
}

function* documentParts({ title, context, source }: Of<'document'>, path: string): Generator<ContentPart> {
  switch (source.type) {
    case 'text':
      yield textPart(title, context, source.data);
      return;
    case 'content':
      yield textPart(title, context);
      if (typeof source.content === 'string') yield { type: 'text', text: source.content };
      else
        for (const [at, block] of source.content.entries())
          yield block.type === 'text'
            ? { type: 'text', text: block.text }
            : imagePart(block, `${path}.source.content[${at}]`);
      return;
    default:
      throw apiError(
        'unsupported_content',
        `${path}.source: documents must be given as text, content, base64 or file, not as ${source.type}.`,
        `${path}.source`,
      );
  }
}

function imagePart({ source }: Of<'image'>, path: string): ContentPart {
  switch (source.type) {
    case 'base64':
      return { type: 'image', source: { kind: 'base64', data: source.data }, detail: 'auto', path };
    case 'url':
      return { type: 'image', source: { kind: 'url', url: source.url }, detail: 'auto', path };
    case 'file':
      throw apiError('unsupported_content', `${path}.source: file_id must be a file ID.`, `${path}.source`);
  }
}

function textPart(...texts: readonly (string | null | undefined)[]): ContentPart {
  return { type: 'text', text: texts.filter((text) => text != null && text !== '').join(BLANK_LINE) };
}
