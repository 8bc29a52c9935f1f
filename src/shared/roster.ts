// What is under way, where much comes and goes every second. A Set (or a Map) is wrong for that: each table it outgrows points to
// the next one, so once one of them is old, collections of the young keep, and copy, whatever the later ones ever held, until the
// next full collection. Here what has left is pointed to by nothing. Used on the thread that owns it only.

export class Roster<T extends object> implements Iterable<T> {
  readonly #items: (T | null)[] = [];
  readonly #free: number[] = [];

  get size(): number {
    return this.#items.length - this.#free.length;
  }

  /** Returns its place, for remove(). */
  add(item: T): number {
    const place = this.#free.pop();
    if (place === undefined) return this.#items.push(item) - 1;
    this.#items[place] = item;
    return place;
  }

  at(place: number): T {
    const item = this.#items[place] ?? null;
    if (item === null) throw new Error(`nobody is at place ${place}`);
    return item;
  }

  /** `place`: as add() returned it. Each once. */
  remove(place: number): void {
    this.at(place);
    this.#items[place] = null;
    this.#free.push(place);
  }

  *[Symbol.iterator](): Iterator<T> {
    for (const item of this.#items) if (item !== null) yield item;
  }
}
