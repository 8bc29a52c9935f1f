// Limits the number of concurrent requests; further requests wait in order of arrival. Used by a single thread.

export class ConcurrencySlots {
  readonly #waiting: (() => void)[] = [];
  #head = 0;
  #free: number;

  constructor(most: number) {
    this.#free = most;
  }

  /** Takes a slot if one is free. If it returns false, call wait(). */
  take(): boolean {
    if (this.#free === 0) return false;
    this.#free--;
    return true;
  }

  wait(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Frees a slot. If requests are waiting, the one that has waited longest gets it. */
  leave(): void {
    const next = this.#waiting[this.#head];
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#head++;
    if (this.#head > 1024 && this.#head * 2 > this.#waiting.length) {
      this.#waiting.splice(0, this.#head);
      this.#head = 0;
    }
    next();
  }
}
