// JSON that preserves information that JavaScript's objects lose: the digits of numbers and the order of members.
// JavaScript reads 9223372036854775807 as 9223372036854775808 and writes it as 9223372036854776000. It also lists
// members with integer names first. Both would change a schema or tool call that passes through. parseExact() records
// how such values were written, and stringifyExact() writes them in the same way.

interface Literal {
  readonly text: string;
  /** Whether JavaScript writes an equal number, even if in another notation. */
  readonly exact: boolean;
}

/** Number literals by member name or index, for containers with a number that JavaScript writes differently. */
const literals = new WeakMap<object, Map<string, Literal>>();
/** Member names as they were written, for objects that list them in another order. */
const orders = new WeakMap<object, readonly string[]>();
/** Whether this thread has recorded any digits or any member order so far. If not, lookups are skipped. */
let anyRead = false;
let anyInexact = false;
let anyOrder = false;

/**
 * Matches text whose notation must be recorded: 16 or more digits and decimal points in a row, a number such as 1.0 or
 * 1e3, or a member name of digits. JavaScript preserves all other notations. May also match within strings.
 */
const UNUSUAL = /\d[\d.]{15}|[[:,]\s*-?\d+(?:\.\d*0|(?:\.\d+)?[eE][-+]?\d+)\s*[,\]}]|"(?:\d|\\u003\d){1,60}"\s*:/;

/** Like JSON.parse. Throws SyntaxError. */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text);
  recordNotation(text, value);
  return value;
}

/** Records the digits and the order of members of `value`, which JSON.parse has read from `text`. */
export function recordNotation(text: string, value: unknown): void {
  if (UNUSUAL.test(text) && typeof value === 'object' && value !== null) new NotationReader(text).read(value);
}

/**
 * Like JSON.stringify without a replacer, for values that came from JSON. Recursive, so the depth must be limited
 * first.
 */
export function stringifyExact(value: unknown): string {
  return (anyInexact || anyOrder) && hasNotation(value) ? write(value, literalOf) : JSON.stringify(value);
}

/** Like stringifyExact(), but every number is written as it was read: 1.0 stays 1.0. */
export function stringifyAsWritten(value: unknown): string {
  return (anyRead || anyOrder) && hasNotation(value) ? write(value, spellingOf) : JSON.stringify(value);
}

/** A copy of `source` with `changes` applied, which keeps the recorded digits and order of both. */
export function withMembers<T extends object, U extends object>(source: T, changes: U): T & U {
  const copy = { ...source, ...changes };
  const kept = new Map([...(literals.get(source) ?? []), ...(literals.get(changes) ?? [])]);
  if (kept.size > 0) literals.set(copy, kept);
  if (orders.has(source) || orders.has(changes))
    orders.set(copy, [...new Set([...memberNames(source), ...memberNames(changes)])]);
  return copy;
}

/** Returns the names of an object's members in their original order. */
export function memberNames(object: object): readonly string[] {
  const names = Object.keys(object);
  const written = anyOrder ? orders.get(object) : undefined;
  if (written === undefined) return names;
  if (written.length === names.length && written.every((name) => Object.hasOwn(object, name))) return written;
  return [...new Set([...written.filter((name) => Object.hasOwn(object, name)), ...names])]; // changed since
}

/**
 * The original digits of a member; undefined if JavaScript writes the number correctly, or if the number has been
 * replaced.
 */
export function literalOf(container: object, key: string): string | undefined {
  return anyInexact && literals.get(container)?.get(key)?.exact === false ? spellingOf(container, key) : undefined;
}

/**
 * Like literalOf(), but also returns the digits if JavaScript writes the same number in another way, such as 1 for 1.0.
 */
export function spellingOf(container: object, key: string): string | undefined {
  const text = literals.get(container)?.get(key)?.text;
  return text !== undefined && Number(text) === (container as Record<string, unknown>)[key] ? text : undefined;
}

/** Transfers the recorded digits and order from `source` to a copy with renamed members. */
export function copyNotation(source: object, copy: object, renamed: (key: string) => string): void {
  const known = literals.get(source);
  if (known !== undefined) literals.set(copy, new Map([...known].map(([key, literal]) => [renamed(key), literal])));
  const order = orders.get(source);
  if (order !== undefined) orders.set(copy, order.map(renamed));
}

function hasNotation(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (literals.has(value) || orders.has(value)) return true;
  if (Array.isArray(value)) return value.some(hasNotation);
  for (const name in value) if (hasNotation((value as Record<string, unknown>)[name])) return true;
  return false;
}

function write(value: unknown, spelling: typeof literalOf): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if ('toJSON' in value) return JSON.stringify(value);
  if (Array.isArray(value))
    return `[${value.map((item, index) => spelling(value, String(index)) ?? write(item, spelling)).join(',')}]`;
  const members: string[] = [];
  for (const name of memberNames(value)) {
    const member = (value as Record<string, unknown>)[name];
    if (member !== undefined)
      members.push(`${JSON.stringify(name)}:${spelling(value, name) ?? write(member, spelling)}`);
  }
  return `{${members.join(',')}}`;
}

const QUOTE = 0x22,
  BACKSLASH = 0x5c,
  COMMA = 0x2c,
  MINUS = 0x2d,
  ZERO = 0x30,
  NINE = 0x39,
  COLON = 0x3a;
const OPEN_BRACKET = 0x5b,
  CLOSE_BRACKET = 0x5d,
  OPEN_BRACE = 0x7b,
  CLOSE_BRACE = 0x7d;
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** A container being read; `container` is null if a later member of the same name has replaced it. */
interface Level {
  container: object | null;
  isArray: boolean;
  key: string;
  index: number;
  names: Set<string>; // of an object's members so far
}

/** Walks through a valid JSON text in parallel with the value parsed from it. */
class NotationReader {
  readonly #levels: Level[] = [];

  constructor(private readonly text: string) {}

  read(root: object): void {
    const { text } = this;
    const levels = this.#levels;
    let name = ''; // the last string; a following colon makes it a member's name
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      const top = levels.at(-1);
      switch (code) {
        case QUOTE: {
          const end = endOfString(text, at + 1);
          if (top?.isArray === false) name = text.slice(at, end + 1);
          at = end;
          break;
        }
        case COLON:
          if (top !== undefined) top.names.add((top.key = JSON.parse(name) as string));
          break;
        case COMMA:
          if (top?.isArray === true) top.key = String(++top.index);
          break;
        case OPEN_BRACE:
        case OPEN_BRACKET: {
          const isArray = code === OPEN_BRACKET;
          const value = top === undefined ? root : valueIn(top);
          const matches = typeof value === 'object' && value !== null && Array.isArray(value) === isArray;
          levels.push({
            container: matches ? value : null,
            isArray,
            key: isArray ? '0' : '',
            index: 0,
            names: new Set(),
          });
          break;
        }
        case CLOSE_BRACE:
        case CLOSE_BRACKET:
          if (top?.isArray === false) recordOrder(top);
          levels.pop();
          break;
        default:
          if (code === MINUS || (code >= ZERO && code <= NINE)) {
            NUMBER.lastIndex = at;
            const literal = NUMBER.exec(text)?.[0] ?? '';
            if (top !== undefined) keep(top, literal);
            at += Math.max(0, literal.length - 1);
          }
      }
    }
  }
}

function valueIn({ container, key }: Level): unknown {
  return container !== null && Object.hasOwn(container, key) ? (container as Record<string, unknown>)[key] : undefined;
}

function keep(level: Level, literal: string): void {
  const { container, key } = level;
  if (container === null || String(Number(literal)) === literal) return;
  const exact = isExact(literal);
  anyRead = true;
  anyInexact ||= !exact;
  let known = literals.get(container);
  if (known === undefined) literals.set(container, (known = new Map<string, Literal>()));
  known.set(key, { text: literal, exact });
}

function recordOrder({ container, names }: Level): void {
  if (container === null) return;
  const listed = Object.keys(container);
  let at = 0;
  for (const name of names) {
    if (listed[at++] === name) continue;
    orders.set(container, [...names]);
    anyOrder = true;
    return;
  }
  orders.delete(container); // an earlier member of the same name may have had another order
}

export function endOfString(text: string, from: number): number {
  for (let at = from; ; ) {
    const quote = text.indexOf('"', at);
    if (quote === -1) return text.length;
    let before = quote;
    while (text.charCodeAt(before - 1) === BACKSLASH) before--;
    if ((quote - before) % 2 === 0) return quote;
    at = quote + 1;
  }
}

/** Whether JavaScript writes an equal number, even if in another notation. */
function isExact(literal: string): boolean {
  return normalized(literal) === normalized(String(Number(literal)));
}

/** Sign, digits without leading and trailing zeros, and power of ten: equal for equal numbers. */
function normalized(literal: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  return significant === ''
    ? '0'
    : `${sign}${significant}e${Number(power) - fraction.length + digits.length - significant.length}`;
}
