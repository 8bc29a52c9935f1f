// The regular subset of JavaScript's regular expressions, run without backtracking: time is bounded by
// pattern size × text length, whatever a client thinks up. Pure.
//
// Inside: literals, classes, \d \w \s, groups, alternation, quantifiers, ^ and $. Outside: look-around,
// back-references, \b, \p{...} and inline flags. Matching is JavaScript's with the flag u, unanchored.

/** Work a caller is willing to pay for. Throws FuelSpent when it is used up. */
export class Fuel {
  constructor(private left: number) {}

  spend(amount: number): void {
    this.left -= amount;
    if (this.left < 0) throw new FuelSpent();
  }
}

export class FuelSpent extends Error {
  constructor() {
    super('more work than was allowed');
  }
}

/** Ascending, disjoint, inclusive: [from, to, from, to, ...]. */
type Ranges = readonly number[];

type Tree =
  | { is: 'set'; ranges: Ranges }
  | { is: 'start' | 'end' | 'empty' }
  | { is: 'sequence' | 'choice'; parts: Tree[] }
  | { is: 'repeat'; part: Tree; min: number; max: number };

type Instruction =
  | { do: 'set'; ranges: Ranges }
  | { do: 'start' | 'end' | 'match' }
  | { do: 'split'; to: number; or: number }
  | { do: 'jump'; to: number };

/** States of the largest automaton that is kept. */
export const MAX_STATES = 5_000;
const MAX_NESTING = 100;
const LAST = 0x10ffff;

export class RegularExpression {
  private constructor(private readonly program: readonly Instruction[]) {}

  /** States of the automaton: what keeping it costs. */
  get size(): number { return this.program.length; }

  /** Null if the pattern is outside the subset, wrong (isPattern tells), or takes more states. */
  static of(source: string, maxStates = MAX_STATES): RegularExpression | null {
    try {
      const tree = new Parser(source).all();
      if (sizeOf(tree) >= maxStates) return null;
      const program: Instruction[] = [];
      emit(tree, program);
      program.push({ do: 'match' });
      return new RegularExpression(program);
    } catch (error) {
      if (error instanceof Outside) return null;
      throw error;
    }
  }

  /** Is there a match anywhere in the text? Throws FuelSpent. */
  matches(text: string, fuel: Fuel): boolean {
    const { program } = this;
    const reached = new Int32Array(program.length).fill(-1);      // at which position an instruction was last reached
    let current: number[] = [];
    let matched = false;
    const reach = (first: number, states: number[], at: number, atEnd: boolean): void => {
      const open = [first];
      let visited = 1;
      for (let state = open.pop(); state !== undefined; state = open.pop()) {
        if (reached[state] === at) continue;
        reached[state] = at;
        visited++;
        const step = program[state]!;
        switch (step.do) {
          case 'set': states.push(state); break;
          case 'match': matched = true; return;
          case 'start': if (at === 0) open.push(state + 1); break;
          case 'end': if (atEnd) open.push(state + 1); break;
          case 'jump': open.push(step.to); break;
          case 'split': open.push(step.or, step.to); break;
        }
      }
      fuel.spend(visited);
    };

    let at = 0;
    for (let index = 0; ; at++) {
      const code = text.codePointAt(index);
      reach(0, current, at, code === undefined);
      if (matched || code === undefined) return matched;
      index += code > 0xffff ? 2 : 1;
      const next: number[] = [];
      const atEnd = index >= text.length;
      for (const state of current) {
        const step = program[state]!;
        if (step.do !== 'set') continue;
        fuel.spend(step.ranges.length >> 3);
        if (includes(step.ranges, code)) reach(state + 1, next, at + 1, atEnd);
        if (matched) return true;
      }
      current = next;
    }
  }
}

/** Is this a regular expression at all, by JavaScript's rules? Linear, but for what the platform's own parser takes. */
export function isPattern(source: string): boolean {
  return compiles(withoutProperties(source), 'u') || compiles(source, '');
}

function compiles(source: string, flags: string): boolean {
  try {
    new RegExp(source, flags);
    return true;
  } catch {
    return false;
  }
}

/** \p{...} each builds a set of characters, which takes long: a class that costs nothing stands in for those that exist. */
function withoutProperties(source: string): string {
  let wrong = false;               // then it is no pattern, and the rest need not be looked at
  return source.replace(/\\(?:[pP]\{([\w=]{1,64})\}|[^])/g, (whole, name: string | undefined) => {
    if (name === undefined || wrong || (wrong = !isProperty(name))) return whole;
    return '\\w';
  });
}

/** The names that exist, as they are met; there are some hundreds. */
const properties = new Set<string>();

function isProperty(name: string): boolean {
  if (properties.has(name)) return true;
  if (!compiles(`\\p{${name}}`, 'u')) return false;
  properties.add(name);
  return true;
}

class Outside extends Error {}

/** Instructions that emit() makes of it. */
function sizeOf(tree: Tree): number {
  switch (tree.is) {
    case 'empty': return 0;
    case 'set': case 'start': case 'end': return 1;
    case 'sequence': return tree.parts.reduce((sum, part) => sum + sizeOf(part), 0);
    case 'choice': return tree.parts.reduce((sum, part) => sum + sizeOf(part) + 2, -2);
    case 'repeat': return tree.max === Infinity ? (tree.min + 1) * sizeOf(tree.part) + 2 : tree.max * (sizeOf(tree.part) + 1) - tree.min;
  }
}

function emit(tree: Tree, program: Instruction[]): void {
  switch (tree.is) {
    case 'empty': return;
    case 'set': program.push({ do: 'set', ranges: tree.ranges }); return;
    case 'start': case 'end': program.push({ do: tree.is }); return;
    case 'sequence': for (const part of tree.parts) emit(part, program); return;
    case 'choice': emitChoice(tree.parts, program); return;
    case 'repeat': emitRepeat(tree, program);
  }
}

function emitChoice(parts: readonly Tree[], program: Instruction[]): void {
  const ends: { do: 'jump'; to: number }[] = [];
  parts.forEach((part, index) => {
    if (index === parts.length - 1) return emit(part, program);
    const split = { do: 'split' as const, to: program.length + 1, or: 0 };
    program.push(split);
    emit(part, program);
    const end = { do: 'jump' as const, to: 0 };
    program.push(end);
    ends.push(end);
    split.or = program.length;
  });
  for (const end of ends) end.to = program.length;
}

function emitRepeat({ part, min, max }: Extract<Tree, { is: 'repeat' }>, program: Instruction[]): void {
  for (let i = 0; i < min; i++) emit(part, program);
  if (max === Infinity) {
    const split = { do: 'split' as const, to: program.length + 1, or: 0 };
    const begin = program.push(split) - 1;
    emit(part, program);
    program.push({ do: 'jump', to: begin });
    split.or = program.length;
    return;
  }
  const splits: { or: number }[] = [];
  for (let i = min; i < max; i++) {
    const split = { do: 'split' as const, to: program.length + 1, or: 0 };
    program.push(split);
    splits.push(split);
    emit(part, program);
  }
  for (const split of splits) split.or = program.length;
}

function includes(ranges: Ranges, code: number): boolean {
  for (let i = 0; i < ranges.length; i += 2) if (code >= ranges[i]! && code <= ranges[i + 1]!) return true;
  return false;
}

function union(sets: readonly Ranges[]): Ranges {
  const pairs = sets.flatMap((set) => Array.from({ length: set.length / 2 }, (_, i) => [set[2 * i]!, set[2 * i + 1]!] as const));
  pairs.sort((a, b) => a[0] - b[0]);
  const merged: number[] = [];
  for (const [from, to] of pairs) {
    const last = merged.length - 1;
    if (last > 0 && from <= merged[last]! + 1) merged[last] = Math.max(merged[last]!, to);
    else merged.push(from, to);
  }
  return merged;
}

function complement(ranges: Ranges): Ranges {
  const out: number[] = [];
  let from = 0;
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i]! > from) out.push(from, ranges[i]! - 1);
    from = ranges[i + 1]! + 1;
  }
  if (from <= LAST) out.push(from, LAST);
  return out;
}

const DIGIT: Ranges = [0x30, 0x39];
const WORD: Ranges = [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a];
const SPACE: Ranges = [9, 13, 0x20, 0x20, 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff];
const ANY = complement([0x0a, 0x0a, 0x0d, 0x0d, 0x2028, 0x2029]);
const CLASSES: Readonly<Record<string, Ranges>> = {
  d: DIGIT, D: complement(DIGIT), w: WORD, W: complement(WORD), s: SPACE, S: complement(SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };

/** Whatever it does not know is outside the subset, wrong syntax included. */
class Parser {
  readonly #characters: string[];
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    this.#characters = [...source];
  }

  all(): Tree {
    const tree = this.#choice();
    if (this.#at < this.#characters.length) throw new Outside();
    return tree;
  }

  #peek(): string | undefined { return this.#characters[this.#at]; }

  #take(text: string): boolean {
    for (let i = 0; i < text.length; i++) if (this.#characters[this.#at + i] !== text[i]) return false;
    this.#at += text.length;
    return true;
  }

  #choice(): Tree {
    if (++this.#depth > MAX_NESTING) throw new Outside();
    const parts = [this.#sequence()];
    while (this.#take('|')) parts.push(this.#sequence());
    this.#depth--;
    return parts.length === 1 ? parts[0]! : { is: 'choice', parts };
  }

  #sequence(): Tree {
    const parts: Tree[] = [];
    for (let next = this.#peek(); next !== undefined && next !== '|' && next !== ')'; next = this.#peek()) {
      const part = this.#quantified();
      if (part.is !== 'empty') parts.push(part);
    }
    return parts.length === 0 ? { is: 'empty' } : { is: 'sequence', parts };
  }

  #quantified(): Tree {
    const tree = this.#atom();
    const bounds = this.#bounds();
    if (bounds === null) return tree;
    this.#take('?');                           // lazy: the same texts match
    // No repetition of nothing: every one that is left costs instructions, and those are counted.
    return tree.is === 'empty' || bounds.max === 0 ? { is: 'empty' } : { is: 'repeat', part: tree, ...bounds };
  }

  #bounds(): { min: number; max: number } | null {
    if (this.#take('*')) return { min: 0, max: Infinity };
    if (this.#take('+')) return { min: 1, max: Infinity };
    if (this.#take('?')) return { min: 0, max: 1 };
    if (this.#peek() !== '{') return null;
    const end = this.#characters.indexOf('}', this.#at);
    const found = end === -1 ? null : /^(\d{1,6})(,(\d{0,6}))?$/.exec(this.#characters.slice(this.#at + 1, end).join(''));
    if (found === null) throw new Outside();
    this.#at = end + 1;
    const min = Number(found[1]);
    const max = found[2] === undefined ? min : found[3] === '' ? Infinity : Number(found[3]);
    if (max < min) throw new Outside();
    return { min, max };
  }

  #atom(): Tree {
    const character = this.#characters[this.#at++]!;
    switch (character) {
      case '^': return { is: 'start' };
      case '$': return { is: 'end' };
      case '*': case '+': case '?': case '{': throw new Outside();
      case '.': return { is: 'set', ranges: ANY };
      case '(': return this.#group();
      case '[': return { is: 'set', ranges: this.#class() };
      case '\\': return { is: 'set', ranges: this.#escape(false) };
      default: return literal(character.codePointAt(0)!);
    }
  }

  #group(): Tree {
    if (this.#take('?') && !this.#take(':')) {
      if (!this.#take('<') || this.#peek() === '=' || this.#peek() === '!') throw new Outside();
      const end = this.#characters.indexOf('>', this.#at);
      if (end === -1 || !/^[A-Za-z_$][\w$]*$/.test(this.#characters.slice(this.#at, end).join(''))) throw new Outside();
      this.#at = end + 1;                      // a name changes nothing
    }
    const tree = this.#choice();
    if (!this.#take(')')) throw new Outside();
    return tree;
  }

  #class(): Ranges {
    const negated = this.#take('^');
    const sets: Ranges[] = [];
    while (!this.#take(']')) {
      const from = this.#classAtom();
      const isRange = this.#peek() === '-' && this.#characters[this.#at + 1] !== ']';
      if (!isRange || from.length !== 2 || from[0] !== from[1]) {
        sets.push(from);
        continue;
      }
      this.#at++;
      const to = this.#classAtom();
      if (to.length !== 2 || to[0] !== to[1]) sets.push(from, [0x2d, 0x2d], to);      // [a-\d], as without the flag u
      else if (from[0]! > to[0]!) throw new Outside();
      else sets.push([from[0]!, to[0]!]);
    }
    const ranges = union(sets);
    return negated ? complement(ranges) : ranges;
  }

  #classAtom(): Ranges {
    const character = this.#characters[this.#at++];
    if (character === undefined) throw new Outside();
    if (character === '\\') return this.#escape(true);
    const code = character.codePointAt(0)!;
    return [code, code];
  }

  #escape(inClass: boolean): Ranges {
    const letter = this.#characters[this.#at++];
    if (letter === undefined) throw new Outside();
    const one = (code: number): Ranges => [code, code];
    if (Object.hasOwn(CLASSES, letter)) return CLASSES[letter]!;
    if (inClass && letter === 'b') return one(8);
    if (Object.hasOwn(CONTROLS, letter) && !(letter === '0' && /^\d$/.test(this.#peek() ?? ''))) return one(CONTROLS[letter]!);
    if (letter === 'x') return one(this.#hex(2));
    if (letter === 'u') return one(this.#unicode());
    if (letter === 'c' && /^[A-Za-z]$/.test(this.#peek() ?? '')) return one(this.#characters[this.#at++]!.codePointAt(0)! % 32);
    if (/^[0-9A-Za-z]$/.test(letter)) throw new Outside();         // \1, \b, \k, \p ...
    return one(letter.codePointAt(0)!);
  }

  #unicode(): number {
    if (this.#take('{')) {
      const end = this.#characters.indexOf('}', this.#at);
      const digits = this.#characters.slice(this.#at, end).join('');
      this.#at = end + 1;
      const code = /^[0-9A-Fa-f]{1,6}$/.test(digits) ? Number.parseInt(digits, 16) : LAST + 1;
      if (code > LAST) throw new Outside();
      return code;
    }
    const high = this.#hex(4);
    if (high < 0xd800 || high > 0xdbff || !this.#take('\\u')) return high;
    const low = this.#hex(4);
    if (low < 0xdc00 || low > 0xdfff) throw new Outside();
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  #hex(length: number): number {
    const digits = this.#characters.slice(this.#at, this.#at + length).join('');
    if (!/^[0-9A-Fa-f]+$/.test(digits) || digits.length !== length) throw new Outside();
    this.#at += length;
    return Number.parseInt(digits, 16);
  }
}

function literal(code: number): Tree {
  return { is: 'set', ranges: [code, code] };
}
