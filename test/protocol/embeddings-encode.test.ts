// Tests the encoding of vectors in responses. Every value must be restored exactly when it is parsed.
import t from 'tap';
import { vectorText } from '../../src/protocol/pooling/vectors.js';
import { normalized } from '../../src/generation/normalized.js';
import { relevance } from '../../src/generation/local/local-pooler.js';

const values = Float32Array.of(0, -0, 1, -1, 0.1, 1 / 3, 1e-38, 1.4e-45, 3.4e38, -7.25e-7, 123456.79);

t.test('floats are read back as the same bits', async (t) => {
  const read = Float32Array.from(JSON.parse(vectorText(values, 'float')) as number[]);
  t.same(
    Array.from(read),
    Array.from(values, (value) => value + 0),
  );
});

t.test('base64 holds little-endian 32-bit floats', async (t) => {
  const bytes = Buffer.from(JSON.parse(vectorText(values, 'base64')) as string, 'base64');
  t.same(
    Array.from(values, (_, at) => bytes.readFloatLE(4 * at)),
    Array.from(values),
  );
  // A view into a larger array: its buffer starts before its first value.
  const part = values.subarray(2, 4);
  t.same(Buffer.from(JSON.parse(vectorText(part, 'base64')) as string, 'base64').readFloatLE(4), -1);
});

t.test('a vector is scaled to length 1, and a zero vector stays as it is', async (t) => {
  t.same(normalized(Float32Array.of(3, 4)), Float32Array.of(0.6, 0.8));
  t.same(normalized(new Float32Array(2)), new Float32Array(2));
});

t.test('a relevance is between 0 and 1, even for extreme scores', async (t) => {
  t.equal(relevance(Float32Array.of(0), 0), 0.5);
  t.equal(relevance(Float32Array.of(-1_000), 0), 0);
  t.equal(relevance(Float32Array.of(1_000), 0), 1);
  t.ok(Math.abs(relevance(Float32Array.of(1, 3), 1) - 1 / (1 + Math.exp(-2))) < 1e-12);
  t.equal(relevance(Float32Array.of(0, 1_000), 0), 0);
});
