/** What is there without waiting. */
export function atOnce<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new Error('it is not there at once');
  return value;
}
