// Arithmetic as Python does it: integers of any size, floats, and operators that concatenate and repeat strings and
// lists.
import { escapeHtml } from './html.js';
import { percentFormat } from './percent-format.js';
import { piecesSteps } from './limits.js';
import type { Run } from './run.js';
import type { Arithmetic } from './syntax-tree.js';
import {
  Float,
  Markup,
  TemplateFault,
  Tuple,
  Undefined,
  integer,
  isInteger,
  textOf,
  typeName,
  type Value,
} from './values.js';

/** Results with more bits are refused, because Python would compute them for minutes. */
const MAX_BITS = 1 << 16;

export function calculate(run: Run, operator: Arithmetic, left: Value, right: Value): Value {
  if (left instanceof Undefined) throw left.fault();
  if (operator === '%') {
    const format = textOf(left);
    if (format !== null) return percentFormat(run, format, right);
  }
  if (right instanceof Undefined) throw right.fault();
  if (isInteger(left) && isInteger(right)) return ofIntegers(run, operator, left, right);
  const [a, b] = [floatOf(left), floatOf(right)];
  if (a !== null && b !== null) return ofFloats(operator, a, b);
  if (operator === '+') return joined(run, left, right);
  if (operator === '*') {
    const repeatedValue = isInteger(right)
      ? repeated(run, left, right)
      : isInteger(left)
        ? repeated(run, right, left)
        : null;
    if (repeatedValue !== null) return repeatedValue;
  }
  return unsupported(operator, left, right);
}

function unsupported(operator: string, left: Value, right: Value): never {
  throw new TemplateFault(`unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`);
}

/** The value of a number or boolean as a float; null for other types. */
export function floatOf(value: Value): number | null {
  if (value instanceof Float) return value.value;
  return isInteger(value) ? Number(value) : null;
}

function ofIntegers(
  run: Run,
  operator: Arithmetic,
  left: number | bigint | boolean,
  right: number | bigint | boolean,
): Value {
  const [a, b] = [typeof left === 'boolean' ? Number(left) : left, typeof right === 'boolean' ? Number(right) : right];
  if (operator === '/') return quotient(a, b);
  if (typeof a === 'number' && typeof b === 'number') {
    const result = ofSmall(operator, a, b);
    if (result !== null && Number.isSafeInteger(result)) return result + 0; // not -0
  }
  return ofBig(run, operator, BigInt(a), BigInt(b));
}

/** Up to this dividend, the floor of the floating-point quotient is exact. */
const MAX_DIVIDEND = 2 ** 50;

/** Computes with numbers instead of bigints. Returns null if that is not possible. */
function ofSmall(operator: Arithmetic, a: number, b: number): number | null {
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '//':
      return b === 0 || Math.abs(a) > MAX_DIVIDEND ? null : Math.floor(a / b);
    case '%':
      return b === 0 || Math.abs(a) > MAX_DIVIDEND ? null : a - b * Math.floor(a / b);
    default:
      return null;
  }
}

function ofBig(run: Run, operator: Arithmetic, a: bigint, b: bigint): Value {
  if (b === 0n && (operator === '//' || operator === '%'))
    throw new TemplateFault('integer division or modulo by zero');
  const bits = bitsOf(a) + bitsOf(b);
  run.spend(1 + (bits >> 6));
  switch (operator) {
    case '+':
      return integer(a + b);
    case '-':
      return integer(a - b);
    case '*':
      checkBits(bits);
      run.spend((bitsOf(a) * bitsOf(b)) >> 14);
      return integer(a * b);
    case '//':
      return integer(floored(a, b));
    case '%':
      return integer(a - b * floored(a, b));
    default:
      return power(run, a, b);
  }
}

function floored(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
}

function power(run: Run, base: bigint, exponent: bigint): Value {
  if (exponent < 0n) {
    if (base === 0n) throw new TemplateFault('0.0 cannot be raised to a negative power');
    return new Float(Number(base) ** Number(exponent));
  }
  if (base >= -1n && base <= 1n)
    return integer(base === -1n ? (exponent % 2n === 0n ? 1n : -1n) : exponent === 0n ? 1n : base);
  const bits = bitsOf(base) * Number(exponent);
  checkBits(bits);
  run.spend((bits * bits) >> 14);
  return integer(base ** exponent);
}

function bitsOf(value: bigint): number {
  return Math.max(1, value.toString(16).replace('-', '').length * 4);
}

function checkBits(bits: number): void {
  if (!(bits <= MAX_BITS)) throw new TemplateFault(`an integer has more than ${MAX_BITS} bits`);
}

/** Number of bits of a quotient to compute before it is rounded to a float. */
const QUOTIENT_BITS = 66;

function quotient(a: number | bigint, b: number | bigint): Float {
  if (Number(b) === 0) throw new TemplateFault('division by zero');
  if (typeof a === 'number' && typeof b === 'number') return new Float(a / b);
  const [dividend, divisor] = [BigInt(a), BigInt(b)];
  const shift = Math.max(0, QUOTIENT_BITS + bitsOf(divisor) - bitsOf(dividend));
  const scaledDividend = dividend << BigInt(shift);
  const whole = scaledDividend / divisor;
  // An additional lowest bit is set if the remainder is not zero, so that the quotient is rounded correctly.
  const exact = whole * divisor === scaledDividend;
  const sign = dividend < 0n !== divisor < 0n ? -1n : 1n;
  return new Float(Number(exact ? whole : whole * 2n + sign) / 2 ** (exact ? shift : shift + 1));
}

function ofFloats(operator: Arithmetic, a: number, b: number): Float {
  switch (operator) {
    case '+':
      return new Float(a + b);
    case '-':
      return new Float(a - b);
    case '*':
      return new Float(a * b);
    case '**':
      return raised(a, b);
    default:
      if (b === 0) throw new TemplateFault('float division by zero');
      if (operator === '/') return new Float(a / b);
      return new Float(operator === '//' ? flooredQuotient(a, b) : modulo(a, b));
  }
}

function raised(base: number, exponent: number): Float {
  if (base === 0 && exponent < 0) throw new TemplateFault('0.0 cannot be raised to a negative power');
  const result = base ** exponent;
  if (Number.isNaN(result) && base < 0) throw new TemplateFault('complex numbers are not supported');
  if (!Number.isFinite(result) && Number.isFinite(base) && Number.isFinite(exponent))
    throw new TemplateFault('numerical result out of range');
  return new Float(result);
}

/** Returns the remainder with the sign of the divisor. */
function modulo(a: number, b: number): number {
  const rest = a % b;
  if (rest === 0) return b < 0 ? -0 : 0;
  return rest < 0 !== b < 0 ? rest + b : rest;
}

/**
 * Computes a // b so that it is consistent with a % b, even if the floating-point quotient a / b rounds up to an
 * integer.
 */
function flooredQuotient(a: number, b: number): number {
  const rest = a % b;
  const exact = (a - rest) / b - (rest !== 0 && rest < 0 !== b < 0 ? 1 : 0);
  if (exact === 0) return a / b < 0 || Object.is(a / b, -0) ? -0 : 0;
  const whole = Math.floor(exact);
  return exact - whole > 0.5 ? whole + 1 : whole;
}

function joined(run: Run, left: Value, right: Value): Value {
  const [before, after] = [textOf(left), textOf(right)];
  if (before !== null && after !== null) {
    // Only the shorter text is charged, because JavaScript does not copy the longer one when it concatenates texts.
    // Reading the result is charged later.
    run.spendText(Math.min(before.length, after.length));
    if (typeof left === 'string' && typeof right === 'string') return left + right;
    return new Markup(escapeHtml(run, left) + escapeHtml(run, right));
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    run.spend((left.length + right.length) >> 1);
    return [...left, ...right];
  }
  if (left instanceof Tuple && right instanceof Tuple) {
    run.spend((left.items.length + right.items.length) >> 1);
    return new Tuple([...left.items, ...right.items]);
  }
  for (const [value, kind] of [
    [before, 'str'],
    [Array.isArray(left) ? '' : null, 'list'],
  ] as const)
    if (value !== null) throw new TemplateFault(`can only concatenate ${kind} (not "${typeName(right)}") to ${kind}`);
  return unsupported('+', left, right);
}

/** Returns null if the value cannot be repeated. */
function repeated(run: Run, value: Value, times: number | bigint | boolean): Value | null {
  const count = Math.max(0, Number(times));
  const text = textOf(value);
  if (text !== null) {
    run.spend(piecesSteps(text === '' ? 0 : count, text.length));
    const result = text.repeat(text === '' ? 0 : count);
    return typeof value === 'string' ? result : new Markup(result);
  }
  const list = Array.isArray(value) ? value : value instanceof Tuple ? value.items : null;
  if (list === null) return null;
  run.spend(list.length * count);
  const items = list.length === 0 ? [] : Array.from({ length: count }, () => list).flat();
  return Array.isArray(value) ? items : new Tuple(items);
}

export function negated(value: Value): Value {
  if (value instanceof Float) return new Float(-value.value);
  if (typeof value === 'bigint') return integer(-value);
  if (typeof value === 'number' || typeof value === 'boolean') return 0 - Number(value);
  if (value instanceof Undefined) throw value.fault();
  throw new TemplateFault(`bad operand type for unary -: '${typeName(value)}'`);
}

export function unchanged(value: Value): Value {
  if (value instanceof Float || typeof value === 'bigint' || typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  if (value instanceof Undefined) throw value.fault();
  throw new TemplateFault(`bad operand type for unary +: '${typeName(value)}'`);
}
