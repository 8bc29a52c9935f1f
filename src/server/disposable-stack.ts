// Closes opened resources in reverse order, at shutdown or when startup fails partway.

type Step = () => void | Promise<void>;

export class DisposableStack {
  readonly #steps: Step[] = [];
  #done: Promise<void> | null = null;

  /** Returns the result of `open`. If it fails, everything opened so far is closed and the error is rethrown. */
  static async opening<T>(open: (undo: DisposableStack) => Promise<T>): Promise<T> {
    const undo = new DisposableStack();
    try {
      return await open(undo);
    } catch (error) {
      await undo.run().catch(() => undefined); // the error from opening is more useful
      throw error;
    }
  }

  /** Registers the step that closes what has just been opened. */
  add(step: Step): void {
    this.#steps.push(step);
  }

  /**
   * Runs the steps in reverse order. The steps run only once, even if this is called repeatedly. A failing step does
   * not stop the others; the first error is thrown at the end.
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
