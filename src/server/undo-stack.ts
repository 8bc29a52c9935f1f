// What closes what has been opened, in the reverse order: when a start fails halfway, and at the end of what it started.

type Step = () => void | Promise<void>;

export class UndoStack {
  readonly #steps: Step[] = [];
  #done: Promise<void> | null = null;

  /** What `open` gives. If it fails, what it has opened by then is closed and the error thrown on. */
  static async opening<T>(open: (undo: UndoStack) => Promise<T>): Promise<T> {
    const undo = new UndoStack();
    try {
      return await open(undo);
    } catch (error) {
      await undo.run().catch(() => undefined); // why it could not be opened says more
      throw error;
    }
  }

  /** `step` closes what has just been opened. */
  add(step: Step): void {
    this.#steps.push(step);
  }

  /** The steps one after the other, the last one added first. Once, however often it is called. One that fails stops none; what the first such threw is thrown at the end. */
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
