// Converts calls and results of tools that another service ran to text, so that a conversation that started there can
// continue with those results. Pure.
import { stringifyAsWritten } from '../shared/exact-json.js';
import { fromSearchContent } from './search-content.js';

/** Names of the members that contain readable text, in the order in which they are shown. */
const SHOWN = [
  'name',
  'server_label',
  'tool_name',
  'title',
  'url',
  'uri',
  'filename',
  'query',
  'queries',
  'code',
  'command',
  'commands',
  'pattern',
  'text',
  'data',
  'stdout',
  'stderr',
  'return_code',
  'exit_code',
  'error_code',
  'error',
  'arguments',
  'input',
  'action',
  'operation',
  'diff',
  'path',
  'tools',
  'encrypted_content',
  'content',
  'result',
  'results',
  'output',
  'outputs',
  'outcome',
  'tool_references',
  'source',
] as const;
const MAX_DEPTH = 8;
const MAX_CHARACTERS = 64 * 1024;
/** Matches base64 data, such as images, which is not shown. */
const ENCODED = /^[A-Za-z0-9+/_=-]{512,}$/;

/** Returns the block's or item's type, followed by at most 64 Ki characters of its readable text. */
export function hostedText(block: { readonly type: string }): string {
  const lines: string[] = [];
  collect(block, lines, 0);
  const text = lines.join('\n');
  const shown = text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
  return shown === '' ? `[${block.type}]` : `[${block.type}]\n${shown}`;
}

function collect(value: unknown, lines: string[], depth: number): void {
  if (typeof value === 'string') {
    if (value !== '' && !ENCODED.test(value)) lines.push(value);
  } else if (typeof value === 'number' || typeof value === 'boolean') {
    lines.push(String(value));
  } else if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) {
    return;
  } else if (Array.isArray(value)) {
    for (const entry of value) collect(entry, lines, depth + 1);
  } else {
    const record = value as Readonly<Record<string, unknown>>;
    for (const name of SHOWN) {
      if (!Object.hasOwn(record, name)) continue;
      const shown = record[name];
      // The input of a call may have any members.
      if (name === 'input' && typeof shown === 'object' && shown !== null) lines.push(stringifyAsWritten(shown));
      // Only the results of this server's own searches can be decoded.
      else if (name === 'encrypted_content') collect(searchContent(shown), lines, depth + 1);
      else collect(shown, lines, depth + 1);
    }
  }
}

const searchContent = (value: unknown): string | null => (typeof value === 'string' ? fromSearchContent(value) : null);
