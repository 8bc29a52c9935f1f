// The key of a record in shared memory: a 128-bit hash of the counted subject. The hash does not need to be
// cryptographic: the server generates the IDs and knows all model names, so clients cannot construct collisions.

/**
 * The counted subject: requests and tokens of an organization or key for a model, a key's reads, a month's tokens, or
 * WebSocket connections.
 */
export type RecordKind = 'organization' | 'key' | 'reads' | 'month' | 'sockets';

/** Returns four words, none of which is 0, because 0 marks an empty slot in the table. */
export function recordKey(kind: RecordKind, id: string, model = ''): Int32Array {
  const text = `${kind}\n${id}\n${model}`;
  let a = 1_779_033_703;
  let b = -1_150_833_019;
  let c = 1_013_904_242;
  let d = -1_521_486_534;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const first = a;
    a = b ^ Math.imul(first ^ unit, 597_399_067);
    b = c ^ Math.imul(b ^ unit, -1_425_107_063);
    c = d ^ Math.imul(c ^ unit, 951_274_213);
    d = first ^ Math.imul(d ^ unit, -1_578_923_117);
  }
  a = Math.imul(c ^ (a >>> 18), 597_399_067);
  b = Math.imul(d ^ (b >>> 22), -1_425_107_063);
  c = Math.imul(a ^ (c >>> 17), 951_274_213);
  d = Math.imul(b ^ (d >>> 19), -1_578_923_117);
  a ^= b ^ c ^ d;
  return Int32Array.of(
    a === 0 ? 1 : a,
    (b ^ a) === 0 ? 1 : b ^ a,
    (c ^ a) === 0 ? 1 : c ^ a,
    (d ^ a) === 0 ? 1 : d ^ a,
  );
}
