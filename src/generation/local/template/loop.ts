// The state of a `for` loop, and the variable `loop`.
import { equal } from './compare.js';
import type { Run } from './run.js';
import { Callable, NO_ARGUMENTS, TemplateFault, Tuple, Undefined, type Arguments, type Value } from './values.js';

/**
 * The items of a loop. They are read one at a time, because the loop's body may change the items that have not been
 * read yet.
 */
export class LoopItems {
  readonly #list: Value[] | readonly Value[];
  #iterator: Iterator<Value> | null;

  constructor(
    source: Iterable<Value>,
    private readonly run: Run,
  ) {
    this.#list = Array.isArray(source) ? source : [];
    this.#iterator = Array.isArray(source) ? null : source[Symbol.iterator]();
  }

  /** Whether there is an item at the index. Reads items up to the index if necessary. */
  has(index: number): boolean {
    while (index >= this.#list.length && this.#readOne());
    return index < this.#list.length;
  }

  at(index: number): Value {
    return this.#list[index] as Value;
  }

  get length(): number {
    while (this.#readOne());
    return this.#list.length;
  }

  #readOne(): boolean {
    const next = this.#iterator?.next();
    if (next === undefined || next.done === true) {
      this.#iterator = null;
      return false;
    }
    this.run.spend(1);
    (this.#list as Value[]).push(next.value);
    return true;
  }
}

/** The variable `loop`. Calling it runs the body of a recursive loop for other items. */
export class LoopVariable extends Callable {
  index0 = 0;
  #changed: Value | null = null;

  constructor(
    private readonly run: Run,
    private readonly items: LoopItems,
    private readonly depth0: number,
    recurse: ((items: Value, depth0: number) => Value) | null,
  ) {
    super(
      'loop',
      ({ positional: [first = null] }) => {
        if (recurse === null)
          throw new TemplateFault("The loop must have the 'recursive' marker to be called recursively.");
        return recurse(first, depth0 + 1);
      },
      'LoopContext',
    );
  }

  override attribute(name: string): Value | undefined {
    const { index0, items } = this;
    switch (name) {
      case 'index':
        return index0 + 1;
      case 'index0':
        return index0;
      case 'first':
        return index0 === 0;
      case 'last':
        return !items.has(index0 + 1);
      case 'length':
        return items.length;
      case 'revindex':
        return items.length - index0;
      case 'revindex0':
        return items.length - index0 - 1;
      case 'depth':
        return this.depth0 + 1;
      case 'depth0':
        return this.depth0;
      case 'previtem':
        return index0 === 0 ? new Undefined(() => 'there is no previous item') : items.at(index0 - 1);
      case 'nextitem':
        return items.has(index0 + 1) ? items.at(index0 + 1) : new Undefined(() => 'there is no next item');
      case 'cycle':
        return new Callable('cycle', (args) => this.#cycle(args));
      case 'changed':
        return new Callable('changed', (args) => this.#isChanged(args));
      default:
        return undefined;
    }
  }

  #cycle({ positional }: Arguments): Value {
    if (positional.length === 0) throw new TemplateFault('no items for cycling given');
    return positional[this.index0 % positional.length] as Value;
  }

  #isChanged({ positional }: Arguments = NO_ARGUMENTS): boolean {
    const values = new Tuple(positional);
    if (this.#changed !== null && equal(this.run, this.#changed, values)) return false;
    this.#changed = values;
    return true;
  }
}
