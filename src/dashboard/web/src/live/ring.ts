// Ring buffer of the newest N values, oldest first. Pushing takes constant time and, once the ring is full, allocates
// nothing.

export class Ring<T> {
  readonly #items: (T | undefined)[];
  #start = 0;
  #length = 0;

  constructor(readonly capacity: number) {
    if (!Number.isInteger(capacity) || capacity < 1) throw new RangeError('The capacity of a ring must be at least 1.');
    this.#items = new Array<T | undefined>(capacity);
  }

  get length(): number {
    return this.#length;
  }

  push(item: T): void {
    if (this.#length < this.capacity) {
      this.#items[(this.#start + this.#length++) % this.capacity] = item;
      return;
    }
    this.#items[this.#start] = item;
    this.#start = (this.#start + 1) % this.capacity;
  }

  /** `at` 0 is the oldest value; negative indexes count from the end. */
  at(at: number): T | undefined {
    const index = at < 0 ? this.#length + at : at;
    return index < 0 || index >= this.#length ? undefined : this.#items[(this.#start + index) % this.capacity];
  }

  map<U>(of: (item: T) => U): U[] {
    return Array.from({ length: this.#length }, (_, at) => of(this.at(at) as T));
  }

  clear(): void {
    this.#items.fill(undefined);
    this.#start = 0;
    this.#length = 0;
  }
}
