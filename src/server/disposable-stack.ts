// Closes opened resources in reverse order, at shutdown or when startup fails partway.

type Step = () => void | Promise<void>;

export class DisposableStack {
  readonly #steps: Step[] = [];
  #done: Promise<void> | null = null;

  /** Runs `open` and returns its result. If it fails, closes everything opened so far and rethrows the error. */
  static async opening<T>(open: (undo: DisposableStack) => Promise<T>): Promise<T> {
    const undo = new DisposableStack();
    try {
      return await open(undo);
    } catch (error) {
      await undo.run().catch(() => undefined); // the error from `open` is more useful
      throw error;
    }
  }

  /** Registers a step that closes the most recently opened resource. */
  add(step: Step): void {
    this.#steps.push(step);
  }

  /**
   * Runs the steps in reverse order. Idempotent. A failing step does not stop the others; the first error is thrown at
   * the end.
   */
  run(): Promise<void> {
    return (this.#done ??= this.#run());
  }

  async #run(): Promise<void> {
    const failures: unknown[] = [];
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
