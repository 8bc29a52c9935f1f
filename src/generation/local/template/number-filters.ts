// The built-in filters for numbers.
import { bind, count, isNumber } from './arguments.js';
import { calculate, floatOf } from './arithmetic.js';
import { attributeGetter } from './list-filters.js';
import { items } from './iterate.js';
import { scaled } from './number-format.js';
import type { Filter, Run } from './run.js';
import { Float, TemplateFault, Undefined, integer, isInteger, isTrue, textOf, typeName, type Value } from './values.js';

const MAX_DIGITS = 4_300;
const INTEGERS: Readonly<Record<number, RegExp>> = {
  2: /^([-+]?)(?:0[bB]_?)?([01]+(?:_[01]+)*)$/,
  8: /^([-+]?)(?:0[oO]_?)?([0-7]+(?:_[0-7]+)*)$/,
  10: /^([-+]?)()(\d+(?:_\d+)*)$/,
  16: /^([-+]?)(?:0[xX]_?)?([\da-fA-F]+(?:_[\da-fA-F]+)*)$/,
};
const FLOAT = /^[-+]?(?:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:[eE][-+]?\d+(?:_\d+)*)?$/;

/** Like Python's int(text, base). Returns null if the text is not a number. */
function readInteger(run: Run, text: string, base: number): number | bigint | null {
  run.spendText(text.length);
  const trimmed = text.trim();
  if (base === 10 || base === 2 || base === 8 || base === 16) {
    const match = (INTEGERS[base] as RegExp).exec(trimmed);
    if (match === null || trimmed.length > MAX_DIGITS) return null;
    const digits = (match.at(-1) as string).replaceAll('_', '');
    run.spend((digits.length * digits.length) >> 8);
    const value = BigInt({ 2: '0b', 8: '0o', 10: '', 16: '0x' }[base] + digits);
    return integer(match[1] === '-' ? -value : value);
  }
  if (base < 2 || base > 36) throw new TemplateFault('int() base must be >= 2 and <= 36, or 0');
  const sign = trimmed.startsWith('-') ? -1n : 1n;
  const digits = trimmed.replace(/^[-+]/, '').toLowerCase();
  if (digits === '' || digits.length > MAX_DIGITS) return null;
  let value = 0n;
  for (const digit of digits) {
    const number = parseInt(digit, 36);
    if (!(number < base)) return null;
    value = value * BigInt(base) + BigInt(number);
  }
  return integer(sign * value);
}

/** Python's float(value), or null. */
function readFloat(run: Run, value: Value): number | null {
  const text = textOf(value);
  if (text === null) return floatOf(value);
  run.spendText(text.length);
  const trimmed = text.trim();
  if (FLOAT.test(trimmed)) return Number(trimmed.replaceAll('_', ''));
  const word = /^([-+]?)(inf|infinity|nan)$/i.exec(trimmed);
  if (word === null) return null;
  return (word[2] as string).toLowerCase() === 'nan' ? NaN : word[1] === '-' ? -Infinity : Infinity;
}

function whole(value: number): number | bigint | null {
  return Number.isFinite(value) ? integer(BigInt(Math.trunc(value))) : null;
}

const toInt: Filter = (run, value, args) => {
  const [fallback = 0, base] = bind('int', args, ['default', 'base']);
  if (value instanceof Undefined) throw value.fault();
  if (isInteger(value)) return typeof value === 'boolean' ? Number(value) : value;
  if (value instanceof Float && Math.abs(value.value) === Infinity)
    throw new TemplateFault('cannot convert float infinity to integer');
  const text = textOf(value);
  const read = text === null ? null : readInteger(run, text, count('int', base, 10));
  if (read !== null) return read;
  const number = readFloat(run, value);
  return (number === null ? null : whole(number)) ?? fallback;
};

const toFloat: Filter = (run, value, args) => {
  const [fallback = new Float(0)] = bind('float', args, ['default']);
  if (value instanceof Undefined) throw value.fault();
  const number = readFloat(run, value);
  return number === null ? fallback : new Float(number);
};

function numberOf(what: string, value: Value): number | bigint | boolean | Float {
  if (value instanceof Undefined) throw value.fault();
  if (!isNumber(value)) throw new TemplateFault(`${what}: '${typeName(value)}' is not a number`);
  return value;
}

const absolute: Filter = (_run, value, args) => {
  bind('abs', args, []);
  const number = numberOf('abs', value);
  if (number instanceof Float) return new Float(Math.abs(number.value));
  return integer(BigInt(number) < 0n ? -BigInt(number) : BigInt(number));
};

const MAX_ROUND = 400;

const round: Filter = (_run, value, args) => {
  const [given, method = 'common'] = bind('round', args, ['precision', 'method']);
  const precision = count('round', given, 0);
  const number = numberOf('round', value);
  if (Math.abs(precision) > MAX_ROUND) throw new TemplateFault(`round: the precision is more than ${MAX_ROUND}`);
  if (method === 'common')
    return number instanceof Float ? roundedFloat(number, precision) : roundedInteger(BigInt(number), precision);
  if (method !== 'ceil' && method !== 'floor')
    throw new TemplateFault('round: the method must be common, ceil or floor');
  const factor = 10 ** precision;
  return new Float((Math[method](Number(floatOf(number)) * factor) + 0) / factor); // not -0
};

function roundedFloat({ value }: Float, precision: number): Float {
  if (!Number.isFinite(value)) return new Float(value);
  const magnitude = Number(`${scaled(value, precision)}e${-precision}`);
  return new Float(value < 0 || Object.is(value, -0) ? -magnitude : magnitude);
}

function roundedInteger(value: bigint, precision: number): Value {
  if (precision >= 0) return integer(value);
  const unit = 10n ** BigInt(-precision);
  const rest = ((value % unit) + unit) % unit;
  const low = value - rest;
  const up = 2n * rest > unit || (2n * rest === unit && (low / unit) % 2n !== 0n);
  return integer(up ? low + unit : low);
}

const sum: Filter = (run, value, args) => {
  const [attribute = null, start = 0] = bind('sum', args, ['attribute', 'start']);
  const get = attribute === null ? (item: Value): Value => item : attributeGetter(run, attribute);
  let total: Value = start;
  for (const item of items(run, value)) total = calculate(run, '+', total, get(item));
  return total;
};

const fileSize: Filter = (run, value, args) => {
  const [binary = false] = bind('filesizeformat', args, ['binary']);
  const bytes = readFloat(run, value);
  if (bytes === null) throw new TemplateFault('filesizeformat: the value is not a number');
  const base = isTrue(binary) ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`;
  const units = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];
  const index = Math.max(
    0,
    units.findIndex((_, power) => bytes < base ** (power + 2)),
  );
  const power = bytes < base ** 9 ? index : units.length - 1;
  const unit = isTrue(binary) ? `${(units[power] as string).toUpperCase()}iB` : `${units[power]}B`;
  return `${((base * bytes) / base ** (power + 2)).toFixed(1)} ${unit}`;
};

export const NUMBER_FILTERS: Readonly<Record<string, Filter>> = {
  abs: absolute,
  filesizeformat: fileSize,
  float: toFloat,
  int: toInt,
  round,
  sum,
};
