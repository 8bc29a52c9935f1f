// Maps a list through an asynchronous function with limited concurrency.

/**
 * Returns the results of `map` in the order of `items`, with at most `limit` calls running. After the first failure no
 * further call starts, `signal` is aborted for the running ones, and the returned promise rejects with that failure
 * after they have settled.
 */
export async function mapLimited<T, R>(
  items: readonly T[],
  limit: number,
  map: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array<R>(items.length);
  const controller = new AbortController();
  let next = 0;
  let failure: { error: unknown } | undefined;
  const run = async (): Promise<void> => {
    while (failure === undefined && next < items.length) {
      const index = next++;
      try {
        results[index] = await map(items[index] as T, controller.signal);
      } catch (error) {
        failure ??= { error };
        controller.abort(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, run));
  if (failure !== undefined) throw failure.error;
  return results;
}
