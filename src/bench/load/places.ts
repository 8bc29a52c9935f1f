// So many requests at once and no more; others wait in the order in which they came. One thread's.

export class Places {
  readonly #waiting: (() => void)[] = [];
  #head = 0;
  #free: number;

  constructor(most: number) {
    this.#free = most;
  }

  /** Whether there was one; if not, wait() for it. */
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

  /** A place goes to who has waited longest. */
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
