// Normalizes vectors. Pure.

/** Scales a vector to length 1 (L2 norm). A zero vector is returned unchanged. */
export function normalized(vector: Float32Array): Float32Array {
  let squares = 0;
  for (const value of vector) squares += value * value;
  if (squares === 0) return vector;
  const scale = 1 / Math.sqrt(squares);
  return vector.map((value) => value * scale);
}
