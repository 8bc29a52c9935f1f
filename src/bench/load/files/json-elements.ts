// Reads the elements of a JSON array, or a sequence of JSON documents, incrementally, because conversation files can be
// larger than the longest string that Node.js supports.

import { createReadStream } from 'node:fs';
import { LoadError } from '../load-error.js';
import { plain, wrongLine } from './file-lines.js';

const LONGEST = 64 * 1024 * 1024;
const OPEN = new Set([0x5b, 0x7b]),
  CLOSE = new Set([0x5d, 0x7d]);
const QUOTE = 0x22,
  ESCAPE = 0x5c,
  LINE_FEED = 0x0a,
  OPEN_LIST = 0x5b;

/**
 * Yields the objects and arrays at the top level, or the elements of a single top-level array. `line`: the line where
 * an element starts. Throws LoadError.
 */
export async function* jsonElements(path: string): AsyncGenerator<{ line: number; value: unknown }> {
  let line = 1,
    began = 1;
  let depth = 0,
    inText = false,
    escaped = false;
  let within: 0 | 1 | null = null; // nesting depth of the elements: 1 within an array
  let kept: Buffer[] = [],
    bytes = 0;
  try {
    for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let at = 0; at < piece.length; at++) {
        const byte = piece[at] as number;
        if (byte === LINE_FEED) line++;
        if (inText) {
          if (escaped) escaped = false;
          else if (byte === ESCAPE) escaped = true;
          else if (byte === QUOTE) inText = false;
        } else if (byte === QUOTE) {
          if (within === null) throw wrongLine(path, line, 'is neither a JSON list nor JSON lines');
          inText = true;
        } else if (OPEN.has(byte)) {
          if (within === null) {
            within = byte === OPEN_LIST ? 1 : 0;
            depth = byte === OPEN_LIST ? 0 : depth;
          }
          if (depth === within) {
            from = at;
            began = line;
          }
          depth++;
        } else if (CLOSE.has(byte)) {
          depth--;
          if (depth < 0) throw wrongLine(path, line, 'has an unmatched closing bracket');
          if (depth !== within) continue;
          yield { line: began, value: parsed(Buffer.concat([...kept, piece.subarray(from, at + 1)]), path, began) };
          kept = [];
          bytes = 0;
          from = at + 1;
        } else if (within === null && byte > 0x20 && byte < 0x80)
          throw wrongLine(path, line, 'is neither a JSON list nor JSON lines');
      }
      if (within === null || depth <= within) continue;
      kept.push(piece.subarray(from));
      bytes += piece.length - from;
      if (bytes > LONGEST) throw wrongLine(path, began, `has an element of more than ${LONGEST} bytes`);
    }
  } catch (error) {
    throw error instanceof LoadError ? error : new LoadError(`${path}: ${plain(error as Error)}`, error);
  }
  if (depth > 0) throw wrongLine(path, began, 'the element that begins here is not closed');
}

function parsed(bytes: Buffer, path: string, line: number): unknown {
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown;
  } catch (error) {
    throw wrongLine(path, line, `is not valid JSON: ${(error as Error).message}`);
  }
}
