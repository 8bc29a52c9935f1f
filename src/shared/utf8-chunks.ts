// Decodes UTF-8 that arrives in chunks. Faster than TextDecoder for short chunks. Pure; Node.js only.

import { StringDecoder } from 'node:string_decoder';

/**
 * Returns a function that decodes chunks in order. A character split between two chunks is part of the later chunk's
 * text.
 */
export function utf8Chunks(): (chunk: Uint8Array) => string {
  const decoder = new StringDecoder('utf8');
  let mayBeSplit = false;
  return (chunk) => {
    const buffer = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const endsInCharacter = buffer.length > 0 && buffer[buffer.length - 1]! > 0x7f;
    if (!mayBeSplit && !endsInCharacter) return buffer.toString('utf8');
    mayBeSplit = endsInCharacter;
    return decoder.write(buffer);
  };
}
