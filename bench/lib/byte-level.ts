// What files of byte-level vocabularies share. Pure.

/** Token types of the GGUF specification. */
export const GGUF_NORMAL = 1,
  GGUF_CONTROL = 3;

/**
 * The printable stand-in of each byte that byte-level BPE uses: printable Latin-1 stands for itself, the other
 * 68 bytes take U+0100 and following in order.
 */
export function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCodePoint(printable ? byte : next++);
  });
}
