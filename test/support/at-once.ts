/** Returns a value that must be available synchronously. */
export function atOnce<T>(value: T | Promise<T>): T {
  if (value instanceof Promise) throw new Error('the value is not available synchronously');
  return value;
}
