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
      await undo.run();
      throw error;
    }
  }

  /** `step` closes what has just been opened. */
  add(step: Step): void {
    this.#steps.push(step);
  }

  /** The steps one after the other, the last one added first. Once, however often it is called. */
  run(): Promise<void> {
    return this.#done ??= this.#run();
  }

  async #run(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) await step();
  }
}
