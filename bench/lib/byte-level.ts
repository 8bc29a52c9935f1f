// Helpers for files with byte-level vocabularies. No side effects.

/** Token types from the GGUF specification. */
export const GGUF_NORMAL = 1,
  GGUF_CONTROL = 3;

/**
 * Returns the printable character that byte-level BPE uses for each byte. Printable Latin-1 bytes map to themselves;
 * the other 68 bytes map, in order, to U+0100 and the characters after it.
 */
export function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(printable ? byte : next++);
  });
}
