// Scales vectors. Pure.

/** Scales a vector to length 1. A zero vector stays as it is. */
export function normalized(vector: Float32Array): Float32Array {
  let squares = 0;
  for (const value of vector) squares += value * value;
  if (squares === 0) return vector;
  const scale = 1 / Math.sqrt(squares);
  return vector.map((value) => value * scale);
}
