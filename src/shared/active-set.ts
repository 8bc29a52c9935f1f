// A set of active objects with high turnover. Set and Map are unsuitable, because each hash table that they outgrow
// keeps a pointer to the next one. Once such a table is in the old generation, minor garbage collections keep and copy
// everything that later tables have ever contained, until the next full collection. An ActiveSet keeps no reference to
// a removed object. Used only on its owner's thread.

export class ActiveSet<T extends object> implements Iterable<T> {
  readonly #items: (T | null)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#items.length - this.#free.length;
  }

  /** Returns the slot number for remove(). */
  add(item: T): number {
    const place = this.#free.pop();
    if (place === undefined) return this.#items.push(item) - 1;
    this.#items[place] = item;
    return place;
  }

  at(place: number): T {
    const item = this.#items[place] ?? null;
    if (item === null) throw new Error(`slot ${place} is empty`);
    return item;
  }

  /** `place`: as returned by add(). Must be called once per slot. */
  remove(place: number): void {
    this.at(place);
    this.#items[place] = null;
    this.#free.push(place);
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const item of this.#items) if (item !== null) yield item;
  }
}
