// The key of a record in shared memory: 128 bits of hash of what it counts for. Not a secret one: the ids that
// go in are made by this server and model names are those it serves, so nobody can aim for a collision.

/** What a record counts: limits of an organization or key on a model, reads of a key, a month, WebSocket connections. */
export type RecordKind = 'organization' | 'key' | 'reads' | 'month' | 'sockets';

/** Four words, none of them 0: that is what an empty place in the table has. */
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
